"""What a value may be: abstract objects, and what is known of the number or tensor that it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from distify_codemods.allocation import Const, Obj
from distify_codemods.libraries import devices
from distify_codemods.ordered import EMPTY, InOrder, Ordered
from distify_codemods.origins import WORDED, Entry, Size, Zero
from distify_codemods.records import dataclass
from distify_codemods.scale import Scale, either


@dataclass(frozen=True)
class Value:
    """What an expression may evaluate to.

    `sources`: what its number depends on: loaders whose batches went into it, and words such as "random" or "time".
    """

    objs: Ordered[Obj] = EMPTY
    scale: Scale = Scale.CONST
    sources: Ordered[Obj | str] = EMPTY
    mask: bool = False  # the outcome of a comparison: indexing with it takes some of the samples
    open: bool = False  # or something else, of which nothing is known
    dims: int = 0  # how many dimensions it has at least; 0: that is not known
    number: bool = False  # it may be a whole number that was read out of a text, of which nothing else is known
    one_row: bool = False  # the size of its first dimension is seen to be one

    def single(self) -> Obj | None:
        return next(iter(self.objs)) if len(self.objs) == 1 else None

    def of(self, objs: InOrder[Obj]) -> Value:
        """Objects of which the same is known as of this."""
        return Value(objs if isinstance(objs, Ordered) else Ordered(objs), self.scale, self.sources)

    def adding(self, sources: InOrder[Obj | str]) -> Value:
        """The same, which depends on these as well."""
        return self.with_sources(self.sources | sources)

    def with_sources(self, sources: Ordered[Obj | str]) -> Value:
        """The same, which depends on these and nothing else."""
        if sources is self.sources:
            return self
        return Value(self.objs, self.scale, sources, self.mask, self.open, self.dims, self.number, self.one_row)

    def in_one_row(self, is_seen: bool) -> Value:
        """The same, of which it is seen, or not, that it has one row."""
        return self if self.one_row is is_seen else replace(self, one_row=is_seen)

    def constant(self) -> object:
        """The literal that this always is; None for anything else, and for the literal None."""
        return None if self.open else _told(self.objs)[1][1]

    @property
    def is_none(self) -> bool:
        return not self.open and _told(self.objs)[1] == (type(None), None)

    @property
    def may_be_none(self) -> bool:
        """Whether None is one of the things that it is seen to be."""
        return any(isinstance(obj, Const) and obj.value is None for obj in self.objs)

    @property
    def are_literals(self) -> bool:
        """Whether all that it may be are literals."""
        return bool(self.objs) and _told(self.objs)[0]

    @property
    def is_zero(self) -> bool:
        """Whether it is always zero: what a sum begins with."""
        zeros = all(isinstance(obj, Zero) or _is_the_number_zero(obj) for obj in self.objs)
        return bool(self.objs) and zeros and not self.open and self.scale is Scale.CONST


_Told = tuple[bool, tuple[type | None, object]]
_NO_LITERAL: _Told = False, (None, None)


def _told(objs: Ordered[Obj]) -> _Told:
    """Whether all are literals, and the one that all are alike, with its type.

    It is kept with the set: what an expression was in all contexts may be thousands, and is asked for in each.
    """
    found: _Told | None = getattr(objs, "told", None)
    if found is None:
        for obj in objs:
            one = (True, (type(obj.value), obj.value)) if isinstance(obj, Const) else _NO_LITERAL
            found = one if found is None else _of_both(found, one)
        found = objs.told = found or _NO_LITERAL
    return found


def _of_both(one: _Told, other: _Told) -> _Told:
    return one[0] and other[0], one[1] if one[1] == other[1] else (None, None)


def _united(one: Ordered[Obj], other: Ordered[Obj]) -> Ordered[Obj]:
    both = one | other
    if both is not one and both is not other and (told := getattr(one, "told", None)) is not None:
        both.told = _of_both(told, _told(other))
    return both


NOTHING = Value()
#: What a value holds that is the number of samples.
SIZE, ENTRY = Size(None).alone, Entry(None).alone


def _is_the_number_zero(obj: Obj) -> bool:
    return isinstance(obj, Const) and obj.value == 0 and obj.value is not False


def sources_of(values: Iterable[Value]) -> Ordered[Obj | str]:
    """What any of the values depends on."""
    return EMPTY.union(*(value.sources for value in values))


def worded(values: Iterable[Value]) -> Ordered[Obj | str]:
    """What a text depends on, of which these are put together; also whether figures of a batch are."""
    values = list(values)
    texts = sources_of(values) | gpu_texts(values)
    figures = any(one.scale not in (Scale.CONST, Scale.REDUCED) and one.sources for one in values)
    return texts | Ordered[Obj | str]([WORDED]) if figures else texts


def text_of(values: Iterable[Value], objs: Ordered[Obj] = EMPTY) -> Value:
    """A text that these are put into; what is read of it again is no number that is known."""
    sources = worded(values)
    return Value(objs, Scale.UNKNOWN if WORDED in sources else Scale.CONST, sources)


def gpu_texts(values: Iterable[Value]) -> Ordered[Obj | str]:
    """The texts among the values that begin as a GPU's name does, as sources of what is put together of them."""
    return Ordered(obj for value in values for obj in value.objs if isinstance(obj, Const) and _names_a_gpu(obj.value))


