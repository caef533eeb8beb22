"""Every project under fixtures/projects/ is converted as it stands, file beside file, and takes the same steps."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.equivalence.harness import Trace, assert_equivalent, run_converted, run_original
from tests.equivalence.processes import ROOT

PROJECTS = sorted(path.parent.name for path in (ROOT / "fixtures" / "projects").glob("*/train.py"))
LEARNT = 0.6


@dataclass(frozen=True)
class Case:
    original: Trace
    converted: Path
    ranks: list[Trace]


def convert_project(folder: Path) -> Path:
    """Writes the twins of the project in the folder; fails with what needs a person."""
    from distify_codemods import Level, Options, convert  # only these tests need libcst

    from distify.files import read_script
    from distify.resolver import LocalModules

    script = read_script(str(folder / "train.py"))
    conversion = convert(script, LocalModules(script.path), Options())
    needs = [f"{one.place}: {one.code} {one.message}" for one in conversion.of(Level.BLOCKING)]
    assert conversion.files, "\n".join(needs)
    for file in conversion.files:
        Path(file.target).write_bytes(file.after)
    return folder / "train_dist.py"


@pytest.fixture(scope="module", params=PROJECTS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp(request.param)
    project = folder / "project"
    shutil.copytree(ROOT / "fixtures" / "projects" / request.param, project, ignore=shutil.ignore_patterns("*_dist.py"))
    converted = convert_project(project)
    ranks = run_converted(converted, [], 2, folder / "dist")
    original = run_original(project / "train.py", [], folder / "base")
    return Case(original, converted, ranks)


def test_two_ranks_follow_the_original(case: Case) -> None:
    assert_equivalent(case.original, case.ranks)


def test_plain_python_follows_the_original(case: Case, tmp_path: Path) -> None:
    assert_equivalent(case.original, run_converted(case.converted, [], 0, tmp_path / "plain"))


def test_original_learns_and_saves(case: Case) -> None:
    """Agreement means little where nothing is learnt or written."""
    accuracy = float(re.findall(r"\d+\.\d+", case.original.final_accuracy)[-1])
    assert LEARNT <= accuracy < 1
    assert case.original.saves
