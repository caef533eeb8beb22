"""What the original reaches, saves or loads through `nn.DataParallel`."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.libraries import python
from distify_codemods.libraries.parallel import DEEP, WALKS
from distify_codemods.objects import Wrapped
from distify_codemods.program import Module
from distify_codemods.values import Value


def reached_through(facts: Facts) -> frozenset[cst.CSTNode]:
    """`.module` on nn.DataParallel."""
    return frozenset(
        event.node
        for event in facts.of_kind(Kind.ATTRIBUTE)
        if event.name == "module" and any(isinstance(obj, Wrapped) for obj in event.receiver.objs)
    )


def prefixed(facts: Facts) -> dict[cst.CSTNode, bool]:
    """Where the original saves or loads the state of a model in nn.DataParallel: its keys begin with `module.`"""
    found: dict[cst.CSTNode, bool] = {}
    for event in facts.of_kind(Kind.METHOD):
        if event.name in ("state_dict", "load_state_dict"):
            parallel = [isinstance(obj, Wrapped) for obj in event.receiver.objs]
            if any(parallel):
                found[event.node] = all(parallel) and found.get(event.node, True)
            elif event.node in found:
                found[event.node] = False
    return found


def walked(facts: Facts) -> frozenset[cst.CSTNode]:
    """`.children` and the like on what is always nn.DataParallel, where it shows that this is one.

    A script that wraps on some machines only goes right without a wrap, too.
    """
    found: dict[cst.CSTNode, bool] = {}
    for event in facts.of_kind(Kind.ATTRIBUTE, Kind.CALL):
        if (event.kind is Kind.ATTRIBUTE and event.name in WALKS) or _asks_for_the_module(event):
            parallel = [isinstance(obj, Wrapped) and not obj.ours for obj in holder(event).objs]
            always = bool(parallel) and all(parallel) and found.get(event.node, True)
            found[event.node] = always and not (event.name in DEEP and _takes_each(event.module, event.node))
    return frozenset(node for node, always in found.items() if always)


def holder(event: Event) -> Value:
    """Whose attribute is read, be it by `getattr`."""
    given = event.arguments.positional
    return given[0] if event.kind is Kind.CALL and given else event.receiver


def _asks_for_the_module(event: Event) -> bool:
    given = event.arguments.positional
    return event.name == python.READS_ATTRIBUTE and len(given) > 1 and given[1].constant() == "module"


def _takes_each(module: Module, walk: cst.CSTNode) -> bool:
    """`for part in model.modules()`, whatever it is called."""
    assert isinstance(walk, cst.Attribute)
    call = module.parents.get(walk)
    loop = module.parents.get(call) if call is not None else None
    if not isinstance(loop, (cst.For, cst.CompFor)) or loop.iter is not call:
        return False
    if not walk.attr.value.startswith("named_"):
        return True
    return isinstance(loop.target, cst.Tuple) and _tells_no_prefix(module, loop, loop.target.elements[0].value)


def _tells_no_prefix(module: Module, loop: cst.For | cst.CompFor, target: cst.BaseExpression) -> bool:
    """Whether a name is asked for a part of it alone: `"bias" in name`; or not at all."""
    if not isinstance(target, cst.Name):
        return False
    scope = loop if isinstance(loop, cst.For) else module.parents[loop]
    return all(
        one is target or _asks_for_a_part(module, one)
        for one in tree.walk(scope)
        if isinstance(one, cst.Name) and one.value == target.value and not _is_a_label(module, one)
    )


def _is_a_label(module: Module, name: cst.Name) -> bool:
    """`given.name`, `f(name=...)`"""
    parent = module.parents[name]
    return (isinstance(parent, cst.Attribute) and parent.attr is name) or (
        isinstance(parent, cst.Arg) and parent.keyword is name
    )


def _asks_for_a_part(module: Module, name: cst.Name) -> bool:
    """`"bias" in name`, `name.endswith("bias")`, or that it is shown."""
    parent = module.parents[name]
    if isinstance(parent, cst.Attribute):
        return parent.attr.value == "endswith"
    if not isinstance(parent, cst.ComparisonTarget) or not isinstance(parent.operator, (cst.In, cst.NotIn)):
        return isinstance(parent, cst.FormattedStringExpression)
    comparison = module.parents[parent]
    sought = comparison.left if isinstance(comparison, cst.Comparison) else None
    return isinstance(sought, cst.SimpleString) and "module" not in sought.value
