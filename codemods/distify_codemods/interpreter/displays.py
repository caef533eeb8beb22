"""Lists, tuples, sets and dictionaries as they are written out, and comprehensions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.events import Here, Kind
from distify_codemods.interpreter import (
    cuts,
    files,
    forms,
    holding,
    iteration,
    lengths,
    operators,
    pairing,
    pooling,
    turns,
    ways,
)
from distify_codemods.libraries import python
from distify_codemods.objects import External, Mapping, Sequence
from distify_codemods.one_value import gives_one_number
from distify_codemods.ordered import Ordered
from distify_codemods.origins import Choice, Counter
from distify_codemods.scale import FIGURES, PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value, join, sources_of

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def sequence(machine: Machine, node: cst.Tuple | cst.List | cst.Set) -> Value:
    several = [isinstance(element, cst.StarredElement) for element in node.elements]
    items = tuple(ways.marked(machine, machine.evaluate(element.value)) for element in node.elements)
    obj = machine.made(Sequence, node)
    if any(several):
        obj.grow(*(holding.entry_of(item) if starred else item for starred, item in zip(several, items, strict=True)))
        for element, starred, item in zip(node.elements, several, items, strict=True):
            if starred:
                forms.resized(machine, Value(obj.alone), item)
            once = isinstance(node, cst.Set) and item.scale in PER_SAMPLE  # what is there twice is there once
            many = lengths.of_iterable(item) if starred and not once else None if once else Value()
            lengths.told(machine, obj, element, many)
    else:
        old = obj.items if obj.items is not None and len(obj.items) == len(items) else items
        obj.items = tuple(join(one, other) for one, other in zip(old, items, strict=True))
        if items:
            lengths.told(machine, obj, node, Value())
    value = join(*items)
    if any(several) and isinstance(node, cst.Set) and value.scale in PER_SAMPLE:
        value = replace(value, scale=Scale.COUPLED)  # `{*labels}`: what is there once for all samples
    return value.of(obj.alone)


def dictionary(machine: Machine, node: cst.Dict) -> Value:
    obj = machine.made(Mapping, node)
    values = []
    for element in node.elements:
        value = ways.marked(machine, machine.evaluate(element.value))
        values.append(value)
        if isinstance(element, cst.StarredDictElement):
            holding.update(machine, obj, value)
            continue
        assert isinstance(element, cst.DictElement)
        key = machine.evaluate(element.key).constant()
        holding.set_item(machine, obj, key, value)
    return join(*values).of(obj.alone)


# ---- comprehensions


def comprehension(machine: Machine, node: cst.BaseComp) -> Value:
    with pooling.perhaps(machine):
        (values, over), dealt = iteration.while_drawing(machine, lambda: _turns(machine, node))
    return _comp_result(machine, node, values, over, dealt)


def _turns(machine: Machine, node: cst.BaseComp) -> tuple[list[tuple[Value, Value]], Value | None]:
    """Over a few known items, each turn makes objects of its own; else one turn stands for all: over what."""
    outer = dict(machine.frame.env)
    items, over = _known_turns(machine, node.for_in), None
    values = []
    if items is None:
        with _comprehending(machine):
            over = _comp_for(machine, node.for_in)
            values.append(_comp_item(machine, node))
    else:
        frame = machine.frame
        for number, item in enumerate(items):
            machine.frame = frame.turn(node, number)
            machine.assign(node.for_in.target, item)
            values.append(_comp_item(machine, node))
        machine.frame = frame
    machine.frame.env.clear()
    machine.frame.env.update(outer)
    return values, over


@contextmanager
def _comprehending(machine: Machine) -> Iterator[None]:
    outer = machine.comprehending
    try:
        yield
    finally:
        machine.comprehending = outer


def _known_turns(machine: Machine, node: cst.CompFor) -> tuple[Value, ...] | None:
    if node.ifs or node.inner_for_in is not None:
        return None
    return turns.known(machine, machine.evaluate(node.iter), node)


def _comp_item(machine: Machine, node: cst.BaseComp) -> tuple[Value, Value]:
    """The key (of a dictionary) and the value of one turn."""
    if isinstance(node, cst.DictComp):
        return machine.evaluate(node.key), machine.evaluate(node.value)
    assert isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp))
    return NOTHING, machine.evaluate(node.elt)


def _comp_result(
    machine: Machine,
    node: cst.BaseComp,
    turns: list[tuple[Value, Value]],
    over: Value | None,
    dealt: Ordered[External],
) -> Value:
    """`over`: what is not known item by item."""
    known = over is None
    whole = join(*(value for _, value in turns))
    of_each = _is_of_each(machine, node)
    if of_each or any(pairing.gives_samples(machine.values.get(one.iter, NOTHING)) for one in _nested(node.for_in)):
        whole = _of_samples(machine, node, whole, of_each)
    if isinstance(node, cst.DictComp):
        table = machine.made(Mapping, node)
        for key, value in turns:
            holding.set_item(machine, table, key.constant() if known else None, value)
        return Value(table.alone, whole.scale, whole.sources | _picked(machine, node.for_in))
    made = machine.made(Sequence, node)
    made.grow(whole)
    made.items = tuple(value for _, value in turns) if known else None
    made.per_sample = over is not None and cuts.goes_through_samples(machine, node, over)
    made.of_each = made.of_each or of_each
    lengths.told(machine, made, node, _length(machine, node))
    made.deals |= dealt & whole.sources
    picked = _picked(machine, node.for_in)
    if made.deals or any(isinstance(one, Choice) for one in picked):
        _say_tests(machine, node.for_in)
    value = Value(made.alone, whole.scale, whole.sources | picked)
    return value if known else forms.comprehended(machine, node.for_in, value)


def _length(machine: Machine, node: cst.BaseComp) -> Value | None:
    """How many items it has."""
    loops = list(_nested(node.for_in))
    many = [lengths.of_iterable(machine.values.get(loop.iter, NOTHING)) for loop in loops]
    told = [one for one in many if one is not None]
    counted = [one for one in told if one.scale is not Scale.CONST]
    tests = [machine.values.get(one.test, NOTHING) for loop in loops for one in loop.ifs]
    by_samples = any(one.scale in (*PER_SAMPLE, Scale.COUPLED) for one in tests)
    if len(told) < len(many) or (isinstance(node, cst.SetComp) and counted) or (by_samples and not counted):
        return None
    if len(counted) == 1 == len(many) and not by_samples:
        return counted[0]
    return Value(scale=Scale.SUM, sources=sources_of([*counted, *tests])) if counted else Value()


def _say_tests(machine: Machine, node: cst.CompFor) -> None:
    """What says which batches are handed on, or which figures are taken."""
    for clause in _nested(node):
        for one in clause.ifs:
            machine.event(Kind.TEST, one, value=machine.values.get(one.test, NOTHING))


def _is_of_each(machine: Machine, node: cst.BaseComp) -> bool:
    """Whether its turns are seen to go through the samples of a batch, and not through several tensors of all.

    They are where what is gone through is one tensor, and where what is made or asked of a turn is one number.
    """
    loops = list(_nested(node.for_in))
    if any(_goes_through_a_table(loop.iter) for loop in loops):
        return False
    over = [machine.values.get(loop.iter, NOTHING) for loop in loops]
    if any(map(pairing.goes_through_a_tensor, over)):
        return True
    made = [] if isinstance(node, cst.DictComp) else [_item_node(node)]
    tests = [one.test for loop in loops for one in loop.ifs]
    one_number = any(machine.values.get(one, NOTHING).scale in PER_SAMPLE for one in tests) or any(
        machine.values.get(one, NOTHING).scale in PER_SAMPLE and gives_one_number(one) for one in made
    )
    return one_number and any(map(pairing.gives_samples, over))


def _goes_through_a_table(node: cst.BaseExpression) -> bool:
    """`for name, part in batch.items()`: of each of its parts, the samples are all there."""
    calls = (one.func for one in tree.walk(node) if isinstance(one, cst.Call))
    return any(isinstance(one, cst.Attribute) and one.attr.value in python.OF_TABLES for one in calls)


def _item_node(node: cst.BaseComp) -> cst.BaseExpression:
    assert isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp))
    return node.elt


def _of_samples(machine: Machine, node: cst.BaseComp, item: Value, of_each: bool) -> Value:
    """What a list says of its batch that has an item for each sample, whatever these say; or for some, or several."""
    loops = list(_nested(node.for_in))
    over = [machine.values.get(loop.iter, NOTHING) for loop in loops]
    tests = [machine.values.get(one.test, NOTHING) for loop in loops for one in loop.ifs]
    sources = item.sources.union(*(one.sources for one in (*map(pairing.iterated, over), *tests)))
    if item.scale in (Scale.MEAN, Scale.SUM):
        return replace(item, scale=Scale.COUPLED, sources=sources)  # summed up, no mean over samples
    known = item.scale in (Scale.CONST, Scale.COUNT, *PER_SAMPLE)
    if not of_each or not known or isinstance(node, cst.DictComp):
        return replace(item, sources=sources)
    kinds = {one.scale for one in tests}
    asked = [_item_node(node), *(one.test for loop in loops for one in loop.ifs)]
    if (
        isinstance(node, cst.SetComp)
        or _makes_pairs(machine, loops)
        or not kinds <= {Scale.CONST, *PER_SAMPLE}
        or any(_tells_places(machine, one) for one in asked)
    ):
        scale = Scale.COUPLED  # which there are, or what they are, depends on all of them
    else:
        scale = Scale.RAGGED if tests or len(loops) > 1 or item.scale is Scale.RAGGED else Scale.SAMPLES
    return replace(item, scale=scale, sources=sources)


def _makes_pairs(machine: Machine, loops: list[cst.CompFor]) -> bool:
    """`for a in x for b in x`: a loop within goes through the samples once more, and not through what one has."""
    for number, loop in enumerate(loops[1:], 1):
        over = machine.values.get(loop.iter, NOTHING)
        outer = {name for one in loops[:number] for name in tree.target_names(one.target)}
        if pairing.counts_samples(over) or (pairing.gives_samples(over) and outer.isdisjoint(tree.names(loop.iter))):
            return True
    return False


def _tells_places(machine: Machine, node: cst.CSTNode) -> bool:
    """Whether the number of a turn is used for something else than to find a sample by it."""
    if isinstance(node, cst.Subscript):
        numbers = [one.slice.value for one in node.slice if isinstance(one.slice, cst.Index)]
        others = [one for one in numbers if not isinstance(one, cst.Name)]  # `x[i - 1]` is another sample
        return any(_tells_places(machine, one) for one in (node.value, *others))
    if isinstance(node, cst.Name) and any(isinstance(obj, Counter) for obj in machine.values.get(node, NOTHING).objs):
        return True
    return any(_tells_places(machine, one) for one in tree.children(node))


def _nested(node: cst.CompFor | None) -> Iterator[cst.CompFor]:
    while node is not None:
        yield node
        node = node.inner_for_in


def _picked(machine: Machine, node: cst.CompFor) -> Ordered[Obj | str]:
    """What the disk said, that there are as many items of; what batches say, by which some are left out."""
    tests = [machine.values.get(one.test, NOTHING) for one in node.ifs]
    said = (files.of_the_disk(one) for one in (machine.values.get(node.iter, NOTHING), *tests))
    left_out = (source for one in tests for source in one.sources if pooling.is_of_a_batch(source))
    chosen = [
        operators.choice(machine, one, value)
        for one, value in zip(node.ifs, tests, strict=True)
        if value.scale in FIGURES
    ]
    found = Ordered[Obj | str](left_out).union(*said, *chosen)
    return found | _picked(machine, node.inner_for_in) if node.inner_for_in is not None else found


def _comp_for(machine: Machine, node: cst.CompFor) -> Value:
    over = machine.evaluate(node.iter)
    machine.event(Kind.LOOP, node, value=over)
    iterator = iteration.begin(machine, over, node, node.iter)
    machine.comprehending = (Here(machine.here, node, machine.frame, "body"), *machine.comprehending)
    machine.assign(node.target, iteration.element_of(machine, iterator, node, iteration.ALL))
    for condition in node.ifs:
        machine.evaluate(condition.test)
    if node.inner_for_in is not None:
        _comp_for(machine, node.inner_for_in)
    return over
