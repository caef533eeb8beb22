"""Batches that come to the training loop through a comprehension, `map`, `filter` or a function that yields them."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import LOOP, conversion_of, script

IMPORTS = """\
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
"""
GOOD = """\
def good(batches):
    for x, y in batches:
        {}
            yield x * 0.5, y
"""
SET_EPOCH = "    loader.sampler.set_epoch(epoch)\n"


def training_over(batches: str, setup: str = "", before: str = "") -> str:
    assert "in loader:" in LOOP
    loop = LOOP.replace("    for ", before + "    for ", 1).replace("in loader:", f"in {batches}:")
    return script(imports=IMPORTS, setup=setup, loop=loop)


def converted(before: str) -> tuple[Strategy | None, str]:
    conversion = conversion_of(before, options=Options())
    assert not conversion.of(Level.BLOCKING)
    return conversion.strategy, conversion.files[0].after.decode()


@pytest.mark.parametrize(
    "batches",
    [
        "((a * 0.5, b) for a, b in loader)",
        "(batch for i, batch in enumerate(loader) if i % 2)",
        "map(tuple, loader)",
        "filter(lambda batch: True, loader)",
        "(pair for pair, _ in zip(loader, range(3)))",
        "map(tuple, (batch for batch in loader))",
    ],
)
def test_what_hands_on_the_batches_is_reshuffled_like_the_loader(batches: str) -> None:
    strategy, after = converted(training_over(batches))
    assert strategy is Strategy.SHARDED
    assert f"{SET_EPOCH}    for " in after
    assert f"in {batches}:" in after  # and no `rt.whole_loader`


def test_what_has_a_name() -> None:
    halves = "    halves = ((a * 0.5, b) for a, b in loader)\n"
    _, after = converted(training_over("halves", before=halves))
    assert SET_EPOCH + halves in after


@pytest.mark.parametrize(
    ("test", "alike"),
    [
        ("x.mean() > 0", "rt.all_reduce_mean(x.mean()) > 0"),
        ("time.time() % 2 < 1", "rt.from_main_process(time.time() % 2 < 1)"),
    ],
)
def test_ranks_agree_on_which_are_handed_on(test: str, alike: str) -> None:
    batches = "((x, y) for x, y in loader if {})"
    assert batches.format(alike) in converted(training_over(batches.format(test)))[1]
    yielding = GOOD.format(f"if {test}:")
    assert f"if {alike}:" in converted(training_over("good(loader)", yielding))[1]


@pytest.mark.parametrize("leaving", ["if x.mean() < 0:\n            return", "if x.mean() < 0:\n            continue"])
def test_and_on_when_to_leave(leaving: str) -> None:
    text = GOOD.format(leaving + "\n        if True:")
    assert "if rt.all_reduce_mean(x.mean()) < 0:" in converted(training_over("good(loader)", text))[1]


@pytest.mark.parametrize(
    ("batches", "setup"),
    [
        ("(batch for batch in loader if len(batch[0]) == 4)", ""),
        ("filter(lambda batch: len(batch[0]) == 4, loader)", ""),
        ("filter(lambda batch: batch[0].mean() > 0, loader)", ""),
        ("good(loader)", GOOD.format("if len(x) == 4:")),
        ("sorted(loader, key=lambda batch: batch[0].sum().item())", ""),
        ("[batch for batch in loader]", ""),
        ("list(loader)", ""),
    ],
)
def test_what_each_rank_would_choose_or_order_by_its_share(batches: str, setup: str) -> None:
    strategy, after = converted(training_over(batches, setup))
    assert strategy is Strategy.SHARED
    assert f"in {batches}:" in after


@pytest.mark.parametrize(
    "read", ["[x.mean() for x, y in {}]", "list(map(len, {}))", "[x for x, _ in {} if len(x) > 1]"]
)
def test_what_only_reads_the_loader_sees_all_of_it(read: str) -> None:
    seen = f"    print({read})\n"
    strategy, after = converted(training_over("loader", before=seen.format("loader")))
    assert strategy is Strategy.SHARDED
    assert seen.format("rt.whole_loader(loader)") in after


def test_a_function_that_hands_on_for_both_shows_no_share() -> None:
    setup = "def halves(batches):\n    return ((a * 0.5, b) for a, b in batches)\n"
    seen = "    print(sum(a.sum().item() for a, b in halves(loader)))\n"
    assert converted(training_over("halves(loader)", setup, seen))[0] is Strategy.SHARED
    assert converted(training_over("halves(loader)", setup))[0] is Strategy.SHARDED
