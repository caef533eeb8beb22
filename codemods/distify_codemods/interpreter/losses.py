"""Losses of torch: how what they return depends on the number of samples."""

from __future__ import annotations

from collections.abc import Callable

from distify_codemods.interpreter import scales
from distify_codemods.libraries import torch_losses
from distify_codemods.libraries.torch_losses import Loss
from distify_codemods.objects import Arguments, External, Mapping
from distify_codemods.origins import IGNORED
from distify_codemods.scale import Scale
from distify_codemods.values import Value, sources_of

Option = Callable[[str], Value | None]  # what an option is given
_NOT_KNOWN = Value(open=True)


def of_module(obj: External, arguments: Arguments) -> Value | None:
    """The value of `criterion(...)`, or None where the object is no loss."""
    loss = torch_losses.of_class(obj.name)
    return None if loss is None else _value(loss, obj.arguments or Arguments(), 0, arguments)


def of_function(name: str, arguments: Arguments) -> Value | None:
    """The value of `F.cross_entropy(...)`, or None where the function is no loss.

    name: the last one, of a function of torch; of another library's, the full one.
    """
    loss = torch_losses.FUNCTIONS.get(name)
    if loss is None:
        return None
    told = [one for word, one in arguments.keywords.items() if word not in torch_losses.TENSORS]
    told += arguments.positional[loss.tensors :]
    return scales.set_by(_value(loss, arguments, loss.tensors, arguments), told)


def _value(loss: Loss, options: Arguments, before: int, arguments: Arguments) -> Value:
    """`before`: how many other arguments stand before the options."""

    def option(name: str) -> Value | None:
        given = options.get(name, before + loss.options.index(name) if name in loss.options else None)
        return _NOT_KNOWN if given is None and not _are_seen(options) else given

    given = [*arguments.all(), *(options.all() if options is not arguments else ())]
    by_entry = loss.function in torch_losses.BY_ENTRY and _reduction(option) == "none"
    dims = max((value.dims for value in given[:2]), default=0) if by_entry else 0
    return Value(scale=_scale(loss, option, given), sources=sources_of(given), dims=dims)


def _are_seen(options: Arguments) -> bool:
    """Whether what is given as `**options` is known."""
    given = options.double_star
    tables = [obj for obj in given.objs if isinstance(obj, Mapping) and obj.rest is None] if given is not None else []
    return given is None or (not given.open and 0 < len(tables) == len(given.objs))


def _scale(loss: Loss, option: Option, given: list[Value]) -> Scale:
    kinds = {value.scale for value in given}
    if kinds & {Scale.COUPLED, Scale.SLOPES, Scale.WEIGHTED}:
        return Scale.COUPLED
    if kinds <= {Scale.CONST, Scale.REDUCED}:
        return Scale.REDUCED if Scale.REDUCED in kinds else Scale.CONST
    if Scale.TURNED in kinds and loss.function in torch_losses.WEIGHTED:
        return Scale.COUPLED  # classes lie along the second dimension, and samples must not
    if kinds & {Scale.MEAN, Scale.SUM}:
        return Scale.COUPLED  # a loss of means is no mean of losses
    kind = _reduction(option)
    if kind == "sum" and loss.of_each:
        return Scale.SAMPLES
    if kind == "sum":
        return Scale.SUM
    if kind == "none":
        return Scale.SAMPLES
    if kind not in ("mean", "batchmean", "elementwise_mean"):
        return Scale.UNKNOWN
    weight = option("weight")
    weighted = weight is not None and weight.constant() is None and not weight.is_none
    leaves_out = any(IGNORED in value.sources for value in given)
    by_class = loss.function in torch_losses.WEIGHTED and (weighted or option("ignore_index") is not None or leaves_out)
    return Scale.WEIGHTED if by_class or Scale.RAGGED in kinds else Scale.MEAN


def _reduction(option: Option) -> object:
    """What becomes of the entries; None where it is not known. The old options count, where one of them is given."""
    old = [None if value is None or value.is_none else value for value in map(option, ("size_average", "reduce"))]
    if old == [None, None]:
        reduction = option("reduction")
        return reduction.constant() if reduction is not None else "mean"
    averages, reduces = (True if value is None else value.constant() for value in old)
    if reduces is not True or not isinstance(averages, bool):
        return "none" if reduces is False else None
    return "mean" if averages else "sum"
