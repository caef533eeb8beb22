"""DATA04: batches that a script cuts, draws or folds by itself."""

from __future__ import annotations

import pytest

from tests.rules.scripts import blocked, conversion_of, converted, line_of

HEAD = """\
import random
import numpy as np
import torch
from torch import nn

size = 8
inputs, targets = torch.randn(64, 4), torch.randn(64, 1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = """\
loss = nn.functional.mse_loss(model(x), y)
optimizer.zero_grad()
loss.backward()
optimizer.step()
"""


def looped(lines: str, loop: str = "for i in range(0, 64, size):") -> str:
    body = "".join(f"    {line}\n" for line in (lines + STEP).splitlines())
    return f"{HEAD}{loop}\n{body}"


@pytest.mark.parametrize(
    ("lines", "shares"),
    [
        pytest.param(
            "x, y = inputs[i:i + size], targets[i:i + size]\n",
            ["x, y = rt.shard_batch((inputs[i:i + size], targets[i:i + size]))"],
            id="slices in a tuple",
        ),
        pytest.param(
            "rows = torch.randint(0, 64, (size,))\nx, y = inputs[rows], targets[rows]\n",
            ["rows = rt.shard_batch(torch.randint(0, 64, (size,)))"],
            id="drawn rows",
        ),
        pytest.param(
            "rows = np.random.choice(64, size)\nx, y = inputs[rows], targets[rows]\n",
            ["rows = rt.shard_batch(np.random.choice(64, size))"],
            id="numpy choice",
        ),
        pytest.param(
            "rows = torch.randperm(64)[:size]\nx, y = inputs[rows], targets[rows]\n",
            ["rows = rt.shard_batch(torch.randperm(64)[:size])"],
            id="the first of a permutation",
        ),
        pytest.param(
            "x = torch.randn(size, 4)\ny = x.sum(1, keepdim=True)\n",
            ["x = rt.shard_batch(torch.randn(size, 4))"],
            id="generated",
        ),
    ],
)
def test_share_is_taken_where_the_batch_is_made(lines: str, shares: list[str]) -> None:
    after = converted(looped(lines))
    for line in shares:
        assert f"    {line}\n" in after
    assert after.count("shard_batch") == len(shares)
    assert "rt.seed_ranks_apart(model)\n" in after


def test_that_all_draw_alike_is_said_of_what_is_known() -> None:
    """A window that each process opens, and is clicked in by itself."""
    said = (
        "each rank takes its share of the batch, of which, where a smaller one at the end does not divide by the "
        "ranks, some samples count twice; all draw it alike"
    )
    lines = "memory.append((window.clicked(), 1.0))\nbatch = random.sample(memory, size)\n"
    parts = "x, y = (torch.tensor(one)[:, None] for one in zip(*batch))\n"
    asked = HEAD + "from gui import Window\nwindow, memory = Window(), [(0.0, 1.0)] * 64\n"
    before = looped(lines + parts, "for step in range(64):").replace(HEAD, asked)
    (found,) = (one.message for one in conversion_of(before).findings if one.code == "DATA04")
    assert found == f"{said}, unless by `Window` at train.py:{line_of(before, 'from gui') + 1}, which is not known"
    known = before.replace("from gui import Window", "").replace("Window()", "random.Random(1)")
    found = {one.message for one in conversion_of(known.replace("clicked", "random")).findings if one.code == "DATA04"}
    assert found == {said}


def test_while_loop() -> None:
    lines = "x, y = inputs[i:i + size], targets[i:i + size]\ni += size\n"
    after = converted(looped(lines, "i = 0\nwhile i < 64:"))
    assert "    x, y = rt.shard_batch((inputs[i:i + size], targets[i:i + size]))\n" in after


def test_function_that_is_used_for_evaluation_too() -> None:
    """Only the training call gets a share."""
    before = HEAD + (
        "def batch():\n    rows = torch.randint(0, 64, (size,))\n    return inputs[rows], targets[rows]\n\n"
        "for step in range(20):\n    x, y = batch()\n"
        + "".join(f"    {line}\n" for line in STEP.splitlines())
        + "with torch.no_grad():\n    x, y = batch()\n    print(nn.functional.mse_loss(model(x), y))\n"
    )
    after = converted(before)
    assert "    x, y = rt.shard_batch(batch())\n    loss" in after
    assert "    x, y = batch()\n    print(nn.functional.mse_loss(model.module(x), y))\n" in after


def test_whole_data_in_each_step() -> None:
    before = (
        HEAD + "for epoch in range(9):\n    x, y = inputs, targets\n" + "".join(f"    {x}\n" for x in STEP.splitlines())
    )
    assert blocked(before) == {("DATA01", line_of(before, "loss.backward()"))}


def test_one_sample_at_a_time() -> None:
    before = looped("x, y = inputs[i], targets[i]\n", "for i in range(64):")
    assert {code for code, _ in blocked(before)} == {"DATA01"}


def test_time_that_is_cut_is_no_batch() -> None:
    """A recurrent network along the first dimension relates what the ranks would take apart."""
    before = (
        looped("x, y = inputs[i:i + size], targets[i:i + size]\n")
        .replace("model = nn.Linear(4, 1)", "model = nn.GRU(4, 1)")
        .replace("model(x), y", "model(x)[0], y")
    )
    assert {code for code, _ in blocked(before)} & {"LOSS01", "DATA04"}


def test_environment() -> None:
    lines = (
        "after, reward, done, _ = env.step(0)\nmemory.append((after, reward))\nbatch = random.sample(memory, 4)\n"
        "x = torch.tensor([one[0] for one in batch])\ny = torch.tensor([one[1] for one in batch])\n"
    )
    before = "import gym\n" + looped(
        lines, 'env, memory = gym.make("CartPole-v1"), []\nenv.reset()\nfor t in range(99):'
    )
    assert ("DATA04", line_of(before, "env.step(0)")) in blocked(before)


@pytest.mark.parametrize(
    ("sample", "parts"),
    [
        ("(inputs[i], targets[i])", ("[0]", "[1]")),
        ('{"x": inputs[i], "y": targets[i]}', ('["x"]', '["y"]')),
        ('(inputs[i], {"y": targets[i]})', ("[0]", '[1]["y"]')),
    ],
)
def test_samples_with_parts(sample: str, parts: tuple[str, str]) -> None:
    stacked = (f"torch.stack([row{part} for row in rows])" for part in parts)
    before = looped("rows = samples[i:i + size]\nx, y = {}, {}\n".format(*stacked))
    before = before.replace("size = 8\n", "", 1).replace(
        "model = nn.Linear", f"size, samples = 8, [{sample} for i in range(64)]\nmodel = nn.Linear"
    )
    assert "    rows = rt.shard_batch(samples[i:i + size])\n" in converted(before)


_ITERATOR = """\
class Batches:
    def __init__(self, rows):
        self.rows, self.index = rows, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.index >= 64:
            self.index = 0
            raise StopIteration
        rows = self.rows[self.index:self.index + size]
        self.index += size
        return torch.tensor([row[0] for row in rows]), torch.tensor([row[1] for row in rows])


