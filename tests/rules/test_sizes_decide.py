"""DECIDE01: a test of how many samples there are means the whole batch, wherever batches are cut, handed on or used."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import LOOP, conversion_of, converted, indented, script

STEP = LOOP[LOOP.index("        loss = ") :]


def loop_over(batches: str) -> str:
    return f"for epoch in range(3):\n    for x, y in {batches}:\n{STEP}"


def by_hand(lines: str) -> str:
    """Cut out of tensors, in the training loop."""
    cut = "        x, y = inputs[order[i : i + size]], targets[order[i : i + size]]\n"
    loop = "seen = 0\nfor epoch in range(3):\n    order = torch.randperm(60)\n    for i in range(0, 60, size):\n"
    setup = "size = 8\ninputs, targets = torch.randn(60, 4), torch.randn(60, 1)\n"
    return script(setup=setup, data="", loader="", loop=loop + cut + indented(lines, " " * 8) + STEP)


def by_a_generator(lines: str, loop: str | None = None) -> str:
    setup = "size = 8\n\n\ndef given(loader):\n    seen = 0\n    for x, y in loader:\n"
    return script(setup=f"{setup}{indented(lines, ' ' * 8)}\n\n", loop=loop or loop_over("given(loader)"))


def by_own_loader(method: str) -> str:
    own = "class Loader:\n    def __init__(self, inner):\n        self.inner, self.size = inner, 8\n\n"
    return script(setup=own + indented(method) + "\n\n", loop=loop_over("Loader(loader)"))


def in_a_function(lines: str) -> str:
    setup = "size = 8\n\n\ndef learn(x, y):\n" + indented(lines) + "\n\n"
    return script(setup=setup, loop="for epoch in range(3):\n    for x, y in loader:\n        learn(x, y)\n")


def strategy(before: str) -> Strategy | None:
    conversion = conversion_of(before, options=Options())
    told = [one.message for one in conversion.of(Level.ADVICE) if one.code == "SHARE01"]
    shared = conversion.strategy is Strategy.SHARED
    assert shared == any("depends on the training loss or batch of one rank" in one for one in told)
    return conversion.strategy


@pytest.mark.parametrize(
    "lines",
    [
        "if x.size(0) < size:\n    continue\n",
        "if len(x) < 2:\n    break\n",
        "if x.shape[0] != size:\n    continue\n",
        "rows, width = x.shape\nfull = rows == size\nif not full:\n    continue\n",
        "rows, width = x.shape[:2]\nif rows < size:\n    continue\n",
        "if x.shape != (size, 4):\n    continue\n",
        "if y.numel() < size:\n    continue\n",
        "if len(x[y[:, 0] > 0]) < 4:\n    continue\n",
        "seen += len(x)\nif seen > 100:\n    break\n",
        "seen += len(x)\noptimizer.param_groups[0]['lr'] = 1 / seen\n",
    ],
)
def test_of_a_batch_that_is_cut_by_hand(lines: str) -> None:
    assert strategy(by_hand(lines)) is Strategy.SHARED


@pytest.mark.parametrize(
    "lines",
    [
        "if len(x) == 0:\n    continue\n",
        "if not len(x):\n    continue\n",
        "if epoch and x.shape[0] == 0:\n    continue\n",
        "if x.size(1) > 3:\n    x = x[:, :4]\n",
        "rows, width = x.shape[:2]\nif width > 4:\n    x = x[:, :4]\n",
        "x = x.reshape(x.size(0), -1)\n",
        "if i + size > 60:\n    continue\n",
        "if len(x) != len(y):\n    raise ValueError\n",
    ],
)
def test_what_is_no_test_of_a_shares_size(lines: str) -> None:
    assert strategy(by_hand(lines)) is Strategy.SHARDED
    assert "rt.shard_batch(" in converted(by_hand(lines))


@pytest.mark.parametrize(
    "lines",
    [
        "if x.size(0) == size:\n    yield x, y\n",
        "if len(x) < size:\n    continue\nyield x, y\n",
        "if len(x) < size:\n    break\nyield x, y\n",
        "if len(x) < size:\n    return\nyield x, y\n",
        "yield x, y\nseen += len(x)\nif seen >= 32:\n    return\n",
        "if torch.isnan(x).sum() > 3:\n    continue\nyield x, y\n",
    ],
)
@pytest.mark.parametrize("begun_before", [False, True])
def test_of_a_batch_that_a_generator_hands_on(lines: str, begun_before: bool) -> None:
    ahead = f"batches = given(loader)\nfor x, y in batches:\n{STEP.replace('        ', '    ')}"
    assert strategy(by_a_generator(lines, ahead if begun_before else None)) is Strategy.SHARED


@pytest.mark.parametrize(
    "lines",
    [
        "yield x * 1.0, y\n",
        "if torch.isnan(x).any():\n    continue\nyield x, y\n",
        "if len(x) == 0:\n    continue\nyield x, y\n",
        "if x is None:\n    continue\nyield x, y\n",
        "if isinstance(x, list):\n    x = torch.stack(x)\nyield x, y\n",
        "seen += 1\nif seen > 4:\n    return\nyield x, y\n",
    ],
)
def test_what_hands_on_the_same_on_all_ranks(lines: str) -> None:
    assert strategy(by_a_generator(lines)) is Strategy.SHARDED


def test_one_generator_hands_on_what_another_does() -> None:
    full = "def full(batches):\n    for x, y in batches:\n        if len(x) == size:\n            yield x, y\n\n\n"
    whole = by_a_generator("yield x, y\n", full + loop_over("full(given(loader))"))
    assert strategy(whole) is Strategy.SHARED
    assert strategy(whole.replace("len(x) == size", "len(x)")) is Strategy.SHARDED


ITER = "def __iter__(self):\n    for x, y in self.inner:\n        {0}\n        yield x, y\n"
NEXT = """\
def __iter__(self):
    self.batches = iter(self.inner)
    return self

