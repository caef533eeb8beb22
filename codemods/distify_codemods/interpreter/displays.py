"""Lists, tuples, sets and dictionaries as they are written out, and comprehensions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.events import Kind
from distify_codemods.interpreter import cuts, files, forms, holding, iteration, pairing, pooling, turns, ways
from distify_codemods.objects import External, Mapping, Sequence
from distify_codemods.ordered import Ordered
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def sequence(machine: Machine, node: cst.Tuple | cst.List | cst.Set) -> Value:
    starred = any(isinstance(element, cst.StarredElement) for element in node.elements)
    items = tuple(ways.marked(machine, machine.evaluate(element.value)) for element in node.elements)
    obj = machine.made(Sequence, node)
    if starred:
        obj.grow(*(join(item, holding.any_item(item)) for item in items))
    else:
        old = obj.items if obj.items is not None and len(obj.items) == len(items) else items
        obj.items = tuple(join(one, other) for one, other in zip(old, items, strict=True))
    return join(*items).of(obj.alone)


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
    if over is not None and whole.scale in (Scale.MEAN, Scale.SUM) and pairing.gives_samples(over):
        whole = replace(whole, scale=Scale.COUPLED)  # of each sample: summed up, no mean over samples
    if isinstance(node, cst.DictComp):
        table = machine.made(Mapping, node)
        for key, value in turns:
            holding.set_item(machine, table, key.constant() if known else None, value)
        return Value(table.alone, whole.scale, whole.sources | _picked(machine, node.for_in))
    made = machine.made(Sequence, node)
    made.grow(whole)
    made.items = tuple(value for _, value in turns) if known else None
    made.per_sample = over is not None and cuts.goes_through_samples(machine, node, over)
    made.deals |= dealt & whole.sources
    value = Value(made.alone, whole.scale, whole.sources | _picked(machine, node.for_in))
    return value if known else forms.comprehended(machine, node.for_in, value)


def _picked(machine: Machine, node: cst.CompFor) -> Ordered[Obj | str]:
    """What the disk said, that there are as many items of."""
    parts = [node.iter, *(one.test for one in node.ifs)]
    found = Ordered[Obj | str]().union(*(files.of_the_disk(machine.values.get(one, NOTHING)) for one in parts))
    return found | _picked(machine, node.inner_for_in) if node.inner_for_in is not None else found


def _comp_for(machine: Machine, node: cst.CompFor) -> Value:
    over = machine.evaluate(node.iter)
    machine.event(Kind.LOOP, node, value=over)
    iterator = iteration.begin(machine, over, node, node.iter)
    machine.assign(node.target, iteration.element_of(machine, iterator, node, iteration.ALL))
    for condition in node.ifs:
        machine.evaluate(condition.test)
    if node.inner_for_in is not None:
        _comp_for(machine, node.inner_for_in)
    return over
