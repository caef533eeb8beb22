"""GROUP01: one process group, before anything that must be the same, or different, on each rank."""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions.base import chain
from distify_codemods.events import Event, Kind
from distify_codemods.rules.base import Context, Example, Rule

#: What neither touches a device nor draws random numbers nor reads data.
_HARMLESS = (
    "argparse.", "builtins.", "os.path.", "os.environ", "os.getenv", "time.", "datetime.", "logging.", "sys.",
    "warnings.", "torch.device", "torch.cuda.is_available", "torch.cuda.device_count", "torch.backends.", "torch.accelerator.",
    "torch.manual_seed", "torch.cuda.manual_seed", "numpy.random.seed", "random.seed", "torchvision.transforms.",
    "torch.set_default_dtype", "torch.set_num_threads", "pathlib.", "collections.", "functools.", "itertools.", "os.makedirs", "os.mkdir",
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
    entry = context.entry
    events = [event for event in context.facts.run.events if _level(context, event)]
    first = next((event for event in events if _matters(event)), None)
    if first is None:
        return None
    parsed = next((event for event in events if event.kind is Kind.ARGUMENTS_PARSED), None)
    if parsed is not None and parsed.before(first):
        for (_, one), (_, other) in zip(_own(context, parsed), _own(context, first), strict=False):
            if one is not other:
                return one, True
    chosen = None
    for _, node in _own(context, first):
        chosen = node
        if not _leads_on(entry.tree, node):
            break
    return (chosen, False) if chosen is not None else None


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


def _leads_on(tree_: cst.Module, node: cst.CSTNode) -> bool:
    """`if __name__ == "__main__":` and a plain call of a function: what matters is inside."""
    if isinstance(node, cst.If):
        return any(isinstance(one, cst.Name) and one.value == "__name__" for one in _names(node.test))
    return (
        isinstance(node, cst.SimpleStatementLine)
        and isinstance(node.body[0], cst.Expr)
        and isinstance(node.body[0].value, cst.Call)
        and isinstance(node.body[0].value.func, cst.Name)
    )


def _names(node: cst.CSTNode) -> list[cst.CSTNode]:
    from distify_codemods.tree import walk

    return list(walk(node))


RULE = Rule(
    code="GROUP01",
    name="process group",
    why="Without a process group the processes train N models that know nothing of each other.",
    safety="Inserted once, after the command line is read and before the first thing that touches data, models or "
    "devices. The group takes itself down at exit, also after `return`, `sys.exit` and exceptions.",
    run=run,
    limits="A script whose first such step is inside a condition gets it before the condition.",
    pitfalls=(13, 46),
    examples=(),
)
__all__ = ["RULE", "Example"]
