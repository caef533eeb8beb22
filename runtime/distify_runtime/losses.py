"""Losses that are no plain means: what they divide by, or bend, is taken over the batches of all ranks.

Each function is a collective while gradients are recorded, and does nothing else where they are not: an evaluation
has no gradients to average, and its loop is shared out in its own way. Each value that comes back is the same on all
ranks, and its gradient is such that the average over ranks, which DistributedDataParallel takes, is that of one
process.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from distify_runtime import communicator
from distify_runtime.environment import device, is_alone, world_size
from distify_runtime.meeting import collective

T = TypeVar("T")
_BY_CLASS = (functional.cross_entropy, functional.nll_loss)


@collective
def sum_over_ranks(value: T) -> T:
    """The sum of a tensor, array or number over all ranks, of a tensor with its gradient.

    A collective while gradients are recorded.
    Raises TypeError for other values and bool tensors.
    """
    if not _is_active():
        return value
    if isinstance(value, Tensor):
        if value.dtype is torch.bool:
            raise TypeError("sum_over_ranks cannot add bool tensors: convert them first")
        return _Sum.apply(value)  # type: ignore[no-any-return,no-untyped-call]
    total = torch.as_tensor(value, dtype=torch.float64, device=device())
    numpy = sys.modules.get("numpy")
    is_array = bool(numpy and isinstance(value, numpy.ndarray) and value.dtype.kind in "iuf")
    if isinstance(value, bool) or (total.dim() and not is_array):
        raise TypeError(f"sum_over_ranks adds tensors, arrays and numbers, not {type(value).__name__}")
    communicator.all_reduce(total)
    if is_array:
        return total.cpu().numpy().astype(value.dtype)  # type: ignore[attr-defined,return-value]
    return type(value)(total.item())  # type: ignore[call-arg]


@collective
def mean_over_ranks(value: Tensor) -> Tensor:
    """The mean of a tensor over all ranks, with its gradient: of what each says of its equal share of the batch."""
    return sum_over_ranks(value) / world_size() if _is_active() else value


@collective
def global_mean(values: Tensor) -> Tensor:
    """The mean of the entries of all ranks, of which each may have another number, or none."""
    return weighted_mean(torch.mean, values)


@collective
def weighted_mean(criterion: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """`criterion(*args, **kwargs)` over the batches of all ranks, by the weight that each rank's samples have.

    `criterion` is a function of torch.nn.functional or a module of torch.nn that takes a mean: with class weights
    or `ignore_index`, or of some of the samples only. A rank whose samples weigh nothing adds
    nothing. Where no sample of any rank weighs anything, the result is NaN, as it is in one process.
    Raises TypeError for what has no `reduction`.
    """
    if not _is_active():
        return criterion(*args, **kwargs)
    total, weight = _summed(criterion, args, kwargs)
    wide = torch.promote_types(total.dtype, torch.float32)  # 16 bits cannot count
    both = sum_over_ranks(torch.stack([total.to(wide), torch.as_tensor(weight, device=total.device).to(wide)]))
    return (both[0] / both[1]).to(total.dtype)


class _Sum(torch.autograd.Function):
    """Every rank's value goes into every rank's sum, so every rank's gradient goes into every rank's."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        total = value.detach().clone(memory_format=torch.contiguous_format)
        communicator.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return _Sum.apply(*gradients)  # type: ignore[no-any-return,no-untyped-call]


def _is_active() -> bool:
    return not is_alone() and torch.is_grad_enabled()


def _summed(
    criterion: Callable[..., Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Tensor, Tensor | int]:
    """The sum that the criterion divides, and what it divides it by, for the samples of this rank."""
    if criterion is torch.mean:
        (values,) = args
        return values.sum(), values.numel()
    call, options = _with_options(criterion, args, kwargs)
    target = options.get("target")
    if _function(criterion) in _BY_CLASS and target is not None and not target.is_floating_point():
        kept = target[target != options["ignore_index"]]
        weight = options["weight"]
        return call("sum"), kept.numel() if weight is None else weight[kept].sum()
    if options["reduction"] == "batchmean":
        return call("sum"), options["input"].size(0)
    each = call("none")
    return each.sum(), each.numel()


def _with_options(
    criterion: Callable[..., Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[[str], Tensor], dict[str, Any]]:
    """The criterion as a function of its `reduction`, and all that it is given."""
    if isinstance(criterion, nn.Module):
        if not hasattr(criterion, "reduction"):
            raise TypeError(f"{type(criterion).__name__} has no reduction: its weights are not known")
        bound = inspect.signature(criterion.forward).bind(*args, **kwargs)
        own = {name: getattr(criterion, name, None) for name in ("weight", "ignore_index", "reduction")}

        def module(reduction: str) -> Tensor:
            other = copy.copy(criterion)
            other.__dict__["reduction"] = reduction
            return other(*args, **kwargs)  # type: ignore[no-any-return]

        return module, {**own, **bound.arguments}
    bound = inspect.signature(criterion).bind(*args, **kwargs)
    if "reduction" not in bound.signature.parameters:
        raise TypeError(f"{criterion} has no reduction: its weights are not known")
    bound.apply_defaults()
    options = bound.arguments

    def function(reduction: str) -> Tensor:
        outdated: dict[str, Any] = {name: None for name in ("size_average", "reduce") if name in options}
        return criterion(**{**options, **outdated, "reduction": reduction})

    return function, options


def _function(criterion: Callable[..., Tensor]) -> Callable[..., Tensor]:
    if isinstance(criterion, nn.CrossEntropyLoss):
        return functional.cross_entropy
    return functional.nll_loss if isinstance(criterion, nn.NLLLoss) else criterion
