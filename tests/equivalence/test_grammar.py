"""Programs drawn from a grammar: what is inserted never breaks one, and its ranks follow one process.

More of them: `DISTIFY_PROGRAMS=100 pytest tests/equivalence/test_grammar.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from distify_codemods import Level, Options, Outcome, SourceFile, convert

from tests.equivalence.grammar import SHOWN, program
from tests.equivalence.harness import assert_equivalent, run_converted, run_original

PROGRAMS = int(os.environ.get("DISTIFY_PROGRAMS", "8"))
#: What broke once: a penalty on all parameters, of a model that leaves some of them out of its forward pass.
SEEDS = sorted({*range(PROGRAMS), 41})


@pytest.mark.parametrize("strategy", ["auto", "shared"])
@pytest.mark.parametrize("seed", SEEDS)
def test_programs(seed: int, strategy: str, tmp_path: Path) -> None:
    drawn = program(seed)
    original, converted = tmp_path / "train.py", tmp_path / "train_dist.py"
    original.write_text(drawn.text)
    conversion = convert(SourceFile("train.py", drawn.text.encode()), lambda *_: None, Options(strategy=strategy))
    assert conversion.outcome is Outcome.CONVERTED, (str(drawn), [str(one) for one in conversion.of(Level.BLOCKING)])
    converted.write_bytes(conversion.files[0].after)
    wanted = run_original(original, [], tmp_path / "base")
    ranks = run_converted(converted, [], 2, tmp_path / "dist")
    assert_equivalent(wanted, ranks)
    if strategy == "shared" or drawn.choices["figures"] not in SHOWN:
        assert ranks[0].lines == wanted.lines, str(drawn)
