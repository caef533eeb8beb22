"""What the abstract run finds out about programs: roles by what objects do, never by what they are called."""

from __future__ import annotations

import libcst as cst
import pytest
from distify_codemods import SourceFile, facts, interpreter, program
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.objects import External, Instance
from distify_codemods.scale import Scale

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
    complete = found.run.complete  # a bare name: on failure, pytest writes out all that it came from
    assert complete
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
        ("((c(x) - y) ** 2).sum() * (0.5 / len(x))", Scale.MEAN),
        ("((c(x) - y) ** 2).sum().mul_(1 / x.size(0))", Scale.MEAN),
        ("((c(x) - y) ** 2).sum(1).mean()", Scale.MEAN),
        ("((c(x) - y) ** 2).mean(0).sum()", Scale.MEAN),
        ("F.mse_loss(c(x), y) * x.size(0)", Scale.SUM),
        ("(c(x) - y)[y > 0].pow(2).mean()", Scale.WEIGHTED),
        ("F.cross_entropy(c(x), y, weight=torch.ones(3))", Scale.WEIGHTED),
        ("(c(x) @ c(x).t()).mean()", Scale.COUPLED),
        ("(c(x) - c(x).mean()).pow(2).mean()", Scale.COUPLED),
        ("torch.cdist(c(x), y).mean()", Scale.COUPLED),
        ("(lambda a, net=c: F.mse_loss(net(a), y))(x)", Scale.MEAN),
        ("(lambda a, of=c(x): F.mse_loss(of, a, reduction='sum'))(y)", Scale.SUM),
        ("strange(c(x), y)", Scale.UNKNOWN),
    ],
)
def test_how_a_loss_depends_on_its_batch(expression: str, scale: Scale) -> None:
    assert loss_scale(expression) is scale


N = "x.size(0)"


@pytest.mark.parametrize(
    ("expression", "scale"),
    [
        (f"torch.randint(2, ({N}, 4))", Scale.SAMPLES),
        (f"torch.randint(0, 2, ({N},))", Scale.SAMPLES),
        (f"torch.randint(0, high=2, size=[{N}, 4])", Scale.SAMPLES),
        ("torch.randint(0, 9, x.shape)", Scale.SAMPLES),
        (f"torch.randint(0, 2, (4, {N}), generator=None)", Scale.TURNED),
        ("torch.randint(2, 9, (4, 4))", Scale.CONST),
        (f"torch.randint(0, {N}, (4,))", Scale.UNKNOWN),
        (f"torch.randint({N}, ({N},))", Scale.UNKNOWN),
        (f"torch.normal(0.0, 1.0, ({N}, 4))", Scale.SAMPLES),
        (f"torch.normal(mean=0.0, std=1.0, size=(4, {N}))", Scale.TURNED),
        ("torch.normal(x, 1.0)", Scale.SAMPLES),
        (f"torch.full((4, {N}), 0.5)", Scale.TURNED),
        (f"torch.full((4,), {N})", Scale.COUNT),
        ("torch.full((4,), x.mean())", Scale.MEAN),
        (f"torch.full(({N},), x.mean())", Scale.COUPLED),
        ("torch.zeros(*x.shape)", Scale.SAMPLES),
        (f"x.new_full((3, {N}), 2)", Scale.TURNED),
        (f"torch.arange(0, {N})", Scale.SAMPLES),
        (f"torch.arange(start=0, end={N})", Scale.SAMPLES),
        (f"torch.arange({N}, 100)", Scale.UNKNOWN),
        (f"torch.arange(0, {N}, 2)", Scale.UNKNOWN),
        (f"numpy.random.randint(0, 9, ({N}, 4))", Scale.SAMPLES),
        (f"numpy.random.randint(9, size=(4, {N}))", Scale.TURNED),
        (f"numpy.random.randint(0, {N}, 4)", Scale.UNKNOWN),
        (f"numpy.random.normal(0, 1, (4, {N}))", Scale.TURNED),
        (f"numpy.random.zipf(2.0, {N})", Scale.SAMPLES),
        (f"numpy.random.choice({N}, 3)", Scale.UNKNOWN),
        (f"numpy.random.choice(x.numpy(), {N})", Scale.COUPLED),
        (f"numpy.zeros(shape=({N}, 4), dtype=int)", Scale.SAMPLES),
        (f"torch.FloatTensor({N}, 4)", Scale.SAMPLES),
    ],
)
def test_only_sizes_say_where_the_samples_lie(expression: str, scale: Scale) -> None:
    assert loss_scale(f"({expression})", "import numpy") is scale


