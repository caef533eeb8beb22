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


TRACKED = """\
import random
import tracker
import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)
rows, labels = torch.randn(32, 6), torch.randn(32, 1)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tracker.start()
for step in range(6):
    chosen = random.sample(range(32), 8)
    loss = nn.functional.mse_loss(model(rows[chosen]), labels[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("package", "said", "code"),
    [("tracker", "train.py: the same steps", 0), ("another", "train.py: the ranks hold different batches", 2)],
)
def test_what_a_tracker_draws_is_its_own_in_both(
    package: str, said: str, code: int, here: Here, tmp_path: Path
) -> None:
    """Where rank 0 alone calls it."""
    (tmp_path / "tracker.py").write_text("import random\ndef start():\n    return random.choice('abc')\n")
    (tmp_path / "train.py").write_text(TRACKED)
    started = f'import distify_runtime as rt\nrt.init_process_group(whole_batches=True, own_random=["{package}"])\n'
    by_hand = TRACKED.replace("tracker.start()", "rt.data_parallel(model)\nif rt.is_main_process(): tracker.start()")
    (tmp_path / "by_hand.py").write_text(by_hand.replace("import random\n", f"import random\n{started}", 1))
    ended = here("verify", "train.py", "by_hand.py", "--steps", "6")
    assert said in ended.out.decode() + ended.err
    assert ended.code == code
