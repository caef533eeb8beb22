"""Tensors that are made from sizes: zeros, noise, numbers in order. One of the sizes may be the number of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Const
from distify_codemods.interpreter import holding
from distify_codemods.libraries import drawing
from distify_codemods.objects import Arguments, Sequence, Setting
from distify_codemods.ordered import Ordered
from distify_codemods.origins import Zero
from distify_codemods.scale import Scale
from distify_codemods.values import Value, sources_of

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

S = Scale
#: The position of `size` in functions of numpy's random numbers; of those with two parameters of a distribution, 2.
_SIZE_AT = {
    "random": 0, "random_sample": 0, "sample": 0, "ranf": 0, "standard_normal": 0, "standard_exponential": 0,
    "standard_cauchy": 0, "exponential": 1, "poisson": 1, "choice": 1, "rayleigh": 1, "chisquare": 1, "geometric": 1,
    "dirichlet": 1, "power": 1, "pareto": 1, "weibull": 1, "standard_t": 1, "standard_gamma": 1, "triangular": 3,
    "hypergeometric": 3,
}  # fmt: skip


def made(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    sizes = holding.flat([*arguments.positional, *filter(None, [arguments.keywords.get("size")])])
    scale = sized(sizes)
    if scale is not S.CONST:
        return Value(scale=scale, sources=sources_of(sizes))
    settings = (obj for value in sizes for obj in value.objs if isinstance(obj, (Setting, Const)))
    zero = [machine.made(Zero, node)] if name == "zeros" else []
    return Value(Ordered(zero), sources=sources_of(sizes).union(settings))


def makes_by_sizes(name: str, arguments: Arguments) -> bool:
    """`torch.FloatTensor(n, 1)`, not `torch.FloatTensor([n])`."""
    given = arguments.positional
    held = any(isinstance(obj, Sequence) for value in given for obj in value.objs)
    return name.endswith("Tensor") and bool(given) and given[0].scale is S.COUNT and not held


def drawn(name: str, arguments: Arguments) -> Value | None:
    """What a function of numpy's random numbers draws, if it is given a shape."""
    module, _, last = name.rpartition(".")
    if module != drawing.OF_NUMPY:
        return None
    size = arguments.get("size", _SIZE_AT.get(last, 2))
    sizes = arguments.positional if last in ("rand", "randn") else [size] if size is not None else []
    return Value(scale=sized(holding.flat(sizes)), sources=arguments.sources) if sizes else None


def sized(sizes: list[Value]) -> Scale:
    """A tensor of these sizes, by which of them is the number of samples."""
    place = next((place for place, value in enumerate(sizes) if value.scale is S.COUNT), None)
    return S.CONST if place is None else {0: S.SAMPLES, 1: S.TURNED}.get(place, S.UNKNOWN)
