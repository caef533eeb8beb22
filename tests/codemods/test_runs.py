"""How often a program is followed."""

from __future__ import annotations

from distify_codemods import Options, Outcome, SourceFile, convert

SCRIPT = """
import torch
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((4,), float(index)), index % 2


net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for inputs, targets in DataLoader(Pictures(), batch_size=8):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(inputs), targets)
    loss.backward()
    optimizer.step()
"""


def test_shared_loading_takes_no_run_of_its_own() -> None:
    runs: list[int] = []
    source, options = SourceFile("train.py", SCRIPT.encode()), Options(strategy="shared")
    made = convert(source, lambda *asked: None, options, runs.append)
    assert made.outcome is Outcome.CONVERTED
    assert b"shard_loading" in made.files[0].after
    assert len(runs) == 2
