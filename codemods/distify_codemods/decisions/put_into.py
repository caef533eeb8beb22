"""What is put into dictionaries and lists of the script's own once they are there: `figures["loss"] = loss.item()`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.answers import answered_once
from distify_codemods.facts import Facts
from distify_codemods.libraries import python, settings
from distify_codemods.objects import External, Instance, Mapping, Sequence
from distify_codemods.program import Module
from distify_codemods.scale import Scale


@answered_once
def put_into(facts: Facts) -> dict[Obj, list[cst.BaseExpression]]:
    """By what takes it, in the order in which it is written down."""
    found: dict[Obj, list[cst.BaseExpression]] = {}
    for module in facts.run.frames:
        for node in module.parents:
            for holder, given in _puts(node):
                for obj in facts.value(holder).objs:
                    if isinstance(obj, (Mapping, Sequence)) or is_record(obj):
                        found.setdefault(obj, []).append(given)
    return found


def is_record(obj: Obj) -> bool:
    """A named tuple, a namespace, or an object whose attributes are what its class is called with: a dataclass."""
    if isinstance(obj, Instance):
        plain = obj.of is not None and obj.base is None and all(one in python.TUPLES for one in obj.of.libraries)
        return plain and obj.of is not None and obj.of.member("__init__") is None
    if isinstance(obj, External):
        return obj.name in settings.NAMESPACES
    return isinstance(obj, Sequence) and bool(obj.names)


@answered_once
def taken_out_of(facts: Facts) -> set[Obj]:
    """What something is taken out of again: `del figures["loss"]`, `figures.pop("loss")`."""
    return {obj for _, node in takings(facts) for holder in _emptied(node) for obj in _tables(facts, holder)}


def takings(facts: Facts) -> list[tuple[Module, cst.CSTNode]]:
    """Where that is done."""
    return [
        (module, node) for module in facts.run.frames for node in module.parents
        if any(_tables(facts, holder) for holder in _emptied(node))
    ]  # fmt: skip


def _tables(facts: Facts, holder: cst.BaseExpression) -> list[Obj]:
    return [obj for obj in facts.value(holder).objs if isinstance(obj, (Mapping, Sequence))]


@answered_once
def read_one_by_one(facts: Facts) -> set[Obj]:
    """Of what entries that are no means are read by their keys or places: `seen += figures["count"]`."""
    found: set[Obj] = set()
    for module in facts.run.frames:
        for node, around in module.parents.items():
            written = isinstance(around, (cst.AssignTarget, cst.Del)) or node is getattr(around, "target", None)
            if isinstance(node, cst.Subscript) and not written:
                value = facts.value(node)
                if value.scale is not Scale.MEAN and facts.shares_of_training(value):
                    held = facts.value(node.value).objs
                    found.update(obj for obj in held if isinstance(obj, (Mapping, Sequence)))
    return found


def _emptied(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.Del):
        yield from (one.value for one in tree.walk(node) if isinstance(one, cst.Subscript))
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        yield from (node.func.value for _ in range(node.func.attr.value in python.TAKING_OUT))


def _puts(node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """A holder, and what goes into it; not what goes on from what is there: `counts[key] = counts.get(key, 0) + 1`.

    An attribute, too: of records, which are printed with all that they hold.
    """
    if isinstance(node, cst.Assign):
        for one in tree.targets(node):
            if isinstance(one, (cst.Subscript, cst.Attribute)) and not reads_again(one, node.value):
                yield one.value, node.value
    elif isinstance(node, cst.AugAssign) and not isinstance(node.target, cst.Subscript):
        yield node.target, node.value
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        keeps = node.func.attr.value in python.KEEPING_METHODS
        yield from ((node.func.value, one.value) for one in (node.args if keeps else ()))


def reads_again(target: cst.Subscript | cst.Attribute, value: cst.BaseExpression) -> frozenset[cst.CSTNode]:
    """Where what is put somewhere reads what was there, as far as that is seen: `m["loss"] = 0.9 * m["loss"] + x`"""
    item, holder = tree.code_of(target), tree.code_of(target.value)
    asked = {f"{holder}.{name}" for name in python.BY_KEY} if isinstance(target, cst.Subscript) else set()
    read = (one for one in tree.walk(value) if isinstance(one, (cst.Subscript, cst.Attribute)))
    return frozenset(one for one in read if (code := tree.code_of(one)) == item or code in asked)
