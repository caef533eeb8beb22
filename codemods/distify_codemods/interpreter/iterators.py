"""Python's functions over iterables: iter, next, zip, list …, and those of itertools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.events import Kind
from distify_codemods.inside import contained
from distify_codemods.interpreter import holding, iteration, lengths, one_by_one, pairing
from distify_codemods.libraries import in_place, python
from distify_codemods.objects import Arguments, Parameters, Passing, Sequence
from distify_codemods.ordered import Ordered
from distify_codemods.origins import PIECE, Single
from distify_codemods.scale import FIGURES, Scale
from distify_codemods.values import ENTRY, NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def _begun(machine: Machine, arguments: Arguments, node: cst.CSTNode, number: int, part: str = "") -> Value:
    """The iterator of an argument."""
    given = arguments.positional[number] if number < len(arguments.positional) else NOTHING
    plain = [argument.value for argument in node.args if argument.keyword is None] if isinstance(node, cst.Call) else []
    return iteration.begin(machine, given, node, plain[number], part) if number < len(plain) else given


def passing(machine: Machine, node: cst.CSTNode, over: Value, **kind: bool) -> Value:
    made = machine.made(Passing, node, *sorted(kind), begun=True, **kind)
    made.over = join(made.over or NOTHING, over)
    return over.of(made.alone)


def _iter(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    return passing(machine, node, _begun(machine, arguments, node, 0))


def _reversed(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    return pairing.turned_round(machine, arguments.first, _iter(machine, arguments, node), node)


def _enumerate(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    return passing(machine, node, _begun(machine, arguments, node, 0), numbered=True)


def _zip(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    if arguments.star is not None:
        column = machine.made(Sequence, node, "column")
        column.grow(holding.any_item(holding.any_item(arguments.star)))
        row = Value(column.alone, arguments.star.scale, arguments.star.sources)
        return row.of(machine.made(Sequence, node, "rows", element=row).alone)
    parts = tuple(_begun(machine, arguments, node, number, str(number)) for number in range(len(arguments.positional)))
    made = machine.made(Passing, node, begun=True)
    old = made.zipped if len(made.zipped) == len(parts) else parts
    made.zipped = tuple(join(one, other) for one, other in zip(old, parts, strict=True))
    return Value(made.alone)


def _next(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    over = arguments.first
    item = one_by_one.taken_out(machine, iteration.element_of(machine, over, node), over)
    if machine.evidence and PIECE in item.sources and not item.objs - ENTRY:
        item = item.adding([machine.mark(Single, node)])
    return join(item, *arguments.positional[1:2])


def _listed(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`list(over)` and the like."""
    given = arguments.first
    made = machine.made(Sequence, node)
    only = given.single()
    if isinstance(only, Sequence) and only.items is not None:
        made.items = only.items
    else:
        over = _begun(machine, arguments, node, 0)
        item, dealt = iteration.while_drawing(machine, lambda: iteration.element_of(machine, over, node, iteration.ALL))
        parameters = Ordered(obj for obj in contained(given) if isinstance(obj, Parameters))
        made.items = None
        lengths.told(machine, made, node, lengths.of_iterable(given))
        made.grow(item, *([Value(parameters)] if parameters else []))
        made.deals |= dealt
    key = sorted_by(machine, arguments, holding.any_item(Value(made.alone)), node)
    return Value(made.alone, given.scale, given.sources | key.sources)