def _names_a_gpu(value: object) -> bool:
    return isinstance(value, str) and value.startswith(devices.GPU)


def join(*values: Value) -> Value:
    """What may be any of the values, as after a branch."""
    if len(values) == 2:
        return join_two(*values)
    if len(values) > _MANY and (alike := _alike(values)) is not None:
        return alike
    result = NOTHING
    for value in values:
        if result is NOTHING or value is result:
            result = value
        elif value is not NOTHING:
            result = _join(result, value)
    return result


def join_two(one: Value, other: Value) -> Value:
    if one is other or other is NOTHING:
        return one
    if one is NOTHING:
        return other
    return one if _says_all(one, other) else _join(one, other)


def _says_all(one: Value, other: Value) -> bool:
    """Whether what may be either is known to be no more than the first: so it is of most joins."""
    if one.scale is not other.scale or one.dims > other.dims or one.one_row > other.one_row:
        return False
    if not one.objs >= other.objs:
        return False
    added = (other.mask and not one.mask) or (not one.open and (other.open or bool(one.objs) is not bool(other.objs)))
    added = added or (other.number and not one.number)
    return not added and one.sources >= other.sources


_MANY = 8


def _alike(values: tuple[Value, ...]) -> Value | None:
    """Many values that differ in nothing but their objects and sources; None where something else is different."""
    first = values[0]
    for one in values:
        told = one.scale is first.scale and one.mask is first.mask and one.open is first.open
        told = told and one.number is first.number and one.one_row is first.one_row
        if not told or one.dims != first.dims or not one.objs:
            return None
    objs = Ordered.of_all([one.objs for one in values])
    sources = Ordered.of_all([one.sources for one in values])
    known = next((one for one in values if one.objs is objs and one.sources is sources), None)
    return known or Value(objs, first.scale, sources, first.mask, first.open, first.dims, first.number, first.one_row)


def _join(one: Value, other: Value) -> Value:
    """One of the two where it says all that the other does: most joins add nothing, and new values are dear."""
    scale = one.scale
    if scale is not other.scale:
        scale = either(scale, other.scale)
        if scale is Scale.SUM and any(value.scale is Scale.CONST and _may_be_added(value) for value in (one, other)):
            scale = Scale.UNKNOWN  # what must be added up over ranks, or what must not
    mask, dims = one.mask or other.mask, one.dims if one.dims < other.dims else other.dims
    number = one.number or other.number
    objs, sources, open = one.objs, one.sources, one.open or other.open
    one_row = one.one_row and other.one_row
    if objs is not other.objs:
        objs = _united(objs, other.objs)
        open = open or bool(one.objs) is not bool(other.objs)
    if sources is not other.sources:
        sources = sources | other.sources
    for known in (one, other):
        if (
            known.scale is scale
            and known.mask is mask
            and known.open is open
            and known.dims == dims
            and known.number is number
            and known.one_row is one_row
            and known.objs is objs
            and known.sources is sources
        ):
            return known
    return Value(objs, scale, sources, mask, open, dims, number, one_row)


def _may_be_added(value: Value) -> bool:
    """Whether a number or tensor that does not depend on the batch may be another than zero."""
    numbers = [obj for obj in value.objs if not (isinstance(obj, Const) and obj.value is None)]
    if not value.objs or value.open:
        return True
    return any(isinstance(obj, Const) and type(obj.value) in (int, float) and obj.value != 0 for obj in numbers)
