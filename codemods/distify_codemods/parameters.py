"""Whether an object is a module, and has parameters: a loss that computes with what it is given has none."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.inside import contained, core
from distify_codemods.libraries import standard, torch_nn
from distify_codemods.objects import Class, External, Instance

_MAKERS = (
    "Parameter", "ParameterList", "ParameterDict", "register_parameter", "UninitializedParameter", "add_module",
    "register_module",
)  # fmt: skip


def may_be_a_module(obj: Obj) -> bool:
    """Unless its class is seen to derive from nothing but plain ones: what its `__call__` calls may be a module."""
    if isinstance(obj, External) and obj.name.startswith(torch_nn.NO_MODULES):
        return False
    if not isinstance(obj, Instance) or obj.of is None:
        return True
    bases = [value for cls in obj.of.ancestors() for value in cls.bases]
    return any(not value.objs or value.open or not all(map(_is_plain, value.objs)) for value in bases)


def _is_plain(base: Obj) -> bool:
    """Whether a class adds nothing of a module to those that derive from it."""
    if isinstance(base, Class):
        return True  # its own bases are asked by themselves
    return isinstance(base, Ref) and (standard.computes(base.name) or base.name.startswith(torch_nn.NO_MODULES))


def may_have_parameters(model: Obj) -> bool:
    return next(_makers(model, set()), None) is not None


def has_none(model: Obj) -> bool:
    """Whether it is seen to have no parameters: a layer without any, or a module that makes and holds nothing else."""
    if isinstance(model, External):
        return torch_nn.has_none(model.name)
    return isinstance(model, Instance) and model.of is not None and not may_have_parameters(model)


def has_parameters_for_sure(model: Obj) -> bool:
    return any(_makers(model, set()))


def _makers(model: Obj, seen: set[Obj]) -> Iterator[bool]:
    """What gives a module its parameters, each with whether it does so in every case."""
    if model in seen:
        return
    seen.add(model)
    if not isinstance(model, Instance) or model.of is None:
        yield not isinstance(model, External) or not torch_nn.has_none(model.name)
        return
    if model.of.libraries - torch_nn.PLAIN_BASES:
        yield True
    for cls in model.of.ancestors():
        yield from _calls(cls.node) if cls.node is not None else ()
    for value in model.attributes.values():
        if not value.objs:
            yield False  # a tensor, perhaps, that a function has made
        for obj in contained(value):
            inner = core(obj)
            if isinstance(inner, Instance) or (
                isinstance(inner, External) and not inner.name.startswith(torch_nn.NO_MODULES)
            ):
                yield from _makers(inner, seen)


@lru_cache(maxsize=4096)
def _calls(cls: cst.ClassDef) -> tuple[bool, ...]:
    """Of each call in a class that gives it parameters, whether no branch stands around it."""
    calls = [
        node for node in tree.walk(cls)
        if isinstance(node, cst.Call) and (tree.dotted(node.func) or "").rsplit(".", 1)[-1] in _MAKERS
    ]  # fmt: skip
    branches = [node for node in tree.walk(cls) if isinstance(node, cst.If)] if calls else []
    inside = {node for branch in branches for node in tree.walk(branch)}
    return tuple(call not in inside for call in calls)
