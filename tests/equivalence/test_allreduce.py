"""`--backend allreduce`: models left as they are, gradients averaged by lines, and the same steps as one process.

Buckets are made so small that gradients of these small models travel while the backward pass goes on.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from distify_codemods import Level, Options, Outcome, SourceFile, convert

from tests.equivalence import test_adversaries as adversaries
from tests.equivalence.harness import assert_equivalent, run_converted, run_original
from tests.equivalence.processes import ROOT
from tests.equivalence.test_steps import script
from tests.grid import some

FIXTURES = ("argparse_main", "drawn_batches", "own_updates", "phases", "two_networks", "written_out")
STEPS = (
    "every third turn and the last", "some parts in some turns", "a closure of a sum", "scaled and clipped",
    "an average and a target", "reentrant checkpoints", "another optimizer in mid-run", "frozen and thawed",
    "a step inside a step",
)  # fmt: skip
#: The others' gradients come about in the same ways; `test_steps.py` runs them with DistributedDataParallel.
KEPT = ("every third turn and the last", "a closure of a sum", "reentrant checkpoints", "a step inside a step")
IMPORT = b"import distify_runtime as rt\n"
EARLY = b"from distify_runtime import overlap\noverlap.SMALLEST_BUCKET = 64\n"


def converted(source: bytes, folder: Path) -> Path:
    conversion = convert(SourceFile("train.py", source), lambda *_: None, Options(backend="allreduce"))
    assert conversion.outcome is Outcome.CONVERTED, [str(one) for one in conversion.of(Level.BLOCKING)]
    text = conversion.files[0].after
    assert b"DistributedDataParallel" not in text
    assert text.count(IMPORT) == 1
    path = folder / "train_dist.py"
    path.write_bytes(text.replace(IMPORT, IMPORT + EARLY))
    return path


def assert_two_ranks_follow(source: bytes, folder: Path) -> None:
    original = folder / "train.py"
    original.write_bytes(source)
    ranks = run_converted(converted(source, folder), [], 2, folder / "dist")
    assert_equivalent(run_original(original, [], folder / "base"), ranks)


@pytest.mark.parametrize("name", some(FIXTURES, ("argparse_main", "own_updates")))
def test_fixtures(name: str, tmp_path: Path) -> None:
    assert_two_ranks_follow((ROOT / "fixtures" / name / "train.py").read_bytes(), tmp_path)


@pytest.mark.parametrize("name", some(STEPS, KEPT))
def test_steps(name: str, tmp_path: Path) -> None:
    assert_two_ranks_follow(script(name).encode(), tmp_path)


@pytest.mark.parametrize("name", adversaries.BODIES)
def test_two_networks_against_each_other(name: str, tmp_path: Path) -> None:
    assert_two_ranks_follow(adversaries.script(name).encode(), tmp_path)
