"""Programs that are deeper than Python's own limit, and what a conversion leaves behind."""

from __future__ import annotations

import gc
import sys

import pytest
from distify_codemods import Outcome, SourceError, SourceFile, convert

from tests.rules.scripts import script


def none(importing: str, name: str, level: int) -> SourceFile | None:
    return None


def test_a_long_sum_is_followed_and_rewritten() -> None:
    source = script(setup=f"total = {' + '.join('1' for _ in range(600))}\n")
    conversion = convert(SourceFile("train.py", source.encode()), none)
    assert conversion.outcome is Outcome.CONVERTED
    [new] = conversion.files
    assert b" + ".join([b"1"] * 600) in new.after


def test_a_long_chain_of_imports_is_followed() -> None:
    def chain(importing: str, name: str, level: int) -> SourceFile | None:
        if not name.startswith("part"):
            return None
        number = int(name.removeprefix("part"))
        text = (
            f"from part{number + 1} import model\n"
            if number < 250
            else "from torch import nn\nmodel = nn.Linear(4, 1)\n"
        )
        return SourceFile(f"{name}.py", text.encode())

    source = script(model="from part0 import model\n")
    conversion = convert(SourceFile("train.py", source.encode()), chain)
    assert conversion.outcome is Outcome.CONVERTED
    assert b"model = DistributedDataParallel(model" in conversion.files[0].after


def test_what_is_deeper_than_that_is_one_clear_error() -> None:
    source = script(setup=f"total = {' + '.join('1' for _ in range(4000))}\n")
    with pytest.raises(SourceError, match="too deeply"):
        convert(SourceFile("train.py", source.encode()), none)


def test_limits_are_put_back() -> None:
    before = gc.get_threshold(), sys.getrecursionlimit()
    convert(SourceFile("train.py", script().encode()), none)
    with pytest.raises(SourceError):
        convert(SourceFile("train.py", b"("), none)
    assert (gc.get_threshold(), sys.getrecursionlimit()) == before
