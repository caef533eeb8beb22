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

TORCHS = IMPORTS + "import torch.distributed as dist\n"
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
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step(loss)
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
MASKED = LOOP.replace("nn.functional.mse_loss(model(x), y)", "((model(x) - y) ** 2 * (y > 0)).sum() / (y > 0).sum()")
PER_STEP = """\
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=3 * len(loader))
"""
BRANCHES = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x, turn):
        return self.one(x) if turn % 2 else self.other(x)


model = Net()
"""
NORMALISED = "model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))\n"
TWICE = LOOP.replace("model(x), y)", "model(x), y) + nn.functional.mse_loss(model(-x), y)")
CHECKPOINTED = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        x.requires_grad_()
        return checkpoint(self.out, x, use_reentrant=True) + checkpoint(self.out, -x, use_reentrant=True)


model = Net()
"""
ACCUMULATED = """\
for epoch in range(3):
    for number, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x), y) / 2
        loss.backward()
        if number % 2 == 1:
            optimizer.step()
            optimizer.zero_grad()
"""
METHOD = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def loss(self, x, y):
        return nn.functional.mse_loss(self.out(x), y)


model = Net()
"""
CLIPPED = LOOP.replace("nn.functional.mse_loss(model(x), y)", "model.loss(x, y)").replace(
    "        optimizer.step()", "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n        optimizer.step()"
)
FOLDED = """\
text = torch.randn(8 * 30).view(8, -1).t().contiguous()
"""
RECURRENT = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.RNN(1, 4), nn.Linear(4, 1)

    def forward(self, x, hidden):
        found, hidden = self.cell(x, hidden)
        return self.out(found), hidden


model = Net()
"""
FOLDED_LOOP = """\
for epoch in range(3):
    hidden = torch.zeros(1, 8, 4)
    for start in range(0, 28, 7):
        x, y = text[start:start + 7].unsqueeze(2), text[start + 1:start + 8].unsqueeze(2)
        hidden = hidden.detach()
        found, hidden = model(x, hidden)
        loss = nn.functional.mse_loss(found, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
PENALTY = LOOP.replace(
    "        optimizer.zero_grad()",
    """\
        slopes = torch.autograd.grad(model(x.requires_grad_()).sum(), x, create_graph=True)[0]
        loss = loss + (slopes.norm(dim=1) ** 2).mean()
        optimizer.zero_grad()""",
)
LOGGED = "for epoch in range(3):\n    print(epoch)\n" + LOOP.split("\n", 1)[1]
SUMMED = LOOP.replace("y)", 'y, reduction="sum")')
HALF_DONE = """\
dist.init_process_group("nccl", rank=args.local_rank, world_size=2)
"""
MADE, *EVALUATED = EVALUATION.splitlines(keepends=True)
RANKED = "    if dist.get_rank() == 0:\n" + "".join(f"        {line}" for line in EVALUATED)
ATTRIBUTE = """\
class Net(nn.Linear):
    def scaled(self):
        return self.weight.mean()
