"""What depends on the places of samples in their batch: a rank's own are counted from 0, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, converted, line_of, script

Written = Callable[[str, str, str], str]
LOSS = "nn.functional.mse_loss(model(x), y)"
CUT = """\
inputs, labels = torch.randn(64, 4), torch.randn(64, 1)
for step in range(20):
    rows = torch.randint(0, len(inputs), (8,))
    x, y = inputs[rows], labels[rows]
    {turn}
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PLACES = "says of the places of samples"
TABLE = "table = torch.randn(64, 4)\n"


def of_a_loader(setup: str, turn: str, loss: str) -> str:
    turn = turn.replace("\n", "\n        ")
    return script(
        setup=setup, loop=LOOP.replace("        loss = ", f"        {turn}\n        loss = ").replace(LOSS, loss)
    )


def cut_by_hand(setup: str, turn: str, loss: str) -> str:
    loop = CUT.replace("{turn}", turn.replace("\n", "\n    ")).replace("{loss}", loss)
    return script(imports=IMPORTS, data="", loader="", setup=setup, loop=loop)


def links(before: str) -> list[int]:
    conversion = conversion_of(before, options=Options())
    found = [
        one for one in conversion.of(Level.ADVICE) if "takes rows by numbers" in one.message or PLACES in one.message
    ]
    assert (conversion.strategy is Strategy.SHARED) is bool(found)
    return [one.place.line for one in found if one.place]


COUNTED = [
    ("x = x + table[: len(x)]", LOSS),
    ("x = x + table[: x.size(0)]", LOSS),
    ("x = x + table[torch.arange(x.size(0))]", LOSS),
    ("x = x + table[torch.arange(len(x)) % table.size(0)]", LOSS),
    ("x = x + table[torch.randperm(len(x))]", LOSS),
    ("x = x + table.index_select(0, torch.arange(len(x)))", LOSS),
    ("x = x + torch.tensor(numbers[: len(x)])[:, None]", LOSS),
    ("x = x + read[: len(x)]", LOSS),
    ("x = x + table.gather(0, torch.arange(len(x))[:, None].expand(-1, 4))", LOSS),
    ("x = torch.stack([a + b for a, b in zip(x, table)])", LOSS),
    ("x = torch.stack([a * b for a, b in zip(x, itertools.cycle([1, -1]))])", LOSS),
]
TOLD_APART = [
    ("x = x + torch.arange(len(x))[:, None]", LOSS),
    ("x = x + torch.arange(x.shape[0], dtype=x.dtype).view(-1, 1)", LOSS),
    ("x = x + numpy.arange(len(x))[:, None]", LOSS),
    ("x = x + embedding(torch.arange(len(x)))", LOSS),
    ("x = x + nn.functional.one_hot(torch.arange(len(x)) % 4, 4)", LOSS),
    ("x = torch.where(torch.arange(len(x))[:, None] < 4, x * 2, x)", LOSS),
    ("first = torch.arange(len(x)) < 4", "nn.functional.mse_loss(model(x)[first], y[first])"),
    ("y = (torch.arange(len(x)) % 2)[:, None].float()", LOSS),
    ("x = x + torch.eye(len(x))[:, :4]", LOSS),
    ("x = torch.stack(list(reversed(x)))", LOSS),
    ("x = torch.stack([row * number for number, row in enumerate(x)])", LOSS),
]
WRITTEN = [
    ("mask = torch.zeros(len(x), 1)\nmask[0] = 1\nx = x * mask", LOSS),
    ("mask = torch.zeros(len(x), 1)\nmask[: len(x) // 2] = 1\nx = x * mask", LOSS),
    ("x = x.clone()\nx[:4] = 0", LOSS),
    ("x = x.clone()\nx[::2, 0] = 0", LOSS),
]
COUNTING = [
    ("for i in range(len(x)):\n    x[i] = x[i] * (i + 1)", LOSS),
    ("for i, row in enumerate(x):\n    x[i] = row * (i + 1)", LOSS),
    ("numbers = torch.arange(len(x))[:, None]\nx.mul_(numbers)", LOSS),
]
SAFE = [
    ("x = x * 2", LOSS),
    ("x = x + table[0]", LOSS),
    ("x = x + table[torch.arange(x.size(1))]", LOSS),  # places within a sample
    ("x = x + table[torch.arange(4), : x.size(1)]", LOSS),
    ("x = x + ones[: len(x)]", LOSS),  # the same for all
    ("x = x + zeros[: x.size(0)]", LOSS),
    ("x = x + table[torch.full((len(x),), 3)]", LOSS),  # one row for all
    ("p = model(x)[torch.arange(len(x)), 0]", "nn.functional.mse_loss(p, y[:, 0])"),  # the batch's own
    ("p = table[y.long()[:, 0]]", "nn.functional.mse_loss(model(x + p), y)"),  # each sample's own
    ("p = model(x)[torch.arange(len(x)).unsqueeze(1), y.long()]", "nn.functional.mse_loss(p, y)"),
    (
        "p = torch.zeros(len(x), 4)\np[torch.arange(len(x)), y.long()[:, 0]] = 1",
        "nn.functional.mse_loss(model(x + p), y)",
    ),
    ("for i, row in enumerate(x):\n    str((i, table[i], row))", LOSS),
    ("for i, length in enumerate(y[:, 0].long().tolist()):\n    x[i, length:] = 0", LOSS),
    ("for i in range(len(x)):\n    x[i] = x[i] * y[i]", LOSS),
    ("x[:, 0] = 0", LOSS),
    ("x[..., 0] = 0", LOSS),
    ("x[x > 1] = 0", LOSS),
    ("x = x * torch.arange(x.size(1))", LOSS),  # along a sample
    ("both = torch.zeros(2 * len(x), 4)\nboth[: len(x)] = x", "nn.functional.mse_loss(model(both)[: len(x)], y)"),
    (
        "kinds = [x, x * 2]\nfor i in range(len(kinds)):\n    x = x + table[i] * kinds[i]",
        LOSS,
    ),  # of which a list holds two
    ("outs = [x, x * 2]\nx = sum(w * out for w, out in zip([0.3, 0.7], outs))", LOSS),
    ("outs = [x, x * 2]\nx = sum((i + 1) * out for i, out in enumerate(outs))", LOSS),
    ("print(step * len(x), torch.arange(len(x)))", LOSS),
]
OF_A_SHARE = [
    ("order = torch.randperm(len(x))\nx, y = (x + x[order]) / 2, (y + y[order]) / 2", LOSS),  # among a rank's own
    ("order = torch.randperm(len(x))\nx = x + x.index_select(0, order)", LOSS),
    (
        "out = model(x)\nscores, labels = out @ (x[:, :1] * 2).t(), torch.arange(len(out))",
        "nn.functional.cross_entropy(scores, labels)",  # gathered: those of all ranks are counted
    ),
]
SETUP = f"{TABLE}ones, zeros = torch.ones(64, 4), torch.zeros(64, 4)\n"


