"""Every fixture, converted for Horovod, takes the same steps on two ranks as before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equivalence.harness import assert_equivalent, run_converted, run_original
from tests.equivalence.horovod_ranks import needs_horovod
from tests.equivalence.processes import ROOT
from tests.equivalence.test_fixtures import FIXTURES, convert_fixture
from tests.grid import some

pytestmark = needs_horovod


#: A script with a command line, two networks, a step without an optimizer, phases of training and evaluation.
KEPT = ("argparse_main", "own_updates", "phases", "two_networks")


@pytest.mark.parametrize("name", some(FIXTURES, KEPT))
def test_two_ranks_follow_the_original(name: str, tmp_path: Path) -> None:
    converted = convert_fixture(name, tmp_path, backend="horovod")
    ranks = run_converted(converted, [], 2, tmp_path / "dist", horovod=True)
    script = ROOT / "fixtures" / name / "train.py"
    assert_equivalent(run_original(script, [], tmp_path / "base"), ranks)
