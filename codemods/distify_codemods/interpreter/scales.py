"""How operations change what a number says about its batch. See `Scale`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from distify_codemods.origins import Verdict
from distify_codemods.scale import FIGURES, PER_SAMPLE, Scale
from distify_codemods.values import Value

S = Scale
_ADDITIVE = {"Add", "Subtract"}
#: Numbers that were made from all samples of a batch.
_OF_ALL = frozenset({S.MEAN, S.SUM, S.WEIGHTED})
_BITWISE = {"BitAnd", "BitOr", "BitXor"}
_COMPARISONS = {"Equal", "NotEqual", "LessThan", "LessThanEqual", "GreaterThan", "GreaterThanEqual"}


def binary(operator: str, left: Value, right: Value) -> Value:
    """`left operator right`, by the name of libcst's operator class."""
    if S.REDUCED in (left.scale, right.scale):
        if operator in ("Divide", "FloorDivide") and left.scale is S.SUM:
            return Value(scale=S.WEIGHTED, sources=left.sources | right.sources)  # a rank's part of a mean
        value = binary(operator, _as_const(left), _as_const(right))
        return replace(value, scale=S.REDUCED) if value.scale is S.CONST else value
    sources = left.sources | right.sources
    if operator in _COMPARISONS:
        return compared(left, right)
    if any(isinstance(obj, Verdict) for one in (left, right) if one.scale in _OF_ALL for obj in one.objs):
        return Value(scale=S.COUPLED, sources=sources)  # whether a mean is larger than something is no mean
    if operator in _ADDITIVE:
        scale = _add(left, right)
    elif operator == "Multiply":
        scale = _multiply(left.scale, right.scale)
    elif operator == "FloorDivide" and left.scale in _OF_ALL:
        scale = elementwise(left.scale, right.scale)
    elif operator in ("Divide", "FloorDivide"):
        scale = _divide(left.scale, right.scale)
    elif operator == "MatrixMultiply":
        scale = matrix_product(left.scale, right.scale, max(left.dims, right.dims))
    elif operator == "Modulo" and left.scale is S.CONST:
        scale = S.CONST if right.scale is S.CONST else S.UNKNOWN  # also "%d" % count
    else:
        scale = elementwise(left.scale, right.scale)
    either = operator in _BITWISE  # of a mask and what is not seen to be one, they make a mask
    mask = (left.mask or right.mask) if either else (left.mask and right.mask)
    return Value(scale=scale, sources=sources, mask=mask, dims=max(left.dims, right.dims))


def _as_const(value: Value) -> Value:
    """To what it meets, a number that is the same on all ranks, with its gradient, is no part of the batch."""
    return replace(value, scale=S.CONST) if value.scale is S.REDUCED else value


def compared(left: Value, right: Value) -> Value:
    scale = elementwise(left.scale, right.scale, nonlinear_is_fine=True)
    return Value(
        scale=scale, sources=left.sources | right.sources, mask=scale in PER_SAMPLE, dims=max(left.dims, right.dims)
    )


def _add(left: Value, right: Value) -> Scale:
    pair = {left.scale, right.scale}
    if len(pair) == 1:
        return left.scale
    if left.is_zero or right.is_zero:
        return right.scale if left.is_zero else left.scale
    if pair == {S.MEAN, S.CONST}:
        return S.MEAN
    if pair == {S.SUM, S.COUNT}:
        return S.SUM
    if pair <= {S.WEIGHTED, S.MEAN, S.CONST}:
        return S.WEIGHTED
    if pair & _OF_ALL and pair <= {*_OF_ALL, S.CONST, S.COUNT}:
        return S.COUPLED  # averaged over ranks, a sum and what is no sum come out in another proportion
    return elementwise(left.scale, right.scale) if pair & PER_SAMPLE else _unless_coupled(pair)


def _multiply(left: Scale, right: Scale) -> Scale:
    if S.CONST in (left, right):
        return right if left is S.CONST else left
    pair = {left, right}
    if pair == {S.MEAN, S.COUNT}:
        return S.SUM
    if pair in ({S.SUM, S.INVERSE}, {S.COUNT, S.INVERSE}):
        return S.MEAN
    return elementwise(left, right)


