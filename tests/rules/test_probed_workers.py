"""SHARE01: workers that are started before training, and whether training goes on with them."""

from __future__ import annotations

import pytest
from distify_codemods import Strategy

from tests.rules.scripts import conversion_of

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        return torch.full((8,), float(index)) + torch.randn(8), index % 3


def forever(loader):
    while True:
        for batch in loader:
            yield batch


options = {}
loader = DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=2<more>)
<probe>
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in <over>:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
#: They are seeded apart where the loader is made; where its arguments are not all seen, its passes are shared.
LINK, APART = "the workers of the training loader are started here", "worker_init_fn=rt.seed_workers_apart()"


def goes_on(probe: str, more: str = "", over: str = "loader") -> bool:
    script = SCRIPT.replace("<probe>", probe).replace("<more>", more).replace("<over>", over)
    conversion = conversion_of(script, strategy="auto")
    said = any(LINK in one.message for one in conversion.findings)
    assert said is (conversion.strategy is Strategy.SHARED)
    return said or APART in conversion.files[0].after.decode()


@pytest.mark.parametrize(
    "probe", ["probe, _ = next(iter(loader))", "for x, y in loader:\n    break", "batches = list(loader)"]
)
@pytest.mark.parametrize("more", ["", ", persistent_workers=False"])
def test_workers_that_are_thrown_away(probe: str, more: str) -> None:
    assert not goes_on(probe, more)


@pytest.mark.parametrize(
    ("probe", "more", "over"),
    [
        ("probe, _ = next(iter(loader))", ", persistent_workers=True", "loader"),
        ("probe, _ = next(iter(loader))", ", **options", "loader"),
        ("batches = iter(loader)\nprobe, _ = next(batches)", "", "batches"),
        ("batches = forever(loader)\nprobe, _ = next(batches)", "", "batches"),
    ],
)
def test_workers_that_training_goes_on_with(probe: str, more: str, over: str) -> None:
    assert goes_on(probe, more, over)