def __next__(self):
    while True:
        x, y = next(self.batches)
        if {0}:
            return x, y
"""


@pytest.mark.parametrize(
    ("method", "means_the_whole"),
    [
        (ITER.format("if len(x) < self.size: break"), True),
        (ITER.format("if len(x) != self.inner.batch_size: continue"), True),
        (ITER.format("x = x.float()"), False),
        (ITER.format("if not len(x): break"), False),
        (NEXT.format("len(x) == self.size"), True),
        (NEXT.format("len(x) > 0"), False),
    ],
)
def test_of_a_batch_that_an_own_loader_hands_on(method: str, means_the_whole: bool) -> None:
    assert strategy(by_own_loader(method)) is (Strategy.SHARED if means_the_whole else Strategy.SHARDED)


TRAINS = STEP.replace("        ", "")


@pytest.mark.parametrize(
    ("lines", "means_the_whole"),
    [
        (f"if x.shape[0] != size:\n    return None\n{TRAINS}", True),
        (f"if len(x) < size:\n    return\n{TRAINS}return loss\n", True),
        (f"if len(x) == 0:\n    return None\n{TRAINS}", False),
        (f"{TRAINS}if len(x) < size:\n    return None\nreturn loss\n", False),
        (f"{TRAINS}if loss.item() < 0.1:\n    return 'done'\n", False),
    ],
)
def test_of_a_batch_that_a_function_trains_on(lines: str, means_the_whole: bool) -> None:
    """What returns before a step leaves it out; what returns behind it does not."""
    assert strategy(in_a_function(lines)) is (Strategy.SHARED if means_the_whole else Strategy.SHARDED)


def test_a_mean_that_a_function_returns_by_is_that_of_all_ranks() -> None:
    before = in_a_function(TRAINS.replace("optimizer.step()", "if loss.item() > 9: return\noptimizer.step()"))
    assert "    if rt.all_reduce_mean(loss.item()) > 9: return\n" in converted(before)


@pytest.mark.parametrize(
    "way", ["if random.random() < 0.5: yield x, y\n", "if random.random() < 0.5: continue\nyield x, y\n"]
)
def test_rank_0_draws_which_batches_a_generator_hands_on(way: str) -> None:
    text = converted("import random\n" + by_a_generator(way))
    assert "        if rt.from_main_process(random.random() < 0.5): " in text
