"""Scripts that use real libraries, under fixtures/libraries/, take the same steps on two ranks as in one process.

`make test-libraries` installs the libraries into an environment of their own, and runs these.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equivalence.conversions import converted
from tests.equivalence.harness import assert_equivalent, run_converted, run_original
from tests.equivalence.processes import ROOT

pytestmark = pytest.mark.libraries

SCRIPTS = sorted((ROOT / "fixtures" / "libraries").glob("*/train.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.parent.name)
def test_two_ranks_follow_the_original(script: Path, tmp_path: Path) -> None:
    ranks = run_converted(converted(script.read_text(encoding="utf-8"), tmp_path), [], 2, tmp_path / "ranks")
    assert_equivalent(run_original(script, [], tmp_path / "one"), ranks)
