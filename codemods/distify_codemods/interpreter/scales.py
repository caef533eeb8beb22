"""How operations change what a number says about its batch. See `Scale`."""

from __future__ import annotations

from distify_codemods.values import PER_SAMPLE, Scale, Value

S = Scale
_ADDITIVE = {"Add", "Subtract"}
_COMPARISONS = {"Equal", "NotEqual", "LessThan", "LessThanEqual", "GreaterThan", "GreaterThanEqual"}


def binary(operator: str, left: Value, right: Value) -> Value:
    """`left operator right`, by the name of libcst's operator class."""
    sources = left.sources | right.sources
    if operator in _COMPARISONS:
        return compared(left, right)
    if operator in _ADDITIVE:
        scale = _add(left, right)
    elif operator == "Multiply":
        scale = _multiply(left.scale, right.scale)
    elif operator in ("Divide", "FloorDivide"):
        scale = _divide(left.scale, right.scale)
    elif operator == "MatrixMultiply":
        scale = matrix_product(left.scale, right.scale)
    elif operator == "Modulo" and left.scale is S.CONST:
        scale = S.CONST if right.scale is S.CONST else S.UNKNOWN  # also "%d" % count
    else:
        scale = elementwise(left.scale, right.scale)
    return Value(scale=scale, sources=sources, mask=left.mask and right.mask, deep=left.deep or right.deep)


def compared(left: Value, right: Value) -> Value:
    scale = elementwise(left.scale, right.scale, nonlinear_is_fine=True)
    return Value(
        scale=scale, sources=left.sources | right.sources, mask=scale in PER_SAMPLE, deep=left.deep or right.deep
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
    return elementwise(left.scale, right.scale) if pair & PER_SAMPLE else _unless_coupled(pair)


def _multiply(left: Scale, right: Scale) -> Scale:
    if S.CONST in (left, right):
        return right if left is S.CONST else left
    pair = {left, right}
    if pair == {S.MEAN, S.COUNT}:
        return S.SUM
    return elementwise(left, right)


def _divide(left: Scale, right: Scale) -> Scale:
    if right is S.CONST:
        return left
    if (left, right) in ((S.SUM, S.COUNT), (S.COUNT, S.COUNT)):
        return S.MEAN
    if (left, right) == (S.SUM, S.SUM):
        return S.WEIGHTED
    return elementwise(left, right)


def elementwise(*scales: Scale, nonlinear_is_fine: bool = False) -> Scale:
    """A function of each entry by itself. Of one number that stands for a batch, only comparisons keep their sense."""
    kinds = set(scales) - {S.CONST}
    if not kinds:
        return S.CONST
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


def matrix_product(left: Scale, right: Scale) -> Scale:
    if right is S.CONST or left is S.CONST:
        return elementwise(left, right)
    if {left, right} == {S.SAMPLES, S.TURNED}:
        return S.COUPLED
    return elementwise(left, right)


def _unless_coupled(kinds: set[Scale]) -> Scale:
    return S.COUPLED if S.COUPLED in kinds else S.UNKNOWN


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
        return S.SAMPLES if dimension == 0 else S.UNKNOWN
    return whole if dimension == 0 else scale


def of_extremes(scale: Scale) -> Scale:
    """max, min, norm, std … over the samples: no sum of parts."""
    return S.COUPLED if scale in PER_SAMPLE else elementwise(scale)
