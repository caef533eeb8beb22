"""METRIC01: what a forward pass leaves in the model, and the training loop keeps, is as what it returns."""

from __future__ import annotations

import pytest

from tests.rules.scripts import IMPORTS, OPTIMIZER, converted, script

NET = """\
class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.part, self.entropy, self.limit = nn.Linear(4, 4), 0.0, 1.0

    def forward(self, x):
        shares = self.part(x).softmax(1)
        self.entropy = -(shares * shares.log()).sum(1).mean().item()
        return x * shares


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.gates, self.head = Gate(), nn.ModuleList([Gate(), Gate()]), nn.Linear(4, 1)
        self.log, self.hidden, self.limit = {}, None, 1.0

    def forward(self, x):
        for gate in self.gates:
            x = gate(x)
        self.hidden = self.gate(x)
        self.log["mean"] = self.hidden.mean().item()
        return self.head(self.hidden)

    @property
    def mean(self):
        return self.log["mean"]


"""
KEPT = """\
kept = []
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append({})
    if sum(kept) > 100:
        break
"""


def is_averaged(figure: str, model: str = "model = Net()\n") -> bool:
    after = converted(script(imports=IMPORTS + NET, model=model, optimizer=OPTIMIZER, loop=KEPT.format(figure)))
    assert f"kept.append({figure.replace('model.', 'model.module.').replace('model[', 'model.module[')})" in after
    return "    rt.average_figures(kept)\n    if sum(kept) > 100:\n" in after


@pytest.mark.parametrize(
    "figure",
    [
        "model.log['mean']",
        "model.mean",
        "model.hidden.mean().item()",
        "((model.hidden.detach() > 0).double().mean().item())",
        "model.gate.entropy",
        "model.gates[0].entropy",
        "sum([one.entropy for one in model.gates])",
        "sum([one.entropy for one in model.modules() if isinstance(one, Gate)])",
    ],
)
def test_what_a_forward_pass_leaves_in_the_model_is_of_one_ranks_samples(figure: str) -> None:
    assert is_averaged(figure)


@pytest.mark.parametrize("figure", ["model[1].entropy", "gate.entropy"])
def test_in_a_part_of_it_by_its_place_or_another_name(figure: str) -> None:
    model = "gate = Gate()\nmodel = nn.Sequential(nn.Linear(4, 4), gate, nn.Linear(4, 1))\n"
    assert is_averaged(figure, model)


@pytest.mark.parametrize(
    "figure",
    [
        "model.limit",
        "model.gate.limit",
        "model.gates[0].limit",
        "model.head.weight.norm().item()",
        "model.gate.part.in_features",
        "sum([one.limit for one in model.modules() if isinstance(one, Gate)])",
        "len(model.gates)",
        "len(list(model.modules()))",
    ],
)
def test_what_no_forward_pass_sets_is_the_same_on_all_ranks(figure: str) -> None:
    assert not is_averaged(figure)
