"""What a training loop goes through is made before the ranks draw apart, also where the loop's own line makes it."""

from __future__ import annotations

import pytest

from tests.rules.scripts import IMPORTS, MODEL, OPTIMIZER, converted

DRAWN = """\
class Drawn(Dataset):
    def __init__(self, pool, count):
        self.rows = random.sample(range(len(pool)), count)
        self.pool = pool

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.pool[self.rows[index]]


def drawn_from(pool):
    rows = random.sample(range(len(pool)), 32)
    return DataLoader([pool[row] for row in rows], batch_size=8)


"""
BODY = """\
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
POOL = "pool = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n"


def _script(header: str) -> str:
    imports = f"import random\n{IMPORTS}from torch.utils.data import Dataset\nfrom tqdm import tqdm\n\n\n"
    return f"{imports}{DRAWN}{POOL}{MODEL}{OPTIMIZER}for x, y in {header}:\n{BODY}"


@pytest.mark.parametrize(
    "header",
    [
        "DataLoader(Drawn(pool, 32), batch_size=8)",
        "DataLoader(TensorDataset(torch.randn(16, 4), torch.randn(16, 1)), batch_size=8)",
        "tqdm(DataLoader(Drawn(pool, 32), batch_size=8))",
        "drawn_from(pool)",
    ],
)
def test_it_gets_a_line_of_its_own_before(header: str) -> None:
    lines = converted(_script(header)).splitlines()
    apart = lines.index("rt.seed_ranks_apart()")
    assert lines[apart - 1].startswith("batches = ")
    assert lines[apart + 1] == "for x, y in batches:"


@pytest.mark.parametrize("header", ["DataLoader(pool, batch_size=8)", "tqdm(DataLoader(pool, batch_size=8))"])
def test_where_nothing_is_drawn_the_line_stays(header: str) -> None:
    after = converted(_script(header))
    assert "batches = " not in after
    assert f"rt.seed_ranks_apart()\nfor x, y in {header.split('(')[0]}(" in after
