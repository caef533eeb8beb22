"""Every script under fixtures/ is converted as it stands, and takes the same steps on two ranks as before."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.equivalence.harness import Trace, assert_equivalent, meetings, run_converted, run_original
from tests.equivalence.processes import ROOT, run_ranks
from tests.gpus import ON_GPUS
from tests.grid import slow, some

FIXTURES = sorted(path.parent.name for path in (ROOT / "fixtures").glob("*/train.py"))
if ON_GPUS:
    FIXTURES.remove("globals")  # whose checkpoints have `module.` where nn.DataParallel is there, with CUDA
#: Of these `make test` runs the conversion by plain python, too.
PLAIN = ("argparse_main", "flat", "globals", "stream", "two_networks")
LEARNT = 0.6  # least accuracy; the scripts have three to six classes
RUNS_IN_A_ROW = 6  # of which 9 in 100 series hide a race that one run in three shows; benchmarks/teardown.py has more


@dataclass(frozen=True)
class Case:
    name: str
    original: Trace
    converted: Path
    ranks: list[Trace]
    meetings: list[list[int]]  # of each rank, for figures, between the steps


def convert_fixture(name: str, folder: Path, **options: Any) -> Path:
    """Writes the conversion of fixtures/<name>/train.py into the folder; fails with what needs a person."""
    from distify_codemods import Level, Options, Outcome, SourceFile, convert  # only these tests need libcst

    def no_modules(importer: str, module: str, level: int) -> SourceFile | None:
        return None

    data = (ROOT / "fixtures" / name / "train.py").read_bytes()
    conversion = convert(SourceFile("train.py", data), no_modules, Options(**options))
    needs = [f"{one.place}: {one.code} {one.message}" for one in conversion.of(Level.BLOCKING)]
    assert conversion.outcome is Outcome.CONVERTED, "\n".join(needs)
    (new_file,) = conversion.files
    path = folder / "train_dist.py"
    path.write_bytes(new_file.after)
    return path


@pytest.fixture(scope="module", params=FIXTURES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp(request.param)
    converted = convert_fixture(request.param, folder)
    ranks = run_converted(converted, [], 2, folder / "dist", counted=True)
    script = ROOT / "fixtures" / request.param / "train.py"
    original = run_original(script, [], folder / "base")
    return Case(request.param, original, converted, ranks, meetings(folder / "dist"))


def test_two_ranks_follow_the_original(case: Case) -> None:
    assert_equivalent(case.original, case.ranks)


def test_ranks_meet_for_figures_once_a_step_at_most(case: Case) -> None:
    """Beside gradients and BatchNorm; but behind an epoch, that is of five steps or more, they also evaluate."""
    assert case.meetings[0] == case.meetings[1]
    between = case.meetings[0][1:-1]
    assert 5 * sum(one > 1 for one in between) <= len(between)


@pytest.mark.parametrize("case", some(FIXTURES, PLAIN), indirect=True)
def test_plain_python_follows_the_original(case: Case, tmp_path: Path) -> None:
    assert_equivalent(case.original, run_converted(case.converted, [], 0, tmp_path / "plain"))


def test_original_learns_and_saves(case: Case) -> None:
    """Agreement means little where nothing is learnt or written."""
    number, percent = re.findall(r"(\d+\.\d+)\s*(%?)", case.original.final_accuracy)[-1]
    accuracy = float(number) / (100 if percent else 1)
    assert LEARNT <= accuracy < 1
    assert case.original.saves


def test_resumed_run_follows_the_original(tmp_path: Path) -> None:
    script = ROOT / "fixtures" / "argparse_main" / "train.py"
    run_original(script, ["--epochs", "1", "--save-dir", "."], tmp_path / "first")
    args = ["--epochs", "3", "--resume", str(tmp_path / "first" / "best.pt")]
    ranks = run_converted(convert_fixture("argparse_main", tmp_path), args, 2, tmp_path / "dist")
    assert [one.epoch for one in ranks[0].passes] == [2, 3]
    assert_equivalent(run_original(script, args, tmp_path / "base"), ranks)


@slow
def test_many_runs_in_a_row_end_well(tmp_path: Path) -> None:
    """A teardown that races with the interpreter's end aborts about one run in three: none may.

    Each rank is a fresh process, because ranks forked from one that has imported torch do not show the race;
    and the model lives at module level, because a function's locals are gone before the interpreter ends.
    """
    script = convert_fixture("flat", tmp_path)
    text = script.read_text(encoding="utf-8")
    assert "num_epochs = 3" in text
    script.write_text(text.replace("num_epochs = 3", "num_epochs = 1"), encoding="utf-8")
    for number in range(RUNS_IN_A_ROW):
        outputs = run_ranks([str(script)], 2, tmp_path / "work", tmp_path / f"{number}.logs")
        assert "Accuracy of the network on 101 test images" in outputs[0]
