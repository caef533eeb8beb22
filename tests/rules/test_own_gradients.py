"""What training changes beside its models, by gradients or sums that each rank has of its own samples."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import IMPORTS, OPTIMIZER, conversion_of, converted, script

SCALED = f"""\
{IMPORTS}

class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.scale = nn.Linear(4, 1), nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.layer(x) * self.scale


"""
STEP = "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n"


def _script(turn: str, setup: str = "", after: str = "pass", optimizer: str = OPTIMIZER, scaled: bool = False) -> str:
    lines = "".join(f"        {line}\n" for line in turn.splitlines())
    more = "".join(f"        {line}\n" for line in after.splitlines())
    loop = f"for epoch in range(3):\n    for x, y in loader:\n{lines}{STEP}{more}"
    made = {"imports": SCALED, "model": "model = Scaled()\n"} if scaled else {}
    return script(setup=setup, loop=loop, optimizer=optimizer, **made)


def _strategy(before: str) -> tuple[Strategy | None, str]:
    conversion = conversion_of(before, options=Options())
    return conversion.strategy, " ".join(one.message for one in conversion.of(Level.ADVICE))


WITH_SHIFT = "loss = ((model(x + shift) - y) ** 2).mean()"


@pytest.mark.parametrize(
    "after",
    [
        "with torch.no_grad():\n    shift -= 0.1 * shift.grad",
        "shift.data = shift.data + 0.1 * shift.grad.data.sign()",
        "print(shift.grad.norm())",
    ],
)
def test_the_gradient_of_a_tensor_that_belongs_to_no_module_is_a_rank_s_own(after: str) -> None:
    strategy, said = _strategy(_script(WITH_SHIFT, "shift = torch.zeros(4, requires_grad=True)\n", after))
    assert strategy is Strategy.SHARED
    assert "is the gradient of a tensor that belongs to no module" in said


@pytest.mark.parametrize(
    "after",
    [
        "print(model.scale.grad.norm())",
        "print(model.layer.weight.grad.norm())",
        "print(sum(p.grad.norm() for p in model.parameters()))",
        "for name, p in model.named_parameters():\n    print(name, p.grad.norm())",
    ],
)
def test_gradients_of_a_model_s_parameters_are_averaged(after: str) -> None:
    strategy, said = _strategy(_script("loss = ((model(x) - y) ** 2).mean()", "", after, scaled=True))
    assert strategy is Strategy.SHARDED, said


def test_samples_that_are_moved_along_their_gradient_through_data_hang_on_the_size_of_the_batch() -> None:
    """The mean of the loss is over as many samples as there are: its gradient by one of them is larger in a share."""
    turn = """\
delta = torch.zeros_like(x, requires_grad=True)
((model(x + delta) - y) ** 2).mean().backward()
delta.data = delta.data + 2 * delta.grad.data
loss = ((model(x + delta.detach()) - y) ** 2).mean()"""
    assert _strategy(_script(turn))[0] is Strategy.SHARED


@pytest.mark.parametrize("group", ["{'params': [scale]}", "{'params': scale, 'lr': 0.01}"])
def test_a_parameter_of_no_module_may_be_given_to_an_optimizer_later(group: str) -> None:
    setup = "scale = nn.Parameter(torch.ones(1))\n"
    optimizer = f"{OPTIMIZER}optimizer.add_param_group({group})\n"
    strategy, said = _strategy(_script("loss = ((model(x) * scale - y) ** 2).mean()", setup, optimizer=optimizer))
    assert strategy is Strategy.SHARED
    assert "this parameter belongs to no module, so its gradient would not be averaged" in said


@pytest.mark.parametrize(
    "made",
    [
        "torch.optim.SGD(model.layer.parameters(), lr=0.1)\noptimizer.add_param_group({'params': [model.scale]})\n",
        "torch.optim.SGD([{'params': [model.scale]}, {'params': model.layer.parameters()}], lr=0.1)\n",
    ],
)
def test_a_parameter_of_the_model_may_be_given_by_its_name(made: str) -> None:
    before = _script("loss = ((model(x) - y) ** 2).mean()", optimizer=f"optimizer = {made}", scaled=True)
    strategy, said = _strategy(before)
    assert strategy is Strategy.SHARDED, said


def test_what_is_summed_for_a_loss_is_summed_once() -> None:
    """Samples that are counted for all ranks are not added up once more where a loss goes by them."""
    turn = "seen += len(x)\nbeta = min(1.0, seen / 200.0)\nloss = ((model(x) - y) ** 2).mean() * beta"
    before = _script(turn, "seen = 0\n")
    text = converted(before, Options())
    assert text.count("rt.sum_over_ranks(") + text.count("* rt.world_size()") == 1, text
