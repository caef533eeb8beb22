"""What becomes of a list of samples: by which dimension they lie, and whether one's form depends on the others'."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum, auto

import libcst as cst

from distify_codemods.records import dataclass
from distify_codemods.values import NOTHING, Value


class Unseen(Exception):
    """Something of a function is not understood: nothing is known of what it makes."""

    def __init__(self, sort: cst.Call | None = None) -> None:
        self.sort = sort  # the call that is not followed, if it puts the samples in an order


class Kind(Enum):
    CONST = auto()  # nothing of the samples
    EACH = auto()  # of one sample
    PLACE = auto()  # where it is in the batch
    COUNT = auto()  # how many there are
    OF_ALL = auto()  # a number, or a name, that depends on several of them
    LISTED = auto()  # one entry for each sample
    COLUMNS = auto()  # any number of parts of a batch, in a list or under names
    TUPLE = auto()
    TABLE = auto()
    EMPTY = auto()  # a list or dictionary to be filled
    ROWS = auto()  # a tensor: the samples lie along its first dimension, one row each
    UNKNOWN = auto()


@dataclass(frozen=True)
class Form:
    kind: Kind
    items: tuple[Form, ...] = ()  # of lists and columns: what any of them is
    names: tuple[str, ...] = ()  # of the items of a table
    padded: bool = False  # its form depends on other samples
    one_row: bool = False  # of a sample: its first dimension has one entry
    value: Value = NOTHING  # of constants
    sort: cst.Call | None = None  # of what is unknown: by what samples were put in an order

    @property
    def element(self) -> Form:
        return self.items[0]

    def leaves(self) -> Iterable[Form]:
        if self.kind in (Kind.TUPLE, Kind.TABLE, Kind.COLUMNS):
            for item in self.items:
                yield from item.leaves()
        else:
            yield self


Named = dict[str, Form]  # what is given by name
CONST, EACH, PLACE, COUNT, OF_ALL, EMPTY, ROWS, UNKNOWN = map(
    Form, (Kind.CONST, Kind.EACH, Kind.PLACE, Kind.COUNT, Kind.OF_ALL, Kind.EMPTY, Kind.ROWS, Kind.UNKNOWN)
)
#: Of what is no tensor or list of them all.
SMALL = frozenset({Kind.CONST, Kind.EACH, Kind.OF_ALL, Kind.COUNT})


def listed(element: Form) -> Form:
    fits = element.kind in (Kind.EACH, Kind.PLACE, Kind.CONST) or (
        element.kind is Kind.TUPLE and all(listed(item) is not UNKNOWN for item in element.items)
    )
    return Form(Kind.LISTED, (element,)) if fits else UNKNOWN


def columns(element: Form) -> Form:
    return Form(Kind.COLUMNS, (element,))


def combined(forms: Iterable[Form]) -> Form:
    """What something makes of these, that takes samples one by one."""
    flat = [leaf for one in forms for leaf in one.leaves()]
    kinds = {one.kind for one in flat}
    if not kinds <= SMALL:
        only_rows = kinds <= {Kind.ROWS, Kind.CONST} and len([one for one in flat if one.kind is Kind.ROWS]) == 1
        return Form(Kind.ROWS, padded=any(one.padded for one in flat)) if only_rows else UNKNOWN
    depends = bool(kinds & {Kind.OF_ALL, Kind.COUNT}) or any(one.padded for one in flat)
    if Kind.EACH in kinds:
        return replace(EACH, padded=depends)
    return OF_ALL if depends else CONST


def depends_on_others(form: Form) -> bool:
    """Whether what is of one sample in it has a form that other samples say."""
    return form.padded or any(map(depends_on_others, form.items))


def either(one: Form, other: Form) -> Form:
    if one == other:
        return one
    if one.kind is other.kind and one.kind in (Kind.ROWS, Kind.EACH):
        return Form(one.kind, padded=one.padded or other.padded, one_row=one.one_row and other.one_row)
    same = one.kind is other.kind and len(one.items) == len(other.items) and one.names == other.names
    if same and one.items:
        return replace(one, items=tuple(map(either, one.items, other.items)))
    return combined([one, other]) if {one.kind, other.kind} <= SMALL else UNKNOWN


def unpacked(form: Form, count: int) -> list[Form]:
    if form.kind is Kind.TUPLE:
        return list(form.items) if len(form.items) == count else [UNKNOWN] * count
    if form.kind is Kind.COLUMNS:
        return [form.element] * count
    known = form.kind in (Kind.EACH, Kind.OF_ALL, Kind.CONST)
    return [replace(form, value=NOTHING, one_row=False) if known else UNKNOWN] * count


def transposed(rows: Form) -> Form:
    """`zip(*batch)`"""
    if rows.kind is not Kind.LISTED:
        return UNKNOWN
    if rows.element.kind is Kind.TUPLE:
        return Form(Kind.TUPLE, tuple(map(listed, rows.element.items)))
    return columns(listed(rows.element)) if rows.element.kind is Kind.EACH else UNKNOWN


def items_of(form: Form) -> tuple[Form, Kind]:
    """What iterating gives, and what a list of something of each is. Raises Unseen."""
    if form.kind in (Kind.LISTED, Kind.COLUMNS):
        return form.element, form.kind
    if form.kind is Kind.TUPLE and form.items:
        element = form.items[0]
        for item in form.items[1:]:
            element = either(element, item)
        return element, Kind.COLUMNS
    if form.kind in (Kind.CONST, Kind.OF_ALL):
        return replace(form, value=NOTHING), Kind.COLUMNS
    if form.kind is Kind.EACH:
        return replace(form, one_row=False), Kind.EACH
    raise Unseen


def gathered(element: Form, kind: Kind) -> Form:
    """A list of `element` for each of what was iterated."""
    if kind is Kind.LISTED:
        return listed(element)
    if kind is Kind.COLUMNS:
        return element if element.kind in (Kind.CONST, Kind.OF_ALL) else columns(element)
    return combined([element, EACH])
