"""Training loops over a loader, or over something that is not known: what that deals out is not shared out."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.decisions.base import Link
from distify_codemods.facts import Facts
from distify_codemods.inside import root, to_library
from distify_codemods.libraries import progress, python, torch_data
from distify_codemods.naming import brief
from distify_codemods.objects import External, Passing
from distify_codemods.values import Value


def links(facts: Facts) -> Iterator[Link]:
    """`for batch in data.loader`, where `data` may be something that is not known."""
    for loop in facts.training_loops:
        over = loop.event.value
        if loop.trained and isinstance(loop.node, cst.For) and _may_be_a_loader(over) and _is_open(over):
            yield Link(
                loop.module, loop.node.iter,
                f"`{brief(loop.node.iter)}` may be something else than the loader that is seen, and each rank would "
                "train on all of that",
                "it could be followed if all that it may be were made in the project, by functions and classes that "
                "are called by their names",
            )  # fmt: skip


def _is_open(value: Value) -> bool:
    """Whether iterating it may give what is not known, beside batches."""
    foreign = any(isinstance(one, External) and one.name not in torch_data.LOADERS for one in map(_known, value.objs))
    return value.open or foreign or any(map(_is_open, _within(value)))


def _may_be_a_loader(value: Value) -> bool:
    loaders = (isinstance(one, External) and one.name in torch_data.LOADERS for one in map(_known, value.objs))
    return any(loaders) or any(map(_may_be_a_loader, _within(value)))


def _within(value: Value) -> Iterator[Value]:
    """What is gone through in `enumerate`, `zip` and bars; numbers that are zipped with batches only count them."""
    for obj in value.objs:
        if isinstance(obj, Passing):
            parts = [part for part in (obj.over, *obj.zipped) if part is not None]
            yield from (part for part in parts if not (obj.zipped and _is_of_numbers(part)))


def _is_of_numbers(value: Value) -> bool:
    """`range(n)`, also in a bar."""
    return bool(value.objs) and not value.open and all(
        obj.name in (*python.NUMBERS, progress.RANGE) if isinstance(obj, External)
        else isinstance(obj, Passing) and obj.over is not None and all(map(_is_of_numbers, (obj.over, *obj.zipped)))
        for obj in value.objs
    )  # fmt: skip


def _known(obj: Obj) -> Obj:
    """What of a library it is, or is an attribute of."""
    return root(to_library(obj))