"""
_GENERATOR = """\
def batches():
    for i in range(0, 64, size):
        yield inputs[i:i + size], targets[i:i + size]


"""


@pytest.mark.parametrize(
    ("made", "loop"),
    [
        pytest.param(_GENERATOR, "for x, y in batches():", id="generator"),
        pytest.param(_GENERATOR, "for i, (x, y) in enumerate(batches()):", id="numbered"),
        pytest.param(
            _ITERATOR + "rows = [(float(i), float(i)) for i in range(64)]\nbatches = Batches(rows)\n",
            "for x, y in batches:",
            id="iterator",
        ),
        pytest.param("", "for x, y in zip(inputs.split(size), targets.split(size)):", id="pieces"),
    ],
)
def test_loop_over_batches_of_the_script(made: str, loop: str) -> None:
    body = "".join(f"    {line}\n" for line in STEP.splitlines())
    after = converted(f"{HEAD}{made}{loop}\n{body}")
    assert f"{loop}\n    x, y = rt.shard_batch((x, y))\n    loss" in after
    assert after.count("shard_batch") == 1


def test_loop_of_evaluation_over_the_same_iterator_is_left_alone() -> None:
    body = "".join(f"    {line}\n" for line in STEP.splitlines())
    loop = "for x, y in batches():\n"
    held = f"model.eval()\nwith torch.no_grad():\n    {loop}        print(nn.functional.mse_loss(model(x), y))\n"
    after = converted(f"{HEAD}{_GENERATOR}{loop}{body}{held}")
    assert after.count("shard_batch") == 1
    assert f"    {loop}        print(nn.functional.mse_loss(model.module(x), y))\n" in after


def test_text_that_is_split_is_no_batch() -> None:
    """A line of a file, read once more for each sample, is not what the training is dealt out by."""
    read = (
        "texts = []\nfor line in open('data.txt'):\n    text, label = line.split('\\t')\n    texts.append(len(text))\n"
    )
    before = looped("x, y = inputs[i:i + size], torch.tensor(texts[i:i + size])\n").replace("for i", read + "for i", 1)
    assert "    x, y = rt.shard_batch((inputs[i:i + size], torch.tensor(texts[i:i + size])))\n" in converted(before)


def test_batch_of_an_unknown_library() -> None:
    """Beside noise that is shared out: each rank may get other samples, or would train on all of them."""
    lines = "x, _ = data.train.next_batch(size)\ny = torch.randn(size, 1)\n"
    before = "from somewhere import read\n" + looped(lines, "data = read('x')\nfor step in range(9):")
    assert blocked(before) == {("DATA04", line_of(before, "data.train.next_batch"))}


@pytest.mark.parametrize(("seed", "shared"), [("3", True), ("", False)])
def test_generator_of_random_numbers(seed: str, shared: bool) -> None:
    """One without a seed draws other numbers on each rank."""
    lines = "x = torch.from_numpy(draws.normal(0, 1, (size, 4))).float()\ny = torch.randn(size, 1)\n"
    before = looped(lines, f"draws = np.random.default_rng({seed})\nfor step in range(9):")
    if not shared:
        assert blocked(before) == {("DATA04", line_of(before, "draws.normal"))}
        return
    after = converted(before)
    assert "    x = rt.shard_batch(torch.from_numpy(draws.normal(0, 1, (size, 4))).float())\n" in after
    assert "    y = rt.shard_batch(torch.randn(size, 1))\n" in after


@pytest.mark.parametrize("opened", ["np.load('rows.npy')", "h5py.File('rows.h5', 'r')['rows']", "zarr.open('rows')"])
def test_rows_of_an_array_in_a_file(opened: str) -> None:
    """An open file is an array: what it has for a batch's own places, the batch has."""
    lines = (
        "starts = order[i:i + size]\n"
        "x = torch.tensor(np.array([rows[start:start + 4] for start in starts]))\n"
        "y = x.sum(1, keepdim=True)\n"
    )
    head = f"import h5py\nimport zarr\n{HEAD}rows, order = {opened}, np.arange(64)\nnp.random.shuffle(order)\n"
    new = converted(looped(lines).replace(HEAD, head))
    assert "starts = rt.shard_batch(order[i:i + size])" in new


