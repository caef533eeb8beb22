"""Python's builtins, and the methods of lists and dictionaries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Const, Obj
from distify_codemods.events import Kind
from distify_codemods.inside import to_library, values_in
from distify_codemods.interpreter import (
    folders,
    forms,
    holding,
    iteration,
    iterators,
    lengths,
    one_by_one,
    rearranged,
    records,
    scales,
    tensor_functions,
    turns,
    ways,
)
from distify_codemods.libraries import python, torch_data
from distify_codemods.libraries.parallel import COUNT
from distify_codemods.objects import Arguments, External, Local, Mapping, Passing, Sequence
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import LENGTH, Shape, Verdict
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import ENTRY, NOTHING, SIZE, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def builtin_call(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    first = arguments.first
    if name == "print":
        machine.event(Kind.PRINT, node, name="print", arguments=arguments)
        return NOTHING
    if name == "len" and first.objs and all(isinstance(obj, Shape) for obj in first.objs):
        return NOTHING  # the number of dimensions, as `x.ndim` is
    if name == "len" and first.objs and _have_as_many_items(first.objs):
        return Value(scale=Scale.CONST)  # `len([image, depth])`, whatever the batch
    if name == "len" and first.objs == ENTRY:
        return Value(scale=Scale.SAMPLES, sources=first.sources)
    if name == "len" and (told := lengths.of(first)) is not None:
        return told.adding(forms.sources_of(first))
    if name == "len":
        scale = Scale.COUNT if first.scale in (Scale.SAMPLES, Scale.COUNT) else Scale.CONST
        scale = {Scale.RAGGED: Scale.SUM, Scale.COUPLED: Scale.COUPLED}.get(first.scale, scale)
        sources = forms.sources_of(first) if scale is Scale.CONST else forms.counting(first)
        measured = (to_library(obj) for obj in first.objs)
        if any(isinstance(one, External) and one.name in torch_data.LOADERS for one in measured):
            sources |= [LENGTH]
        return Value(SIZE if scale is Scale.COUNT else EMPTY, scale, sources)
    if name == "dict":
        return dictionary(machine, arguments, node)
    if (gpus := _gpus(name, arguments.positional)) is not None:
        return gpus
    if name in ("str", "repr", "format"):  # a text is no number, whatever it tells
        scale = Scale.CONST if first.scale is Scale.CONST else Scale.UNKNOWN
        return Value(_text_of_a_path(machine, name, arguments, node), scale, first.sources)
    if name in ("float", "int", "abs", "round", "bool"):
        whole = name == "int" or (name == "round" and len(arguments.all()) == 1)
        bends = name == "abs" or (whole and first.scale is Scale.MEAN)  # the mean of what was cut is another
        scale = scales.elementwise(first.scale) if bends else first.scale
        number = f"builtins.{name}" == python.INTEGER and scale is Scale.CONST
        return Value(_verdicts(first), scale, first.sources, number=number)
    if name == "sum":
        return _sum(arguments)
    if name in ("any", "all") and (judged := _verdicts(holding.any_item(first))):
        item = holding.any_item(first)
        return Value(judged, item.scale, item.sources | first.sources)
    if name in ("max", "min"):
        return tensor_functions.extreme_of_numbers(machine, arguments, node)
    if name in ("range",):
        made = machine.made(External, node, python.RANGE, name=python.RANGE)
        return join(*arguments.all()).of(made.alone)
    return _other(machine, name, arguments, node)


def _text_of_a_path(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Ordered[Obj]:
    if f"builtins.{name}" != python.TEXT or not any(folders.is_a_path(machine, obj) for obj in arguments.first.objs):
        return EMPTY
    made = machine.made(External, node, python.TEXT, name=python.TEXT)
    made.arguments = arguments if made.arguments is None else made.arguments.joined(arguments)
    return made.alone


def _verdicts(value: Value) -> Ordered[Obj]:
    return Ordered(obj for obj in value.objs if isinstance(obj, Verdict))


def _have_as_many_items(objs: Ordered[Obj]) -> bool:
    """Whether lists or tuples were written down item by item, all as long, and nothing has been put into them since."""
    known = [
        obj.items for obj in objs if isinstance(obj, Sequence) and not (obj.element or obj.per_sample or obj.drawn)
    ]
    return len(known) == len(objs) and None not in known and len({len(items or ()) for items in known}) == 1


def _gpus(name: str, given: list[Value]) -> Value | None:
    """`int(count)`, `max(1, count)`, `min(4, count)` of a number of GPUs: still one; `max(4, count)` is not."""
    counts = Ordered(obj for one in given for obj in one.objs if isinstance(obj, External) and obj.name == COUNT)
    limits = [one.constant() for one in given if not any(obj in counts for obj in one.objs)]
    if not counts or name not in ("int", "max", "min"):
        return None
    return NOTHING if name == "max" and any(limit not in (0, 1) for limit in limits) else Value(counts)


#: Python's own, which say one thing of all that they are given.
_OF_ALL_ENTRIES = ("any", "all")


def _other(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    if name in ("isinstance", "hasattr", "callable", "id", "hash", "input"):
        return Value(sources=arguments.sources)
    machine.call_back(arguments, node)
    made = machine.made(External, node, f"builtins.{name}", name=f"builtins.{name}")
    made.arguments = arguments
    value = join(*arguments.all())
    if name in _OF_ALL_ENTRIES and value.scale in PER_SAMPLE:
        value = replace(value, scale=Scale.COUPLED)
    return value.of(made.alone)


def dictionary(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    made = machine.made(Mapping, node)
    for value in (*arguments.positional, *([arguments.double_star] if arguments.double_star else [])):
        holding.update(machine, made, value)
    for key, value in arguments.keywords.items():
        machine.keep(made.items, key, value, made)
    return join(*arguments.all()).of(made.alone)


def default_dictionary(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    value = dictionary(machine, Arguments(arguments.positional[1:], arguments.keywords), node)
    for obj in value.objs:
        if isinstance(obj, Mapping) and arguments.positional:
            obj.factory = arguments.positional[0]
    return value


def counter(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`collections.Counter(labels)`"""
    value = dictionary(machine, arguments, node)
    for obj in value.objs:
        if isinstance(obj, Mapping):
            obj.counts = True
            _count(machine, obj, arguments)
    return value


