"""Lists with an item for each sample, of which items are taken, left out or put elsewhere by their places."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import LOOP, conversion_of, script

MODULES = "import collections\nimport functools\nimport itertools\nimport random\n"


def of_a_list(turn: str) -> str:
    """`rows` holds a number for each sample, of which the loss is made in the end."""
    body = f"rows = [one.item() for one in y]\n{turn}\ny = torch.tensor(rows)".replace("\n", "\n        ")
    return MODULES + script(loop=LOOP.replace("        loss = ", f"        {body}\n        loss = "))


BY_PLACE = [
    "rows = rows[1:] + rows[:1]",
    "rows = rows[::-1]",
    "rows = [*rows[1:], rows[0]]",
    "rows = rows[: len(rows) // 2] * 2",
    "first, *others = rows\nrows = [*others, first]",
    "rows.insert(0, rows.pop())",
    "rows.append(rows.pop(0))",
    "rows.remove(rows[0])\nrows.append(1.0)",
    "del rows[0]\nrows.append(0.0)",
    "rows[0] = 0.0",
    "rows[:2] = [0.0, 0.0]",
    "rows.reverse()",
    "rows = collections.deque(rows)\nrows.rotate(1)",
    "rows = list(itertools.accumulate(rows))",
    "rows = list(itertools.accumulate(y.flatten().tolist()))",
    "rows = [functools.reduce(max, rows[: k + 1]) for k in range(len(rows))]",
    "rows = list(itertools.chain(rows[1:], rows[:1]))",
    "rows = [0.0] + [b - a for a, b in zip(rows, rows[1:])]",
    "rows = random.sample(rows, len(rows))",
    "rows = [one - max(rows) for one in rows]",
    "lowest = min(rows)\nrows = [one - lowest for one in rows]",
    "rows = [rows.index(one) for one in rows]",
    "rows = [one * rows.count(one) for one in rows]",
    "rows = list(dict.fromkeys(rows))",
]
ONE_BY_ONE = [
    "rows = rows[:]",
    "rows = rows[: len(x)]",
    "rows = [2 * one for one in rows]",
    "rows = list(map(abs, rows))",
    "rows = [a + b for a, b in zip(rows, y.flatten().tolist())]",
    "print(len(rows))",
    "shown = max(rows)",
    "rows = [one for _, one in enumerate(rows)]",
    "rows = tuple(rows)",
]


@pytest.mark.parametrize("turn", BY_PLACE)
def test_what_is_made_by_places_of_a_batch_is_made_of_the_whole_batch(turn: str) -> None:
    converted = conversion_of(of_a_list(turn), options=Options())
    assert converted.strategy is Strategy.SHARED or "rt.gather_samples" in converted.files[0].after.decode()


@pytest.mark.parametrize("turn", ONE_BY_ONE)
def test_what_is_made_of_each_sample_is_made_by_the_rank_that_has_it(turn: str) -> None:
    converted = conversion_of(of_a_list(turn), options=Options())
    assert converted.strategy is Strategy.SHARDED
    assert "rt.gather_samples" not in converted.files[0].after.decode()


UNET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.up = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 1)])

    def forward(self, x):
        kept = []
        for layer in self.down:
            x = layer(x)
            kept.append(x)
        for i, layer in enumerate(self.up):
            x = layer(x)
            x += kept[-(i + 1)].mean(1, keepdim=True)
        return x


model = Net()
"""


def test_what_layers_made_is_no_list_of_samples() -> None:
    """A list with an item for each layer, found by the number of the layer."""
    before = script(model=UNET)
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARDED
    by_sample = before.replace("for layer in self.down:\n            x = layer(x)\n", "for x in x:\n")
    assert conversion_of(by_sample, options=Options()).strategy is Strategy.SHARED
