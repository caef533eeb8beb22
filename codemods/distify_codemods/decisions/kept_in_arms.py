"""Where an attribute is given a model in several places: behind all of them is one place, if each run has one there.

`if small: self.net = Net(8)` and then `if large: self.net = Net(16)`; the arms of a branch; a `try` and its handler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const
from distify_codemods.decisions.base import lines_to, path
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core
from distify_codemods.parameters import may_be_a_module

_LEAVING = (cst.Return, cst.Raise, cst.Break, cst.Continue)


def stores_of(facts: Facts, store: Event, forward: Event) -> list[Event]:
    """All places in a function where an attribute is set that a model is kept in, whichever call of it comes there."""
    frame, target = store.here.frame, tree.code_of(store.node)
    return [
        event
        for event in facts.with_unused.of_kind(Kind.STORE)
        if event.name == store.name
        and event.here.frame.node is frame.node
        and (event.before(forward) or event.here.frame is not frame)
        and tree.code_of(event.node) == target
    ]


def behind_all(facts: Facts, store: Event, touching: Iterable[Event], forward: Event) -> cst.CSTNode | None:
    """The last statement that does something to the model in the block around all places that keep one.

    None where there is one place alone, or where a run may come by without any model.
    """
    module, stores = store.module, stores_of(facts, store, forward)
    keeping = [event for event in stores if _is_a_model(event)]
    if len({event.node for event in keeping}) < 2 or not isinstance(store.node, cst.Attribute):
        return None
    ways = [dict(lines_to(module, event.node)) for event in keeping]
    block = next((block for block in ways[0] if all(block in way for way in ways)), None)
    if block is None:
        return None
    done = [way[block] for way in ways]
    done += [line for event in touching if (line := line_in(block, event, store)) is not None]
    found, last = last_of(block, done), last_of(block, [way[block] for way in ways])
    set_by = module.flow(found).set_before(found, tree.code_of(store.node), after=True)
    models = {event.node for event in keeping} - {event.node for event in stores if event not in keeping}
    return found if set_by <= models or _is_needed_behind(block, last, store.node) else None


def line_in(block: cst.CSTNode, event: Event, store: Event) -> cst.CSTNode | None:
    """The statement of a block, in the activation that keeps a model, in which something happens."""
    return next((line for line in path(event, store.here.frame) if store.module.parents.get(line) is block), None)


def last_of(block: cst.CSTNode, lines: Iterable[cst.CSTNode]) -> cst.CSTNode:
    found = set(lines)
    return next(line for line in reversed(_lines(block)) if line in found)


def _is_a_model(store: Event) -> bool:
    objs = [core(obj) for obj in store.value.objs]
    return bool(objs) and all(may_be_a_module(obj) and not isinstance(obj, Const) for obj in objs)


def _is_needed_behind(block: cst.CSTNode, last: cst.CSTNode, target: cst.Attribute) -> bool:
    """Whether a run without a model fails: a line of the block asks for something in it, or calls it."""
    lines = _lines(block)
    for line in lines[lines.index(last) + 1 :]:
        if isinstance(line, cst.SimpleStatementLine) and any(_asks(node, target) for node in _sure_parts(line)):
            return True
        if any(isinstance(node, _LEAVING) for node in tree.walk(line)):
            return False
    return False


def _asks(node: cst.CSTNode, target: cst.Attribute) -> bool:
    asked = node.value if isinstance(node, cst.Attribute) else node.func if isinstance(node, cst.Call) else None
    return asked is not None and asked.deep_equals(target)


def _sure_parts(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for part in tree.children(node):
        if not isinstance(part, tree.PERHAPS):
            yield from _sure_parts(part)


def _lines(block: cst.CSTNode) -> list[cst.CSTNode]:
    return list(block.body) if isinstance(block, (cst.IndentedBlock, cst.Module)) else []
