"""Errors that a script raises, and goes on behind."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.events import Event
from distify_codemods.facts import Facts
from distify_codemods.libraries.effects import PURE
from distify_codemods.objects import External

_TRIES = (cst.Try, cst.TryStar)
#: A handler of these alone is for whoever stops the run.
_STOPS = frozenset({"KeyboardInterrupt", "SystemExit", "GeneratorExit"})


def may_be_caught(facts: Facts, event: Event, within: frozenset[cst.CSTNode] = frozenset()) -> bool:
    """By a handler, or by what stands behind a `with` and is not known to let errors through. `within`: what does not
    count.
    """
    around = (here.node for here in event.here.up() if here.arm == "body" and here.node not in within)
    return any(_may_catch(facts, node) for node in around)


def is_handled(event: Event) -> bool:
    """By a handler that is seen."""
    tries = (here.node for here in event.here.up() if here.arm == "body" and isinstance(here.node, _TRIES))
    return any(_goes_on(handler) for node in tries for handler in node.handlers)


def _may_catch(facts: Facts, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.With):
        entered = [facts.value(item.item).objs for item in node.items]
        return not all(objs and all(map(_lets_errors_through, objs)) for objs in entered)
    return isinstance(node, _TRIES) and any(map(_goes_on, node.handlers))


def _goes_on(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> bool:
    """Whether it takes errors, and does not raise another at its end."""
    last = tree.small_statements(handler.body)[-1:]
    kinds = handler.type.elements if isinstance(handler.type, cst.Tuple) else ()
    named = [one.value for one in kinds] if kinds else [handler.type]
    stops = all(one is not None and (tree.dotted(one) or "").rpartition(".")[2] in _STOPS for one in named)
    return not stops and not (last and isinstance(last[0], cst.Raise))


def _lets_errors_through(obj: Obj) -> bool:
    return isinstance(obj, External) and obj.name.startswith(PURE)
