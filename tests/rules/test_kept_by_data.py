"""What a data set keeps of the samples that it is asked for: such loaders are not dealt out."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import conversion_of

SCRIPT = """\
import os
import random
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

asked, asked_for = 0, [0]


class Noise:
    def __init__(self):
        self.strength = 1.0

    def __call__(self, x):
        {transform}
        return x * self.strength


class Samples(Dataset):
    made = 0

    def __init__(self):
        self.x, self.y = torch.randn(64, 4), torch.randint(2, (64,))
        self.calls, self.seen, self.hits, self.last, self.file = 0, [], [0] * 64, None, None
        self.cache, self.shard, self.rows, self.order = {{}}, -1, None, iter(range(10**9))
        self.transform = Noise()

    def __len__(self):
        return 64

    def __getitem__(self, i):
        {item}
        return self.transform(self.x[i]), self.y[i]

    def _count(self):
        {helper}


loader = DataLoader(Samples(), batch_size=8, shuffle=True)
model, criterion = nn.Linear(4, 2), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch)
"""


def told(
    item: str = "pass", transform: str = "pass", helper: str = "pass", text: str = SCRIPT
) -> tuple[Strategy | None, list[str]]:
    """The rung, and the lines that are given as reasons."""
    text = text.format(item=item.replace("\n", "\n        "), transform=transform, helper=helper)
    conversion = conversion_of(text, options=Options())
    found = [one for one in conversion.of(Level.ADVICE) if "sharded data would be faster" in one.message]
    return conversion.strategy, [text.splitlines()[one.place.line - 1].strip() for one in found if one.place]


@pytest.mark.parametrize(
    "line",
    [
        "self.calls += 1",
        "self.calls = (self.calls + 1) % 10",
        "global asked; asked += 1",
        "self.seen.append(i)",
        "self.hits[i] += 1",
        "self.hits[i] = self.hits[i] + 1",
        "i = next(self.order) % 64",
        "i = self.seen.pop() if self.seen else i",
        "random.shuffle(self.hits)",
        "asked_for[0] += 1",
        "asked_for.append(i)",
        "Samples.made += 1",
    ],
)
def test_what_is_counted_and_what_comes_next(line: str) -> None:
    assert told(item=line) == (Strategy.SHARED, [line])


def test_the_sample_before() -> None:
    lines = "x = self.x[i]\nbefore = x if self.last is None else self.last\nself.last = x\nreturn (x + before) / 2, 0"
    assert told(item=lines) == (Strategy.SHARED, ["self.last = x"])


def test_a_count_by_way_of_a_name() -> None:
    lines = "calls = self.calls\nself.calls = calls + 1"
    assert told(item=lines) == (Strategy.SHARED, ["self.calls = calls + 1"])


def test_hits_of_a_cache() -> None:
    lines = "if i in self.cache:\n    self.calls += 1\nself.cache[i] = 1"
    assert told(item=lines) == (Strategy.SHARED, ["self.calls += 1"])


def test_a_count_that_depends_on_the_index() -> None:
    assert told(item="if i == 63:\n    self.calls += 1") == (Strategy.SHARED, ["self.calls += 1"])


@pytest.mark.parametrize("helper", ["self.order = torch.randperm(64).tolist()", "self.calls, self.order = 0, None"])
def test_what_only_the_rank_does_that_is_asked_for_the_last_sample(helper: str) -> None:
    """And what it makes, all the others go by that it is asked for later."""
    item = "i = (self.order or [i])[0]\nif i == len(self) - 1: self._count()"
    assert told(item=item, helper=helper) == (Strategy.SHARED, [helper])


def test_what_is_made_where_it_is_not_there_yet() -> None:
    lines = "if self.file is None and i >= 0:\n    self._count()"
    helper = "if self.file is None: self.file = open(os.devnull)"
    assert told(item=lines, helper=helper) == (Strategy.SHARDED, [])


def test_a_transform_that_grows_weaker_and_a_method_of_the_data_set() -> None:
    assert told(transform="self.strength *= 0.999") == (Strategy.SHARED, ["self.strength *= 0.999"])
    assert told(item="self._count()", helper="self.calls += 1") == (Strategy.SHARED, ["self.calls += 1"])
    assert told(helper="self.calls += 1") == (Strategy.SHARDED, [])


@pytest.mark.parametrize(
    "lines",
    [
        "if i not in self.cache:\n    self.cache[i] = self.x[i] * 2\nreturn self.cache[i], 0",
        "if len(self.cache) < 10:\n    self.cache[i] = self.x[i]",
        "if self.file is None:\n    self.file = open(os.devnull)",
        "shard = i // 8\nif shard != self.shard:\n    self.shard, self.rows = shard, self.x[8 * shard :]\n"
        "return self.rows[i % 8], 0",
        "self.last = i",
        "return self.x[i].add(self.x[i]), 0",
        "rows = []; rows.append(i); count = 0; count += 1",
    ],
)
def test_what_is_kept_for_an_index_or_made_once(lines: str) -> None:
    assert told(item=lines) == (Strategy.SHARDED, [])


PADDED = SCRIPT.replace(
    "class Noise:",
    """def padded(x, n):
    {helper}
    return pad


