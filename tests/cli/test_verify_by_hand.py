"""What somebody has written by hand is proved, and what is wrong with it is told."""

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


@pytest.mark.parametrize(
    ("old", "new", "words", "said"),
    [
        ("", "", [], "train.py: the same steps"),
        ("", "", ["--steps", "0"], "train.py: the same steps"),
        ("destroy_process_group()", "get_rank()", ["--steps", "0"], "without destroying its process group"),
    ],
)
def test_by_hand_with_ddp(old: str, new: str, words: list[str], said: str, here: Here, tmp_path: Path) -> None:
    """A run that is ended after the steps that were asked for does not come to its last lines."""
    original = (MISTAKES / "train.py").read_text().replace("BatchNorm1d", "LayerNorm")
    (tmp_path / "train.py").write_text(original)
    (tmp_path / "by_hand.py").write_text((MISTAKES / "by_hand.py").read_text().replace(old, new))
    ended = here("verify", "train.py", "by_hand.py", *words)
    assert said in ended.out.decode(), ended.out.decode() + ended.err
    assert ended.code == (1 if old else 0)
