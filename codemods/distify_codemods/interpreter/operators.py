"""What operators do: arithmetic, and what is chosen or compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj
from distify_codemods.events import Kind
from distify_codemods.interpreter import anything, files, forms, holding, rearranged, rows, scales, special, ways
from distify_codemods.libraries import spelling, torch_nn, torch_optim
from distify_codemods.objects import Bound, Class, External, Function, Instance, Mapping, Sequence, Setting, Wrapped
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import Choice, Verdict
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value, gpu_texts, join, worded

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


#: What a test of a batch as a whole depends on. Settings are the same on all ranks; of sizes, see below.
_FIGURES = frozenset({Scale.MEAN, Scale.SUM, Scale.WEIGHTED, Scale.COUPLED})


#: What two sets or counters have in common, or one alone: of all entries together.
_OF_WHOLE_SETS = (cst.BitAnd, cst.BitXor, cst.Subtract)


def binary(machine: Machine, node: cst.BinaryOperation) -> Value:
    left, right = machine.evaluate(node.left), machine.evaluate(node.right)
    if (own := special.operated(machine, node.operator, left, right, node)) is not None:
        return own
    value = scales.binary(type(node.operator).__name__, left, right)
    tables = [obj for obj in (*left.objs, *right.objs) if isinstance(obj, Mapping)]
    lists = [obj for obj in (*left.objs, *right.objs) if isinstance(obj, Sequence)]
    if isinstance(node.operator, cst.Multiply) and any(isinstance(one.constant(), str) for one in (left, right)):
        value = replace(value, scale=Scale.UNKNOWN)  # `"#" * width`
    if (tables or lists) and isinstance(node.operator, _OF_WHOLE_SETS) and value.scale in PER_SAMPLE:
        value = replace(value, scale=Scale.COUPLED)
    if tables and isinstance(node.operator, cst.BitOr):
        table = machine.made(Mapping, node)
        holding.update(machine, table, left)
        holding.update(machine, table, right)
        return value.of(table.alone)
    is_text = isinstance(node.operator, cst.Modulo) and isinstance(left.constant(), str)
    if lists and not is_text:
        begins = _tuple(left) if isinstance(node.operator, cst.Add) else None
        both = machine.made(Sequence, node, begins, items=begins.items if begins is not None else None)
        both.grow(*(holding.any_item(Value(obj.alone)) for obj in lists if obj is not begins))
        repeated = [one for one in (left, right) if not any(obj in lists for obj in one.objs)]
        value = rearranged.beside(machine, left, right, value.of(both.alone), node)
        return forms.of(value, *repeated) if isinstance(node.operator, cst.Multiply) else value
    settings = Ordered(obj for obj in (*left.objs, *right.objs) if _may_be_a_size(obj))
    texts = worded((left, *_filled_in(right))) if is_text else gpu_texts((left, right))
    sources, one_row = value.sources | settings | texts, rows.of_both(left, right)
    value = Value(EMPTY, value.scale, sources, value.mask, dims=value.dims, one_row=one_row)
    return files.joined_path(machine, node, left, right, value)


def _filled_in(right: Value) -> Iterator[Value]:
    """`"%d of %d" % (hits, len(y))`"""
    yield right
    for obj in right.objs:
        yield from obj.parts() if isinstance(obj, Sequence) else ()


def _tuple(value: Value) -> Sequence | None:
    """`(len(x),)`, which stays at the beginning of what is added to it: `(len(x),) + (1,) * (x.ndim - 1)`."""
    only = value.single()
    plain = isinstance(only, Sequence) and isinstance(only.site, cst.Tuple) and only.items is not None
    return only if isinstance(only, Sequence) and plain and only.element is None and not value.open else None


def _may_be_a_size(obj: Obj) -> bool:
    return isinstance(obj, Setting) or (isinstance(obj, Const) and isinstance(obj.value, int) and obj.value > 1)


def unary(machine: Machine, node: cst.UnaryOperation) -> Value:
    value = machine.evaluate(node.expression)
    if isinstance(node.operator, cst.Not):
        holds = truth(value)
        verdicts = [obj for obj in value.objs if isinstance(obj, Verdict)]
        return (
            Value(Ordered(verdicts), value.scale if verdicts else Scale.CONST, value.sources)
            if holds is None
            else machine.literal(node, not holds)
        )
    known = value.constant()
    if isinstance(node.operator, cst.Minus) and type(known) in (int, float):
        return machine.literal(node, -known)  # type: ignore[operator]
    return Value(scale=value.scale, sources=value.sources, mask=value.mask, dims=value.dims, one_row=value.one_row)


def boolean(machine: Machine, node: cst.BooleanOperation) -> Value:
    left, right = machine.evaluate(node.left), machine.evaluate(node.right)
    is_or = isinstance(node.operator, cst.Or)
    if (known := truth(left)) is not None:
        return left if known is is_or else right
    if (known := truth(right)) is not None and _is_a_test(machine, node):
        return right if known is is_or else left
    value = join(left, right)
    value = value if bool(left.objs) is bool(right.objs) else anything.or_another(value)
    return ways.chosen(value, left)


def _is_a_test(machine: Machine, node: cst.CSTNode) -> bool:
    """Whether it is only asked if it is true: `name or "none"` is not always the word."""
    parents = machine.frame.module.parents
    around = parents.get(node)
    while isinstance(around, (cst.BooleanOperation, cst.UnaryOperation)):
        node, around = around, parents.get(around)
    return getattr(around, "test", None) is node


def comparison(machine: Machine, node: cst.Comparison) -> Value:
    values = [machine.evaluate(node.left)]
    values += [machine.evaluate(target.comparator) for target in node.comparisons]
    operator = node.comparisons[0].operator
    if len(values) == 2 and (own := special.operated(machine, operator, values[0], values[1], node)) is not None:
        return own
    known = _compared(node.comparisons[0].operator, *values) if len(values) == 2 else None
    if known is not None:
        return machine.literal(node, known)
    if len(values) == 2 and values[1].is_none and (decided := ways.is_none(values[0])) is not None:
        return decided
    result = values[0]
    for value in values[1:]:
        result = scales.compared(result, value)
    result = forms.compared(_found_in(node, values, result))
    if result.mask or not result.sources:
        return result
    verdict = machine.made(Verdict, node)
    return Value(verdict.alone, result.scale, result.sources, dims=result.dims)


def _found_in(node: cst.Comparison, values: list[Value], result: Value) -> Value:
    """`index in hard`: it depends on what is in there."""
    for target, value in zip(node.comparisons, values[1:], strict=True):
        if isinstance(target.operator, (cst.In, cst.NotIn)):
            result = scales.compared(result, holding.members(value))
    return result


def truth(value: Value) -> bool | None:
    """Whether a test is known to hold: `__name__ == "__main__"`, literals, and what is made of them."""
    known = value.constant()
    if isinstance(known, (bool, str)) or value.is_none:
        return bool(known)
    return True if _each(value, _counts_as_true) else None


def _each(value: Value, said: Callable[[Obj], bool]) -> bool:
    """Whether it holds of all that a value may be."""
    return bool(value.objs) and not value.open and all(map(said, value.objs))


def is_something(obj: Obj) -> bool:
    """An object that is no None: a function, a class, and what a class makes."""
    if isinstance(obj, External):
        return obj.whole is None and not obj.read and spelling.is_a_class(obj.name)
    return isinstance(obj, (Function, Class, Instance, Bound, Wrapped))


def _counts_as_true(obj: Obj) -> bool:
    """One that is no None and has no length that may be nought, nor a word of its own to say of that."""
    if isinstance(obj, Wrapped):
        return obj.inner is not None and _counts_as_true(obj.inner)
    if isinstance(obj, External):
        return is_something(obj) and (obj.name.startswith(torch_optim.OWN) or torch_nn.is_without_items(obj.name))
    if isinstance(obj, Instance):
        plain = obj.of is not None and obj.of.libraries <= torch_nn.PLAIN_BASES
        return plain and obj.of is not None and not any(obj.of.member(one) for one in ("__bool__", "__len__"))
    return is_something(obj)


def _compared(operator: cst.BaseCompOp, left: Value, right: Value) -> bool | None:
    """What a comparison of literals gives, or one with None."""
    one, other = left.constant(), right.constant()
    if isinstance(operator, (cst.In, cst.NotIn)) and isinstance(one, str):
        options = _options(right)
        return None if options is None else (one in options) is isinstance(operator, cst.In)
    if not isinstance(operator, (cst.Equal, cst.NotEqual, cst.Is, cst.IsNot)):
        return None
    positive = isinstance(operator, (cst.Equal, cst.Is))
    if right.is_none and (left.is_none or _each(left, is_something)):
        return left.is_none is positive
    alike = isinstance(one, (str, bool)) and type(one) is type(other)
    return (one == other) is positive if alike else None


def _options(value: Value) -> list[object] | None:
    only = value.single()
    if not isinstance(only, Sequence) or only.items is None or value.open:
        return None
    options = [item.constant() for item in only.items]
    return None if None in options else options


def conditional(machine: Machine, node: cst.IfExp) -> Value:
    test = special.tested(machine, machine.evaluate(node.test), node)
    known = truth(test)
    if known is not None:
        return machine.evaluate(node.body if known else node.orelse)
    chosen = choice(machine, node, test)
    if (chosen and machine.grad) or files.of_the_disk(test):
        machine.event(Kind.TEST, node, value=test)
    value = join(machine.evaluate(node.body), machine.evaluate(node.orelse))
    value = ways.chosen(value, test)
    sources = value.sources | forms.decided(test.sources) | chosen
    return value.with_sources(sources)


def choice(machine: Machine, node: cst.If | cst.IfExp | cst.CompIf, test: Value) -> Ordered[Obj]:
    """A source of what is chosen here, where ranks may choose differently: by a loss, or by how many there are."""
    decides = test.scale in _FIGURES or any(
        _asks_how_many(machine, one) for one in tree.walk(node.test) if isinstance(one, cst.Comparison)
    )
    return Ordered([machine.made(Choice, node, by=test.scale)] if decides else [])


def _asks_how_many(machine: Machine, node: cst.Comparison) -> bool:
    """`seen > 1000`, `len(x) < 8`: of samples, of which a rank has had fewer than one process; but not whether any."""
    sides = [node.left, *(one.comparator for one in node.comparisons)]
    values = [machine.values.get(side, NOTHING) for side in sides]
    fixed = [value for value in values if value.scale is Scale.CONST]
    if any(value.scale is Scale.COUNT for value in values) and any(value.constant() != 0 for value in fixed):
        return True
    return bool(fixed) and any(_is_made_of_a_count(machine, side) for side in sides)


def _is_made_of_a_count(machine: Machine, node: cst.BaseExpression) -> bool:
    """`seen % 100`"""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, (cst.Modulo, cst.FloorDivide)):
        return False
    return machine.values.get(node.left, NOTHING).scale is Scale.COUNT
