"""What is inside of what: items of lists, models of wrappers, what a library sees of an object."""

from __future__ import annotations

from collections.abc import Iterable

from distify_codemods.allocation import Obj
from distify_codemods.objects import External, Instance, Mapping, Method, Passing, Sequence, Wrapped
from distify_codemods.values import NOTHING, Value


def contained(value: Value) -> Iterable[Obj]:
    """The objects of a value and, in lists, tuples and dictionaries, those inside; each once."""
    return _contained(value, set())


def _contained(value: Value, seen: set[Obj]) -> Iterable[Obj]:
    for obj in value.objs:
        if obj in seen:
            continue
        seen.add(obj)
        yield obj
        if isinstance(obj, Sequence):
            for item in obj.parts():
                yield from _contained(item, seen)
        elif isinstance(obj, Mapping):
            yield from _contained(obj.any(), seen)
        elif isinstance(obj, Passing):
            for item in (obj.over or NOTHING, *obj.zipped):
                yield from _contained(item, seen)
        elif isinstance(obj, Instance) and obj.base is not None:
            yield obj.base


def values_in(value: Value) -> Iterable[Value]:
    """A value and, of lists, tuples and dictionaries, those inside."""
    seen: set[Obj] = set()
    left = [value]
    while left:
        one = left.pop()
        yield one
        for obj in one.objs - seen:
            seen.add(obj)
            if isinstance(obj, Sequence):
                left += obj.parts()
            elif isinstance(obj, Mapping):
                left.append(obj.any())
            elif isinstance(obj, Passing):
                left += (obj.over or NOTHING, *obj.zipped)


def to_library(obj: Obj) -> Obj:
    """What a library sees of an object: of a local class that is derived from one of its own, that one."""
    return obj.base if isinstance(obj, Instance) and obj.base is not None else obj


def core(obj: Obj) -> Obj:
    """The model itself, without what it is wrapped in."""
    while isinstance(obj, Wrapped) and obj.inner is not None:
        obj = obj.inner
    return obj


def root(obj: Obj) -> Obj:
    """What `client.chat.completions` is a part of; the part itself, where that is not one thing."""
    while isinstance(obj, Method) and obj.receiver is not None and (inner := obj.receiver.single()) is not None:
        obj = core(inner)
    return obj


def made_of(values: Iterable[Value]) -> Iterable[Value]:
    """Values, all that is in them, and what that was made of."""
    seen: set[Obj] = set()
    left = list(values)
    while left:
        value = left.pop()
        yield value
        for obj in map(core, value.objs):
            if obj not in seen:
                seen.add(obj)
                left += _parts(obj)


def _parts(obj: Obj) -> Iterable[Value]:
    yield from obj.attributes.values()
    if isinstance(obj, Sequence):
        yield from (*(obj.items or ()), obj.element or NOTHING)
    elif isinstance(obj, Mapping):
        yield obj.any()
    elif isinstance(obj, Passing):
        yield from (obj.over or NOTHING, *obj.zipped)
    elif isinstance(obj, External) and obj.arguments is not None:
        yield from obj.arguments.all()
    elif isinstance(obj, Instance) and obj.base is not None:
        yield Value(obj.base.alone)
    elif isinstance(obj, Method) and obj.receiver is not None:
        yield obj.receiver