@pytest.mark.parametrize(
    ("before", "figure", "scale"),
    [
        ("error = (c(x) - y).sum()\n        error.div_(len(x))", "error", Scale.MEAN),
        ("error = (c(x) - y).sum()\n        error.mul_(100 / x.size(0))", "error", Scale.MEAN),
        ("error = (c(x) - y).mean()\n        error.mul_(len(x))", "error", Scale.SUM),
        ("error = (c(x) - y).sum()\n        error.add_(1)", "error", Scale.COUPLED),
        ("kept = [(c(x) - y).sum()]\n        kept[0].div_(len(x))", "kept[0]", Scale.UNKNOWN),
        ("kept = {'a': (c(x) - y).sum()}\n        kept['a'].div_(len(x))", "kept['a']", Scale.UNKNOWN),
    ],
)
def test_a_figure_that_is_changed_in_place_is_another(before: str, figure: str, scale: Scale) -> None:
    text = FLAT.replace("    loss = F.mse_loss(c(x), y)", f"    {before}\n        loss = {figure}")
    [backward] = infer(text).backwards
    assert backward.receiver.scale is scale


def test_each_event_knows_its_place() -> None:
    found = infer(FLAT)
    [backward] = found.backwards
    assert str(backward.module.place(backward.node)) == "train.py:14"
    assert isinstance(backward.node, cst.Call)


def test_a_module_that_overrides_to_is_still_itself() -> None:
    found = infer(
        FLAT.replace("nn.Linear(4, 1)", "Scaled(4, 1).to('cpu')").replace(
            HEAD,
            HEAD + "class Scaled(nn.Linear):\n"
            "    def to(self, device):\n"
            "        self.factor = torch.ones(1).to(device)\n"
            "        return super().to(device)\n",
        )
    )
    [model] = found.models
    assert isinstance(model, Instance)
    assert len(found.training_loops) == 1


def test_parameters_that_a_module_picks_itself_are_its_own() -> None:
    script = f"""{HEAD}
class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.values = nn.ParameterList()
        self.values.append(nn.Parameter(torch.ones(4, 1)))
    def parameters(self):
        return self.values
    def forward(self, x):
        return x @ self.values[0]
a = Learner()
b = torch.optim.SGD(a.parameters(), lr=0.1)
for x, y in DataLoader(TensorDataset(torch.ones(8, 4), torch.ones(8, 1)), batch_size=4):
    F.mse_loss(a(x), y).backward()
    b.step()
"""
    [model] = infer(script).models
    assert isinstance(model, Instance)


def test_what_a_local_package_lacks_is_a_librarys() -> None:
    """A script in a folder that has a library's name, and an `__init__.py`."""
    found = infer(FLAT.replace("nn.Linear(4, 1)", "zoo.load('small')[0]").replace(HEAD, HEAD + "import zoo\n"), zoo="")
    [model] = found.models
    assert isinstance(model, External)
    assert model.name == "zoo.load[]"


def test_synchronised_batchnorm_of_apex_is_the_same_model() -> None:
    twice = "c = nn.Linear(4, 1)\nif a:\n    c = parallel.convert_syncbn_model(c)"
    found = infer("from apex import parallel\n" + FLAT.replace("c = nn.Linear(4, 1)", twice))
    assert [model.name for model in found.models if isinstance(model, External)] == ["torch.nn.Linear"]


CASCADE = "".join(f"def f{n}(n):\n    print(n)\n    return f{n + 1}(n + 1) + f{n + 1}(n + 2)\n" for n in range(14))


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter.machine, "MOST_STATEMENTS", 4000)
    monkeypatch.setattr(interpreter.summaries, "LARGE", 400)


@pytest.mark.usefixtures("small_limits")
def test_helpers_that_only_compute_do_not_use_up_a_large_program() -> None:
    found = infer(CASCADE + "def f14(n):\n    return n\nprint(f0(1))\n" + FLAT)
    complete = found.run.complete  # a bare name: on failure, pytest writes out all that it came from
    assert complete
    assert len(found.models) == len(found.optimizers) == len(found.training_loops) == 1


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize(
    ("last", "lists"),
    [("KEPT.append(str(n))", "KEPT = []"), ("KEPT.made = str(n)", "class Bag: pass\nKEPT = Bag()")],
)
def test_helpers_that_change_something_are_followed_in_a_large_program_too(last: str, lists: str) -> None:
    found = infer(f"{lists}\n{CASCADE}def f14(n):\n    {last}\n    return n\nprint(f0(1))\n{FLAT}")
    complete = found.run.complete
    assert not complete


@pytest.mark.parametrize("made", ["Net()", "nn.DataParallel(Net())", "nn.Linear(4, 1)"])
def test_a_forward_that_is_spelled_out_is_a_call_of_the_model(made: str) -> None:
    init = "    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(4, 1)\n"
    net = f"class Net(nn.Module):\n{init}    def forward(self, x):\n        return self.layer(x)\n"
    found = infer(FLAT.replace("nn.Linear(4, 1)", made).replace("c(x)", "c.forward(x)").replace(HEAD, HEAD + net))
    assert len(found.models) == 1
    [loop] = found.training_loops
    assert len(loop.forwards) == 1


