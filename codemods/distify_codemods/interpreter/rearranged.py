"""Lists that have an item for each sample of a batch, of which items are taken, left out or put elsewhere by place.

`lengths[0] = 0`, `rows.pop()`, `rows[1:] + rows[:1]`: as in a tensor of which samples are changed by their places, what
is made of such a list carries the mark of that (`pairing`). What a list is made of by a function of Python's own that
says nothing of its items one by one is marked too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.interpreter import holding, lengths, pairing, state
from distify_codemods.libraries import python
from distify_codemods.objects import Arguments, Passing, Sequence
from distify_codemods.origins import Placed
from distify_codemods.values import SIZE, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def are_of_samples(value: Value) -> bool:
    """Whether it is a list, or an iterator over one, that has an item for each sample."""
    return any(_is_of_samples(obj) for obj in value.objs) or pairing.gives_samples(value)


def _is_of_samples(obj: Obj) -> bool:
    if isinstance(obj, Passing):
        return any(are_of_samples(one) for one in (obj.over, *obj.zipped) if one is not None)
    many = lengths.of(Value(obj.alone)) if isinstance(obj, Sequence) else None
    each = isinstance(obj, Sequence) and obj.is_of_samples
    return each or (many is not None and many.objs == SIZE)


def cut(machine: Machine, listed: Value, node: cst.Subscript) -> Value:
    """`rows[1:]`; as many as there are samples, `rows[: len(x)]`, are all."""
    if not machine.evidence or not are_of_samples(listed):
        return listed
    part = node.slice[0].slice
    bounds = (part.lower, part.upper, part.step) if isinstance(part, cst.Slice) else ()
    given = [machine.values[one] for one in bounds if one is not None]
    whole = all(one.objs == SIZE or one.is_none for one in given) and len(node.slice) == 1
    return listed if whole else listed.adding([machine.mark(Placed, node)])


def called(machine: Machine, listed: Sequence, name: str, node: cst.CSTNode) -> None:
    """`rows.pop()`, `rows.insert(0, row)`; what is added to a list while it is made makes it."""
    place = node.func.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else None
    adding = name in python.ADDING_LAST and not listed.of_each
    if name in python.CHANGING_LISTS and not adding and place is not None:
        changed(machine, listed, place, node)


def changed(machine: Machine, listed: Obj, place: cst.BaseExpression, node: cst.CSTNode) -> None:
    """`del rows[0]`, `rows[0] = row`, of the list at `place`."""
    if machine.evidence and _is_of_samples(listed):
        for frame, _, root in state.reached(machine, place):
            state.put(machine, root, [machine.mark(Placed, node)], frame=frame)


def beside(machine: Machine, left: Value, right: Value, both: Value, node: cst.CSTNode) -> Value:
    """`rows + [row]`: of other items than samples, some are put before or behind."""
    kinds = {are_of_samples(one) for one in (left, right)}
    return both.adding([machine.mark(Placed, node)]) if machine.evidence and len(kinds) == 2 else both


def made_of(machine: Machine, name: str, arguments: Arguments, value: Value, node: cst.CSTNode) -> Value:
    """`itertools.accumulate(rows)`, `random.sample(rows, 4)`"""
    if not machine.evidence or not name.startswith(python.REARRANGING):
        return value
    return value.adding([machine.mark(Placed, node)]) if any(map(are_of_samples, arguments.all())) else value


def rest_of(machine: Machine, listed: Value, node: cst.CSTNode) -> Value:
    """What `first, *others = rows` gives each name."""
    item = holding.any_item(listed)
    return item.adding([machine.mark(Placed, node)]) if machine.evidence and are_of_samples(listed) else item


def asked(machine: Machine, listed: Value, value: Value, node: cst.CSTNode) -> Value:
    """`rows.index(row)`, `rows.count(row)`: how it stands among all."""
    return value.adding([machine.mark(Placed, node)]) if machine.evidence and are_of_samples(listed) else value
