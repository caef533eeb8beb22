"""Parameters that a script updates by itself, without an optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.events import Event, Kind
from distify_codemods.inside import contained
from distify_codemods.interpreter import Run
from distify_codemods.libraries import torch_optim
from distify_codemods.objects import Parameters
from distify_codemods.values import NOTHING

#: In-place methods that write no numbers.
_NO_WRITES = frozenset(["requires_grad_", "detach_", "share_memory_", "retain_grad_", "resize_", "unscale_"])


def updated_by_hand(run: Run) -> dict[Obj, Event]:
    """The modules whose parameters' gradients the script reads, as in `p.data.add_(p.grad, alpha=-lr)`; and where.

    Or takes by `torch.autograd.grad`, where it also writes into the parameters.
    """
    found: dict[Obj, Event] = {}
    written = _written(run)
    for event in run.events:
        for part in _parts(_gradients_of(event)):
            if event.kind is Kind.ATTRIBUTE or part in written:
                found.setdefault(part, event)
    return found


def _gradients_of(event: Event) -> Iterable[Obj]:
    if event.kind is Kind.ATTRIBUTE and event.name == "grad":
        return event.receiver.objs
    taken = event.arguments.get("inputs", 1) if event.kind is Kind.CALL and event.name == torch_optim.GRADIENT else None
    return contained(taken) if taken is not None else ()


def _written(run: Run) -> set[Obj]:
    """Whose parameters are written into: `p.sub_(...)`, `p.data = ...`, `p -= ...`."""
    found: set[Obj] = set()
    for event in run.events:
        by_method = event.kind is Kind.METHOD and writes(event.name)
        if by_method or (event.kind is Kind.STORE and event.name == "data"):
            found.update(_parts(event.receiver.objs))
    for module in run.frames:
        for node in module.parents:
            if isinstance(node, cst.AugAssign):
                found.update(_parts(run.values.get(node.target, NOTHING).objs))
    return found


def writes(method: str) -> bool:
    """Whether a method of a tensor's writes numbers into it."""
    return method.endswith("_") and not method.startswith("_") and method not in _NO_WRITES


def _parts(objs: Iterable[Obj]) -> Iterator[Obj]:
    return (obj.of for obj in objs if isinstance(obj, Parameters) and obj.of is not None)