class Noise:""",
).replace("self.transform = Noise()", "self.transform, self.first = Noise(), padded(self.x[0], 4)")
CALLED = "return padded(self.x[i], 4), self.y[i]"


@pytest.mark.parametrize(
    "made",
    [
        "pad = torch.zeros(n)\n    pad[: x.shape[0]] = x",
        "pad = torch.zeros(n)\n    pad[0] += x[0]",
        "pad = torch.zeros(n)\n    pad.add_(x)",
        "rows = list(x)\n    rows.append(x)\n    pad = torch.stack(rows).sum(0)",
        "rows = []\n    for _ in range(2):\n        rows.append(x)\n    pad = torch.stack(rows).sum(0)",
        "kept = {}\n    kept['a'] = x\n    pad = kept['a']",
        "rows = [0 * x for _ in range(2)]\n    rows[0] += x\n    pad = rows[0]",
    ],
)
def test_what_is_made_anew_in_each_call(made: str) -> None:
    """Also of a function that is called when the data set is made."""
    assert told(item=CALLED, helper=made, text=PADDED) == (Strategy.SHARDED, [])


@pytest.mark.parametrize(
    ("made", "place"),
    [
        ("pad = kept\n    pad[: x.shape[0]] += x", "pad[: x.shape[0]] += x"),
        ("pad = torch.zeros(n) if n > 4 else kept\n    pad[: x.shape[0]] += x", "pad[: x.shape[0]] += x"),
        ("global kept\n    kept[: x.shape[0]] += x\n    pad = kept * 1", "kept[: x.shape[0]] += x"),
    ],
)
def test_what_is_there_before_a_call(made: str, place: str) -> None:
    text = PADDED.replace("def padded(", "kept = torch.zeros(4)\n\n\ndef padded(")
    assert told(item=CALLED, helper=made, text=text) == (Strategy.SHARED, [place])


def test_a_method_that_sets_what_another_one_reads() -> None:
    item, line = "before = self.last\nself._keep(i)\nreturn self.x[i] + (before or 0), 0", "self.last = i"
    text = SCRIPT.replace("def _count", "def _keep(self, i):\n        self.last = i\n\n    def _count")
    assert told(item=item, text=text) == (Strategy.SHARED, [line])
    item = "self._keep(i)\nreturn self._of_last()"
    text = text.replace("def _count", "def _of_last(self):\n        return self.x[self.last], 0\n\n    def _count")
    assert told(item=item, text=text) == (Strategy.SHARDED, [])
    item = "rows = self._of_last()\nself._keep(i)\nreturn rows"
    assert told(item=item, text=text) == (Strategy.SHARED, [line])


def test_what_the_training_loop_reads() -> None:
    text = SCRIPT.replace("    print(epoch)", "    print(epoch, loader.dataset.last)")
    assert told(item="self.last = i", text=text) == (Strategy.SHARED, ["self.last = i"])


@pytest.mark.parametrize(
    ("item", "line"),
    [
        ("seen = self.seen\nseen.append(i)", "seen.append(i)"),
        ("hits = self.hits\nhits[i] += 1", "hits[i] += 1"),
        ("note(self, i)", "samples.seen.append(row)"),
        ("add(self.seen, i)", "rows.append(row)"),
        ("setattr(self, 'last', i)", "setattr(self, 'last', i)"),
        ("i = random.choice(list(self.cache) or [i])\nself.cache[i] = self.x[i]", "self.cache[i] = self.x[i]"),
    ],
)
def test_another_name_of_what_is_kept(item: str, line: str) -> None:
    functions = (
        "def note(samples, row):\n    samples.seen.append(row)\n\n\ndef add(rows, row):\n    rows.append(row)\n\n\n"
    )
    assert told(item=item, text=functions + SCRIPT) == (Strategy.SHARED, [line])


@pytest.mark.parametrize(
    "item",
    [
        "cache = self.cache\nif i not in cache:\n    cache[i] = self.x[i]\nreturn cache[i], 0",
        "if self.cache.get(i) is None:\n    self.cache[i] = self.x[i]\nreturn self.cache[i], 0",
        "rows = self.seen or [0]\nreturn pick(rows, i)",
        "self._count()\nreturn self.x[i], self.calls",
    ],
)
def test_other_names_of_what_is_the_same_for_all(item: str) -> None:
    text = "def pick(rows, i):\n    return rows[i % len(rows)]\n\n\n" + SCRIPT
    assert told(item=item, helper="self.calls = 1", text=text) == (Strategy.SHARDED, [])


CACHED = "if i not in self.cache:\n    self.cache[i] = self.x[i] * 2\nreturn self.cache[i], 0"


@pytest.mark.parametrize(
    ("after", "strategy"),
    [
        ("print(len(loader.dataset.cache))", Strategy.SHARED),
        ("print(sorted(loader.dataset.cache))", Strategy.SHARED),
        ("loader.dataset.cache.clear()", Strategy.SHARDED),
        ("loader.dataset.cache = {{}}", Strategy.SHARDED),
    ],
)
def test_a_cache_that_somebody_else_looks_into(after: str, strategy: Strategy) -> None:
    """It has as many entries on a rank as that was asked for."""
    rung, lines = told(item=CACHED, text=SCRIPT.replace("    print(epoch)\n", f"    print(epoch)\n    {after}\n"))
    assert rung is strategy
    assert lines == (["self.cache[i] = self.x[i] * 2"] if strategy is Strategy.SHARED else [])
