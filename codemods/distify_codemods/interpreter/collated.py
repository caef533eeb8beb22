"""The batches of a loader as its `collate_fn` is seen to make them, for a run that looks for evidence.

All that a run takes for granted elsewhere is that samples lie along the first dimension. Here each part of a batch
carries a mark where that is not all there is to say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.inside import contained, core
from distify_codemods.interpreter import collate_functions, holding, nested
from distify_codemods.interpreter.collate_forms import UNKNOWN, Form, Kind, either
from distify_codemods.libraries import collating as table
from distify_codemods.libraries import graphs, torch_data, torch_losses, torch_nn
from distify_codemods.objects import Arguments, External, Mapping, Sequence
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import PART, Listed, Padded
from distify_codemods.reads import Table
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def layout(machine: Machine, loader: External) -> Form:
    """How the samples lie in the batches of a loader; UNKNOWN where that is not seen."""
    if loader.name in torch_data.OF_GRAPHS:
        return Form(Kind.LISTED)
    if loader.name != torch_data.LOADER:
        return UNKNOWN
    given = loader.attributes.get("collate_fn") or (loader.arguments or Arguments()).get("collate_fn", 6)
    if given is None or given is NOTHING:
        return nested.form_of(machine, loader) if given is None else UNKNOWN
    if given.open or not given.objs:
        return UNKNOWN
    found = [_made(machine, given.of([obj]), loader) for obj in given.objs]
    result = found[0]
    for other in found[1:]:
        result = either(result, other)
    return result


def _made(machine: Machine, collate: Value, loader: External) -> Form:
    only = collate.single()
    if isinstance(only, Const) and only.value is None:
        return nested.form_of(machine, loader)
    if isinstance(only, Ref) and only.name in table.DEFAULT:
        return nested.form_of(machine, loader)
    return collate_functions.form_of(machine, collate)


def is_seen(form: Form) -> bool:
    """Whether each part has something of each sample, in order: along the first dimension, or as a list."""
    return all(leaf.kind in (Kind.ROWS, Kind.LISTED) for leaf in form.leaves())


def is_stacked(form: Form) -> bool:
    """Whether the samples lie along the first dimension of all its tensors."""
    return all(leaf.kind is Kind.ROWS for leaf in form.leaves())


def batch_of(machine: Machine, loader: External, lies_in: Ordered[Obj]) -> Value:
    form = layout(machine, loader)
    marks = [_marks(machine, leaf, loader) for leaf in form.leaves()]
    plain = Value(scale=Scale.SAMPLES, sources=loader.alone | lies_in)
    if not any(marks) and not any(item.items for item in form.items if form.kind is not Kind.COLUMNS):
        return plain
    return _value(machine, form, loader, plain)


def _marks(machine: Machine, leaf: Form, loader: External) -> Ordered[Obj | str]:
    if leaf.kind is Kind.ROWS:
        return Ordered(machine.made(Padded, loader.site, loader).alone) if leaf.padded else EMPTY
    return Ordered(machine.made(Listed, loader.site, loader).alone)


def _value(machine: Machine, form: Form, loader: External, plain: Value, is_part: bool = False) -> Value:
    every = EMPTY.union(*(_marks(machine, leaf, loader) for leaf in form.leaves()))
    whole = plain.adding(every)
    if form.kind in (Kind.TUPLE, Kind.TABLE):
        items = tuple(_value(machine, one, loader, plain, True) for one in form.items)
        items = tuple(one.adding([PART]) for one in items)
        made: Obj
        if form.kind is Kind.TUPLE:
            made = machine.made(Sequence, loader.site, loader, form, items=items)
        else:
            named: Table[object, Value] = Table(zip(form.names, items, strict=True))
            made = machine.made(Mapping, loader.site, loader, form, items=named)
        return replace(whole, objs=made.alone)
    if form.kind is Kind.COLUMNS and is_part:
        element = _value(machine, form.element, loader, plain, is_part).adding([PART])
        return replace(whole, objs=machine.made(Sequence, loader.site, loader, form, element=element).alone)
    return whole


def packed(machine: Machine, callee: Value, value: Value, node: cst.Call) -> Value:
    """What a function of torch returned: padded samples with their lengths are what they were; unpacked, padded.

    But for what a layer has mixed with that before, as a mean over all frames.
    """
    names = {obj.name.rsplit(".", 1)[-1] for obj in callee.objs if isinstance(obj, Ref)}
    if names == {"pack_padded_sequence"}:
        return _told(machine, value, _PACKED, node)
    if names == {"pad_packed_sequence"}:
        return _told(machine, value, _UNPACKED, node)
    return _told(machine, value, _MIXED, node) if any(map(_mixes, callee.objs)) else value


def _mixes(obj: Obj) -> bool:
    """Whether it is a layer of torch that does not take each entry, or those along the last dimension, by itself."""
    made = core(obj)
    if not isinstance(made, External):
        return False
    if made.name in torch_nn.CONTAINERS:
        inside = made.arguments.all() if made.arguments is not None else []
        return any(_mixes(one) for value in inside for one in contained(value) if one is not made)
    return torch_nn.mixes_entries(made.name)


def of_graphs(machine: Machine, value: Value, node: cst.Call, callee: Value) -> Value:
    """What has a row for each graph of a batch again: pooled nodes, and losses that compare such rows."""
    if not any(map(_deals_graphs, value.sources)) or not (
        _pools(machine, node, callee) or _compares(machine, node, callee)
    ):
        return value
    return value.with_sources(Ordered(one for one in value.sources if not isinstance(one, Listed)))


def has_always(batch: Value, name: str) -> bool:
    """Whether a batch has a part of this name, whatever its samples have: of graphs, which node is of which."""
    return name == graphs.WHICH and any(map(_deals_graphs, batch.sources))


def _deals_graphs(source: Obj | str) -> bool:
    return isinstance(source, External) and source.name in torch_data.OF_GRAPHS


def _names(callee: Value) -> set[str]:
    return {obj.name if isinstance(obj, (Ref, External)) else "" for obj in callee.objs}


def _pools(machine: Machine, node: cst.Call, callee: Value) -> bool:
    names = _names(callee)
    index = [arg.value for place, arg in enumerate(node.args) if place == 1 or _is_named(arg, graphs.INDEX)]
    given = any(machine.values.get(one, NOTHING).scale is Scale.SAMPLES for one in index)
    return given and bool(names) and names <= graphs.POOLING


def _compares(machine: Machine, node: cst.Call, callee: Value) -> bool:
    """Whether it is a loss of torch whose first argument has a row for each graph: so has what it is compared with."""
    names = _names(callee)
    if not names or not node.args or not all(map(torch_losses.takes_reduction, names)):
        return False
    rows = machine.values.get(node.args[0].value, NOTHING)
    return rows.scale is Scale.SAMPLES and not any(isinstance(one, Listed) for one in rows.sources)


def _is_named(argument: cst.Arg, names: tuple[str, ...]) -> bool:
    return argument.keyword is not None and argument.keyword.value in names


_PACKED, _UNPACKED, _MIXED = "packed", "unpacked", "mixed"


def _told(machine: Machine, value: Value, how: str, node: cst.CSTNode) -> Value:
    """`value` and each part of it, with marks that say so."""
    sources = Ordered(_marked(machine, one, how) if isinstance(one, Padded) else one for one in value.sources)
    objs = holding.mapped(machine, value, node, how, lambda one: _told(machine, one, how, node))
    return replace(value, objs=objs, sources=sources)


def _marked(machine: Machine, mark: Padded, how: str) -> Padded:
    if mark.mixed or (how == _MIXED and mark.packed):
        return mark
    return machine.made(Padded, mark.site, _PACKED, how, packed=how == _PACKED, mixed=how == _MIXED)


def besides(own: Ordered[Obj | str], every: Ordered[Obj | str]) -> Ordered[Obj | str]:
    """`every`, but of padded samples and of nodes only what is said already, where that is anything."""
    known: tuple[type[Obj], ...] = (Padded,) if any(isinstance(one, Padded) for one in own) else ()
    known += (Listed,) if any(map(_deals_graphs, own)) else ()
    return Ordered(one for one in every if not isinstance(one, known) or one in own)
