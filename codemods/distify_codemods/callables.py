"""What runs when something is called, as far as it is the script's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.inside import core
from distify_codemods.objects import Bound, Class, Function, Instance, Partial
from distify_codemods.values import NOTHING


def functions(obj: Obj) -> Iterator[tuple[Function, Obj | None]]:
    """Of a function, a method, or one that has some arguments already: each with the object whose method it is."""
    inner = core(obj)
    if isinstance(inner, Function):
        yield inner, None
    elif isinstance(inner, Bound) and inner.function is not None:
        yield inner.function, inner.receiver
    elif isinstance(inner, Partial) and inner.function is not None:
        for one in inner.function.objs:
            yield from functions(one)


def methods(cls: Class, name: str) -> list[Function]:
    """Those of a class by a name, or of the nearest above it that has it."""
    found = next((one.attributes[name] for one in cls.order if name in one.attributes), NOTHING)
    return [one for one in found.objs if isinstance(one, Function)]


def called(objs: Iterable[Obj]) -> Iterator[cst.CSTNode]:
    """The functions of the script, as they stand in it, that run when one of these is called."""
    for obj in map(core, objs):
        yield from (function.node for function, _ in functions(obj) if function.node is not None)
        if isinstance(obj, (Class, Instance)):
            cls = obj.of if isinstance(obj, Instance) else obj
            name = "__call__" if isinstance(obj, Instance) else "__init__"
            for one in cls.order if cls is not None else ():
                if name in one.attributes:
                    yield from called(one.attributes[name].objs)
                    break
