"""How many entries something has is no random number, unless random numbers say it."""

from __future__ import annotations

import pytest
from distify_codemods import Options, SourceFile, interpreter, program, tree
from distify_codemods.origins import CHANCE
from distify_codemods.results import Strategy

from tests.rules.scripts import IMPORTS, conversion_of, indented, script

IMPORTED = f"{IMPORTS}import random\nimport numpy as np\n"
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.limit = 8
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        noise = torch.randn(6, 4)
        i = torch.randint(0, 3, (1,)).item()
{body}
        if rows > self.limit:
            x = x * 2
        return self.out(x)


model = Net()
"""


def is_decided_by_chance(text: str) -> bool:
    """Whether ranks would decide apart there: rank 0 does it for all, or data are not sharded."""
    conversion = conversion_of(text, options=Options())
    (new,) = conversion.files
    return conversion.strategy is Strategy.SHARED or b"if rt.from_main_process(" in new.after


def net(lines: str) -> str:
    return script(imports=IMPORTED, model=NET.format(body=indented(lines, " " * 8)))


@pytest.mark.parametrize(
    "lines",
    [
        "rows, width = noise.shape",
        "rows = len(noise)",
        "rows = noise.size(0)",
        "rows = noise.numel()",
        "rows = torch.stack([noise[i] for i in torch.randint(0, 6, (3,))]).shape[0]",
        "rows = torch.stack([noise[i:i + 3] for _ in range(3)]).shape[0]",
        ("end = i + 3\nrows = torch.stack([noise[i:end], noise[:3]]).shape[0]"),
        "rows = noise[torch.randperm(6)].shape[0]",
        "rows = torch.where(noise > 0.5, noise, -noise).shape[0]",
        "rows = (noise > 0.5).float().shape[0]",
        "rows = torch.cat([noise, noise]).view(3, -1).shape[1]",
        "rows = torch.from_numpy(np.random.rand(3, 4)).shape[0]",
        "rows = nn.functional.relu(noise @ noise.t()).shape[0]",
        "rows = len([one for one in noise])",
    ],
)
def test_a_form_that_is_not_drawn_decides_nothing_by_chance(lines: str) -> None:
    assert not is_decided_by_chance(net(lines))


@pytest.mark.parametrize(
    "lines",
    [
        "rows = int(noise[0, 0])",
        "rows = torch.randint(1, 9, (1,)).item()",
        "rows = torch.zeros(torch.randint(1, 9, (1,)).item()).shape[0]",
        "rows = noise[noise > 0.5].shape[0]",
        ("keep = noise > 0.5\nkeep = keep & (noise < 2)\nrows = len(noise[keep])"),
        ("keep = torch.bernoulli(noise.abs()).bool()\nrows = noise[keep].size(0)"),
        ("keep = noise.to(torch.bool)\nrows = noise[keep].size(0)"),
        "rows = noise.nonzero().shape[0]",
        "rows = torch.where(noise > 0.5)[0].shape[0]",
        "rows = noise.masked_select(noise > 0.5).numel()",
        "rows = torch.unique(torch.randint(0, 4, (9,))).shape[0]",
        "rows = noise[:i].shape[0]",
        "rows = noise[i:6].shape[0]",
        "rows = noise[i:i + 5].shape[0]",
        "rows = noise[i:i + random.randint(1, 3)].shape[0]",
        "rows = len([0] * i)",
        "rows = len([0 for _ in range(i)])",
        "rows = len([one for one in noise if one.sum() > 0])",
        ("found = []\nfor one in range(i):\n    found.append(noise[one])\nrows = torch.stack(found).shape[0]"),
        ("found = []\nfor one in noise:\n    if random.random() < 0.5:\n        found.append(one)\n"
         "rows = torch.stack(found).shape[0]"),
        ("part = noise\nif random.random() < 0.5:\n    part = noise[:2]\nrows = part.shape[0]"),
        ("part = noise[:2] if random.random() < 0.5 else noise\nrows = part.shape[0]"),
        "rows = len(random.choice([[1], [1, 2]]))",
    ],
)  # fmt: skip
def test_a_form_that_is_drawn_decides_by_chance(lines: str) -> None:
    assert is_decided_by_chance(net(lines))


CROPS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.longest = 8
        self.names = nn.Embedding(16, 4)
        self.out = nn.Linear(4, 16)

    def forward(self, x):
        rows, length = x.shape
        if length > self.longest:
            raise ValueError('too long')
        return self.out(self.names(x))


text = torch.randint(0, 16, (400,))
model = Net()
"""
TURNS = """
for step in range(20):
    {start}
    x = torch.stack([text[i:{end}] for i in places])
    y = torch.stack([text[i + 1:i + 9] for i in places])
    loss = nn.functional.cross_entropy(model(x).transpose(1, 2), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_random_crops_of_a_given_length_are_sharded() -> None:
    turns = TURNS.format(start="places = torch.randint(390, (8,))", end="i + 8")
    assert not is_decided_by_chance(script(data="", loader="", model=CROPS, loop=turns))


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("places = torch.randint(390, (8,)).nonzero()", "i + 8"),
        ("places = torch.randint(390, (torch.randint(1, 9, (1,)).item(),))", "i + 8"),
    ],
)
def test_random_crops_of_a_length_that_is_drawn_are_not(start: str, end: str) -> None:
    turns = TURNS.format(start=start, end=end)
    assert is_decided_by_chance(script(data="", loader="", model=CROPS, loop=turns))


# ---- lists, which have the sources of their items

COIN = "torch.rand(1) < 0.5"


def counts_by_chance(lines: str, listed: str) -> bool:
    """Whether random numbers say how many of `listed` there are, some of which have a drawn form."""
    crops = "crops = [noise[noise > 0.5], noise]\n"
    text = net(f"{crops}{lines}rows = len({listed})").encode()
    loaded = program.load(SourceFile("train.py", text), lambda *given: None)
    values = interpreter.run(loaded).values
    asked = [node for node in loaded.entry.nodes if node in values and tree.code_of(node) == f"len({listed})"]
    assert any(CHANCE in values[node].sources for node in loaded.entry.nodes if node in values)
    return any(CHANCE in values[node].sources for node in asked)


@pytest.mark.parametrize(
    ("lines", "listed"),
    [
        ("", "crops"),
        ("", "crops[:1]"),
        ("", "[crop * 2 for crop in crops]"),
        ("", "[crop for twice in range(2) for crop in crops]"),
        ("more = []\nfor crop in crops:\n    more.append(crop * 2)\n", "more"),
        ("more = []\nfor crop in crops:\n    if self.training:\n        more.append(crop * 2)\n", "more"),
        (f"more = []\nfor crop in crops:\n    if {COIN}:\n        crop = crop * 2\n    more.append(crop)\n", "more"),
        ("more = []\nmore.extend(crops)\nmore += crops\n", "more"),
        ("more = [*crops, noise]\ndel more[0]\n", "more"),
        ("more = [noise]\nmore[0] = crops[0]\n", "more"),
    ],
)
def test_things_of_drawn_forms_are_as_many_as_the_script_says(lines: str, listed: str) -> None:
    assert not counts_by_chance(lines, listed)


@pytest.mark.parametrize(
    ("lines", "listed"),
    [
        ("", f"[crop for crop in crops if {COIN}]"),
        ("", f"[crop * 2 for crop in [crop for crop in crops if {COIN}]]"),
        ("", "[crop for crop in crops for _ in range(random.randint(1, 2))]"),
        ("", "[row for row in crops[0]]"),
        ("", "crops[: random.randint(1, 2)]"),
        (f"more = [*crops]\nfor crop in crops:\n    if {COIN}:\n        more.append(crop)\n", "more"),
        (f"more = [*crops]\nfor crop in crops:\n    more.append(crop)\n    if {COIN}:\n        break\n", "more"),
        (f"more = [*crops]\nmore.extend([crop for crop in crops if {COIN}])\n", "more"),
        ("", "crops[0]"),
        ("", "list(crops[0])"),
        ("", f"crops if {COIN} else [noise]"),
        (f"more = crops\nif {COIN}:\n    more = [noise]\n", "more"),
        (f"more = [*crops]\nif {COIN}:\n    more.pop()\n", "more"),
        (f"more = [*crops]\nif {COIN}:\n    del more[0]\n", "more"),
        (f"more = [*crops]\nif {COIN}:\n    more += crops\n", "more"),
        ("more = [*crops]\nmore *= random.randint(1, 2)\n", "more"),
        (f"more = [*crops]\nmore[:1] = [crop for crop in crops if {COIN}]\n", "more"),
        (f"more = [noise, *[crop for crop in crops if {COIN}]]\n", "more"),
        (
            f"def fill(into):\n    into.append(noise)\n    if {COIN}:\n        return\n    into += crops\n"
            "more = [*crops]\nfill(more)\n",
            "more",
        ),
    ],
)
def test_what_random_numbers_put_in_or_take_out_is_as_many_as_they_say(lines: str, listed: str) -> None:
    assert counts_by_chance(lines, listed)
