"""Whether a module of the script has parameters: a loss that computes with what it is given has none."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.values import External, Instance, Obj, contained, core

_MAKERS = (
    "Parameter", "ParameterList", "ParameterDict", "register_parameter", "UninitializedParameter", "add_module",
    "register_module",
)  # fmt: skip
#: Objects of libraries that are no modules.
_OTHERS = ("builtins.", "argparse.", "numpy.", "math.", "collections.", "torch.utils.data.", "torch.optim.")
#: Modules of torch that have none.
_WITHOUT = ("Loss", "ReLU", "Softmax", "Sigmoid", "Tanh", "Dropout", "Pool", "Similarity", "Identity", "Flatten")


def may_have_parameters(model: Obj) -> bool:
    return next(_makers(model, set()), None) is not None


def has_parameters_for_sure(model: Obj) -> bool:
    return any(_makers(model, set()))


def _makers(model: Obj, seen: set[Obj]) -> Iterator[bool]:
    """What gives a module its parameters, each with whether it does so in every case."""
    if model in seen:
        return
    seen.add(model)
    if not isinstance(model, Instance) or model.of is None:
        yield not isinstance(model, External) or not model.name.endswith(_WITHOUT)
        return
    if model.of.libraries() - {"torch.nn.Module", "builtins.object"}:
        yield True
    for cls in model.of.ancestors():
        yield from map(_always, _calls(cls.node)) if cls.node is not None else ()
    for value in model.attributes.values():
        if not value.objs:
            yield False  # a tensor, perhaps, that a function has made
        for obj in contained(value):
            inner = core(obj)
            if isinstance(inner, Instance) or (isinstance(inner, External) and not inner.name.startswith(_OTHERS)):
                yield from _makers(inner, seen)


def _calls(cls: cst.ClassDef) -> Iterator[tuple[cst.ClassDef, cst.Call]]:
    for node in tree.walk(cls):
        if isinstance(node, cst.Call) and (tree.dotted(node.func) or "").rsplit(".", 1)[-1] in _MAKERS:
            yield cls, node


def _always(found: tuple[cst.ClassDef, cst.Call]) -> bool:
    """Whether no branch stands around it."""
    cls, call = found
    return not any(call in set(tree.walk(branch)) for branch in tree.walk(cls) if isinstance(branch, cst.If))
