"""SEED01: one stream of random numbers for what the ranks share, one per rank for what they do not."""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions.base import chain
from distify_codemods.events import Event, Kind
from distify_codemods.program import Module
from distify_codemods.rules.base import Context, Example, Rule
from distify_codemods.values import Scale

CODE = "SEED01"
#: Draws that choose samples: they must be the same on all ranks.
_CHOOSING = frozenset(
    [
        "torch.utils.data.random_split",
        "torch.randperm",
        "numpy.random.permutation",
        "numpy.random.shuffle",
        "numpy.random.choice",
        "random.shuffle",
        "random.sample",
        "random.choice",
        "random.choices",
        "sklearn.model_selection.train_test_split",
        "sklearn.model_selection.KFold",
    ]
)


def run(context: Context) -> None:
    if context.decisions.slicings:
        _apart_in_models(context)
        return
    place = _place(context)
    if place is None:
        return
    module, node, first = place
    if not context.editable(module, node, "the training loop"):
        return
    rt = context.rt(module)
    reason = "from here on dropout and augmentation differ from rank to rank; until here all draw alike"
    context.plan(module).insert_before(node, f"{rt}.seed_ranks_apart()", CODE, reason, -5)
    context.applied("random numbers: common up to here, each rank's own in training", module, node)
    for event in context.facts.of_kind(Kind.CALL):
        if (
            event.name in _CHOOSING
            and "generator" not in event.arguments.keywords
            and _after(context, event, node, first)
            and event.value.scale is Scale.CONST
            and not _sized_by_batch(event)
        ):
            context.needs_you(
                "samples are chosen at random after training has begun, where the ranks draw apart",
                event.module, event.node,
                "draw with a generator of its own: torch.Generator().manual_seed(epoch)",
            )  # fmt: skip


def _apart_in_models(context: Context) -> None:
    """Batches that are drawn by hand must be drawn alike until the end: only the models' own draws may differ."""
    reason = "dropout differs from rank to rank; all else is drawn alike, batches too"
    for wrap in context.decisions.wraps:
        if not context.editable(wrap.module, wrap.statement, "the model is wrapped here"):
            continue
        plan, text = context.plan(wrap.module), f"{context.rt(wrap.module)}.seed_ranks_apart({wrap.target})"
        if wrap.after:
            plan.insert_after(wrap.statement, text, CODE, reason, 50)
        else:
            plan.insert_before(wrap.statement, text, CODE, reason, 50)
        context.applied("random numbers: common but for those drawn inside the model", wrap.module, wrap.statement)


def _place(context: Context) -> tuple[Module, cst.CSTNode, Event] | None:
    """The outermost loop that trains and does not build the model anew."""
    loops = context.facts.training_loops
    if not loops:
        return None
    building = _building(context)
    for frame, node in chain(loops[0].event):
        if isinstance(node, (cst.For, cst.While)) and node not in building:
            return frame.module, node, loops[0].event
    return None


def _building(context: Context) -> set[cst.CSTNode]:
    """The statements in whose course a model is wrapped, be it in a function that they call."""
    wraps = {wrap.statement for wrap in context.decisions.wraps}
    found = set(wraps)
    for wrap in context.decisions.wraps:
        found.update(wrap.module.enclosing(wrap.statement))
    for event in context.facts.run.events:
        nodes = [here.node for here in event.here.up()]
        if wraps.intersection(nodes):
            found.update(nodes)
    return found


def _after(context: Context, event: Event, node: cst.CSTNode, first: Event) -> bool:
    """In the training loop or after it; or before it, in an outer loop whose next turn comes after."""
    outer = {here.node for here in first.loops()} | {node}
    inside = any(here.node in outer for here in event.here.up())
    return inside or event.number > first.number


def _sized_by_batch(event: Event) -> bool:
    return any(value.scale is not Scale.CONST for value in event.arguments.all())


RULE = Rule(
    code=CODE,
    name="random numbers",
    why="With one seed on all ranks every rank draws the same augmentation and dropout; with different ones "
    "from the start "
    "they build different splits.",
    safety="The group starts all ranks with rank 0's random numbers. Right before training the ranks go apart. "
    "A choice of samples "
    "after that is left to a person.",
    run=run,
    pitfalls=(22, 23),
    examples=(
        Example(
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 1))
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

torch.manual_seed(0)
rt.init_process_group()
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),
                    sampler=DistributedSampler(data, seed=rt.common_seed()))
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 1))
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
from torch.utils.data import DataLoader, TensorDataset, random_split

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
for fold in range(3):
    part, rest = random_split(data, [48, 16])
    loader = DataLoader(part, batch_size=8, shuffle=True)
    model = nn.Linear(4, 1)
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
