"""Parameters that a script updates by itself, without an optimizer."""

from __future__ import annotations

from distify_codemods.allocation import Obj
from distify_codemods.events import Event, Kind
from distify_codemods.interpreter import Run
from distify_codemods.objects import Parameters


def updated_by_hand(run: Run) -> dict[Obj, Event]:
    """The modules whose parameters' gradients the script reads, as in `p.data.add_(p.grad, alpha=-lr)`; and where."""
    found: dict[Obj, Event] = {}
    for event in run.events:
        if event.kind is Kind.ATTRIBUTE and event.name == "grad":
            for obj in event.receiver.objs:
                if isinstance(obj, Parameters) and obj.of is not None:
                    found.setdefault(obj.of, event)
    return found
