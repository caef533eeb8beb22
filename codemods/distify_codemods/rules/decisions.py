"""DECIDE01: all ranks take the same decision."""

from __future__ import annotations

import libcst as cst

from distify_codemods.events import Event, Kind
from distify_codemods.facts import loaders_of, wrapped
from distify_codemods.rules.base import Context, Example, Rule
from distify_codemods.values import External, Obj, Share

CODE = "DECIDE01"


def run(context: Context) -> None:
    found = False
    for event in context.facts.of_kind(Kind.TEST):
        why = _differs(context, event)
        if why and _matters(context, event):
            found = True
            context.needs_you(
                f"this decision {why}, so that the ranks may go different ways", event.module, event.node,
                "take one decision for all: `if rt.any_rank(condition):`, or average the figure over the ranks first",
            )  # fmt: skip
    for event in context.facts.of_kind(Kind.METHOD, Kind.STORE):
        why = _rate_differs(context, event)
        if why:
            found = True
            context.needs_you(
                f"the learning rate follows a figure that {why}", event.module, event.node,
                "average the figure over the ranks first",
            )  # fmt: skip
    if not found:
        context.not_needed("every decision is the same on all ranks")


def _differs(context: Context, event: Event) -> str:
    """Why the outcome of a test is a rank's own."""
    return _why(context, event.value.sources)


def _why(context: Context, sources: frozenset[Obj | str]) -> str:
    training = context.facts.training_loaders
    for loader in loaders_of(sources):
        if loader in training or isinstance(loader, Share):
            return "depends on the training loss or batch of one rank"
    if "time" in sources:
        return "depends on the time"
    if "random" in sources and context.facts.backwards and not context.decisions.slicings:
        return "depends on chance"
    return ""


def _matters(context: Context, test: Event) -> bool:
    """Whether what it decides touches the other ranks, or what is kept of the run."""
    if not context.facts.training_loops or not _in_training_run(context, test):
        return False
    for event in context.facts.run.events:
        if event.number > test.number and _guarded_by(event, test) and _consequence(context, event):
            return True
    return isinstance(test.node, cst.While)


def _in_training_run(context: Context, test: Event) -> bool:
    first = min(loop.event.number for loop in context.facts.training_loops)
    return test.number >= first or isinstance(test.node, cst.While)


def _guarded_by(event: Event, test: Event) -> bool:
    return any(
        here.node is test.node and here.arm and here.frame.context == test.here.frame.context
        for here in event.here.up()
    )


def _consequence(context: Context, event: Event) -> bool:
    facts = context.facts
    if event in facts.backwards or event in facts.steps:
        return True
    if event.kind is Kind.FORWARD:
        return bool(wrapped(event.receiver)) and event.grad
    if event.kind is Kind.CALL and event.name == "torch.save":
        return True
    if event.kind is Kind.LEAVE:
        return event.name != "raise" and _ends_training(context, event)
    if event.kind is Kind.METHOD and event.name == "step":
        return True
    return event.kind is Kind.LOOP and any(loop.event.node is event.node for loop in facts.loops)


def _ends_training(context: Context, event: Event) -> bool:
    """`break`, `continue` and `return` where a training or evaluation loop goes on, or would have begun."""
    if event.name == "exit":
        return True
    frames = {loop.event.here.frame.node for loop in context.facts.loops}
    outer = {here.node for loop in context.facts.loops for here in loop.event.here.up()}
    if event.name == "return":
        return event.here.frame.node in frames
    loops = [here.node for here in event.here.up() if isinstance(here.node, (cst.For, cst.While)) and here.arm]
    inner = loops[0] if loops else None
    return inner in outer or any(loop.node is inner for loop in context.facts.loops)


def _rate_differs(context: Context, event: Event) -> str:
    if event.kind is Kind.STORE:
        target = event.node
        if event.name == "[]" and isinstance(target, cst.Subscript) and isinstance(target.slice[0].slice, cst.Index):
            key = target.slice[0].slice.value
            if isinstance(key, cst.SimpleString) and key.evaluated_value == "lr":
                return _why(context, event.value.sources)
        return ""
    schedulers = [obj for obj in event.receiver.objs if isinstance(obj, External) and "lr_scheduler" in obj.name]
    if event.name == "step" and schedulers and event.arguments.positional:
        return _why(context, event.arguments.positional[0].sources)
    return ""


RULE = Rule(
    code=CODE,
    name="decisions",
    why="When one rank stops, saves or lowers its learning rate and the others do not, the run hangs or the "
    "models part.",
    safety="A decision on evaluation results is the same on all ranks, because the results are. One that "
    "depends on a rank's own "
    "batches, on the time or on chance is left to a person, if anything but output hangs on it.",
    run=run,
    pitfalls=(18, 19),
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
        if torch.isnan(loss):
            continue
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
    if epoch == 1:
        torch.save(model.state_dict(), "model.pt")
""",
        ),
    ),
)
