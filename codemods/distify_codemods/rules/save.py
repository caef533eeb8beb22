"""SAVE01: rank 0 alone writes checkpoints, with the keys that they had."""

from __future__ import annotations

from distify_codemods import claims, file_events
from distify_codemods.events import Event, Kind
from distify_codemods.libraries import effects
from distify_codemods.rules.base import Context, Example, Rule
from distify_codemods.rules.once import once

CODE = "SAVE01"


def run(context: Context) -> None:
    saves = [event for event in context.facts.of_kind(Kind.CALL, Kind.METHOD) if is_checkpoint(event)]
    for event in saves:
        if not context.editable(event.module, event.node, "a checkpoint is written"):
            continue
        once(context, event, CODE, "one writer")
        context.applied("rank 0 writes the checkpoint", event.module, event.node)
        by_name(context, event)
    if not saves:
        context.not_needed(f"no checkpoint is written{claims.unless_written(context.facts)}")


def by_name(context: Context, event: Event) -> None:
    """Says so where something is only known to write since it is called so."""
    if event in context.named_writers or file_events.is_taken_by_its_name(event):
        context.advice(
            f"`{file_events.code_of(event)}` is not known, and taken for what only writes by its name: see whether "
            "that is so, since rank 0 alone calls it", event.module, event.node,
        )  # fmt: skip


def is_checkpoint(event: Event) -> bool:
    if file_events.is_in_memory(event):
        return False
    if event.kind is Kind.METHOD:
        return event.name in effects.CHECKPOINT_METHODS and file_events.is_writing_method(event)
    return event.name in effects.CHECKPOINTS


RULE = Rule(
    code=CODE,
    name="checkpoints",
    why="Processes that write one file at once corrupt it.",
    safety="Each `torch.save`, `save_pretrained` and their like go under `if rt.is_main_process():`; where the "
    "arguments do something that all ranks have to do, they still do it, and rank 0 writes.",
    run=run,
    pitfalls=(10, 48),
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
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "model.pt")
""",
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import distify_runtime as rt
from torch.nn.parallel import DistributedDataParallel

rt.init_process_group()
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),
                    sampler=rt.TrainingSampler(data))
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
if rt.is_main_process():
    torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, "model.pt")
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
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch == 2: torch.save(model.state_dict(), f"{epoch}.pt"); print("saved")
""",
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import distify_runtime as rt
from distify_runtime import rank_zero_print as print
from torch.nn.parallel import DistributedDataParallel

rt.init_process_group()
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),
                    sampler=rt.TrainingSampler(data))
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
    if epoch == 2:
        if rt.is_main_process():
            torch.save(model.module.state_dict(), f"{epoch}.pt")
        print("saved")
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
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(len(model.state_dict()))
""",
        ),
    ),
)
