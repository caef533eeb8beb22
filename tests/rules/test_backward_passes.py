"""Which backward passes DistributedDataParallel can follow, what it must be told, and where it is left out."""

from __future__ import annotations

import pytest

from tests.rules.scripts import converted

HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
loader = DataLoader(data, batch_size=8, shuffle=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.out = nn.Linear(4, 2)

    def forward(self, x, k=0):
        {forward}


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        {step}
        optimizer.step()
"""
PLAIN = "F.cross_entropy(model(x), y).backward()"
SOME = "return self.out(self.a(x))"
ALL = "return self.out(self.b(self.a(x)))"


def script(forward: str = ALL, step: str = PLAIN) -> str:
    return HEAD.format(forward=forward.replace("\n", "\n" + 8 * " "), step=step.replace("\n", "\n" + 8 * " "))


WRAP = "model = DistributedDataParallel(model, device_ids=rt.device_ids(model))"
TOLD = "model = DistributedDataParallel(model, device_ids=rt.device_ids(model), find_unused_parameters=True)"
TWO_LOSSES = "a, b = model(x), model(-x)\nF.cross_entropy(a, y).backward()\nF.cross_entropy(b, y).backward()"


@pytest.mark.parametrize(
    ("forward", "step"),
    [
        (ALL, PLAIN),
        (ALL, "(F.cross_entropy(model(x), y) + sum(p.square().sum() for p in model.parameters())).backward()"),
        (ALL, "a, b = model(x), model(-x)\n(F.cross_entropy(a, y) + F.cross_entropy(b, y)).backward()"),
        (ALL, "F.cross_entropy(model(x), y).backward()\nF.cross_entropy(model(-x), y).backward()"),
        (ALL, "loss = F.cross_entropy(model(x), y)\nif epoch:\n    loss.backward()\nelse:\n    (2 * loss).backward()"),
        ("x = self.a(x)\nfor layer in (self.b, self.out):\n    x = layer(x)\nreturn x", PLAIN),
        ("return self.out(F.linear(self.a(x), self.b.weight, self.b.bias))", PLAIN),
        ("if k:\n    x = self.a(self.b(x))\nelse:\n    x = self.b(self.a(x))\nreturn self.out(x)",
         "F.cross_entropy(model(x, i % 2), y).backward()"),
        ("return self.out(checkpoint(self.b, self.a(x), use_reentrant=True))", PLAIN),
    ],
    ids=["plain", "penalty", "one backward", "each its own", "either", "loop", "weights", "both ways", "checkpoint"],
)  # fmt: skip
def test_what_each_step_reaches_is_wrapped_as_it_is(forward: str, step: str) -> None:
    text = converted(script(forward, step))
    assert WRAP in text
    assert "all_reduce_gradients" not in text


@pytest.mark.parametrize(
    ("forward", "step"),
    [
        ("return self.out(self.a(x))", PLAIN),
        ("return self.out(self.b(self.a(x)) if k else self.a(x))", "F.cross_entropy(model(x, i % 2), y).backward()"),
        ("x = self.a(x)\nif k:\n    x = self.b(x)\nreturn self.out(x)",
         "F.cross_entropy(model(x, i % 2), y).backward()"),
        ("x = self.a(x)\nif k:\n    return self.out(x)\nreturn self.out(self.b(x))",
         "F.cross_entropy(model(x, i % 2), y).backward()"),
        ("x = self.a(x)\nif torch.rand(1) > 0.5:\n    x = self.b(x)\nreturn self.out(x)", PLAIN),
        ("with torch.no_grad():\n    x = self.b(x)\nreturn self.out(self.a(x))", PLAIN),
        ("x = self.a(x)\nself.b(x)\nreturn self.out(x)", PLAIN),
        (SOME, f"{PLAIN}\ntorch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
        (SOME, f"{PLAIN}\nprint(sum(p.detach().norm() for p in model.parameters()))"),
    ],
    ids=["never", "expression", "branch", "early return", "at random", "no_grad", "dropped", "clipped", "shown"],
)  # fmt: skip
def test_it_is_told_of_parameters_without_gradients(forward: str, step: str) -> None:
    assert TOLD in converted(script(forward, step))


IF_GIVEN = "x = self.a(x)\nif {}:\n    x = self.b(x)\nreturn self.out(x)"
SOMETIMES = "k = None if i % 3 == 0 else x\nF.cross_entropy(model(x, k), y).backward()"


@pytest.mark.parametrize(
    "forward",
    [
        IF_GIVEN.format("k is not None"),
        IF_GIVEN.format("not (k is None)"),
        IF_GIVEN.format("self.training and k is not None"),
        "x = self.a(x)\nif k is None:\n    return self.out(x)\nreturn self.out(self.b(x))",
        "return self.out(self.b(self.a(x)) if k is not None else self.a(x))",
    ],
)
def test_it_is_told_of_parts_that_need_what_is_not_always_given(forward: str) -> None:
    assert TOLD in converted(script(forward, SOMETIMES))


@pytest.mark.parametrize("given", ["x", "x * 2", "x if i % 2 else -x"])
def test_what_is_always_given_leaves_nothing_out(given: str) -> None:
    assert WRAP in converted(
        script(IF_GIVEN.format("k is not None"), f"F.cross_entropy(model(x, {given}), y).backward()")
    )


@pytest.mark.parametrize(
    ("forward", "step"),
    [
        (ALL, TWO_LOSSES),
        (ALL, "out = model(x)\nF.cross_entropy(out, y).backward(retain_graph=True)\nout.pow(2).mean().backward()"),
        (ALL, "out = model(x)\nfor part in range(2):\n    (out[:, part] ** 2).mean().backward(retain_graph=True)"),
        ("return self.out(x), self.b(self.a(x))", "out, rest = model(x)\nF.cross_entropy(out, y).backward()"),
        ("return self.out(self.b(self.a(x)) if k else self.a(x))",
         "(F.cross_entropy(model(x, i % 2), y) + F.cross_entropy(model(x, 1), y)).backward()"),
        ("x = checkpoint(self.a, self.b(x))\nreturn self.out(checkpoint(self.a, x))", PLAIN),
        (SOME, "loss = F.cross_entropy(model(x), y)\nfor p in model.parameters():\n    loss = loss + p.norm()\n"
         "loss.backward()"),
        (SOME, "(F.cross_entropy(model(x), y) + sum(p.square().sum() for p in model.parameters())).backward()"),
        (SOME, "(F.cross_entropy(model(x), y) + sum((v ** 2).sum() for _, v in model.named_parameters())).backward()"),
    ],
    ids=["two backwards", "retained", "loop", "left over", "other parts", "checkpointed twice", "norms", "squares",
         "names"],
)  # fmt: skip
def test_it_is_left_out_where_it_would_average_wrongly(forward: str, step: str) -> None:
    text = converted(script(forward, step))
    assert "DistributedDataParallel" not in text
    assert "rt.all_reduce_gradients(optimizer)\n        optimizer.step()" in text


UPDATE = """
averaged = torch.optim.swa_utils.AveragedModel(model)
torch.optim.swa_utils.update_bn(loader, averaged)
"""


def test_statistics_of_an_averaged_model_see_all_batches_once() -> None:
    """Of one that is a copy of the wrapped model, BatchNorm sees the batches of all ranks already."""
    late = converted(script() + UPDATE)
    assert "update_bn(loader, averaged)" in late
    made, used = UPDATE.strip().splitlines()
    early = converted(script().replace("optimizer =", f"{made}\noptimizer =") + used + "\n")
    assert "update_bn(rt.whole_loader(loader), averaged)" in early


STACKED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(64, 4, 8), torch.randn(64, 4, 8)), batch_size=8, shuffle=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {made}
        self.stack = nn.Transformer{kind}(layer, num_layers=2)

    def forward(self, x):
        return self.stack(x{memory})


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""
LAYER = "nn.Transformer{}Layer(8, 2, batch_first=True)"


@pytest.mark.parametrize(("kind", "memory"), [("Encoder", ""), ("Decoder", ", x")])
@pytest.mark.parametrize(
    ("made", "wrap"),
    [
        ("layer = {}", WRAP),
        ("layer = self.layer = {}", TOLD),
        ("layer = {}\n        self.layers = nn.ModuleList([layer])", TOLD),
    ],
    ids=["copied", "kept", "kept in a list"],
)
def test_what_a_stack_copies_is_no_part_of_the_model(kind: str, memory: str, made: str, wrap: str) -> None:
    text = STACKED.format(made=made.format(LAYER.format(kind)), kind=kind, memory=memory)
    assert wrap in converted(text)


@pytest.mark.parametrize(
    ("forward", "step", "wrap"),
    [
        (ALL, PLAIN, TOLD),
        (ALL.replace("return self", "return self.scale * self"), PLAIN, WRAP),
        (ALL, "(F.cross_entropy(model(x), y) * model.scale).backward()", WRAP),
    ],
    ids=["nowhere", "in the forward pass", "in the loss"],
)
def test_a_parameter_of_the_models_own(forward: str, step: str, wrap: str) -> None:
    own = "super().__init__()\n        self.scale = nn.Parameter(torch.ones(()))\n"
    before = script(forward, step).replace("super().__init__()\n", own, 1)
    text = converted(before)
    assert wrap in text
    assert WRAP in converted(before.replace("(torch.ones(()))", "(torch.ones(()), requires_grad=False)"))


def test_a_parameter_that_the_loss_alone_uses_beside_a_layer_that_nothing_uses() -> None:
    own = "super().__init__()\n        self.scale = nn.Parameter(torch.ones(()))\n"
    step = "(F.cross_entropy(model(x), y) * model.scale).backward()"
    text = converted(script(SOME, step).replace("super().__init__()\n", own, 1))
    assert "DistributedDataParallel" not in text
    assert "rt.all_reduce_gradients(optimizer)" in text
