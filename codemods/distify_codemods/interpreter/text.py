"""torchtext's iterators: batches with a tensor for each field, which lies in time first unless its field says else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.inside import contained
from distify_codemods.libraries import torch_data
from distify_codemods.objects import Arguments, External, Mapping, Sequence
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: Attributes of a batch that are no fields.
_OWN = frozenset({"dataset", "batch_size", "fields", "input_fields", "target_fields"})


def splits_of(name: str) -> str:
    """The iterator that `Iterator.splits` makes several of."""
    kind = name.removesuffix(".splits")
    return kind if kind != name and kind in torch_data.ITERATORS else ""


def make_splits(machine: Machine, kind: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    """One iterator for each data set that is seen; else one for all of them."""
    datasets = (arguments.get("datasets", 0) or NOTHING).single()
    known = datasets.items if isinstance(datasets, Sequence) else None
    made = [_iterator(machine, kind, number, one, arguments, node) for number, one in enumerate(known or [NOTHING])]
    whole = machine.made(Sequence, node, "splits")
    whole.items, whole.element = (tuple(made), None) if known else (None, made[0])
    return Value(whole.alone)


def _iterator(
    machine: Machine, kind: str, number: int, dataset: Value, arguments: Arguments, node: cst.CSTNode
) -> Value:
    made = machine.made(External, node, kind, number, name=kind)
    made.arguments = Arguments([dataset], dict(arguments.keywords))
    return Value(made.alone)


def batch_of(machine: Machine, iterator: External) -> Value:
    batch = machine.made(
        External, iterator.site, torch_data.TEXT_BATCH, iterator, name=torch_data.TEXT_BATCH, whole=iterator
    )
    return Value(batch.alone, Scale.SAMPLES, iterator.alone)


def part_of(machine: Machine, batch: External, name: str, receiver: Value, node: cst.CSTNode) -> Value:
    if name == "batch_size":
        return Value(scale=Scale.COUNT, sources=receiver.sources)
    if not is_field(name):
        return NOTHING
    fields = fields_of(batch, name)
    if fields is None:
        return Value(scale=Scale.TURNED, sources=receiver.sources)  # as Field lays out unless it is told; see `unseen`
    scales = {_layout(field) for field in fields}
    value = Value(scale=scales.pop() if len(scales) == 1 else Scale.UNKNOWN, sources=receiver.sources)
    if not any(_is_on(field, "include_lengths") for field in fields):
        return value
    lengths = Value(scale=Scale.SAMPLES, sources=receiver.sources)
    pair = machine.made(Sequence, node, "with lengths")
    pair.items = (value, lengths)
    return value.of(pair.alone)


def is_field(name: str) -> bool:
    return name not in _OWN


def fields_of(batch: External, name: str) -> list[External] | None:
    """The field behind an attribute of a batch, as far as the program shows it; None where it does not."""
    iterator = batch.whole
    dataset = iterator.arguments.get("dataset", 0) if isinstance(iterator, External) and iterator.arguments else None
    made = [obj.arguments for obj in (dataset or NOTHING).objs if isinstance(obj, External) and obj.arguments]
    given = [options.get("fields") for options in made]
    if not given or any(value is None for value in given):
        return None
    found = [field for value in given if value is not None for field in _named(value, name)]
    seen = all(isinstance(field, External) and field.name in torch_data.FIELDS for field in found)
    return [field for field in found if isinstance(field, External)] if found and seen else None


def _named(fields: Value, name: str) -> Iterable[Obj]:
    """What stands under a name in `[("text", TEXT), …]` or `{"column": ("text", TEXT)}`."""
    for obj in contained(fields):
        if isinstance(obj, Mapping) and name in obj.items:
            yield from obj.items[name].objs
        elif isinstance(obj, Sequence) and obj.items and len(obj.items) == 2 and obj.items[0].constant() == name:
            yield from obj.items[1].objs


def _layout(field: External) -> Scale:
    sequential = field.name != torch_data.LABELS and not _is_off(field, "sequential")
    return Scale.TURNED if sequential and not _is_on(field, "batch_first") else Scale.SAMPLES


def _is_on(field: External, option: str) -> bool:
    value = field.arguments.get(option) if field.arguments else None
    return value is not None and value.constant() is not False


def _is_off(field: External, option: str) -> bool:
    value = field.arguments.get(option, 0) if field.arguments and option == "sequential" else None
    return value is not None and value.constant() is False
