"""What the original reaches, saves or loads through `nn.DataParallel`."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.base import Decisions
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import contained, core
from distify_codemods.libraries import python, torch_nn
from distify_codemods.libraries.parallel import DEEP, WALKS
from distify_codemods.objects import Wrapped
from distify_codemods.ordered import Ordered
from distify_codemods.program import Module
from distify_codemods.settled import is_module
from distify_codemods.values import Value


def decide_prefixes(decisions: Decisions, facts: Facts) -> None:
    """`facts`: of the script as it stands, with nn.DataParallel."""
    held = _parts(facts, () if decisions.shared else facts.models)
    decisions.parts = _made_for(facts, held)
    decisions.prefixed, decisions.reached_through = _prefixed(facts, held), _reached_through(facts, held)
    decisions.walked = _walked(facts, held)


def _parts(facts: Facts, wrapped: Collection[Obj]) -> Ordered[Obj]:
    """What is nn.DataParallel and is held by a module: its keys there are `part.module.weight`, with no GPU, too.

    `wrapped`: what gets a wrap of ours in its place, which has such keys.
    """
    sites = {event.node for event in facts.calls(torch_nn.DATA_PARALLEL)}  # no half of what distributes a script
    events = facts.of_kind(Kind.STORE, Kind.METHOD, Kind.CALL) if sites else ()
    return Ordered(
        obj for event in events for obj in _held(event)
        if isinstance(obj, Wrapped) and obj.site in sites and core(obj) not in wrapped
    )  # fmt: skip


def _made_for(facts: Facts, held: Ordered[Obj]) -> dict[cst.CSTNode, bool]:
    """Calls that make such parts: always, or sometimes."""
    made = {obj.site: True for obj in held if obj.site is not None}
    for event in facts.calls(torch_nn.DATA_PARALLEL) if made else ():
        if event.node in made and any(isinstance(obj, Wrapped) and obj not in held for obj in event.value.objs):
            made[event.node] = False
    return made


def _held(event: Event) -> Iterable[Obj]:
    """What a module is given to hold."""
    return (obj for given in taken_in(event)[1] for obj in contained(given))


def taken_in(event: Event) -> tuple[list[Obj], list[Value]]:
    """Modules, and what they are given: as an attribute, by `add_module`, `append`, or as nn.Sequential(...) is."""
    if event.kind is Kind.CALL:
        holders, given = [obj for obj in event.value.objs if obj.site is event.node], event.arguments.all()
    elif event.kind is Kind.STORE or event.name in torch_nn.TAKE_IN:
        holders = list(event.receiver.objs)
        given = [event.value] if event.kind is Kind.STORE else event.arguments.all()
    else:
        return [], []
    modules = list(filter(is_module, holders))
    return modules, list(given) if modules else []


def _that_go(value: Value, held: Ordered[Obj]) -> list[bool]:
    """Of each that a value may be, whether it is nn.DataParallel that gives way."""
    return [isinstance(obj, Wrapped) and not obj.ours and obj not in held for obj in value.objs]


def _reached_through(facts: Facts, held: Ordered[Obj]) -> dict[cst.CSTNode, bool]:
    """`.module` on nn.DataParallel: whether it gives way."""
    found: dict[cst.CSTNode, bool] = {}
    for event in facts.of_kind(Kind.ATTRIBUTE):
        if event.name == "module" and any(isinstance(obj, Wrapped) for obj in event.receiver.objs):
            found[event.node] = found.get(event.node, False) or any(_that_go(event.receiver, held))
    return found


def _prefixed(facts: Facts, held: Ordered[Obj]) -> dict[cst.CSTNode, bool]:
    """Where the original saves or loads the state of a model in nn.DataParallel: its keys begin with `module.`"""
    found: dict[cst.CSTNode, bool] = {}
    for event in facts.of_kind(Kind.METHOD):
        if event.name in ("state_dict", "load_state_dict"):
            parallel = _that_go(event.receiver, held)
            if any(parallel):
                found[event.node] = all(parallel) and found.get(event.node, True)
            elif event.node in found:
                found[event.node] = False
    return found


def _walked(facts: Facts, held: Ordered[Obj]) -> frozenset[cst.CSTNode]:
    """`.children` and the like on what is always nn.DataParallel, where it shows that this is one.

    A script that wraps on some machines only goes right without a wrap, too.
    """
    found: dict[cst.CSTNode, bool] = {}
    for event in facts.of_kind(Kind.ATTRIBUTE, Kind.CALL):
        if (event.kind is Kind.ATTRIBUTE and event.name in WALKS) or _asks_for_the_module(event):
            parallel = _that_go(holder(event), held)
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
