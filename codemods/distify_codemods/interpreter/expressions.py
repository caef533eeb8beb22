"""What expressions evaluate to."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import libcst as cst

from distify_codemods import tree
from distify_codemods.events import Kind
from distify_codemods.interpreter import attributes, calls, imports, scales, targets
from distify_codemods.values import (
    NOTHING,
    PER_SAMPLE,
    Class,
    Const,
    External,
    Function,
    Instance,
    Mapping,
    Obj,
    Ref,
    Scale,
    Sequence,
    Setting,
    Shape,
    Value,
    Wrapped,
    core,
    join,
)

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_BUILTINS = frozenset(dir(builtins))


def evaluate(machine: Machine, node: cst.BaseExpression) -> Value:
    handler = _HANDLERS.get(type(node))
    if handler is None:
        return NOTHING
    value = handler(machine, node)
    known = machine.values.get(node)
    machine.values[node] = value if known is None else join(known, value)
    return value


def builtin(machine: Machine, name: str) -> Value:
    if name == "__name__":
        return literal(machine, None, machine.frame.module.name)
    if name in _BUILTINS:
        return imports.reference(machine, f"builtins.{name}")
    star = machine.module_frame(machine.frame.module).env.get("*")
    if star is not None:
        only = star.single()
        return imports.reference(machine, f"{only.name}.{name}") if isinstance(only, Ref) else NOTHING
    return NOTHING


def literal(machine: Machine, node: cst.CSTNode | None, value: object) -> Value:
    return Value(frozenset({machine.made(Const, node, value, type(value), value=value)}))


def truth(machine: Machine, node: cst.BaseExpression, value: Value) -> bool | None:
    """Whether a test is known to hold: `__name__ == "__main__"`, literals, and what is made of them."""
    known = value.constant()
    return known if isinstance(known, bool) else None


def gradient_mode(value: Value, current: bool) -> bool:
    """Whether gradients are recorded inside `with value`."""
    for obj in value.objs:
        if isinstance(obj, External):
            if obj.name in ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad"):
                return False
            if obj.name == "torch.enable_grad":
                return True
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


# ---- operators


def _binary(machine: Machine, node: cst.BinaryOperation) -> Value:
    left, right = evaluate(machine, node.left), evaluate(machine, node.right)
    value = scales.binary(type(node.operator).__name__, left, right)
    lists = [obj for obj in (*left.objs, *right.objs) if isinstance(obj, Sequence)]
    if lists:
        both = machine.made(Sequence, node)
        assert isinstance(both, Sequence)
        both.element = join(both.element or NOTHING, *(targets.any_item(Value(frozenset({obj}))) for obj in lists))
        return Value(frozenset({both}), value.scale, value.sources)
    settings = frozenset(obj for obj in (*left.objs, *right.objs) if _may_be_a_size(obj))
    return Value(frozenset(), value.scale, value.sources | settings)


def _may_be_a_size(obj: Obj) -> bool:
    return isinstance(obj, Setting) or (isinstance(obj, Const) and isinstance(obj.value, int) and obj.value > 1)


def _unary(machine: Machine, node: cst.UnaryOperation) -> Value:
    value = evaluate(machine, node.expression)
    known = value.constant()
    if isinstance(node.operator, cst.Not):
        return literal(machine, node, not known) if isinstance(known, bool) else Value(sources=value.sources)
    return Value(scale=value.scale, sources=value.sources, mask=value.mask)


def _boolean(machine: Machine, node: cst.BooleanOperation) -> Value:
    left, right = evaluate(machine, node.left), evaluate(machine, node.right)
    for one, other in ((left, right), (right, left)):
        known = one.constant()
        if isinstance(known, bool):
            decides = known is isinstance(node.operator, cst.Or)
            return one if decides else other
    return join(left, right)


def _comparison(machine: Machine, node: cst.Comparison) -> Value:
    values = [evaluate(machine, node.left)]
    values += [evaluate(machine, target.comparator) for target in node.comparisons]
    if len(values) == 2 and isinstance(node.comparisons[0].operator, (cst.Equal, cst.NotEqual)):
        left, right = (value.constant() for value in values)
        if isinstance(left, str) and isinstance(right, str):
            return literal(machine, node, (left == right) is isinstance(node.comparisons[0].operator, cst.Equal))
    result = values[0]
    for value in values[1:]:
        result = scales.compared(result, value)
    return result


def _conditional(machine: Machine, node: cst.IfExp) -> Value:
    test = evaluate(machine, node.test)
    value = join(evaluate(machine, node.body), evaluate(machine, node.orelse))
    return Value(value.objs, value.scale, value.sources | test.sources, value.mask)


# ---- containers


def _sequence(machine: Machine, node: cst.Tuple | cst.List | cst.Set) -> Value:
    starred = any(isinstance(element, cst.StarredElement) for element in node.elements)
    items = tuple(evaluate(machine, element.value) for element in node.elements)
    obj = machine.made(Sequence, node)
    assert isinstance(obj, Sequence)
    if starred:
        obj.element = join(obj.element or NOTHING, *(join(item, targets.any_item(item)) for item in items))
    else:
        old = obj.items if obj.items is not None and len(obj.items) == len(items) else items
        obj.items = tuple(join(one, other) for one, other in zip(old, items, strict=True))
    return Value(frozenset({obj}), *_mixed(items))


def _mixed(items: tuple[Value, ...]) -> tuple[Scale, frozenset[Obj | str]]:
    whole = join(*items) if items else NOTHING
    return whole.scale, whole.sources


def _dict(machine: Machine, node: cst.Dict) -> Value:
    obj = machine.made(Mapping, node)
    assert isinstance(obj, Mapping)
    values = []
    for element in node.elements:
        value = evaluate(machine, element.value)
        values.append(value)
        if isinstance(element, cst.StarredDictElement):
            calls.update_mapping(obj, value)
            continue
        assert isinstance(element, cst.DictElement)
        key = evaluate(machine, element.key).constant()
        if key is None:
            obj.rest = join(obj.rest or NOTHING, value)
        else:
            obj.items[key] = join(obj.items.get(key, NOTHING), value)
    return Value(frozenset({obj}), *_mixed(tuple(values)))


def _subscript(machine: Machine, node: cst.Subscript) -> Value:
    receiver = evaluate(machine, node.value)
    keys = [
        evaluate(machine, element.slice.value)
        if isinstance(element.slice, cst.Index)
        else evaluate_slice(machine, element.slice)
        for element in node.slice
    ]
    if any(isinstance(obj, (Instance, External, Wrapped)) for obj in receiver.objs):
        machine.event(Kind.ATTRIBUTE, node, name="[]", receiver=receiver, receiver_node=node.value)
    only_index = len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index)
    known = keys[0].constant() if only_index else None
    found = [_item_of(machine, obj, known, only_index, receiver, node) for obj in receiver.objs]
    if found and not all(value is NOTHING for value in found):
        return join(*found)
    return _tensor_item(receiver, node, keys)


def _item_of(
    machine: Machine, obj: Obj, known: object, only_index: bool, receiver: Value, node: cst.Subscript
) -> Value:
    own = Value(frozenset({obj}), receiver.scale, receiver.sources)
    if isinstance(obj, Sequence):
        if isinstance(known, int) and obj.items is not None and -len(obj.items) <= known < len(obj.items):
            return obj.items[known]
        return targets.any_item(own) if only_index else own
    if isinstance(obj, Mapping):
        return obj.items[known] if known in obj.items else obj.any() if known is None else obj.rest or NOTHING
    if isinstance(obj, Shape):
        if not only_index:
            return Value(sources=receiver.sources)
        return Value(scale=Scale.COUNT if known == 0 else Scale.CONST, sources=receiver.sources)
    inner = core(obj)
    if isinstance(inner, External) and not receiver.sources:
        part = machine.made(External, node, inner, name=f"{inner.name}[]", whole=inner)
        return Value(frozenset({part}))
    return NOTHING


def _tensor_item(receiver: Value, node: cst.Subscript, keys: list[Value]) -> Value:
    sources = receiver.sources.union(*(key.sources for key in keys))
    scale = receiver.scale
    if scale is Scale.SAMPLES:
        first = node.slice[0].slice
        if not isinstance(first, cst.Index):
            assert isinstance(first, cst.Slice)
            whole = first.lower is None and first.upper is None and first.step is None
            scale = Scale.SAMPLES if whole else Scale.RAGGED
        elif keys[0].mask:
            scale = Scale.RAGGED
        elif keys[0].scale is Scale.SAMPLES or isinstance(first.value, cst.Ellipsis) or _names_a_part(first.value):
            scale = Scale.SAMPLES
        else:
            # `batch[0]` is the inputs, `tensor[0]` one sample: only a batch as it comes from its loader is unpacked so.
            scale = (
                Scale.SAMPLES
                if len(keys) == 1 and isinstance(keys[0].constant(), int) and not receiver.mask
                else Scale.UNKNOWN
            )
    elif scale in PER_SAMPLE:
        scale = Scale.RAGGED if scale is Scale.RAGGED or len(keys) == 1 else Scale.UNKNOWN
    elif scale is Scale.CONST and any(key.scale is not Scale.CONST for key in keys):
        scale = scales.elementwise(*(key.scale for key in keys))
    return Value(scale=scale, sources=sources)


def _names_a_part(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString))


def evaluate_slice(machine: Machine, node: cst.BaseSlice) -> Value:
    parts = (node.lower, node.upper, node.step) if isinstance(node, cst.Slice) else ()
    values = [evaluate(machine, part) for part in parts if part is not None]
    return Value(sources=frozenset().union(*(value.sources for value in values))) if values else NOTHING


# ---- comprehensions, lambdas, definitions


MOST_TURNS = 8


def _comprehension(machine: Machine, node: cst.BaseComp) -> Value:
    """Over a few known items, each turn makes objects of its own; else one turn stands for all."""
    outer = dict(machine.frame.env)
    turns = _known_turns(machine, node.for_in)
    values = []
    if turns is None:
        _comp_for(machine, node.for_in)
        values.append(_comp_item(machine, node))
    else:
        context = machine.frame.context
        for turn in turns:
            only = turn.single()
            machine.frame.context = (*context, only.site) if only is not None and only.site else context
            targets.assign(machine, node.for_in.target, turn)
            values.append(_comp_item(machine, node))
        machine.frame.context = context
    machine.frame.env.clear()
    machine.frame.env.update(outer)
    return _comp_result(machine, node, values, known=turns is not None)


def _known_turns(machine: Machine, node: cst.CompFor) -> tuple[Value, ...] | None:
    if node.ifs or node.inner_for_in is not None:
        return None
    only = evaluate(machine, node.iter).single()
    items = only.items if isinstance(only, Sequence) else None
    return items if items is not None and 0 < len(items) <= MOST_TURNS else None


def _comp_item(machine: Machine, node: cst.BaseComp) -> tuple[Value, Value]:
    """The key (of a dictionary) and the value of one turn."""
    if isinstance(node, cst.DictComp):
        return evaluate(machine, node.key), evaluate(machine, node.value)
    assert isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp))
    return NOTHING, evaluate(machine, node.elt)


def _comp_result(machine: Machine, node: cst.BaseComp, turns: list[tuple[Value, Value]], known: bool) -> Value:
    whole = join(*(value for _, value in turns))
    if isinstance(node, cst.DictComp):
        table = machine.made(Mapping, node)
        assert isinstance(table, Mapping)
        for key, value in turns:
            name = key.constant() if known else None
            if name is None:
                table.rest = join(table.rest or NOTHING, value)
            else:
                table.items[name] = join(table.items.get(name, NOTHING), value)
        return Value(frozenset({table}), whole.scale, whole.sources)
    made = machine.made(Sequence, node)
    assert isinstance(made, Sequence)
    made.element = join(made.element or NOTHING, whole)
    made.items = tuple(value for _, value in turns) if known else None
    return Value(frozenset({made}), whole.scale, whole.sources)


def _comp_for(machine: Machine, node: cst.CompFor) -> None:
    over = evaluate(machine, node.iter)
    targets.assign(machine, node.target, targets.element_of(machine, over, node))
    for condition in node.ifs:
        evaluate(machine, condition.test)
    if node.inner_for_in is not None:
        _comp_for(machine, node.inner_for_in)


def _lambda(machine: Machine, node: cst.Lambda) -> Value:
    return Value(frozenset({machine.made(Function, node, machine.frame, node=node, closure=machine.frame)}))


def define(machine: Machine, node: cst.FunctionDef | cst.ClassDef) -> None:
    for decorator in node.decorators:
        evaluate(machine, decorator.decorator)
    if isinstance(node, cst.FunctionDef):
        for parameter in (*node.params.params, *node.params.kwonly_params):
            if parameter.default is not None:
                evaluate(machine, parameter.default)
        machine.bind(node.name.value, Value(frozenset({_function(machine, node, None)})))
        return
    bases = tuple(evaluate(machine, base.value) for base in node.bases)
    cls = machine.made(Class, node, node=node, bases=bases)
    assert isinstance(cls, Class)
    for statement in node.body.body:
        if isinstance(statement, cst.FunctionDef):
            for decorator in statement.decorators:
                evaluate(machine, decorator.decorator)
            cls.attributes[statement.name.value] = Value(frozenset({_function(machine, statement, cls)}))
        elif isinstance(statement, cst.SimpleStatementLine):
            for small in statement.body:
                if isinstance(small, cst.Assign) and isinstance(small.targets[0].target, cst.Name):
                    cls.attributes[small.targets[0].target.value] = evaluate(machine, small.value)
    machine.bind(node.name.value, Value(frozenset({cls})))


def _function(machine: Machine, node: cst.FunctionDef, owner: Class | None) -> Obj:
    return machine.made(Function, node, machine.frame, node=node, closure=machine.frame, owner=owner)


# ---- the rest


def _yield(machine: Machine, node: cst.Yield) -> Value:
    if isinstance(node.value, cst.From):
        machine.frame.yielded.append(targets.element_of(machine, evaluate(machine, node.value.item), node))
    elif node.value is not None:
        machine.frame.yielded.append(evaluate(machine, node.value))
    return NOTHING


def _named(machine: Machine, node: cst.NamedExpr) -> Value:
    value = evaluate(machine, node.value)
    targets.assign(machine, node.target, value)
    return value


def _formatted(machine: Machine, node: cst.FormattedString) -> Value:
    values = [
        evaluate(machine, part.expression) for part in node.parts if isinstance(part, cst.FormattedStringExpression)
    ]
    sources: frozenset[Obj | str] = frozenset().union(*(value.sources for value in values)) if values else frozenset()
    return Value(sources=sources)


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
        return literal(machine, node, {"True": True, "False": False, "None": None}[node.value])
    return _name(machine, node)


_HANDLERS: dict[type[cst.CSTNode], Callable[[Any, Any], Value]] = {
    cst.Name: _name_or_keyword,
    cst.Attribute: _attribute,
    cst.Call: lambda machine, node: calls.evaluate_call(machine, node),
    cst.Subscript: _subscript,
    cst.BinaryOperation: _binary,
    cst.UnaryOperation: _unary,
    cst.BooleanOperation: _boolean,
    cst.Comparison: _comparison,
    cst.IfExp: _conditional,
    cst.Tuple: _sequence,
    cst.List: _sequence,
    cst.Set: _sequence,
    cst.Dict: _dict,
    cst.ListComp: _comprehension,
    cst.SetComp: _comprehension,
    cst.GeneratorExp: _comprehension,
    cst.DictComp: _comprehension,
    cst.Lambda: _lambda,
    cst.Yield: _yield,
    cst.NamedExpr: _named,
    cst.FormattedString: _formatted,
    cst.Integer: _constant,
    cst.Float: _constant,
    cst.SimpleString: _constant,
    cst.ConcatenatedString: _constant,
    cst.Await: lambda machine, node: evaluate(machine, node.expression),
}