model = Net(4, 1)
"""
WRITTEN = """\
torch.save(model.state_dict(), "net.pt")
model.load_state_dict(torch.load("net.pt"))
"""
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
    Case(2, "DATA01", script(), ("sampler=rt.TrainingSampler(data",), ("shuffle=True",)),
    Case(3, "DATA01", script(), ("batch_size=rt.per_rank_batch_size(8)",)),
    Case(4, "DATA01", script(), ("rt.per_rank_batch_size(8)", "lr=0.1)")),
    Case(5, "EVAL01", script(after=EVALUATION), ("rt.UnpaddedSampler(",)),
    Case(6, "EVAL01", script(after=EVALUATION), ("rt.UnpaddedSampler(",), ("drop_last",)),
    Case(7, "EVAL01", script(after=EVALUATION), ("total = rt.all_reduce_sum(total)",)),
    Case(8, "LOSS01", script(loop=SUMMED), ("(loss * rt.world_size()).backward()",)),
    Case(9, "LOSS01", script(loop=MASKED), ("rt.sum_over_ranks((y > 0).sum())",)),
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
    Case(17, "MEET01", script(
        imports=TORCHS, setup='dist.init_process_group("nccl")\n' + MADE,
        loop=LOOP + RANKED,
    )),
    Case(18, "DECIDE01", script(loop=STOP), ("rt.all_reduce_mean(",)),
    Case(19, "DECIDE01", script(loop=PLATEAU), ("rt.all_reduce_mean(",)),
    Case(20, "DATA01", script(optimizer=OPTIMIZER + PER_STEP, loop=LOOP + "        scheduler.step()\n"),
         ("rt.per_rank_batch_size(8)", "total_steps=3 * len(loader))")),
    Case(21, "MODEL02", script(model="model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))\n"),
         ("rt.convert_sync_batchnorm(",)),
    Case(22, "SEED01", script(), ("rt.seed_ranks_apart()\nfor epoch",)),
    Case(23, "GROUP01", script(data="data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n" + SPLIT),
         ("rt.init_process_group()\ndata =",)),
    Case(24, "MODEL01", script(
        model=BRANCHES, loop=LOOP.replace("x, y in", "turn, (x, y) in enumerate(").replace("loader:", "loader):")
        .replace("model(x)", "model(x, turn)"),
    ), ("find_unused_parameters=True",)),
    Case(25, "MODEL01", script(
        model="model, critic = nn.Linear(4, 1), nn.Linear(1, 1)\n",
        optimizer=OPTIMIZER + "other = torch.optim.SGD(critic.parameters(), lr=0.1)\n",
        loop=LOOP.replace("model(x), y)", "critic(model(x)), y)").replace("step()", "step()\n        other.step()"),
    ), ("model = DistributedDataParallel(model", "critic = DistributedDataParallel(critic")),
    Case(26, "MODEL01", script(optimizer=OPTIMIZER + "nn.init.zeros_(model.bias)\n"),
         ("nn.init.zeros_(model.bias)\nmodel = DistributedDataParallel(",)),
    Case(27, "MODEL02", script(model=NORMALISED, loop=TWICE), ("rt.convert_sync_batchnorm(",)),
    Case(28, "GRAD01", script(
        imports=IMPORTS + "from torch.utils.checkpoint import checkpoint\n", model=CHECKPOINTED
    ), ("rt.all_reduce_gradients(optimizer)",), ("DistributedDataParallel",)),
    Case(30, "ACCUM01", script(loop=ACCUMULATED), ("model.require_backward_grad_sync = number % 2 == 1\n",)),
    Case(31, "GRAD01", script(model=METHOD, loop=CLIPPED),
         ("rt.all_reduce_gradients(optimizer)\n        nn.utils.clip_grad_norm_(",)),
    Case(29, "MODEL03", script(model=ATTRIBUTE, after="print(model.scaled())\n"), ("print(model.module.scaled())",)),
    Case(32, "DATA01", script(loader=STREAM), ("rt.shard_iterable(Stream())",)),
    Case(33, "DATA01", script(loader=WEIGHTED), ("sampler=rt.DistributedSamplerWrapper(sampler)",)),
    Case(34, "DATA01", script(), ("rt.TrainingSampler(data)",)),
    Case(35, "DATA01", script(loader=LOADER.replace("shuffle", "num_workers=4, shuffle")),
         ("num_workers=rt.per_rank_workers(4)",)),
    Case(36, "OLD02", script(
        imports=TORCHS,
        setup=ARGUMENTS.format(more='parser.add_argument("--local_rank", type=int, default=-1)\n') + HALF_DONE,
    ), ("type=int, default=rt.local_rank())",)),
    Case(37, "DEVICE01", script(optimizer=FIXED_DEVICE + OPTIMIZER), ('torch.device("cuda")',), ('"cuda:0"',)),
    Case(38, "DEVICE01", script(imports="import os\n" + IMPORTS, setup='os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n'),
         (), ("CUDA_VISIBLE_DEVICES",)),
    Case(39, "OLD01", script(model="model = nn.DataParallel(nn.Linear(4, 1))\n"),
         ("DistributedDataParallel(model",), ("nn.DataParallel",)),
    Case(40, "OLD02", script(imports=TORCHS, setup='dist.init_process_group("nccl")\n'),
         ("rt.init_process_group()",), ("dist.init_process_group",)),
    Case(41, "DATA04", script(data=DRAWN, loader="", loop=DRAWN_LOOP), ("rt.shard_batch(",)),
    Case(42, "DATA04", script(data=FOLDED, loader="", model=RECURRENT, loop=FOLDED_LOOP),
         ("rt.shard_batch(", "dim=1)")),
    Case(43, "MODEL01", script(optimizer="model = torch.compile(model)\n" + OPTIMIZER),
         ("model = torch.compile(model)\n", "DistributedDataParallel(model")),
    Case(44, "GRAD01", script(loop=PENALTY), ("rt.all_reduce_gradients(optimizer)",), ("DistributedDataParallel",)),
    Case(45, "LOAD01", script(after=WRITTEN), ("rt.barrier()\nmodel.module.load_state_dict",)),
    Case(46, "GROUP01", script(), ("rt.init_process_group()\ndata =",), ("destroy",)),
    Case(47, "DATA03", script(
        imports=IMPORTS + "from torchvision import datasets\n",
        data='data = datasets.MNIST("data", download=True)\n',
    ), ("with rt.main_process_first():",), ("barrier",)),
    Case(48, "SAVE01", script(after='torch.save(model.state_dict(), "net.pt")\n'), ("if rt.is_main_process():",)),
    Case(49, "GATHER01", script(loop=CONTRASTIVE), ("rt.gather_samples(",)),
)  # fmt: skip


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def leave_out(code: str) -> None:
        module = importlib.import_module("distify_codemods.conversion")
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
