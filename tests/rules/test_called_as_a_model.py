"""Functions that come to the place of a model: a line that may meet one does not wrap what it is given."""

from __future__ import annotations

import pytest

from tests.rules.scripts import converted, script

MODEL = """\
class Whole(nn.Module):
    def __init__(self, part, others):
        super().__init__()
        self.part = part
        self.others = nn.ModuleList(others).requires_grad_(False)

    def forward(self, x, y):
        hints = torch.stack([other(x) for other in self.others]).mean(0)
        return ((self.part(x) - y) ** 2 + (self.part(x) - hints) ** 2).mean()


class Held:
    def __init__(self, part):
        self.part = part

    def loss(self, x, y):
        return ((self.part(x) - y) ** 2).mean()


model = nn.Linear(4, 1)
"""
FIT = """\
def fit(module, lossf, epochs, params=None):
    optimizer = torch.optim.SGD(params or module.parameters(), lr=0.1)
    for epoch in range(epochs):
        for x, y in loader:
            loss = lossf(x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


others = []
for scale in (1, 2):
"""
THEN = """\
    others.append(other)
whole = Whole(model, others)
fit(whole, whole, 2, model.parameters())
"""


def fitted(first: str) -> str:
    return converted(script(model=MODEL, loop=f"{FIT}{first}{THEN}"))


@pytest.mark.parametrize(
    "lossf", ["lambda x, y: ((other(x) - y) ** 2).mean()", "Held(other).loss"], ids=["lambda", "method"]
)
def test_what_a_function_may_come_to_is_not_wrapped_there(lossf: str) -> None:
    text = fitted(f"    other = nn.Linear(4, 1); fit(other, {lossf}, 2)\n")
    assert "DistributedDataParallel(lossf" not in text
    assert "rt.all_reduce_gradients(optimizer)" in text


def test_what_only_modules_come_to_is_wrapped() -> None:
    assert "DistributedDataParallel(whole" in fitted("    other = nn.Linear(4, 1); print(other)\n")
