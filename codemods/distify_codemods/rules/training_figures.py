"""METRIC01: figures of training that are used after its loop are those of all samples."""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions.base import Sharding
from distify_codemods.rules.base import Context, Example, Rule, outside_with

CODE = "METRIC01"


def run(context: Context) -> None:
    done: set[cst.CSTNode] = set()
    for reduction in context.decisions.training_sums:
        loop, module = reduction.loop, reduction.loop.module
        sharded = not loop.loaders or any(
            context.decisions.sharding_of(loader) is Sharding.TRAINING for loader in loop.loaders
        )
        if loop.node in done or not sharded or not context.editable(module, loop.node, "training figures are counted"):
            continue
        done.add(loop.node)
        names = ", ".join(reduction.names)
        text = f"{names} = {context.rt(module)}.all_reduce_sum({names})"
        if reduction.loader:
            text = f"if {context.rt(module)}.is_sharded({reduction.loader}):\n    {text}"
        elif reduction.when:
            text = f"if {reduction.when}:\n    {text}"
        reason = "counted over all ranks' samples, as what it is divided by counts them all"
        context.plan(module).insert_after(outside_with(module, loop.node), text, CODE, reason)
        context.applied(f"{names} summed over the ranks after the training loop", module, loop.node)
    if not done:
        context.not_needed("no sum over samples leaves the training loop")


RULE = Rule(
    code=CODE,
    name="training figures",
    why="A rank counts its own share: divided by the size of the whole data set, its accuracy is 1/N of the truth.",
    safety="Sums over samples that start at zero, are added to in the training loop and are used after it. Means of "
    "batch means stay rank 0's, which is said.",
    run=run,
    pitfalls=(7,),
    examples=(
        Example(
            before="""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    near = 0
    for x, y in loader:
        guess = model(x)
        loss = nn.functional.mse_loss(guess, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        near += ((guess - y).abs() < 0.1).sum().item()
    print(near / len(data))
""",
            after="""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import distify_runtime as rt
from distify_runtime import rank_zero_print as print
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

rt.init_process_group()
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),
                    sampler=DistributedSampler(data, seed=rt.common_seed()))
model = nn.Linear(4, 1)
model = DistributedDataParallel(model, device_ids=rt.device_ids(model))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rt.seed_ranks_apart()
for epoch in range(3):
    near = 0
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        guess = model(x)
        loss = nn.functional.mse_loss(guess, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        near += ((guess - y).abs() < 0.1).sum().item()
    near = rt.all_reduce_sum(near)
    print(near / len(data))
""",
        ),
        Example(
            before="""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    near = 0
    for x, y in loader:
        guess = model(x)
        loss = nn.functional.mse_loss(guess, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        near = loss.item()
    print(near)
""",
        ),
    ),
)
