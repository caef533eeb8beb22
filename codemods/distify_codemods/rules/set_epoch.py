"""DATA02: a new order in each epoch, the same on all ranks."""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions.base import Sharding
from distify_codemods.decisions.names import loader_expression
from distify_codemods.events import Here
from distify_codemods.facts import BatchLoop
from distify_codemods.rules.base import Context, Example, Rule
from distify_codemods.values import Counter

CODE = "DATA02"


def run(context: Context) -> None:
    done: dict[cst.CSTNode, str] = {}
    for loop in context.facts.training_loops:
        if not any(context.decisions.sharding_of(loader) is Sharding.TRAINING for loader in loop.loaders):
            continue
        outer = [here for here in loop.event.loops() if here.node is not loop.node]
        if not outer:
            context.not_needed("the training loader is passed over once")
            continue
        if context.editable(loop.module, loop.node, "the training loader is iterated here"):
            text = _text(context, loop, outer)
            if text is not None and done.get(loop.node, text) != text:
                text = _counted(context, loop)
            if text is not None:
                done[loop.node] = text
    for loop in context.facts.training_loops:
        if loop.node in done:
            reason = "without it each epoch would repeat the first one's order"
            context.plan(loop.module).insert_before(loop.node, done[loop.node], CODE, reason)
            context.applied("a new order in each epoch", loop.module, loop.node)


def _text(context: Context, loop: BatchLoop, outer: list[Here]) -> str | None:
    loader = _loader(context, loop)
    if loader is None:
        return None
    epoch = _epoch_name(loop, outer[0])
    if epoch is None:
        return _counted(context, loop)
    return f"{loader}.sampler.set_epoch({epoch})"


def _loader(context: Context, loop: BatchLoop) -> str | None:
    if len(loop.loaders) > 1 and len(set(loop.loaders)) > 1:
        first = {loader.made.node for loader in context.facts.loaders if loader.obj in loop.loaders}
        if len(first) > 1:
            context.needs_you(
                "this loop draws from several training loaders", loop.module, loop.node,
                "call `set_epoch` on each loader's sampler before the loop",
            )  # fmt: skip
            return None
    loader = loader_expression(context.facts, loop)
    if loader is None:
        context.needs_you(
            "the training loader has no name where it is iterated", loop.module, loop.node,
            "give the loader a name, and call `loader.sampler.set_epoch(epoch)` before each pass",
        )  # fmt: skip
    return loader


def _epoch_name(loop: BatchLoop, outer: Here) -> str | None:
    """A variable of the batch loop's function that holds the epoch loop's counter."""
    for name, value in loop.event.here.frame.env.items():
        if any(isinstance(obj, Counter) and obj.loop is outer.node for obj in value.objs) and len(value.objs) == 1:
            return name
    return None


def _counted(context: Context, loop: BatchLoop) -> str | None:
    """Without a variable that counts the epochs, the sampler counts for itself."""
    loader = _loader(context, loop)
    if loader is None:
        return None
    outer = next(here for here in loop.event.loops() if here.node is not loop.node)
    for one in context.facts.loaders:
        if one.obj in loop.loaders and any(here.node is outer.node and here.arm for here in one.made.here.up()):
            context.needs_you(
                "the training loader is made anew in each epoch, and nothing there counts the epochs",
                loop.module, loop.node, "loop over `for epoch in range(epochs)`",
            )  # fmt: skip
            return None
    return f"{loader}.sampler.set_epoch({loader}.sampler.epoch + 1)"


RULE = Rule(
    code=CODE,
    name="reshuffling",
    why="A DistributedSampler shuffles by its seed and epoch: without `set_epoch` every epoch repeats the first "
    "one's order.",
    safety="Put before each pass over a sharded training loader, with the variable that counts the epochs where "
    "there is "
    "one, else by the sampler's own count.",
    run=run,
    limits="The sampler's own count starts anew when a run is resumed.",
    pitfalls=(1,),
    examples=(
        Example(
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import distify_runtime as rt
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
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
        ),
        Example(
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(batches, now):
    for x, y in batches:
        loss = nn.functional.mse_loss(model(x), y) / (1 + now)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


for epoch in range(3):
    train(loader, epoch)
""",
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import distify_runtime as rt
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

rt.init_process_group()
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),
                    sampler=DistributedSampler(data, seed=rt.common_seed()))
model = nn.Linear(4, 1)
model = DistributedDataParallel(model, device_ids=rt.device_ids(model))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(batches, now):
    batches.sampler.set_epoch(now)
    for x, y in batches:
        loss = nn.functional.mse_loss(model(x), y) / (1 + now)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


rt.seed_ranks_apart()
for epoch in range(3):
    train(loader, epoch)
""",
        ),
        Example(
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        ),
    ),
)