@pytest.mark.parametrize("command", ["fire.Fire(train)", "fire.Fire()", "fire.Fire({'train': train})"])
def test_functions_of_a_command_line_are_called_by_it(command: str) -> None:
    body = FLAT.removeprefix(HEAD).strip().replace("\n", "\n    ")
    found = infer(f"{HEAD}import fire\ndef train(lr=0.1):\n    {body}\nif __name__ == '__main__':\n    {command}\n")
    assert len(found.models) == len(found.optimizers) == len(found.training_loops) == 1


@pytest.mark.parametrize(("buffer", "setup"), [("e", "e = torch.zeros(1)"), ("g.e", "class G: pass\ng = G()\ng.e = 0")])
def test_a_buffer_holds_the_batch_that_is_copied_into_it(buffer: str, setup: str) -> None:
    flat = FLAT.replace("        loss", f"        {buffer}.data.resize_(x.size()).copy_(x)\n        loss")
    found = infer(flat.replace("c(x), y", f"c({buffer}), y").replace("for e in", f"{setup}\nfor _ in"))
    assert only(found.backwards).receiver.scale is Scale.MEAN


#: Loops, each in the function that the one around it calls, and each with something new in its second turn.
LOOPS = "".join(
    f"def g{n}(kept):\n    total = 0\n    for _ in range(steps()):\n"
    f"        total = g{n + 1}(kept) + total\n    return total\n"
    for n in range(14)
)
LATER = {
    "list": ("kept = []", "kept.append(c)", "kept"),
    "extended": ("kept = []", "kept.extend([c])", "kept"),
    "added": ("kept = []", "kept += [c]", "kept"),
    "item": ("kept = [None]", "kept[0] = c", "kept[:1]"),
    "dictionary": ("kept = {}", "kept.update({name(): c})", "kept.values()"),
    "pairs": ("kept = {}", "kept.update([(name(), c)])", "kept.values()"),
    "default": ("kept = {}", "kept.setdefault('a', c)", "kept.values()"),
    "set": ("kept = set()", "kept.add(c)", "kept"),
    "key": ("kept = {}", "kept[name()] = c", "kept.values()"),
}


@pytest.mark.parametrize(("made", "filled", "over"), LATER.values(), ids=LATER)
def test_what_is_put_into_a_container_after_a_loop_is_seen_by_it_in_the_next_turn(
    made: str, filled: str, over: str
) -> None:
    step = "        for one in OVER:\n            learn(one, x)\n    FILLED\n"
    script = FLAT[: FLAT.index("        loss")].replace("for e", f"{made}\ndef learn(one, x):\n    one(x)\nfor e")
    found = infer(script + step.replace("OVER", over).replace("FILLED", filled))
    forwards = found.run.by_kind(Kind.FORWARD)
    assert any(obj.name == "torch.nn.Linear" for one in forwards for obj in one.receiver.objs)


@pytest.mark.usefixtures("small_limits")
def test_a_call_that_is_made_alike_in_loops_within_loops_does_not_use_up_the_program() -> None:
    found = infer(LOOPS + "def g14(kept):\n    kept.append(1)\n    print(kept)\n    return 1\ng0([])\n" + FLAT)
    complete = found.run.complete  # a bare name: on failure, pytest writes out all that it came from
    assert complete
    assert len(found.models) == len(found.training_loops) == 1


@pytest.mark.usefixtures("small_limits")
def test_a_call_that_is_made_alike_does_what_it_newly_can() -> None:
    """The model comes into the list when the call has long been known to do nothing."""
    last = "def g14(kept):\n    for one in kept:\n        one(1)\n    return 1\n"
    found = infer(f"{LOOPS}{last}kept = []\n{FLAT}for _ in range(3):\n    g0(kept)\n    kept.append(c)\n")
    called = [one.node for one in found.run.by_kind(Kind.FORWARD)]
    assert [node.func.value for node in called if isinstance(node, cst.Call) and isinstance(node.func, cst.Name)] == [
        "c",
        "one",
    ]


#: A model that keeps notes for itself, of a class of the script's own, where two calls lead to each call.
NOTES = """
class Notes:
    def __init__(self):
        self.seen = []
    def add(self, x):
        self.seen.append(x)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
    def forward(self, x):
        return self.f0(x)
"""


@pytest.mark.usefixtures("small_limits")
def test_what_a_model_notes_for_itself_does_not_tell_one_call_from_another() -> None:
    methods = "".join(
        f"    def f{n}(self, x):\n        return self.f{n + 1}(x) + self.f{n + 1}(x)\n" for n in range(12)
    )
    last = "    def f12(self, x):\n        notes = Notes()\n        notes.add(x)\n        return self.layer(x)\n"
    found = infer(HEAD + NOTES + methods + last + FLAT.replace("nn.Linear(4, 1)", "Net()"))
    complete = found.run.complete  # a bare name: on failure, pytest writes out all that it came from
    assert complete
    assert len(found.models) == 1