@pytest.mark.parametrize("written", [of_a_loader, cut_by_hand])
@pytest.mark.parametrize(("turn", "loss"), COUNTED)
def test_rows_by_place(written: Written, turn: str, loss: str) -> None:
    before = written(
        f"import itertools\n{TABLE}numbers, read = [float(i) for i in range(64)], torch.load('rows.pt')\n", turn, loss
    )
    assert links(before) == [line_of(before, turn)]


@pytest.mark.parametrize("written", [of_a_loader, cut_by_hand])
@pytest.mark.parametrize(("turn", "loss"), TOLD_APART)
def test_samples_that_are_told_apart_by_their_places(written: Written, turn: str, loss: str) -> None:
    before = written("import itertools, numpy\nembedding = nn.Embedding(8, 4)\n", turn, loss)
    assert links(before) == [line_of(before, turn)]


@pytest.mark.parametrize(("turn", "loss"), WRITTEN)
def test_what_is_written_at_places(turn: str, loss: str) -> None:
    before = of_a_loader("", turn, loss)
    assert links(before) == [line_of(before, turn.splitlines()[1])]


@pytest.mark.parametrize(("turn", "loss"), COUNTING)
def test_what_is_written_of_places(turn: str, loss: str) -> None:
    before = of_a_loader("", turn, loss)
    assert links(before) == [line_of(before, turn.splitlines()[0])]


@pytest.mark.parametrize("written", [of_a_loader, cut_by_hand])
@pytest.mark.parametrize(("turn", "loss"), SAFE)
def test_rows_that_are_right(written: Written, turn: str, loss: str) -> None:
    assert links(written(SETUP, turn, loss)) == []


@pytest.mark.parametrize(("turn", "loss"), OF_A_SHARE)
def test_places_that_are_right_for_a_share(turn: str, loss: str) -> None:
    assert links(of_a_loader("", turn, loss)) == []


def test_what_is_cut_by_the_size_of_a_batch_is_not_cut_once_more() -> None:
    """`table` moves at random, as it is drawn: a cut of it is a batch, but for one by the size of another."""
    before = cut_by_hand(TABLE, "p = table[: x.size(0)] * 0.5", "nn.functional.mse_loss(model(x + p), y)")
    assert "shard_batch" not in converted(before, options=Options())
    assert links(before) == [line_of(before, "p = table")]


def by_its_size(turn: str, loss: str) -> str:
    """What a loader's batches have as many of as `size` says."""
    return of_a_loader(f"size = 8\n{SETUP}", turn, loss).replace("batch_size=8", "batch_size=size")


@pytest.mark.parametrize(
    "turn",
    [
        "x = x + torch.arange(size)[:, None]",
        "x = x * torch.linspace(1, 2, size)[:, None]",
        "x = x * torch.linspace(1, 2, steps=len(x))[:, None]",
        "x = x + table[:size]",
        "x = x + table[torch.arange(size)]",
        "x = x + table[torch.randperm(size)]",
    ],
)
def test_places_that_are_counted_by_the_size_of_the_loader(turn: str) -> None:
    before = by_its_size(turn, LOSS)
    assert links(before) == [line_of(before, turn)]


