"""SHARE01: a forward pass that takes from an iterator is computed whole: a check takes once more than one process."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, converted, script

SHARED = Options(strategy="shared")
TAKING = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 1)
        self.turns = itertools.cycle([1.0, 2.0])
        self.rows = self.drawn()

    def drawn(self):
        while True:
            yield random.random()

    def forward(self, x):
        h = self.body(x)
        LINE
        return h


TURNS = itertools.cycle([1.0, 2.0])
model = Net()
"""
WHOLE = "    def forward(self, x):\n        rt.compute_whole()\n        h = self.body(x)\n"


def _taking(line: str) -> str:
    return script(imports=f"import itertools\nimport random\n{IMPORTS}", model=TAKING.replace("LINE", line), loop=LOOP)


@pytest.mark.parametrize(
    "line",
    [
        "h = h * next(self.turns)", "h = h * next(TURNS)", "h = h + next(self.rows)",
        "h = h * self.turns.__next__()", "for _ in range(2):\n            h = h * next(self.turns, 1.0)",
    ],
)  # fmt: skip
def test_from_one_that_is_there_before(line: str) -> None:
    before = _taking(line)
    assert WHOLE in converted(before, options=SHARED)
    said = [one.message for one in conversion_of(before, options=SHARED).of(Level.APPLIED) if one.code == "SHARE01"]
    assert any("takes something from an iterator in a forward pass: computed whole" in one for one in said)


@pytest.mark.parametrize(
    "line",
    [
        "turns = iter([1.0, 2.0])\n        h = h * next(turns)",
        "h = h * next(iter([1.0, 2.0]))",
        "h = h * next(one for one in (1.0, 2.0))",
        "h = h * next(itertools.cycle([2.0]))",
        "h = h.to(next(self.parameters()).device)",
        "self.line.send(h)",
    ],
)
def test_from_one_that_is_made_in_the_pass(line: str) -> None:
    assert "compute_whole" not in converted(_taking(line), options=SHARED)


def test_outside_of_forward_passes() -> None:
    before = script(imports=f"import itertools\n{IMPORTS}", setup="TURNS = itertools.cycle([1.0])\n",
                    loop=LOOP.replace("loss = ", "weight = next(TURNS)\n        loss = weight * "))  # fmt: skip
    assert "compute_whole" not in converted(before, options=SHARED)


WAYS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.other = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        way = TAKEN
        return self.body(x) if TEST else self.other(x)


TURNS = itertools.cycle([0, 1])
model = Net()
"""


@pytest.mark.parametrize(
    ("taken", "test", "unused"),
    [
        ("next(TURNS)", "way", True),
        ("0", "next(TURNS) == 1", True),
        ("next(TURNS)", "self.body.in_features == 4", False),
        ("next(iter([1]))", "way == 1", False),
        ("next(self.parameters()).device.type", "way == 'cuda'", False),
    ],
)
def test_by_what_it_takes_it_goes_one_of_two_ways(taken: str, test: str, unused: bool) -> None:
    """Sharded data: each rank takes the same, and what is left out has no gradient in that step."""
    model = WAYS.replace("TAKEN", taken).replace("TEST", test)
    after = converted(script(imports=f"import itertools\n{IMPORTS}", model=model))
    assert ("find_unused_parameters=True" in after) is unused
