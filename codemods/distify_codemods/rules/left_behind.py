"""What happens in a piece of the script and is no matter of it alone: of the process, of a library, of training.

What it does to things of the script's own is seen in its text (`own_things.py`).
"""

from __future__ import annotations

from distify_codemods.allocation import Obj, Ref
from distify_codemods.events import Event, Kind
from distify_codemods.inside import root
from distify_codemods.libraries import lasting
from distify_codemods.objects import External
from distify_codemods.rules.base import Context
from distify_codemods.wholes import Whole

_TRACELESS = frozenset({Kind.ATTRIBUTE, Kind.TEST, Kind.ASSERT, Kind.OWN, Kind.PRINT})


def is_nothing(context: Context, whole: Whole, event: Event) -> bool:
    """Whether what happens in a piece leaves nothing of that behind."""
    if event.unused or event.kind in _TRACELESS:
        return True
    if event.kind is Kind.LOOP:
        return not any(loop.event is event for loop in context.facts.loops)
    if event.kind is Kind.LEAVE:
        return event.name != "exit"
    if event.kind is Kind.FORWARD:
        return not context.facts.is_of_a_model(event)
    if event.kind is Kind.CALL:
        return not lasting.changes_the_process(event.name) and not _makes_for_training(context, event)
    if event.kind is Kind.METHOD:
        parts = (obj.name for obj in event.receiver.objs if isinstance(obj, Ref))
        return not any(lasting.changes_the_process(f"{name}.{event.name}") for name in parts)
    return event.kind is Kind.STORE and all(whole.makes(obj) or _is_a_threads(obj) for obj in event.receiver.objs)


def _is_a_threads(obj: Obj) -> bool:
    maker = root(obj)
    return isinstance(maker, External) and lasting.is_of_a_thread(maker.name)


def _makes_for_training(context: Context, event: Event) -> bool:
    facts = context.facts
    made = (*facts.models, *(one.obj for one in facts.optimizers), *(one.obj for one in facts.loaders))
    return event in facts.backwards or not event.value.objs.isdisjoint(made)