def _count(machine: Machine, obj: Mapping, arguments: Arguments) -> None:
    """What the numbers are of that it counts things to."""
    found = [one for given in arguments.positional for one in values_in(given)]
    if found:
        sources: Ordered[Obj | str] = EMPTY.union(*(one.sources for one in found))
        holding.set_item(machine, obj, None, machine.tainted(Value(scale=Scale.UNKNOWN, sources=sources)))


def _sum(arguments: Arguments) -> Value:
    first = arguments.first
    item = holding.any_item(first)
    listed = any(isinstance(obj, Sequence) and not obj.of_each for obj in first.objs)  # tensors: added entry by entry
    scale = Scale.SUM if item.scale in PER_SAMPLE and not listed else item.scale
    many = lengths.of(first)
    if many is not None and many.scale is not Scale.CONST:  # as often as there are samples
        if item.scale in (Scale.MEAN, Scale.SUM):
            scale = Scale.COUPLED
        elif item.scale is Scale.CONST:  # `sum(1 for _ in x)`
            return Value(scale=Scale.SUM, sources=many.sources | item.sources | first.sources)
    return Value(scale=scale, sources=item.sources | first.sources)


def namespace(machine: Machine, obj: Obj) -> dict[str, Value] | None:
    if isinstance(obj, Local) and obj.target is not None:
        return machine.module_frame(obj.target).env
    return None


# ---- methods


#: Of lists, sets, deques and queues.
_ADDING = frozenset("append add insert extend appendleft extendleft put put_nowait update".split())
#: Those that put in what is in something else.
_EXTENDING = frozenset("extend extendleft update".split())
_OF_SETS = ("add", "update")
_OF_SAME_LENGTH = frozenset({"index", "count", "copy", "sort", "reverse", "__len__", "__getitem__"})


def method(
    machine: Machine, obj: Sequence | Mapping | Passing, name: str, arguments: Arguments, node: cst.CSTNode
) -> Value:
    if isinstance(obj, Sequence):
        return _of_sequence(machine, obj, name, arguments, node)
    if isinstance(obj, Mapping):
        return _of_mapping(machine, obj, name, arguments, node)
    own = Value(obj.alone)
    item = iteration.element_of(machine, own, node) if name in python.NEXT_METHODS else NOTHING
    return one_by_one.taken_out(machine, item, own)