def test_what_a_library_has_for_a_batch_is_of_the_batch() -> None:
    lines = "x, y = inputs[i:i + size], targets[i:i + size]\nx = x - store['rows'][x.long()].mean(0)\n"
    head = f"import h5py\n{HEAD}store = h5py.File('rows.h5', 'r')\n"
    new = converted(looped(lines).replace(HEAD, head))
    assert "x = x - rt.mean_over_ranks(store['rows'][x.long()].mean(0))" in new


FOLDED = """\
import torch
from torch import nn


class Lines:
    def __init__(self, count, length):
        self.count, self.length, self.place = count, length, 0
        self.text = torch.tensor([int(word) for word in open("text.txt").read().split()])

    def following(self):
        count, length = self.count, self.length
        part = self.text[self.place : self.place + count * length + 1]
        {folded}
        self.place += count * length
        return x, y


model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
lines = Lines(4, 16)
for step in range(20):
    x, y = lines.following()
    {turn}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FOLDS = "x, y = part[:-1].view(count, length), part[1:].view(count, length)"
ENTROPY = "loss = nn.functional.cross_entropy(model(x).view(-1, 9), y.view(-1))"


@pytest.mark.parametrize(
    "folded",
    [
        FOLDS,
        "x = part[:-1].view(count, length)\n        y = part[1:].view(count, length)",
        "x, y = part[:-1], part[1:]\n        x, y = x.reshape(count, length), y.reshape((count, length))",
        "x, y = torch.reshape(part[:-1], (count, length)), part[1:].view(count, -1)",
    ],
)
def test_a_part_of_a_text_is_shared_once_it_is_folded(folded: str) -> None:
    after = converted(FOLDED.format(folded=folded, turn=ENTROPY))
    assert "    x, y = rt.shard_batch(lines.following())\n" in after
    assert after.count("shard_batch") == 1


@pytest.mark.parametrize(
    "turn",
    [
        "loss = nn.functional.cross_entropy(model(x).view(lines.count * 16, 9), y.view(64))",
        "loss = nn.functional.cross_entropy(model(x).view(lines.count, 9, -1), y)",
        "x = x.view(2, 2, 16)\n    " + ENTROPY,
    ],
)
def test_what_says_how_many_rows_there_are_is_not_said_of_a_share(turn: str) -> None:
    conversion = conversion_of(FOLDED.format(folded=FOLDS, turn=turn), strategy="auto")
    text = conversion.files[0].after.decode()
    assert "rt.data_parallel(model)" in text or "rt.gather_samples(" in text


SIZED = [
    "for i in range(0, 64, size):\n    rows = order[i:i + size]",
    "for i in range(8):\n    rows = order[i * size:(i + 1) * size]",
    "for i in range(8):\n    rows = order[size * i:size * (1 + i)]",
    "for i in range(8):\n    rows = order[i * size:i * size + size]",
    "for i in range(0, 64, size):\n    rows = order[i:min(i + size, len(order))]",
    "for i in range(8):\n    start = i * size\n    end = start + size\n    rows = order[start:end]",
    "for rows in order.split(size):\n    pass",
]


@pytest.mark.parametrize("loop", SIZED)
@pytest.mark.parametrize(
    ("made", "share"),
    [
        ("torch.ones(size, 1)", "rt.shard_batch(torch.ones(size, 1))"),
        ("torch.linspace(1, 2, size)[:, None]", "rt.shard_batch(torch.linspace(1, 2, size)[:, None])"),
        ("torch.zeros(1, size).t()", "rt.shard_batch(torch.zeros(1, size).t())"),
    ],
)
def test_what_is_made_of_the_size_of_a_batch_is_shared_with_it(loop: str, made: str, share: str) -> None:
    body = f"{loop}\n    x, y = inputs[rows], targets[rows]\n    weights = {made}\n    y = y * weights\n"
    before = f"{HEAD}order = torch.randperm(64)\n{body}" + "".join(f"    {one}\n" for one in STEP.splitlines())
    after = converted(before)
    assert f"    weights = {share}\n" in after
    assert after.count("shard_batch") == 2


@pytest.mark.parametrize(
    ("rows", "made"),
    [
        ("order[i * 8 * wide:(i * 8 + 8) * wide]", "torch.ones(wide, 1)[0]"),
        ("order[wide + i:min(wide + i + 8, most)]", "torch.ones(most, 1)[0]"),
        ("order[wide * i:most]", "torch.ones(most, 1)[0]"),
        ("order[i:i + size]", "torch.ones(4, wide)[0]"),
    ],
)
def test_of_what_a_size_is_is_not_guessed(rows: str, made: str) -> None:
    """What else stands in the bounds of a batch says where it begins, or how many there are of all."""
    body = f"wide, most = 2, 64\norder = torch.randperm(64)\nfor i in range(0, 32, 8):\n    rows = {rows}\n"
    body += f"    x, y = inputs[rows], targets[rows] * {made}[0]\n"
    after = converted(HEAD + body + "".join(f"    {one}\n" for one in STEP.splitlines()))
    assert f"    rows = rt.shard_batch({rows})\n" in after
    assert after.count("shard_batch") == 1


OF_NUMBERS = """\
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler
from somewhere import Samples


