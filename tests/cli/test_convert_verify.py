"""`convert --verify` writes what is proved: the first way of sharing that takes the same steps as one process."""

from __future__ import annotations

from pathlib import Path

from command_line import Here

MIXED = b"""
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 8), torch.randn(64, 4))
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(int(sys.argv[1])):
    for x, y in loader:
        x = (x + x[torch.randperm(len(x))]) / 2  # with another of the whole batch
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_where_sharded_data_part_from_the_original_forward_passes_are_shared(here: Here, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(MIXED)
    done = here("convert", "train.py", "--yes", "--verify", "--", "2")
    assert done.code == 0
    assert done.out.count(b"conversion converted here, on 2 ranks") == 2
    assert b"train.py: differs from step 1 on" in done.out
    assert "sharded data part from the original: shared forward passes are tried\n" in done.err
    assert b"train.py: the same steps" in done.out
    assert "rt.data_parallel(model)" in (tmp_path / "train_dist.py").read_text()
    assert "  GROUP01 process group (proved: process group)\n" in done.err
    assert "  SHARE01 shared forward passes (proved: parameters)\n" in done.err


def test_what_is_not_proved_is_not_written(here: Here, tmp_path: Path) -> None:
    """All ranks and one process draw other samples from a clock."""
    by_clock = MIXED.replace(b"import sys\n", b"import sys\nimport time\n").replace(
        b"x[torch.randperm(len(x))]", b"time.time_ns() % 9973"
    )
    (tmp_path / "train.py").write_bytes(by_clock)
    done = here("convert", "train.py", "--yes", "--verify", "--", "2")
    assert done.code == 1
    assert "train.py: no conversion was proved to take the same steps; nothing was written\n" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_arguments_are_for_what_is_run(here: Here, script: Path) -> None:
    assert "what stands behind -- is for --verify" in here("convert", "train.py", "--yes", "--", "2").err
    for flags in (("--diff",), ("--check",), ("--scale", "linear")):
        done = here("convert", "train.py", "--verify", *flags)
        assert done.code == 2
        assert "--verify is for what is written" in done.err
