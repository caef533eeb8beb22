"""What expressions evaluate to."""

from __future__ import annotations

import builtins
from collections.abc import Callable
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
    graph,
    imports,
    iteration,
    operators,
    parts,
    reductions,
    subscripts,
    targets,
    ways,
    whole,
)
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.values import NOTHING, Const, External, Obj, Ref, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_BUILTINS = frozenset(dir(builtins))


def evaluate(machine: Machine, node: cst.BaseExpression) -> Value:
    handler = _HANDLERS.get(type(node))
    if handler is None:
        return NOTHING
    value = handler(machine, node)
    if machine.cutting is not None:
        value = cuts.dealt(machine, value, node)
    if machine.gathering is not None and node in machine.gathering.values:
        value = whole.of_all_ranks(machine, value, node, attributes.LOADERS)
    if machine.tracing:
        value = graph.flowing(machine, value, node)
    if machine.averaged and node in machine.averaged:
        value = Value(value.objs)
    if machine.evidence:
        value = parts.followed(machine, evidence.followed(machine, value, node), node)
    if machine.reducing is not None:
        value = reductions.followed(machine, value, node)
    before = machine.values.get(node)
    if before is not value:
        machine.values[node] = value if before is None else join(before, value)
    return value


def builtin(machine: Machine, name: str) -> Value:
    if name == "__name__":
        return literal(machine, None, machine.frame.module.name)
    if name == "__file__":
        return literal(machine, None, machine.frame.module.path)
    if name in _BUILTINS:
        return imports.reference(machine, f"builtins.{name}")
    star = machine.module_frame(machine.frame.module).env.get("*")
    if star is not None:
        only = star.single()
        return imports.reference(machine, f"{only.name}.{name}") if isinstance(only, Ref) else NOTHING
    return NOTHING


def literal(machine: Machine, node: cst.CSTNode | None, value: object) -> Value:
    return Value(machine.made(Const, node, value, type(value), value=value).alone)


def gradient_mode(value: Value, current: bool) -> bool:
    """Whether gradients are recorded inside `with value`."""
    for obj in value.objs:
        if isinstance(obj, External):
            if obj.name in ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad"):
                return False
            if obj.name == "torch.enable_grad":
                return True
            if obj.name in ("torch.set_grad_enabled", "torch.autograd.set_grad_mode") and obj.arguments is not None:
                known = (obj.arguments.get("mode", 0) or NOTHING).constant()
                return known if isinstance(known, bool) else True
    return current


# ---- names and attributes


def _name(machine: Machine, node: cst.Name) -> Value:
    return machine.lookup(node.value)


def _attribute(machine: Machine, node: cst.Attribute) -> Value:
    receiver = evaluate(machine, node.value)
    name = node.attr.value
    found = [attributes.attribute_of(machine, obj, name, receiver, node) for obj in receiver.objs]
    value = join(*found) if found else attributes.tensor_attribute(machine, receiver, name, node)
    machine.event(Kind.ATTRIBUTE, node, name=name, receiver=receiver, receiver_node=node.value, value=value)
    return value


# ---- the rest


def _yield(machine: Machine, node: cst.Yield) -> Value:
    value = NOTHING
    if isinstance(node.value, cst.From):
        over = evaluate(machine, node.value.item)
        iterator = iteration.begin(machine, over, node, node.value.item)
        value = iteration.element_of(machine, iterator, node)
    elif node.value is not None:
        value = evaluate(machine, node.value)
    if machine.frame.at_yield is not None:
        machine.frame.at_yield(value)
        return NOTHING
    machine.frame.yielded.append(value)
    machine.event(Kind.YIELD, node, value=value)
    return NOTHING


def _named(machine: Machine, node: cst.NamedExpr) -> Value:
    value = evaluate(machine, node.value)
    targets.assign(machine, node.target, value)
    return value


def _formatted(machine: Machine, node: cst.FormattedString) -> Value:
    values = [
        evaluate(machine, part.expression) for part in node.parts if isinstance(part, cst.FormattedStringExpression)
    ]
    sources: Ordered[Obj | str] = EMPTY.union(*(value.sources for value in values))
    return Value(sources=sources)


def _concatenated(machine: Machine, node: cst.ConcatenatedString) -> Value:
    """`f"{a} " f"{b}"`: what is filled in may be in either part."""
    if tree.string(node) is not None:
        return _constant(machine, node)
    parts = [evaluate(machine, node.left), evaluate(machine, node.right)]
    return Value(sources=EMPTY.union(*(part.sources for part in parts)))


def _constant(machine: Machine, node: cst.BaseExpression) -> Value:
    value: object
    if isinstance(node, cst.Integer):
        value = tree.integer(node)
    elif isinstance(node, cst.Float):
        value = float(node.value.replace("_", ""))
    else:
        value = tree.string(node)
    return literal(machine, node, value)


def _name_or_keyword(machine: Machine, node: cst.Name) -> Value:
    if node.value in ("True", "False", "None"):
        return ways.marked(machine, literal(machine, node, {"True": True, "False": False, "None": None}[node.value]))
    return _name(machine, node)


_HANDLERS: dict[type[cst.CSTNode], Callable[[Any, Any], Value]] = {
    cst.Name: _name_or_keyword,
    cst.Attribute: _attribute,
    cst.Call: lambda machine, node: calls.evaluate_call(machine, node),
    cst.Subscript: lambda machine, node: subscripts.subscript(machine, node),
    cst.BinaryOperation: lambda machine, node: operators.binary(machine, node),
    cst.UnaryOperation: lambda machine, node: operators.unary(machine, node),
    cst.BooleanOperation: lambda machine, node: operators.boolean(machine, node),
    cst.Comparison: lambda machine, node: operators.comparison(machine, node),
    cst.IfExp: lambda machine, node: operators.conditional(machine, node),
    cst.Tuple: lambda machine, node: displays.sequence(machine, node),
    cst.List: lambda machine, node: displays.sequence(machine, node),
    cst.Set: lambda machine, node: displays.sequence(machine, node),
    cst.Dict: lambda machine, node: displays.dictionary(machine, node),
    cst.ListComp: lambda machine, node: displays.comprehension(machine, node),
    cst.SetComp: lambda machine, node: displays.comprehension(machine, node),
    cst.GeneratorExp: lambda machine, node: displays.comprehension(machine, node),
    cst.DictComp: lambda machine, node: displays.comprehension(machine, node),
    cst.Lambda: lambda machine, node: definitions.of_lambda(machine, node),
    cst.Yield: _yield,
    cst.NamedExpr: _named,
    cst.FormattedString: _formatted,
    cst.Integer: _constant,
    cst.Float: _constant,
    cst.SimpleString: _constant,
    cst.ConcatenatedString: _concatenated,
    cst.Await: lambda machine, node: evaluate(machine, node.expression),
}