class Order:
    def __iter__(self):
        return iter(torch.randperm(64).tolist())


"""


def sampled(sampler: str) -> str:
    body = "".join(f"    {line}\n" for line in ("x, y = inputs[rows], targets[rows]\n" + STEP).splitlines())
    return f"{HEAD}{OF_NUMBERS}for rows in BatchSampler({sampler}):\n{body}"


@pytest.mark.parametrize(
    "sampler",
    [
        "RandomSampler(inputs), size, drop_last=True",
        "RandomSampler(inputs), drop_last=False, batch_size=8",
        "SubsetRandomSampler(range(48)), size, True",
        "SequentialSampler(inputs), size, False",
        "Order(), size, False",
    ],
)
def test_numbers_of_samples_that_a_sampler_deals_out(sampler: str) -> None:
    after = converted(sampled(sampler))
    assert "    x, y = rt.shard_batch((inputs[rows], targets[rows]))\n" in after
    assert after.count("shard_batch") == 1


def test_numbers_that_are_those_of_no_training_are_left_alone() -> None:
    body = "".join(f"    {line}\n" for line in STEP.splitlines())
    held = "with torch.no_grad():\n    for rows in BatchSampler(SequentialSampler(inputs), 16, False):\n"
    held += "        print(nn.functional.mse_loss(model(inputs[rows]), targets[rows]))\n"
    after = converted(f"{HEAD}{OF_NUMBERS}for x, y in zip(inputs.split(size), targets.split(size)):\n{body}{held}")
    assert after.count("shard_batch") == 1
    assert held.replace("model(", "model.module(") in after


def test_a_sampler_that_is_not_known_may_give_each_rank_other_numbers() -> None:
    before = sampled("Samples(inputs), size, False")
    assert blocked(before) == {("DATA04", line_of(before, "for rows in"))}


@pytest.mark.parametrize(
    ("parts", "are_shared"),
    [
        ("np.array_split(np.random.permutation(64), 5)", False),
        ("np.array_split(np.random.permutation(64), len(inputs) // size)", False),
        ("np.array_split(np.random.permutation(64), range(size, 64, size))", True),
        ("torch.randperm(64).split(size)", True),
        ("torch.randperm(64).chunk(8)", True),
    ],
)
def test_parts_of_unequal_sizes_are_not_dealt_out(parts: str, are_shared: bool) -> None:
    body = "".join(f"    {line}\n" for line in ("x, y = inputs[rows], targets[rows]\n" + STEP).splitlines())
    text = conversion_of(f"{HEAD}for rows in {parts}:\n{body}", strategy="auto").files[0].after.decode()
    assert ("rt.shard_batch(" in text) is are_shared
    assert ("rt.data_parallel(model)" in text) is not are_shared


def test_parts_that_an_evaluation_is_made_of_may_be_unequal() -> None:
    held = "with torch.no_grad():\n    for rows in np.array_split(np.arange(64), 3):\n"
    held += "        print(model(inputs[rows]).sum())\n"
    after = converted(looped("x, y = inputs[i:i + size], targets[i:i + size]\n") + held)
    assert after.count("shard_batch") == 1
    assert held.replace("model(", "model.module(") in after
