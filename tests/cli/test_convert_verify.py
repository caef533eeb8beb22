"""`convert --verify` writes what is proved: the first way of sharing that takes the same steps as one process."""

from __future__ import annotations

from pathlib import Path

import pytest
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


NOISE = """\
import torch
from torch import nn

torch.manual_seed(0)
rows = torch.randn(64, 6)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x):
        return x + self.layer(x) * (torch.rand(x.shape[0], 1) < 0.5)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x = rows[torch.randperm(64)[:8]]
    loss = (model(x) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("strategy", ["sharded", "shared"])
def test_noise_in_a_model_whose_batches_no_loader_makes(strategy: str, here: Here, tmp_path: Path) -> None:
    """It is a rank's own; what chooses the batches is drawn alike."""
    (tmp_path / "train.py").write_text(NOISE)
    here("convert", "train.py", "--yes", "--strategy", strategy)
    ended = here("verify", "train.py", "train_dist.py")
    assert "train.py: the same steps" in ended.out.decode(), ended.out.decode() + ended.err
