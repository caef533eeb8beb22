"""What expressions evaluate to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import libcst as cst

from distify_codemods import tree
from distify_codemods.events import Kind
from distify_codemods.interpreter import (
    attributes,
    calls,
    cuts,
    definitions,
    displays,
    evidence,
    folders,
    graph,
    iteration,
    operators,
    parts,
    reductions,
    special,
    storages,
    subscripts,
    ways,
    whole,
)
from distify_codemods.libraries import torch_data
from distify_codemods.objects import Sequence
from distify_codemods.ordered import EMPTY
from distify_codemods.values import NOTHING, Value, join, join_two, text_of

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def evaluate(machine: Machine, node: cst.BaseExpression) -> Value:
    handler = _HANDLERS.get(type(node))
    if handler is None:
        return NOTHING
    value = handler(machine, node)
    if machine.tries:
        value = _tried(machine, value, node)
    values = machine.values
    before = dict.get(values, node)
    if before is not value:
        whole = value if before is None else join_two(before, value)
        if whole is not before:
            values.grow(node, whole)
    return value


def _tried(machine: Machine, value: Value, node: cst.BaseExpression) -> Value:
    """With what a trial wants to know of it, or takes as given."""
    if machine.cutting is not None:
        value = cuts.dealt(machine, value, node)
    if machine.gathering is not None and node in machine.gathering.values:
        value = whole.of_all_ranks(machine, value, node, torch_data.LOADERS)
    if machine.tracing:
        value = graph.flowing(machine, value, node)
    if machine.averaged and node in machine.averaged:
        machine.before_averaging[node] = join_two(machine.before_averaging.get(node, NOTHING), value)
        value = Value(value.objs)
    if machine.evidence:
        value = parts.followed(machine, evidence.followed(machine, value, node), node)
        value = storages.followed(machine, value, node)
    if machine.reducing is not None:
        value = reductions.followed(machine, value, node)
    return value


# ---- names and attributes


def _name(machine: Machine, node: cst.Name) -> Value:
    name, frame = node.value, machine.frame
    if name in _KEYWORDS:
        return ways.marked(machine, machine.literal(node, _KEYWORDS[name]))
    own = frame.env.get(name) if not (frame.globals_declared or frame.outer_declared) else None
    return machine.lookup(name) if own is None else own


_KEYWORDS = {"True": True, "False": False, "None": None}


def _attribute(machine: Machine, node: cst.Attribute) -> Value:
    receiver = machine.evaluate(node.value)
    name = node.attr.value
    found = [
        attributes.attribute_of(machine, obj, name, receiver, node)
        for obj in attributes.holders(machine, receiver, name)
    ]
    value = join(*found) if found else attributes.tensor_attribute(machine, receiver, name, node)
    if receiver.open and value.objs and not value.open:
        value = replace(value, open=True)  # of what else it may be, it is something else
    machine.event(Kind.ATTRIBUTE, node, name=name, receiver=receiver, receiver_node=node.value, value=value)
    return value


# ---- the rest


def _yield(machine: Machine, node: cst.Yield) -> Value:
    value = NOTHING
    if isinstance(node.value, cst.From):
        over = machine.evaluate(node.value.item)
        iterator = iteration.begin(machine, over, node, node.value.item)
        value = iteration.element_of(machine, iterator, node)
        inner = [obj for obj in iterator.objs if isinstance(obj, Sequence)] if machine.frame.sent is not NOTHING else []
        value = join(value, *(machine.send(obj, machine.frame.sent, node) for obj in inner))
    elif node.value is not None:
        value = machine.evaluate(node.value)
    if machine.frame.at_yield is not None:
        machine.frame.at_yield(value)
        return NOTHING
    machine.frame.yielded.append(value)
    machine.event(Kind.YIELD, node, value=value)
    return machine.frame.sent


def _named(machine: Machine, node: cst.NamedExpr) -> Value:
    value = machine.evaluate(node.value)
    machine.assign(node.target, value)
    return value


def _formatted(machine: Machine, node: cst.FormattedString) -> Value:
    values, parts = [], []
    for part in node.parts:
        if isinstance(part, cst.FormattedStringExpression):
            value = machine.evaluate(part.expression)
            told = special.converted(machine, _HOW_TOLD[part.conversion], value, part.expression, NOTHING)
            values.append(reductions.read_out(machine, value if told is None else told, node))
            plain = part.conversion is None and part.format_spec is None
            parts.append(value if plain else NOTHING)
        elif isinstance(part, cst.FormattedStringText):
            plain = not set(part.value) & set("{}\\")
            parts.append(machine.literal(part, part.value) if plain else NOTHING)
    path = folders.put_together(machine, node, parts)
    return text_of(values, path.alone if path is not None else EMPTY)


#: By what conversion of an f-string: the builtin function that it stands for.
_HOW_TOLD = {None: "format", "r": "repr", "a": "repr", "s": "str"}


def _concatenated(machine: Machine, node: cst.ConcatenatedString) -> Value:
    """`f"{a} " f"{b}"`: what is filled in may be in either part."""
    if tree.string(node) is not None:
        return _constant(machine, node)
    return text_of([machine.evaluate(node.left), machine.evaluate(node.right)])


def _constant(machine: Machine, node: cst.BaseExpression) -> Value:
    known = machine.program.constants
    if node not in known:
        known[node] = _read(node)
    return machine.literal(node, known[node])


def _read(node: cst.BaseExpression) -> object:
    if isinstance(node, cst.Integer):
        return tree.integer(node)
    return float(node.value.replace("_", "")) if isinstance(node, cst.Float) else tree.string(node)


_HANDLERS: dict[type[cst.CSTNode], Callable[[Any, Any], Value]] = {
    cst.Name: _name,
    cst.Attribute: _attribute,
    cst.Call: calls.evaluate_call,
    cst.Subscript: subscripts.subscript,
    cst.BinaryOperation: operators.binary,
    cst.UnaryOperation: operators.unary,
    cst.BooleanOperation: operators.boolean,
    cst.Comparison: operators.comparison,
    cst.IfExp: operators.conditional,
    cst.Tuple: displays.sequence,
    cst.List: displays.sequence,
    cst.Set: displays.sequence,
    cst.Dict: displays.dictionary,
    cst.ListComp: displays.comprehension,
    cst.SetComp: displays.comprehension,
    cst.GeneratorExp: displays.comprehension,
    cst.DictComp: displays.comprehension,
    cst.Lambda: definitions.of_lambda,
    cst.Yield: _yield,
    cst.NamedExpr: _named,
    cst.FormattedString: _formatted,
    cst.Integer: _constant,
    cst.Float: _constant,
    cst.SimpleString: _constant,
    cst.ConcatenatedString: _concatenated,
    cst.Await: lambda machine, node: machine.evaluate(node.expression),
}
