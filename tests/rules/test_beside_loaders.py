"""SHARE01: a training loop over a loader that is seen, or over something that is not."""

from __future__ import annotations

import pytest

from tests.rules.scripts import conversion_of

SCRIPT = """\
import sys
import torch
import unknown
from tqdm import tqdm
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


LOADER = DataLoader(TensorDataset(torch.randn(48, 4), torch.randint(3, (48,))), batch_size=8)


class Digits:
    def __init__(self, size):
        self.loader = LOADER


class Letters(Digits):
    pass


KNOWN = {"Digits": Digits, "Letters": Letters}


def made(name, size):
    if name == "Digits":
        return Digits(size)
    return <other>


def train(loader):
    for x, y in <over>:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


data = made(sys.argv[1], 8)
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    train(data.loader)
"""


def is_shared(other: str, over: str = "loader", script: str = SCRIPT) -> bool:
    script = script.replace("<other>", other).replace("<over>", over)
    conversion = conversion_of(script, strategy="auto")
    assert conversion.files
    after = conversion.files[0].after.decode()
    assert ("DistributedDataParallel(model" in after) is not ("rt.data_parallel(model)" in after)
    return "rt.data_parallel(model)" in after


UNKNOWN = ["vars(sys.modules[name])[name](size)", "unknown.REGISTRY[name](size)"]


@pytest.mark.parametrize("other", UNKNOWN)
@pytest.mark.parametrize("over", ["loader", "tqdm(loader)"])
def test_what_is_unknown_beside_a_loader_is_not_dealt_out(other: str, over: str) -> None:
    assert is_shared(other, over)


@pytest.mark.parametrize("other", ["Letters(size)", "Digits(2 * size)", "KNOWN[name](size)", "None"])
def test_what_is_known_beside_a_loader(other: str) -> None:
    assert not is_shared(other)


@pytest.mark.parametrize(
    "numbers",
    ["range(len(loader))", "tqdm(range(9))", "trange(len(loader))", "itertools.count()", "enumerate(range(4))"],
)
def test_numbers_beside_batches(numbers: str) -> None:
    """`for step, (x, y) in zip(range(n), loader)`: they only count."""
    script = SCRIPT.replace("    for x, y in <over>:", f"    for step, (x, y) in zip({numbers}, loader):")
    script = script.replace("import tqdm\n", "import tqdm, trange\nimport itertools\n")
    assert not is_shared("Letters(size)", script=script)


@pytest.mark.parametrize("beside", ["unknown.walk(loader)", "tqdm(unknown.walk())", "unknown.counting(range(8))"])
def test_what_is_not_known_beside_batches(beside: str) -> None:
    script = SCRIPT.replace("    for x, y in <over>:", f"    for step, (x, y) in zip({beside}, loader):")
    assert is_shared("Letters(size)", script=script)


def test_numbers_in_the_place_of_batches() -> None:
    """`range(8)` where another run has a loader: what each number stands for, each rank would train on."""
    over = "(loader if len(sys.argv) > 1 else range(8)):\n        x, y = one if len(sys.argv) > 1 else ROWS[one]"
    script = SCRIPT.replace("    for x, y in <over>:", f"    for one in {over}")
    script = script.replace("\nclass Digits", "\nROWS = unknown.rows()\n\n\nclass Digits", 1)
    assert is_shared("Letters(size)", script=script)


def test_who_asks_for_shards_is_told() -> None:
    script = SCRIPT.replace("<other>", UNKNOWN[0]).replace("<over>", "loader")
    conversion = conversion_of(script, strategy="sharded")
    assert any("may be something else than the loader" in one.message for one in conversion.findings)
