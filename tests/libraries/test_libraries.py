"""Scripts that use real libraries, under fixtures/libraries/, take the same steps on two ranks as in one process.

`make test-libraries` installs the libraries into an environment of their own, and runs these.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.equivalence.conversions import converted
from tests.equivalence.harness import assert_equivalent, run_converted, run_original
from tests.equivalence.processes import ROOT

pytestmark = pytest.mark.libraries

SCRIPTS = sorted((ROOT / "fixtures" / "libraries").glob("*/train.py"))
_SCRIPTS = shutil.ignore_patterns("train.py", "expected_ddp.py", "__pycache__")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.parent.name)
def test_two_ranks_follow_the_original(script: Path, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "ranks", tmp_path / "one"):  # settings and the like
        shutil.copytree(script.parent, folder, ignore=_SCRIPTS, dirs_exist_ok=True)
    ranks = run_converted(converted(script.read_text(encoding="utf-8"), tmp_path), [], 2, tmp_path / "ranks")
    assert_equivalent(run_original(script, [], tmp_path / "one"), ranks)
