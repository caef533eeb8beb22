"""`--strategy shared`: every rank runs the script as it stands, shares its forward passes, and follows one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from distify_codemods import Level, Options, Outcome, SourceFile, convert

from tests.equivalence.harness import assert_equivalent, run_converted, run_original
from tests.equivalence.processes import ROOT
from tests.equivalence.test_fixtures import FIXTURES


def converted(source: bytes, folder: Path) -> Path:
    conversion = convert(SourceFile("train.py", source), lambda *_: None, Options(strategy="shared"))
    assert conversion.outcome is Outcome.CONVERTED, [str(one) for one in conversion.of(Level.BLOCKING)]
    path = folder / "train_dist.py"
    path.write_bytes(conversion.files[0].after)
    assert b"rt.data_parallel(" in conversion.files[0].after
    return path


def assert_ranks_follow(source: bytes, folder: Path, ranks: int = 2) -> None:
    original = folder / "train.py"
    original.write_bytes(source)
    traces = run_converted(converted(source, folder), [], ranks, folder / "dist")
    assert_equivalent(run_original(original, [], folder / "base"), traces)


@pytest.mark.parametrize("name", FIXTURES)
def test_fixtures(name: str, tmp_path: Path) -> None:
    assert_ranks_follow((ROOT / "fixtures" / name / "train.py").read_bytes(), tmp_path)