def _of_sequence(machine: Machine, obj: Sequence, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    own = Value(obj.alone)
    rearranged.called(machine, obj, name, node)
    if obj.names and name in (python.TUPLE_AS_DICTIONARY, python.TUPLE_REPLACED):
        if name == python.TUPLE_REPLACED:
            return records.replaced(machine, obj, arguments, node)
        return records.row_as_dictionary(machine, obj, node)
    if name not in _OF_SAME_LENGTH:
        forms.resized(machine, own, arguments.first if name in _EXTENDING else NOTHING)
        if name in _OF_SETS and any(one.scale is not Scale.CONST for one in arguments.all()):
            lengths.told(machine, obj, node, None)  # what is there already is not put in once more
        elif name in (*_ADDING, "__iadd__"):
            lengths.changed(machine, own, node, arguments.first if name in (*_EXTENDING, "__iadd__") else None)
    if name in python.NEXT_METHODS:
        given = join(*(machine.send(obj, one, node) for one in arguments.positional if not one.is_none))
        return join(given, one_by_one.taken_out(machine, iteration.element_of(machine, own, node), own))
    if name in _ADDING:
        several = name in _EXTENDING
        put_in = map(holding.entry_of, arguments.positional) if several else arguments.positional[-1:]
        item = join(*put_in)
        holding.append(machine, obj, machine.tainted(forms.added(machine, item)))
        return NOTHING
    if name == "__setitem__":
        holding.append(machine, obj, machine.tainted(join(*arguments.positional[1:])))
        return NOTHING
    if name in ("__iadd__", "__add__"):
        holding.append(machine, obj, machine.tainted(holding.entry_of(arguments.first)))
        return own
    if name == "__getitem__":
        return holding.any_item(own)
    if name in ("pop", "popleft", "get", "get_nowait"):
        taken = one_by_one.taken_out(machine, holding.any_item(own), own)
        return ways.chosen(taken, join(*arguments.positional))
    if name == "sort":
        iterators.sorted_by(machine, arguments, holding.any_item(own), node)
    if name in ("index", "count"):
        return rearranged.asked(machine, own, ways.of_each(NOTHING, join(*arguments.positional)), node)
    return own if name == "copy" else NOTHING


def _of_mapping(machine: Machine, obj: Mapping, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    if obj.counts and name in ("update", "subtract"):
        _count(machine, obj, arguments)
    if name == "update":
        for value in arguments.positional:
            holding.update(machine, obj, value)
        for key, value in arguments.keywords.items():
            holding.set_item(machine, obj, key, machine.tainted(value))
        return NOTHING
    if name == "__setitem__" and len(arguments.positional) == 2:
        under, put_in = arguments.positional
        holding.set_item(machine, obj, under.constant(), machine.tainted(put_in))
        holding.set_key(machine, obj, machine.tainted(under))
        return NOTHING
    if name in ("get", "pop", "setdefault", "__getitem__"):
        known = arguments.positional[0].constant() if arguments.positional else None
        fallback = arguments.positional[1] if len(arguments.positional) > 1 else NOTHING
        if name == "setdefault":
            holding.set_item(machine, obj, known, fallback)
            holding.set_key(machine, obj, machine.tainted(arguments.first))
        found = join(obj.items.get(known, obj.rest or NOTHING) if known is not None else obj.any(), fallback)
        return ways.chosen(found, arguments.first)
    if name == "copy":
        return Value(obj.alone)
    if obj.counts and name in ("most_common", "elements", "total"):
        told = Value(scale=Scale.UNKNOWN, sources=obj.any().sources)
        if name == "total":
            return told
        made = machine.made(Sequence, node, obj, name)
        holding.append(machine, made, told)
        return Value(made.alone)
    if name in ("values", "items", "keys"):
        made = machine.made(Sequence, node, obj, name)
        keys = Value(Ordered(machine.made(Const, node, obj, key, value=key) for key in obj.items))
        value = obj.any()
        if name == "items":
            pair = machine.made(Sequence, node, obj, "item", items=(keys, value))
            pair.items = (keys, value)
            value = Value(pair.alone)
        told = holding.members(Value(obj.alone)) if machine.pooling is not None else NOTHING
        made.grow(join(keys, told) if name == "keys" else value)
        made.items = turns.pairs_of(machine, obj, node) if name == "items" else turns.keys_of(machine, obj, node)
        if name == "values" and made.items is not None:
            made.items = tuple(obj.items.values())
        return Value(made.alone)
    return NOTHING
