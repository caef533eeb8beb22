"""Half precision: each rank rounds its share of a batch, and the average of two ranks' gradients is one of halves."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from tests.equivalence.conversions import converted
from tests.equivalence.processes import run_ranks

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(48, 4), torch.randn(48, 1))
loader = DataLoader(data, batch_size=8)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
torch.save(model.state_dict(), "model.pt")
"""
WHOLE = """\
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
"""
HALVES = """\
        for part in (slice(0, 8, 2), slice(1, 8, 2)):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.mse_loss(model(x[part]), y[part]) / 2
            loss.backward()
"""


def learnt(script: Path, ranks: int, folder: Path) -> dict[str, Tensor]:
    run_ranks([str(script)], ranks, folder, folder.with_name(f"{folder.name}.logs"), forked=True)
    found: dict[str, Tensor] = torch.load(folder / "model.pt")
    return found


def test_two_ranks_round_as_two_halves_of_a_batch(tmp_path: Path) -> None:
    wide = SCRIPT.replace("dtype=torch.bfloat16", "enabled=False")
    for name, text in (("halves", SCRIPT.replace(WHOLE, HALVES)), ("wide", wide)):
        (tmp_path / f"{name}.py").write_text(text)
    halves = learnt(tmp_path / "halves.py", 0, tmp_path / "halves")
    ranks = learnt(converted(SCRIPT, tmp_path), 2, tmp_path / "ranks")
    unrounded = learnt(tmp_path / "wide.py", 0, tmp_path / "wide")
    for name, weights in halves.items():
        torch.testing.assert_close(ranks[name], weights, rtol=0, atol=1e-7)
        assert (unrounded[name] - weights).abs().max() > 1e-5, "nothing was rounded"
