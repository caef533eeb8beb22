"""What somebody has written with Horovod alone is proved, and what is wrong with it is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import ROOT, Here

from tests.equivalence.horovod_ranks import needs_horovod

MISTAKES = ROOT / "benchmarks" / "mistakes"


@needs_horovod
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", "train.py: the same steps"),
        ("torch.manual_seed(rank)\n", "", "ranks 0 and 1 draw the same dropout"),
    ],
)
def test_by_hand_with_horovod(old: str, new: str, said: str, here: Here, tmp_path: Path) -> None:
    original = (MISTAKES / "train.py").read_text().replace("BatchNorm1d", "LayerNorm")
    (tmp_path / "train.py").write_text(original)
    (tmp_path / "by_hand.py").write_text((MISTAKES / "by_horovod.py").read_text().replace(old, new))
    ended = here("verify", "train.py", "by_hand.py", "--steps", "6")
    assert said in ended.out.decode(), ended.out.decode() + ended.err
    assert ended.code == (1 if old else 0)
