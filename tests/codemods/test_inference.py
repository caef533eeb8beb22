"""What the abstract run finds out about programs: roles by what objects do, never by what they are called."""

from __future__ import annotations

import libcst as cst
import pytest
from distify_codemods import SourceFile, facts, interpreter, program
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.values import Scale

HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
"""
FLAT = f"""{HEAD}
a = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
b = DataLoader(a, batch_size=2, shuffle=True)
c = nn.Linear(4, 1)
d = torch.optim.SGD(c.parameters(), lr=0.1)
for e in range(2):
    for x, y in b:
        loss = F.mse_loss(c(x), y)
        d.zero_grad()
        loss.backward()
        d.step()
"""


def infer(script: str, **modules: str) -> Facts:
    def resolve(importing: str, name: str, level: int) -> SourceFile | None:
        text = modules.get(name.replace(".", "_"))
        return None if text is None else SourceFile(f"{name}.py", text.encode())

    loaded = program.load(SourceFile("train.py", script.encode()), resolve)
    return facts.infer(loaded, interpreter.run(loaded))


def loss_scale(expression: str, setup: str = "") -> Scale:
    found = infer(FLAT.replace("F.mse_loss(c(x), y)", expression).replace("for e in", f"{setup}\nfor e in"))
    [backward] = found.backwards
    return backward.receiver.scale


def only(events: list[Event]) -> Event:
    assert len(events) == 1
    return events[0]


def test_roles_of_a_flat_script() -> None:
    found = infer(FLAT)
    assert [optimizer.obj.name for optimizer in found.optimizers] == ["torch.optim.SGD"]
    assert "its parameters are given to torch.optim.SGD at train.py:9" in found.optimizers[0].why
    assert len(found.models) == len(found.loaders) == len(found.training_loops) == 1
    assert found.evaluation_loops == []


def test_a_model_is_what_an_optimizer_trains() -> None:
    """Wherever its class is defined, and whatever else is a module."""
    script = FLAT.replace("c = nn.Linear(4, 1)", "from nets import build\nc = build()\nteacher = nn.Linear(4, 1)")
    found = infer(script, nets="from torch import nn\ndef build():\n    return nn.Linear(4, 1)\n")
    [model] = found.models
    assert model.module is not None
    assert model.module.path == "nets.py"


@pytest.mark.parametrize(
    "call",
    ["torch.optim.Adam(list(c.parameters()))", "torch.optim.Adam([{'params': c.parameters()}])",
     "torch.optim.Adam(filter(lambda p: p.requires_grad, c.parameters()))",
     "torch.optim.Adam([p for p in c.parameters() if p.requires_grad])",
     "getattr(torch.optim, name)(c.parameters())"],
)  # fmt: skip
def test_parameters_reach_the_optimizer(call: str) -> None:
    found = infer(FLAT.replace("torch.optim.SGD(c.parameters(), lr=0.1)", call).replace("d =", "name = 'Adam'\nd ="))
    assert len(found.models) == 1


def test_an_own_class_named_like_torchs_is_none() -> None:
    own = "class DataLoader:\n    def __init__(self, *given, **more): pass\n    def __iter__(self): return iter([])\n"
    script = FLAT.replace("import DataLoader, TensorDataset", "import TensorDataset").replace("\na =", f"\n{own}a =", 1)
    assert infer(script).loaders == ()


def test_one_call_in_two_contexts_makes_two_loaders() -> None:
    script = f"{HEAD}def make(data):\n    return DataLoader(data)\nfirst, second = make([1]), make([2])\n"
    loaders = infer(script).loaders
    assert len(loaders) == 2
    assert len({loader.made.node for loader in loaders}) == 1


def test_a_comprehension_over_known_items_makes_one_object_each() -> None:
    assert len(infer(f"{HEAD}parts = {{k: DataLoader([k]) for k in ['train', 'val']}}\n").loaders) == 2


def test_functions_arguments_and_globals() -> None:
    script = FLAT[: FLAT.index("for e in")] + (
        "def train(net, data, opt):\n    for x, y in data:\n        loss = F.mse_loss(net(x), y)\n"
        "        loss.backward()\n        opt.step()\n"
        "def test():\n    c.eval()\n    for x, y in b:\n        c(x)\n"
        "def main():\n    for e in range(2):\n        train(c, data=b, opt=d)\n        test()\n"
        "if __name__ == '__main__':\n    main()\n"
    )
    found = infer(script)
    assert len(found.training_loops) == 1
    assert len(found.evaluation_loops) == 1


def test_what_is_not_called_does_not_happen() -> None:
    found = infer(f"{HEAD}def never():\n    torch.save(1, 'a')\nif __name__ == '__other__':\n    torch.save(2, 'b')\n")
    assert found.calls("torch.save") == []


def test_order_and_dominance() -> None:
    script = (
        f"{HEAD}import os\nnet = nn.Linear(1, 1)\nif os.path.exists('a'):\n    net.train()\n"
        "net.eval()\ntorch.save(net, 'a')\n"
    )
    found = infer(script)
    train = only([one for one in found.of_kind(Kind.METHOD) if one.name == "train"])
    evaluate = only([one for one in found.of_kind(Kind.METHOD) if one.name == "eval"])
    save = only(found.calls("torch.save"))
    assert train.before(evaluate)
    assert evaluate.dominates(save)
    assert not train.dominates(save)


def test_a_branch_taints_what_is_assigned_in_it() -> None:
    """Early stopping by a counter: the counter depends on the loss."""
    script = (
        FLAT + "    if loss.item() > 1:\n        bad = 1\n    else:\n        bad = 0\n    if bad > 3:\n        break\n"
    )
    tests = infer(script).of_kind(Kind.TEST)
    assert all(facts.loaders_of(test.value.sources) for test in tests)


def test_unknown_libraries_and_recursion_do_not_stop_it() -> None:
    found = infer(FLAT + "import strange\nstrange.thing[1](2).more()\ndef f(n):\n    return f(n - 1)\nf(3)\n")
    assert found.run.complete
    assert len(found.models) == 1


def test_gradients_are_not_recorded_under_no_grad() -> None:
    found = infer(FLAT + "with torch.no_grad():\n    c(torch.zeros(1, 4))\n")
    assert [event.grad for event in found.of_kind(Kind.FORWARD)] == [True, False]


@pytest.mark.parametrize(
    ("expression", "scale"),
    [
        ("F.mse_loss(c(x), y)", Scale.MEAN),
        ("F.mse_loss(c(x), y, reduction='sum')", Scale.SUM),
        ("nn.MSELoss(reduction='sum')(c(x), y)", Scale.SUM),
        ("F.mse_loss(c(x), y, reduction='none').mean()", Scale.MEAN),
        ("F.mse_loss(c(x), y) + 0.1 * sum(p.abs().sum() for p in c.parameters())", Scale.MEAN),
        ("((c(x) - y) ** 2).sum()", Scale.SUM),
        ("((c(x) - y) ** 2).sum() / len(x)", Scale.MEAN),
        ("((c(x) - y) ** 2).sum(1).mean()", Scale.MEAN),
        ("((c(x) - y) ** 2).mean(0).sum()", Scale.MEAN),
        ("F.mse_loss(c(x), y) * x.size(0)", Scale.SUM),
        ("(c(x) - y)[y > 0].pow(2).mean()", Scale.WEIGHTED),
        ("F.cross_entropy(c(x), y, weight=torch.ones(3))", Scale.WEIGHTED),
        ("(c(x) @ c(x).t()).mean()", Scale.COUPLED),
        ("(c(x) - c(x).mean()).pow(2).mean()", Scale.COUPLED),
        ("torch.cdist(c(x), y).mean()", Scale.COUPLED),
        ("strange(c(x), y)", Scale.UNKNOWN),
    ],
)
def test_how_a_loss_depends_on_its_batch(expression: str, scale: Scale) -> None:
    assert loss_scale(expression) is scale


def test_each_event_knows_its_place() -> None:
    found = infer(FLAT)
    [backward] = found.backwards
    assert str(backward.module.place(backward.node)) == "train.py:14"
    assert isinstance(backward.node, cst.Call)