def _divide(left: Scale, right: Scale) -> Scale:
    if right is S.CONST:
        return left
    if (left, right) in ((S.SUM, S.COUNT), (S.COUNT, S.COUNT)):
        return S.MEAN
    if (left, right) == (S.SUM, S.SUM):
        return S.WEIGHTED
    if (left, right) == (S.CONST, S.COUNT):
        return S.INVERSE
    return elementwise(left, right)


def elementwise(*scales: Scale, nonlinear_is_fine: bool = False) -> Scale:
    """A function of each entry by itself. Of one number that stands for a batch, only comparisons keep their sense."""
    kinds = set(scales) - {S.CONST, S.REDUCED}
    if not kinds:
        return S.REDUCED if S.REDUCED in scales else S.CONST
    if S.SLOPES in kinds:
        return S.COUPLED  # each was divided by the number of samples
    if kinds <= _OF_ALL and not nonlinear_is_fine:
        return S.COUPLED  # each sample's part of it depends on all of them
    if len(kinds) == 1:
        only = kinds.pop()
        return only if only in PER_SAMPLE or nonlinear_is_fine or only is S.COUPLED else S.UNKNOWN
    if kinds == {S.SAMPLES, S.RAGGED}:
        return S.RAGGED
    if S.COUPLED in kinds or kinds == {S.SAMPLES, S.TURNED}:
        return S.COUPLED
    if kinds & PER_SAMPLE and kinds & {S.MEAN, S.SUM}:
        return S.COUPLED  # each sample meets a number made from all of them
    return S.UNKNOWN


def set_by(value: Value, settings: Iterable[Value]) -> Value:
    """What a function makes of a batch that is told a number of the batch, too: an `alpha`, a margin, a smoothing."""
    told = [one for one in settings if one.sources and one.scale in FIGURES]
    if not told:
        return value
    sources = value.sources.union(*(one.sources for one in told))
    return replace(value, scale=S.COUPLED, sources=sources)


def matrix_product(left: Scale, right: Scale, dims: int) -> Scale:
    """`dims`: how many dimensions one of the two has at least. Two matrices of samples are multiplied with each other,
    where of three dimensions the first is that of the samples.
    """
    if {left, right} & {S.CONST, S.REDUCED}:
        return elementwise(left, right)
    if {left, right} == {S.SAMPLES, S.TURNED}:
        return S.COUPLED
    return elementwise(left, right) if dims > 2 or left not in PER_SAMPLE or right not in PER_SAMPLE else S.UNKNOWN


def _unless_coupled(kinds: set[Scale]) -> Scale:
    return S.COUPLED if S.COUPLED in kinds else S.UNKNOWN


def gradient(of: Scale, by: Scale) -> Scale:
    """What a gradient of `of` by `by` says about the batch."""
    if by in PER_SAMPLE:
        known = {**dict.fromkeys(PER_SAMPLE, by), S.SUM: by, S.MEAN: S.SLOPES, S.COUPLED: S.COUPLED}
        return known.get(of, S.UNKNOWN)
    if by is not S.CONST:
        return S.UNKNOWN
    return of if of in (S.CONST, S.MEAN) else S.UNKNOWN


def total(scale: Scale) -> Scale:
    """The sum over everything."""
    return S.SUM if scale in PER_SAMPLE else scale


def average(scale: Scale) -> Scale:
    """The mean over everything."""
    if scale is S.RAGGED:
        return S.WEIGHTED
    return S.MEAN if scale in PER_SAMPLE else scale


def along(scale: Scale, dimension: int | None, whole: Scale) -> Scale:
    """A reduction along one known dimension; `whole` is what reducing over the samples gives."""
    if scale not in PER_SAMPLE:
        return scale
    if dimension is None:
        return S.UNKNOWN
    if scale is S.TURNED:
        return {0: S.SAMPLES, 1: whole}.get(dimension, scale)
    return whole if dimension == 0 else scale


def of_extremes(scale: Scale) -> Scale:
    """max, min, norm, std … over the samples: no sum of parts."""
    return S.COUPLED if scale in PER_SAMPLE else elementwise(scale)