@pytest.mark.parametrize(
    "turn",
    [
        "x = x + torch.ones(size, 4)",
        "x = x * torch.linspace(1, 2, 4)",
        "x = x * torch.linspace(1, 2, steps=x.size(1))",
        "x = x + ones[:size]",
        "x = x + table[:1]",
        "x = x + table[torch.arange(1)]",
        "print(torch.arange(size), table[:size])",
        "x = x + torch.randn(size, 4)",
    ],
)
def test_of_the_size_of_the_loader_all_rows_are_alike(turn: str) -> None:
    assert links(by_its_size(turn, LOSS)) == []


def test_a_row_for_each_turn_of_a_loop() -> None:
    turn = "parts = []\nfor i in range(len(x)):\n    parts.append(x[i] + table[i])\nx = torch.stack(parts)"
    before = of_a_loader(TABLE, turn, LOSS)
    assert links(before) == [line_of(before, "parts.append")]


def test_what_each_rank_draws_for_its_own_batch() -> None:
    assert links(of_a_loader("", "table = torch.rand(len(x), 4)\nx = x + table[: len(x)]", LOSS)) == []


def test_what_is_drawn_for_the_whole_batch() -> None:
    before = of_a_loader("", "table = torch.randn(9, 4)\nx = x + table[: len(x)]", LOSS)
    assert links(before) == [line_of(before, "x = x + table")]


# ---- by the number of a batch


def in_turns(head: str, turn: str, setup: str) -> str:
    return script(setup=setup, loop=LOOP.replace("    for x, y in loader:\n", f"    {head}\n        {turn}\n"))


def numbered_links(before: str) -> list[int]:
    conversion = conversion_of(before, options=Options())
    found = [one for one in conversion.of(Level.ADVICE) if "takes rows by the number of a batch" in one.message]
    assert (conversion.strategy is Strategy.SHARED) is bool(found)
    return [one.place.line for one in found if one.place]


BY_TURNS = [
    ("for i, (x, y) in enumerate(loader):", "y = table[i * 8:(i + 1) * 8, :1]"),
    ("for i, (x, y) in enumerate(loader):", "y = table.view(-1, 8, 4)[i, :, :1]"),
    ("for i, (x, y) in enumerate(loader, start=1):", "y = pieces[i - 1][:, :1]"),
    ("for i, (x, y) in enumerate(loader):", "y = read[8 * i:8 * i + 8]"),
    ("for x, y in loader:", "y = table[at:at + 8, :1]; at += 8"),
    ("for x, y in loader:", "y = table[at:at + 8, :1]; at = at + 8"),
    ("for (x, y), row in zip(loader, table.split(8)):", "y = row[:, :1]"),
    ("for (x, y), row in zip(loader, pieces):", "y = row[:, :1]"),
]
ROWS = f"{TABLE}pieces = list(table.split(8))\nat = 0\nimport numpy\nread = numpy.load('targets.npy')\n"


@pytest.mark.parametrize(("head", "turn"), BY_TURNS)
def test_rows_by_the_number_of_a_batch(head: str, turn: str) -> None:
    before = in_turns(head, turn, ROWS)
    assert numbered_links(before) == [line_of(before, head if "zip(" in head else turn)]


NO_ROWS = [
    ("for i, (x, y) in enumerate(loader):", "x = x * rates[i % 3]"),
    ("for i, (x, y) in enumerate(loader):", "x = x * (i + 1)"),
    ("for i, (x, y) in enumerate(loader):", "x = x * table[epoch, 0]"),
    ("for i, (x, y) in enumerate(loader):", "x = x * torch.ones(64)[i]"),
    ("for i, (x, y) in enumerate(loader):", "x = x * (i % 2)"),
    ("for (x, y), i in zip(loader, range(100)):", "x = x * i"),
    ("for x, y in loader:", "at += 1; x = x * at"),
    ("for x, y in loader:", "for k in range(2): x = x + table[k, :4]"),
]


@pytest.mark.parametrize(("head", "turn"), NO_ROWS)
def test_numbers_of_batches_that_take_no_rows(head: str, turn: str) -> None:
    assert numbered_links(in_turns(head, turn, f"{TABLE}rates = [0.1, 0.2, 0.3]\nat = 0\n")) == []


COUNTING = (
    "class Reader:\n    at = 0\n\n    def take(self):\n        self.at += 8\n        return {taken}\n\n\n"
    "reader = Reader()\n"
)


@pytest.mark.parametrize(("before_the_loop", "links"), [(False, 1), (True, 0)])
def test_a_function_that_counts_its_calls_counts_batches_where_a_turn_calls_it(
    before_the_loop: bool, links: int
) -> None:
    taken = "table[self.at - 8:self.at].mean(0, keepdim=True)[:, :1]"
    setup = ROWS + COUNTING.format(taken=taken) + "first = reader.take()\n" * before_the_loop
    turn = f"y = y + {'first' if before_the_loop else 'reader.take()'}"
    assert len(numbered_links(in_turns("for x, y in loader:", turn, setup))) == links