def _related(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`sorted(over)`, `set(over)`: of the samples of a batch, or of figures of several, what is where, or there at all,
    depends on all."""
    value, given = _listed(machine, arguments, node), arguments.first
    if not pairing.gives_samples(given) and holding.any_item(given).scale not in FIGURES:
        return value
    for obj in value.objs:
        if isinstance(obj, Sequence):
            obj.grow(Value(scale=Scale.COUPLED, sources=given.sources))
            lengths.told(machine, obj, node, Value(scale=Scale.COUPLED, sources=given.sources))
    return Value(value.objs, Scale.COUPLED, value.sources)


def sorted_by(machine: Machine, arguments: Arguments, item: Value, node: cst.CSTNode) -> Value:
    """What `key` says of an item: it may draw, so that the order is one of chance."""
    key = arguments.keywords.get("key")
    return machine.call(key, Arguments([item]), node) if key is not None and not key.is_none else NOTHING


def _map(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """One call stands for all, except over a few known items."""
    functions = arguments.first
    iterators = [_begun(machine, arguments, node, number) for number in range(1, len(arguments.positional))]
    made = machine.made(Sequence, node)
    items, dealt = iteration.while_drawing(
        machine, lambda: [iteration.element_of(machine, one, node, iteration.ALL) for one in iterators]
    )
    items = [
        pairing.numbered(machine, one, item, node) if pairing.counts_samples(one) else item
        for one, item in zip(iterators, items, strict=True)
    ]
    if functions.objs:
        item = machine.call(functions, Arguments(items), node)
        of_samples = any(map(pairing.gives_samples, iterators)) and item.scale in (Scale.MEAN, Scale.SUM)
        made.grow(replace(item, scale=Scale.COUPLED) if of_samples else item)  # summed up, no mean over samples
    made.of_each = made.of_each or any(map(pairing.goes_through_a_tensor, iterators))
    lengths.told(machine, made, node, lengths.of_iterable(iterators[0]) if iterators else None)
    made.deals |= dealt
    whole = join(*iterators)
    return whole.of(made.alone)


def _filter(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    over = _begun(machine, arguments, node, 1)
    functions = arguments.first
    item, dealt = iteration.while_drawing(machine, lambda: iteration.element_of(machine, over, node, iteration.ALL))
    if functions.objs and not functions.is_none:
        item = machine.call(functions, Arguments([item]), node)
    if dealt:
        machine.event(Kind.TEST, node, value=item)
    return passing(machine, node, over, partial=True)


def _cycle(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    return passing(machine, node, _begun(machine, arguments, node, 0), repeats=True)


def _part(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    return passing(machine, node, _begun(machine, arguments, node, 0), partial=True)


def _chain(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    parts = [_begun(machine, arguments, node, number, str(number)) for number in range(len(arguments.positional))]
    if arguments.star is not None:
        parts.append(holding.any_item(arguments.star))
    return passing(machine, node, join(*parts), partial=True)


def _chain_of(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    return passing(machine, node, holding.any_item(_begun(machine, arguments, node, 0)), partial=True)


def _repeat(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    element = arguments.first
    made = machine.made(Sequence, node)
    made.grow(element)
    return Value(made.alone)


def _pushed(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`heapq.heappushpop(heap, item)`"""
    holders = arguments.get("heap", 0) or NOTHING
    for obj in holders.objs:
        if isinstance(obj, Sequence) and len(arguments.positional) > 1:
            holding.append(machine, obj, arguments.positional[1])
    return holding.any_item(holders)


def _empty(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`queue.Queue(size)`"""
    return Value(machine.made(Sequence, node).alone)


_BUILTINS = {
    "iter": _iter, "reversed": _reversed, "enumerate": _enumerate, "zip": _zip, "next": _next, "map": _map,
    "filter": _filter, **dict.fromkeys(("list", "tuple"), _listed),
    **dict.fromkeys(("set", "sorted", "frozenset"), _related),
}  # fmt: skip
_ITERTOOLS = {
    "cycle": _cycle, "islice": _part, "chain": _chain, "chain.from_iterable": _chain_of, "zip_longest": _zip,
    "product": _zip, "repeat": _repeat,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[[Machine, Arguments, cst.CSTNode], Value]] = {
    **{f"builtins.{name}": function for name, function in _BUILTINS.items()},
    **{f"itertools.{name}": function for name, function in _ITERTOOLS.items()},
    python.QUEUE: _listed,
    **dict.fromkeys([f"queue.{name}" for name in ("Queue", "LifoQueue", "PriorityQueue", "SimpleQueue")], _empty),
    **dict.fromkeys(in_place.OF_LISTS, _pushed),
}
