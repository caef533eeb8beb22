"""BatchNorm inside of a shared pass: over the whole batch, differentiable as often as torch's own is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from distify_runtime.batchnorm import (
    along_channels,
    local_statistics,
    merged,
    other_dims,
    statistics_dtype,
    update_running,
)
from distify_runtime.shared import region
from distify_runtime.shared.region import Region


def batch_norm(
    original: Callable[..., Tensor],
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`torch.nn.functional.batch_norm`, of all ranks' samples where it takes their statistics. A collective there."""
    inside = region.current()
    if inside is None or not training:
        return original(input, running_mean, running_var, weight, bias, training, momentum, eps)
    return _normalise(inside, (running_mean, running_var), momentum, eps, input, weight, bias)


class _Normalise(torch.autograd.Function):
    """The fused kernels, once; where gradients are to be differentiated, again by operations that can be."""

    @staticmethod
    def forward(
        ctx: Any,
        inside: Region,
        running: tuple[Tensor | None, Tensor | None],
        momentum: float,
        eps: float,
        input: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        mean, variance, count = merged(
            inside.everyones(local_statistics(input.detach()), running[0] if weight is None else weight)
        )
        if count < 2:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
        update_running(running, momentum, mean, variance * (count / (count - 1)))
        dtype = weight.dtype if weight is not None else statistics_dtype(input)
        ctx.inside, ctx.eps, ctx.count, ctx.place = inside, eps, count, inside.place
        ctx.save_for_backward(input, weight, bias, mean, (variance + eps).rsqrt())
        return F.batch_norm(input, mean.to(dtype), variance.to(dtype), weight, bias, eps=eps)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        input, weight, bias, mean, inverse_std = ctx.saved_tensors
        if torch.is_grad_enabled():
            return (None,) * 4 + _again(ctx, grad_output, (input, weight, bias))
        dims, dtype = other_dims(input), statistics_dtype(input)
        mean, inverse_std = (along_channels(value.to(dtype), input) for value in (mean, inverse_std))
        normalised = (input.to(dtype) - mean).mul_(inverse_std)
        grad = grad_output.to(dtype)
        sums = torch.stack([grad.sum(dims), (grad * normalised).sum(dims)])
        grad_bias, grad_weight = sums.unbind()
        wants_input, wants_weight, wants_bias = ctx.needs_input_grad[4:]
        grad_input = None
        if wants_input:
            total = ctx.inside.sum_at(ctx.place, sums)
            of_mean, of_variance = (along_channels(value, input) for value in total / ctx.count)
            scale = inverse_std if weight is None else inverse_std * along_channels(weight.to(dtype), input)
            grad_input = (grad - of_mean).addcmul_(normalised, of_variance, value=-1).mul_(scale).to(input.dtype)
        return (None,) * 4 + (grad_input, grad_weight if wants_weight else None, grad_bias if wants_bias else None)


def _again(ctx: Any, grad_output: Tensor, inputs: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """The gradients, as what can be differentiated again."""
    wanted = [one for one in inputs if one is not None and one.requires_grad]
    with torch.enable_grad():
        normalised = _composed(ctx, *inputs)
    found = iter(torch.autograd.grad(normalised, wanted, grad_output, create_graph=True))
    return tuple(next(found) if one is not None and one.requires_grad else None for one in inputs)


def _composed(ctx: Any, input: Tensor | None, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    assert input is not None
    dims = other_dims(input)
    mean = ctx.inside.sum_at(ctx.place, input.sum(dims)) / ctx.count
    centred = input - along_channels(mean, input)
    variance = ctx.inside.sum_at(ctx.place, centred.square().sum(dims)) / ctx.count
    normalised = centred * along_channels((variance + ctx.eps).rsqrt(), input)
    if weight is not None:
        normalised = normalised * along_channels(weight, input)
    return normalised if bias is None else normalised + along_channels(bias, input)


_normalise: Callable[..., Tensor] = _Normalise.apply
