"""MODEL01: each trained model in DistributedDataParallel, as late as it can be."""

from __future__ import annotations

import libcst as cst

from distify_codemods.events import Event, Kind
from distify_codemods.facts import dealt_by, wrapped
from distify_codemods.rules.base import Context, Example, Rule
from distify_codemods.tree import walk
from distify_codemods.values import External, Instance, Obj, Parameters, Value, core

CODE = "MODEL01"
#: Attributes of a module that read or set nothing that a wrap would hide.
TRANSPARENT = frozenset(
    [
        "train",
        "eval",
        "forward",
        "parameters",
        "zero_grad",
        "requires_grad_",
        "to",
        "cuda",
        "cpu",
        "float",
        "double",
        "half",
        "bfloat16",
        "training",
    ]
)


def run(context: Context) -> None:
    for blocked in context.decisions.blocked:
        if blocked.code == CODE and context.facts.training_loops:
            context.blocked(blocked)
    for wrap in context.decisions.wraps:
        module = wrap.module
        if not context.editable(module, wrap.statement, "the trained model is built here"):
            continue
        rt, plan = context.rt(module), context.plan(module)
        text = context.backend.wrap(wrap.target, context.wrapper(module), rt)
        insert = plan.insert_after if wrap.after else plan.insert_before
        insert(wrap.statement, text, CODE, f"gradients are averaged over the ranks; {wrap.why}", 10)
        context.applied(f"`{wrap.target}` is trained by all ranks together", module, wrap.statement)
    _other_ways(context)
    _compiled(context)
    _accumulation(context)
    _changed_later(context)


def _changed_later(context: Context) -> None:
    """What is done to a model after its wrap, the wrap does not know of."""
    if not context.facts.training_loops:
        return
    first = context.facts.training_loops[0].event
    turns = {here.node for here in first.loops()} | {first.node}
    for event in context.facts.of_kind(Kind.STORE, Kind.CALL, Kind.METHOD):
        problem = _problem(context, event) if any(here.node in turns for here in event.here.up()) else None
        if problem is not None:
            context.needs_you(problem[0], event.module, event.node, problem[1])


def _problem(context: Context, event: Event) -> tuple[str, str] | None:
    if event.kind is Kind.STORE and event.name == "requires_grad" and _of_a_model(context, event.receiver):
        return (
            "parameters are frozen or thawed after the model is wrapped, which does not notice",
            "do it before training, or wrap the model anew after it",
        )
    if event.kind is Kind.STORE and wrapped(event.receiver) and any(map(_is_module, event.value.objs)):
        return (
            "a part of the model is replaced after it is wrapped, which does not notice",
            "do it before training, or wrap the model anew after it",
        )
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
        if any(isinstance(obj, Parameters) or _is_module(core(obj)) for obj in value.objs):
            return True
        if isinstance(node, (cst.Attribute, cst.Subscript)):
            node = node.value
        else:
            node = node.func if isinstance(node, cst.Call) else None
    return False


def _is_module(obj: Obj) -> bool:
    return isinstance(obj, Instance) or (isinstance(obj, External) and obj.name.startswith("torch.nn."))


def _of_a_model(context: Context, value: Value) -> bool:
    return any(isinstance(obj, Parameters) or core(obj) in context.facts.models for obj in value.objs)


def _compiled(context: Context) -> None:
    for event in context.facts.calls("torch.compile"):
        if any(core(obj) in context.facts.models for value in event.arguments.all() for obj in value.objs):
            context.advice(
                "the compiled model is wrapped, so that checkpoints keep their keys; compiling the wrapped "
                "one would be faster", event.module, event.node,
            )  # fmt: skip


def _accumulation(context: Context) -> None:
    """Where the optimizer steps on some batches only, gradients need to be averaged on those alone."""
    for loop in context.facts.training_loops:
        for step in context.facts.steps:
            sometimes = any(
                isinstance(here.node, cst.If) and any(isinstance(node, cst.Modulo) for node in walk(here.node.test))
                for here in step.here.up()
                if here.frame is loop.event.here.frame
            )
            if sometimes and step.inside(loop.event):
                context.advice(
                    "gradients are averaged after each backward pass, which is right; under `model.no_sync()` "
                    "for all but the "
                    "last before a step it would be faster", step.module, step.node,
                )  # fmt: skip
                return


def _other_ways(context: Context) -> None:
    """Training through anything but the model's own forward is not seen by DistributedDataParallel."""
    loops = [loop.event for loop in context.facts.training_loops]
    for event in context.facts.of_kind(Kind.METHOD, Kind.FORWARD, Kind.CALL):
        if not event.grad or not any(event.inside(loop) for loop in loops):
            continue
        node = event.node
        if isinstance(node, cst.Call) and isinstance(node.func, (cst.Attribute, cst.Subscript)):
            _past_the_wrap(context, event, node, node.func)
    for event in context.facts.of_kind(Kind.LOOP):
        if event.grad and wrapped(event.value) and any(event.inside(loop) for loop in loops):
            context.needs_you(
                "the parts of the model are called one by one; DistributedDataParallel only averages gradients of the "
                "model's own forward",
                event.module, event.node, "call the model itself",
            )  # fmt: skip
    for event in context.facts.calls("torch.autograd.grad"):
        context.needs_you(
            "gradients are taken by `torch.autograd.grad`, past DistributedDataParallel", event.module, event.node,
            "average these gradients over the ranks by hand",
        )  # fmt: skip


def _past_the_wrap(context: Context, event: Event, node: cst.Call, function: cst.Attribute | cst.Subscript) -> None:
    name = f".{function.attr.value}" if isinstance(function, cst.Attribute) else "[...]"
    if not wrapped(context.facts.value(function.value)) or name[1:] in TRANSPARENT:
        return
    result: Value = context.facts.value(node)
    if event.kind is Kind.FORWARD or dealt_by(result.sources):
        context.needs_you(
            f"the model is trained through `{name}(...)`; DistributedDataParallel only averages gradients of "
            f"its forward",
            event.module, node, "call it through the model's forward, e.g. model(x, mode=...)",
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
    limits="Models whose forward leaves parameters unused stop with torch's own error; pass "
    "find_unused_parameters=True there.",
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
from torch.utils.data.distributed import DistributedSampler

rt.init_process_group()
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),
                    sampler=DistributedSampler(data, seed=rt.common_seed()))
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
from torch.utils.data.distributed import DistributedSampler

rt.init_process_group()
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),
                    sampler=DistributedSampler(data, seed=rt.common_seed()))
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
        Example(
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def loss(self, x, y):
        return nn.functional.mse_loss(self.out(x), y)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        loss = model.loss(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
        ),
    ),
)
