"""LOAD01: every rank reads a checkpoint, onto its own device."""

from __future__ import annotations

import libcst as cst

from distify_codemods.arguments import PARAMETERS, bound
from distify_codemods.events import Event, Kind
from distify_codemods.rules import attempts, barriers
from distify_codemods.rules.base import Context, Example, Rule
from distify_codemods.rules.save import is_checkpoint

CODE = "LOAD01"


def run(context: Context) -> None:
    loads = context.facts.calls("torch.load")
    names = context.names
    saves = [event for event in context.facts.of_kind(Kind.CALL, Kind.METHOD) if is_checkpoint(event)]
    for event in loads:
        node, module = event.node, event.module
        assert isinstance(node, cst.Call)
        if not context.editable(module, node, "a checkpoint is read"):
            continue
        rt, plan = context.rt(module), context.plan(module)
        given = bound(node, PARAMETERS["load"]).get("map_location")
        if event.arguments.double_star is not None:
            if "map_location" not in event.arguments.expanded():
                context.advice(
                    "`**kwargs` may set `map_location`; the checkpoint goes where it was saved from", module, node
                )
        elif given is None or isinstance(given.value, cst.Dict) or _is_none(given.value):
            plan.set_keyword(
                node,
                "map_location",
                f"{rt}.map_location",
                CODE,
                "each rank reads onto its own GPU, not all onto the first",
            )
        _wait(context, event, [save for save in saves if save.before(event) and names.may_be_one(save, event)])
        context.applied("each rank reads the checkpoint onto its own device", module, node)
    if not loads:
        context.not_needed_if_known("the script reads no checkpoint with `torch.load`")


def _wait(context: Context, event: Event, saves: list[Event]) -> None:
    """No rank reads the file before rank 0 has written it."""
    if not saves or barriers.serve(context.barriers, event, saves):
        return
    found = attempts.outside(context, event, context.above_file_tests(event), saves)
    if found is None:
        context.needs_you(
            "a checkpoint is read in the `try` that writes it: where it fails on rank 0 alone, the others would wait "
            "for it",
            event.module, event.node, "read it after the `try`",
        )  # fmt: skip
        return
    module, place = found
    context.barriers.append(barriers.before(event, module, place))
    reason = "rank 0 has written the file before it is read"
    context.plan(module).insert_before(place, f"{context.rt(module)}.barrier()", CODE, reason)


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


RULE = Rule(
    code=CODE,
    name="reading checkpoints",
    why="A checkpoint remembers its GPU: without `map_location` every rank reads it onto the first one.",
    safety="Set where `torch.load` has none, or a table of devices. A file that the run itself may have written is "
    "waited for.",
    run=run,
    pitfalls=(12, 45),
    examples=(
        Example(
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
model.load_state_dict(torch.load("model.pt"))
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

rt.init_process_group()
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),
                    sampler=rt.TrainingSampler(data))
model = nn.Linear(4, 1)
model.load_state_dict(torch.load("model.pt", map_location=rt.map_location))
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
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), "last.pt")
model.load_state_dict(torch.load("last.pt", weights_only=True))
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
        torch.save(model.module.state_dict(), "last.pt")
rt.barrier()
model.module.load_state_dict(torch.load("last.pt", weights_only=True, map_location=rt.map_location))
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
model.load_state_dict(torch.load("model.pt", map_location="cpu"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
        ),
    ),
)
