"""MODEL01: each trained model in DistributedDataParallel, as late as it can be."""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions.past_the_wrap import is_module
from distify_codemods.events import Event, Kind
from distify_codemods.rules.base import Context, Example, Rule
from distify_codemods.values import Parameters, core

CODE = "MODEL01"


def run(context: Context) -> None:
    for blocked in context.decisions.blocked:
        if blocked.code == CODE and context.facts.training_loops:
            context.blocked(blocked)
    for wrap in context.decisions.wraps:
        module = wrap.module
        if not context.editable(module, wrap.statement, "the trained model is built here"):
            continue
        rt, plan = context.rt(module), context.plan(module)
        text = context.backend.wrap(wrap.target, context.wrapper(module), rt, bool(wrap.unused))
        insert = plan.insert_after if wrap.after else plan.insert_before
        insert(wrap.statement, text, CODE, f"gradients are averaged over the ranks; {wrap.why}", 10)
        context.applied(f"`{wrap.target}` is trained by all ranks together", module, wrap.statement)
        if wrap.unused:
            context.advice(f"each step looks for parameters without gradients, because {wrap.unused}", module,
                           wrap.statement)  # fmt: skip
    if not context.decisions.wraps and context.decisions.unwrapped:
        context.not_needed("no model is wrapped: gradients are averaged by lines of their own")
    _compiled(context)
    _changed_later(context)


def _changed_later(context: Context) -> None:
    """Weights that are drawn once the ranks draw apart."""
    if not context.facts.training_loops:
        return
    first = context.facts.training_loops[0].event
    turns = {here.node for here in first.loops()} | {first.node}
    for event in context.facts.of_kind(Kind.STORE, Kind.CALL, Kind.METHOD):
        problem = _problem(context, event) if any(here.node in turns for here in event.here.up()) else None
        if problem is not None:
            context.needs_you(problem[0], event.module, event.node, problem[1])


def _problem(context: Context, event: Event) -> tuple[str, str] | None:
    random = event.name in _DRAWING or (event.name.endswith("_") and "random" in event.value.sources)
    drawn = event.kind is Kind.METHOD and random and _is_weight(context, event.receiver_node)
    building = any(
        isinstance(here.node, cst.FunctionDef) and here.node.name.value == "__init__" for here in event.here.up()
    )
    if (event.name.startswith("torch.nn.init.") or drawn) and not building and not context.decisions.slicings:
        return (
            "weights are drawn at random after training has begun, where the ranks draw apart",
            "draw them before training, or send rank 0's to all",
        )
    return None


#: Methods that fill a tensor with random numbers.
_DRAWING = frozenset(["normal_", "uniform_", "random_", "exponential_", "cauchy_", "log_normal_", "geometric_"])


def _is_weight(context: Context, node: cst.BaseExpression | None) -> bool:
    """`module.weight.data`: a tensor that is reached through a module or its parameters."""
    while node is not None:
        value = context.facts.value(node)
        if any(isinstance(obj, Parameters) or is_module(core(obj)) for obj in value.objs):
            return True
        if isinstance(node, (cst.Attribute, cst.Subscript)):
            node = node.value
        else:
            node = node.func if isinstance(node, cst.Call) else None
    return False


def _compiled(context: Context) -> None:
    for event in context.facts.calls("torch.compile") if context.decisions.wraps else ():
        if any(core(obj) in context.facts.models for value in event.arguments.all() for obj in value.objs):
            context.advice(
                "the compiled model is wrapped, so that checkpoints keep their keys; compiling the wrapped "
                "one would be faster", event.module, event.node,
            )  # fmt: skip


RULE = Rule(
    code=CODE,
    name="gradient averaging",
    why="Without it each rank trains a model of its own; wrapped too early, weights set after the wrap differ "
    "between the ranks.",
    safety="A model is whatever an optimizer was given the parameters of. It is wrapped after the last thing "
    "that is done to it "
    "before the first training step (moved, initialised, loaded, frozen). The wrap is tried out on the program: every "
    "training forward must go through it.",
    run=run,
    limits="Parameters that a step leaves without gradients are looked for where the forward pass shows that. What "
    "depends on how the model was built is not; there torch stops in the second step, and names the option.",
    pitfalls=(24, 25, 26, 29, 43, 44),
    examples=(
        Example(
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
for parameter in model[0].parameters():
    parameter.requires_grad = False
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
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
for parameter in model[0].parameters():
    parameter.requires_grad = False
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
encoder = nn.Linear(4, 2)
decoder = nn.Linear(2, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(decoder(encoder(x)), y)
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
encoder = nn.Linear(4, 2)
encoder = DistributedDataParallel(encoder, device_ids=rt.device_ids(encoder))
decoder = nn.Linear(2, 1)
decoder = DistributedDataParallel(decoder, device_ids=rt.device_ids(decoder))
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
rt.seed_ranks_apart()
for epoch in range(3):
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        loss = nn.functional.mse_loss(decoder(encoder(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
        ),
    ),
)
