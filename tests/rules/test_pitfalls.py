"""Each pitfall has its rule: a script that would fall into it is kept from it, and is not without that rule."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from distify_codemods import Conversion, Level, Outcome
from distify_codemods.pitfalls import PITFALLS
from distify_codemods.rules import RULES

from distify.pages import pitfalls_page
from tests.rules.scripts import IMPORTS, LOADER, LOOP, OPTIMIZER, conversion_of, script

EVALUATION = """\
test = DataLoader(TensorDataset(torch.randn(30, 4), torch.randn(30, 1)), batch_size=8)
model.eval()
total = 0.0
with torch.no_grad():
    for x, y in test:
        total += nn.functional.mse_loss(model(x), y, reduction="sum").item()
print("test loss", total)
"""
ARGUMENTS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
{more}args = parser.parse_args()
"""
PLATEAU = """\
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
for epoch in range(3):
    total = 0.0
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    scheduler.step(total / len(loader))
"""
STOP = """\
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if loss.item() < 0.1:
        break
"""
STREAM = """\
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        for _ in range(64):
            yield torch.ones(4), torch.ones(1)
loader = DataLoader(Stream(), batch_size=8)
"""
DRAWN = """\
x_all, y_all = torch.randn(64, 4), torch.randn(64, 1)
"""
DRAWN_LOOP = """\
for step in range(24):
    chosen = torch.randint(0, 64, (8,))
    x, y = x_all[chosen], y_all[chosen]
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WEIGHTED = """\
sampler = torch.utils.data.WeightedRandomSampler(torch.ones(64), 64)
loader = DataLoader(data, batch_size=8, sampler=sampler)
"""
SPLIT = """\
data, held_out = torch.utils.data.random_split(data, [48, 16])
"""
RESUME = """\
model.load_state_dict(torch.load("net.pt"))
"""
CONTRASTIVE = """\
for epoch in range(3):
    for x, y in loader:
        a = nn.functional.normalize(model(x), dim=1)
        loss = nn.functional.cross_entropy(a @ a.t(), torch.arange(len(x)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
LOGGED = "for epoch in range(3):\n    print(epoch)\n" + LOOP.split("\n", 1)[1]
SUMMED = LOOP.replace("y)", 'y, reduction="sum")')
FIXED_DEVICE = """\
device = torch.device("cuda:0")
model.to(device)
"""


@dataclass(frozen=True)
class Case:
    """`shows`: parts of the converted script; `lacks`: what must be gone. Without both, somebody must be asked."""

    number: int
    code: str
    before: str
    shows: tuple[str, ...] = ()
    lacks: tuple[str, ...] = field(default=())

    def is_met(self, conversion: Conversion) -> bool:
        if not self.shows and not self.lacks:
            return any(finding.code == self.code for finding in conversion.of(Level.BLOCKING))
        if conversion.outcome is not Outcome.CONVERTED:
            return False
        (new,) = conversion.files
        text = new.after.decode()
        return all(part in text for part in self.shows) and not any(part in text for part in self.lacks)


CASES = (
    Case(1, "DATA02", script(), ("loader.sampler.set_epoch(epoch)",)),
    Case(2, "DATA01", script(), ("sampler=DistributedSampler(data",), ("shuffle=True",)),
    Case(3, "DATA01", script(), ("batch_size=rt.per_rank_batch_size(8)",)),
    Case(4, "DATA01", script(), ("rt.per_rank_batch_size(8)", "lr=0.1)")),
    Case(5, "EVAL01", script(after=EVALUATION), ("rt.UnpaddedSampler(",)),
    Case(6, "EVAL01", script(after=EVALUATION), ("rt.UnpaddedSampler(",), ("drop_last",)),
    Case(7, "EVAL01", script(after=EVALUATION), ("total = rt.all_reduce_sum(total)",)),
    Case(8, "LOSS01", script(loop=SUMMED), ("(loss * rt.world_size()).backward()",)),
    Case(10, "MODEL03", script(after='torch.save(model.state_dict(), "net.pt")\n'), ("model.module.state_dict()",)),
    Case(11, "MODEL03", script(
        optimizer="model = torch.compile(model)\n" + OPTIMIZER, after='torch.save(model.state_dict(), "net.pt")\n'
    ), ("model.module.state_dict()",)),
    Case(12, "LOAD01", script(optimizer=OPTIMIZER + RESUME), ("map_location=rt.map_location",)),
    Case(13, "GROUP01", script(), ("rt.init_process_group()\ndata =",)),
    Case(14, "DATA03", script(
        imports=IMPORTS + "from torchvision import datasets\n",
        data='data = datasets.MNIST("data", download=True)\n',
    ), ("with rt.main_process_first():",)),
    Case(15, "OUT03", script(
        imports="import os\n" + IMPORTS, setup='if not os.path.exists("out"):\n    os.makedirs("out")\n'
    ), ("exist_ok=True",)),
    Case(16, "OUT01", script(loop=LOGGED), ("from distify_runtime import rank_zero_print as print",)),
    Case(18, "DECIDE01", script(loop=STOP), ("rt.all_reduce_mean(",)),
    Case(19, "DECIDE01", script(loop=PLATEAU), ("rt.all_reduce_mean(",)),
    Case(21, "MODEL02", script(model="model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))\n"),
         ("rt.convert_sync_batchnorm(",)),
    Case(22, "SEED01", script(), ("rt.seed_ranks_apart()\nfor epoch",)),
    Case(23, "GROUP01", script(data="data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n" + SPLIT),
         ("rt.init_process_group()\ndata =",)),
    Case(25, "MODEL01", script(
        model="model, critic = nn.Linear(4, 1), nn.Linear(1, 1)\n",
        optimizer=OPTIMIZER + "other = torch.optim.SGD(critic.parameters(), lr=0.1)\n",
        loop=LOOP.replace("model(x), y)", "critic(model(x)), y)").replace("step()", "step()\n        other.step()"),
    ), ("model = DistributedDataParallel(model", "critic = DistributedDataParallel(critic")),
    Case(26, "MODEL01", script(optimizer=OPTIMIZER + "nn.init.zeros_(model.bias)\n"),
         ("nn.init.zeros_(model.bias)\nmodel = DistributedDataParallel(",)),
    Case(32, "DATA01", script(loader=STREAM), ("rt.shard_iterable(Stream())",)),
    Case(33, "DATA01", script(loader=WEIGHTED), ("sampler=rt.DistributedSamplerWrapper(sampler)",)),
    Case(34, "DATA01", script(), ("DistributedSampler(data, seed=rt.common_seed())",)),
    Case(35, "DATA01", script(loader=LOADER.replace("shuffle", "num_workers=4, shuffle")),
         ("num_workers=rt.per_rank_workers(4)",)),
    Case(37, "DEVICE01", script(optimizer=FIXED_DEVICE + OPTIMIZER), ('torch.device("cuda")',), ('"cuda:0"',)),
    Case(38, "DEVICE01", script(imports="import os\n" + IMPORTS, setup='os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n'),
         (), ("CUDA_VISIBLE_DEVICES",)),
    Case(39, "OLD01", script(model="model = nn.DataParallel(nn.Linear(4, 1))\n"),
         ("DistributedDataParallel(model",), ("nn.DataParallel",)),
    Case(41, "DATA04", script(data=DRAWN, loader="", loop=DRAWN_LOOP), ("rt.shard_batch(",)),
    Case(43, "MODEL01", script(optimizer="model = torch.compile(model)\n" + OPTIMIZER),
         ("model = torch.compile(model)\n", "DistributedDataParallel(model")),
    Case(48, "SAVE01", script(after='torch.save(model.state_dict(), "net.pt")\n'), ("if rt.is_main_process():",)),
)  # fmt: skip


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def leave_out(code: str) -> None:
        module = importlib.import_module("distify_codemods.convert")
        monkeypatch.setattr(module, "RULES", tuple(rule for rule in RULES if rule.code != code))

    return leave_out


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.number}-{case.code}")
def test_pitfall(case: Case, without: Callable[[str], None]) -> None:
    rule = next(rule for rule in RULES if rule.code == case.code)
    assert case.number in rule.pitfalls
    assert case.is_met(conversion_of(case.before))
    without(case.code)
    assert not case.is_met(conversion_of(case.before))


def test_pitfalls_are_numbered() -> None:
    assert [one.number for one in PITFALLS] == list(range(1, len(PITFALLS) + 1))


def test_rules_name_pitfalls_that_there_are() -> None:
    known = {one.number for one in PITFALLS}
    assert {number for rule in RULES for number in rule.pitfalls} <= known


def test_the_page_of_pitfalls_is_up_to_date() -> None:
    written = Path(__file__).parents[2] / "docs" / "pitfalls.md"
    assert written.read_text(encoding="utf-8") == pitfalls_page(), "run `python -m distify.pages`"
