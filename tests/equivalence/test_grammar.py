"""Programs drawn from a grammar: what is inserted never breaks one, and its ranks follow one process.

More of them: `DISTIFY_PROGRAMS=100 pytest tests/equivalence/test_grammar.py`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from distify_codemods import Level, Options, Outcome, SourceFile, convert

from tests.equivalence.grammar import SHOWN, Program, program
from tests.equivalence.grammar_effects import EFFECTS
from tests.equivalence.harness import assert_equivalent, run_converted, run_original
from tests.grid import some

PROGRAMS = int(os.environ.get("DISTIFY_PROGRAMS", "3"))
#: What broke once: a penalty on all parameters, of a model that leaves some of them out of its forward pass.
TEXTS = frozenset([".txt", ".csv", ".json", ".log", ""])
SEEDS = sorted({*range(PROGRAMS), 41})


def texts_in(folder: Path) -> dict[str, str]:
    """By path, in which a time is left out; what is no text counts by its name alone."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    named = {re.sub(r"\d{12,}", "TIME", str(path.relative_to(folder))): path for path in found}
    assert len(named) == len(found), "names that only time tells apart"
    return {name: path.read_text() if path.suffix in TEXTS else "" for name, path in named.items()}


@pytest.mark.parametrize("strategy", ["auto", "shared"])
@pytest.mark.parametrize("seed", SEEDS)
def test_programs(seed: int, strategy: str, tmp_path: Path) -> None:
    assert_follows(program(seed), strategy, tmp_path)


#: Names by the time, files that grow, logs, what is read again, moved or removed, other processes, streams.
KEPT = (
    "a folder by the time", "a table", "arrays", "a logger", "a second screen", "a cache", "what is removed first",
    "checkpoints that replace each other", "the newest", "another process", "at exit", "a lock",
)  # fmt: skip


@pytest.mark.parametrize("beside", some(EFFECTS, KEPT))
def test_what_is_done_beside_training(beside: str, tmp_path: Path) -> None:
    assert_follows(program(list(EFFECTS).index(beside), beside=beside, figures="counts"), "auto", tmp_path)


def assert_follows(drawn: Program, strategy: str, tmp_path: Path) -> None:
    original, converted = tmp_path / "train.py", tmp_path / "train_dist.py"
    original.write_text(drawn.text)
    conversion = convert(SourceFile("train.py", drawn.text.encode()), lambda *_: None, Options(strategy=strategy))
    assert conversion.outcome is Outcome.CONVERTED, (str(drawn), [str(one) for one in conversion.of(Level.BLOCKING)])
    converted.write_bytes(conversion.files[0].after)
    wanted = run_original(original, [], tmp_path / "base")
    ranks = run_converted(converted, [], 2, tmp_path / "dist")
    assert_equivalent(wanted, ranks)
    assert not any(rank.written for rank in ranks[1:]), str(drawn)
    assert texts_in(tmp_path / "dist") == texts_in(tmp_path / "base"), str(drawn)
    if strategy == "shared" or drawn.choices["figures"] not in SHOWN:
        assert ranks[0].lines == wanted.lines, str(drawn)
