"""torchtext's iterators in training: the runtime deals out the examples of each minibatch."""

from __future__ import annotations

import json

from distify_codemods.decisions.base import LoaderDecision
from distify_codemods.events import Kind
from distify_codemods.interpreter import text
from distify_codemods.interpreter.text import splits_of
from distify_codemods.libraries import torch_data
from distify_codemods.objects import External, Sequence
from distify_codemods.rules.base import Context

_REASON = "each rank makes a batch of its share of the examples"


def shard(context: Context, decision: LoaderDecision) -> None:
    checked = unseen_fields(context, decision)
    more = f", time_first={json.dumps(checked)}" if checked else ""
    if not any(splits_of(loader.made.name) for loader in decision.loaders):
        context.put_into(decision.module, decision.node, f"shard_text_iterator({{}}{more})", _REASON)
        return
    places = {_place(loader.made.value.single(), loader.obj) for loader in decision.loaders}
    place = places.pop() if len(places) == 1 else None
    if place is None:
        context.needs_you(
            "which of these iterators is the training one cannot be seen", decision.module, decision.node,
            "give `splits` a tuple of data sets, and unpack what it returns",
        )  # fmt: skip
        return
    call = f"shard_text_iterators({{}}, training={place}{more})"
    context.put_into(decision.module, decision.node, call, _REASON)


def _place(made: object, iterator: External) -> int | None:
    items = made.items if isinstance(made, Sequence) and made.items is not None else ()
    return next((number for number, item in enumerate(items) if item.single() is iterator), None)


def unseen_fields(context: Context, decision: LoaderDecision) -> list[str]:
    """The fields whose layout the program does not show: when it runs, they must prove to be as they were taken."""
    iterators = {loader.obj for loader in decision.loaders}
    names = (
        event.name
        for event in context.facts.of_kind(Kind.ATTRIBUTE)
        for obj in event.receiver.objs
        if isinstance(obj, External) and obj.name == torch_data.TEXT_BATCH and obj.whole in iterators
        if text.is_field(event.name) and text.fields_of(obj, event.name) is None
    )
    return list(dict.fromkeys(names))
