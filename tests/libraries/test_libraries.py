"""Scripts that use real libraries, under fixtures/libraries/, take the same steps on two ranks as in one process.

`make test-libraries` installs the libraries into an environment of their own, and runs these.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.equivalence.conversions import converted
from tests.equivalence.harness import assert_equivalent, run_converted, run_original
from tests.equivalence.processes import ROOT

pytestmark = pytest.mark.libraries

SCRIPTS = sorted((ROOT / "fixtures" / "libraries").glob("*/train.py"))
_SCRIPTS = shutil.ignore_patterns("train.py", "expected_ddp.py", "__pycache__")


@pytest.fixture
def folder() -> Iterator[Path]:
    """None of pytest's, whose paths have the word `test`: libraries print them, and it speaks of evaluations."""
    with tempfile.TemporaryDirectory(prefix="libraries-") as made:
        yield Path(made)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.parent.name)
def test_two_ranks_follow_the_original(script: Path, folder: Path) -> None:
    for place in (folder, folder / "ranks", folder / "one"):  # settings and the like
        shutil.copytree(script.parent, place, ignore=_SCRIPTS, dirs_exist_ok=True)
    ranks = run_converted(converted(script.read_text(encoding="utf-8"), folder), [], 2, folder / "ranks")
    original = shutil.copy(script, folder)  # a library may keep what it sees of the repository that a script is in
    assert_equivalent(run_original(Path(original), [], folder / "one"), ranks)
