"""GROUP01: one process group, before anything that must be the same, or different, on each rank."""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions.base import chain
from distify_codemods.events import Event, Kind
from distify_codemods.rules.base import Context, Example, Rule
from distify_codemods.tree import walk

#: What neither touches a device nor draws random numbers nor reads data.
_HARMLESS = (
    "argparse.", "builtins.", "os.", "time.", "datetime.", "logging.", "sys.", "json.", "yaml.", "csv.", "glob.",
    "shutil.", "re.", "copy.", "math.", "string.", "warnings.", "pathlib.", "collections.", "functools.", "itertools.",
    "torch.device", "torch.cuda.is_available", "torch.cuda.device_count", "torch.cuda.set_device", "torch.backends.",
    "torch.accelerator.", "torch.manual_seed", "torch.cuda.manual_seed", "numpy.random.seed", "random.seed",
    "torchvision.transforms.", "torch.no_grad", "torch.inference_mode", "torch.enable_grad",
    "torch.set_default_dtype", "torch.set_num_threads",
)  # fmt: skip


def run(context: Context) -> None:
    place = _place(context)
    if place is None:
        return
    statement, after = place
    module, plan = context.entry, context.plan(context.entry)
    text = context.backend.process_group(context.rt(module))
    reason = "each process joins the group, takes its own GPU, and starts from rank 0's random numbers"
    (plan.insert_after if after else plan.insert_before)(statement, text, "GROUP01", reason, -10)
    context.applied("one process group, torn down at exit", module, statement)


def _place(context: Context) -> tuple[cst.CSTNode, bool] | None:
    """After the command line is read, if nothing that matters happens before that; else before the first that does."""
    events = [event for event in context.facts.run.events if _level(context, event)]
    first = next((event for event in events if _matters(event)), None)
    if first is None:
        return None
    spine = _spine(context, first)
    parsed = next((event for event in events if event.kind is Kind.ARGUMENTS_PARSED), None)
    if parsed is not None and parsed.before(first):
        for (frame, one), (other_frame, other) in zip(_own(context, parsed), spine, strict=False):
            if frame is other_frame and one is not other:
                return one, True
            if frame is not other_frame:
                break
    return spine[-1][1], False


def _spine(context: Context, event: Event) -> list[tuple[object, cst.CSTNode]]:
    """The statements that lead to an event, through `if __name__ == "__main__":` and into one `main()`."""
    training = {node for loop in context.facts.training_loops[:1] for _, node in _own(context, loop.event)}
    found: list[tuple[object, cst.CSTNode]] = []
    for frame, node in _own(context, event):
        entered = {id(one) for one, _ in found}
        further = found and found[-1][1] in training and _leads_on(found[-1][1])
        if found and (not further or (len(entered) == 2 and id(frame) not in entered)):
            break
        found.append((frame, node))
    return found


def _own(context: Context, event: Event) -> list[tuple[object, cst.CSTNode]]:
    """The statements of the entry's file that an event happens in, up to where another file begins."""
    found = []
    for frame, node in chain(event):
        if frame.module is not context.entry:  # type: ignore[attr-defined]
            break
        found.append((frame, node))
    return found


def _level(context: Context, event: Event) -> bool:
    """Whether the event is the program's own doing, not an import's."""
    own = _own(context, event)
    return bool(own) and not (
        isinstance(own[0][1], cst.SimpleStatementLine) and isinstance(own[0][1].body[0], (cst.Import, cst.ImportFrom))
    )


def _matters(event: Event) -> bool:
    if event.kind is Kind.CALL:
        return not event.name.startswith(_HARMLESS)
    return event.kind in (Kind.FORWARD, Kind.LOOP) or (event.kind is Kind.METHOD and event.name in ("cuda", "to"))


def _leads_on(node: cst.CSTNode) -> bool:
    """`if __name__ == "__main__":` and a plain call of a function: what matters is inside."""
    if isinstance(node, cst.If):
        return any(isinstance(one, cst.Name) and one.value == "__name__" for one in walk(node.test))
    return (
        isinstance(node, cst.SimpleStatementLine)
        and isinstance(node.body[0], cst.Expr)
        and isinstance(node.body[0].value, cst.Call)
        and isinstance(node.body[0].value.func, cst.Name)
    )


RULE = Rule(
    code="GROUP01",
    name="process group",
    why="Without a process group the processes train N models that know nothing of each other.",
    safety="Inserted once, after the command line is read and before the first thing that touches data, models or "
    "devices. The group takes itself down at exit, also after `return`, `sys.exit` and exceptions.",
    run=run,
    limits="A script whose first such step is inside a condition gets it before the condition.",
    pitfalls=(13, 46),
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
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
""",
            """\
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import distify_runtime as rt
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    rt.init_process_group()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),
                        sampler=DistributedSampler(data, seed=rt.common_seed()))
    model = nn.Linear(4, 1)
    model = DistributedDataParallel(model, device_ids=rt.device_ids(model))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    rt.seed_ranks_apart()
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
""",
        ),
    ),
)
