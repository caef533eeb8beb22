"""What batch normalisation over ranks is made of: statistics that merge, and a normalisation that is differentiated
through all ranks' inputs as often as torch's own can be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.modules._functions import SyncBatchNorm as CudaSyncBatchNorm

from distify_runtime import communicator

#: Statistics are exchanged during a backward pass, beside its gradients.
BATCHNORM = "batchnorm"
Total = Callable[[Tensor], Tensor]
_kernel: Any = CudaSyncBatchNorm  # untyped in torch


def local_statistics(input: Tensor) -> Tensor:
    """Mean and sum of squared deviations of each channel, and their count: float64, shape (2 * channels + 1,)."""
    local_count = input.numel() // input.shape[1]
    values = input.to(statistics_dtype(input))
    mean = values.sum(other_dims(input)) / max(local_count, 1)
    deviations = (values - along_channels(mean, input)).square().sum(other_dims(input))
    counted = torch.full((1,), local_count, dtype=torch.float64, device=input.device)  # is not waited for on a GPU
    return torch.cat([mean.double(), deviations.double(), counted])


def merged(everyone: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, biased variance and count, of shape (1,), of all ranks' values, of their `local_statistics` in rows."""
    channels = everyone.shape[1] // 2
    means, spreads, counts = torch.split(everyone, [channels, channels, 1], dim=1)
    count = counts.sum(0)
    mean = (counts * means).sum(0) / count.clamp(min=1)
    spread = (spreads + counts * (means - mean).square()).sum(0)
    return mean, spread / count.clamp(min=1), count


def update_running(running: tuple[Tensor | None, Tensor | None], factor: float, mean: Tensor, variance: Tensor) -> None:
    for buffer, statistic in zip(running, (mean, variance), strict=True):
        if buffer is not None:
            buffer.lerp_(statistic.to(buffer.dtype), factor)


class _Total(torch.autograd.Function):
    """The sum over the ranks, of which each goes on with its own use: the gradient is such a sum again."""

    @staticmethod
    def forward(ctx: Any, term: Tensor) -> Tensor:
        total = term.clone()
        communicator.all_reduce(total, purpose=BATCHNORM)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return total_over_ranks(gradient)


class _Normalise(torch.autograd.Function):
    """Normalises by the global statistics and differentiates through them: they depend on all ranks' inputs.

    The gradient of the input is that of the sum of all ranks' losses; those of weight and bias are this
    rank's own, for DistributedDataParallel to average with all others. The fused kernels are taken once; where
    gradients are to be differentiated, operations that can be.

    total: the sum over the ranks in a backward pass. Differentiable.
    """

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        statistics: tuple[Tensor, Tensor, Tensor],
        eps: float,
        total: Total,
    ) -> Tensor:
        mean, variance, count = statistics
        dtype = weight.dtype if weight is not None else statistics_dtype(input)
        ctx.eps, ctx.count, ctx.total = eps, count, total
        ctx.save_for_backward(input, weight, mean, (variance + eps).rsqrt())
        return F.batch_norm(input, mean.to(dtype), variance.to(dtype), weight, bias, eps=eps)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        input, weight, mean, inverse_std = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _backward_again(ctx, grad_output, input, weight)
        dims, dtype = other_dims(input), statistics_dtype(input)
        mean, inverse_std = (along_channels(value.to(dtype), input) for value in (mean, inverse_std))
        normalised = (input.to(dtype) - mean).mul_(inverse_std)
        grad = grad_output.to(dtype)
        sums = torch.stack([grad.sum(dims), (grad * normalised).sum(dims)])
        grad_bias, grad_weight = sums.unbind()
        grad_input = None
        input_wanted, weight_wanted, bias_wanted, *_ = ctx.needs_input_grad
        if input_wanted:
            of_mean, of_variance = (along_channels(value, input) for value in ctx.total(sums) / ctx.count.to(dtype))
            scale = inverse_std if weight is None else inverse_std * along_channels(weight.to(dtype), input)
            grad_input = (grad - of_mean).addcmul_(normalised, of_variance, value=-1).mul_(scale).to(input.dtype)
        return grad_input, grad_weight if weight_wanted else None, grad_bias if bias_wanted else None, *[None] * 3


class _CudaNormalise(torch.autograd.Function):
    """torch's kernels, which cannot be differentiated twice; where gradients are to be, operations that can be."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, *others: Any) -> Any:
        ctx.eps, ctx.total = others[4], total_over_ranks
        return _kernel.forward(ctx, input, *others)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        if not torch.is_grad_enabled():
            return _kernel.backward(ctx, grad_output)
        input, weight, *_ = ctx.saved_tensors
        return (*_backward_again(ctx, grad_output, input, weight), *[None] * 3)


def _backward_again(ctx: Any, grad_output: Tensor, input: Tensor, weight: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradients, as what can be differentiated again."""
    grad = grad_output.to(statistics_dtype(input))
    wanted = {at: one for at, one in enumerate((input, weight)) if one is not None and ctx.needs_input_grad[at]}
    with torch.enable_grad():
        normalised = _composed(ctx, input, weight)
    found = torch.autograd.grad(normalised, list(wanted.values()), grad, create_graph=True) if wanted else ()
    of = dict(zip(wanted, found, strict=True))
    return of.get(0), of.get(1), grad.sum(other_dims(input)) if ctx.needs_input_grad[2] else None, *[None] * 3


def _composed(ctx: Any, input: Tensor, weight: Tensor | None) -> Tensor:
    values, dims = input.to(statistics_dtype(input)), other_dims(input)
    sums = values.sum(dims)
    count = sums.new_full((1,), input.numel() // input.shape[1])
    *mean, all_count = ctx.total(torch.cat([sums, count])).split([len(sums), 1])
    centred = values - along_channels(mean[0] / all_count, input)
    variance = ctx.total(centred.square().sum(dims)) / all_count
    normalised = centred * along_channels((variance + ctx.eps).rsqrt(), input)
    return normalised if weight is None else normalised * along_channels(weight.to(values.dtype), input)


total_over_ranks: Total = _Total.apply
normalise: Callable[..., Tensor] = _Normalise.apply
normalise_by_cuda: Callable[..., Tensor] = _CudaNormalise.apply


def contiguous(input: Tensor) -> Tensor:
    """As torch's kernels take it, by an operation that gradients flow through."""
    known = (torch.channels_last, torch.channels_last_3d)
    return input if any(input.is_contiguous(memory_format=one) for one in known) else input.contiguous()


def statistics_dtype(input: Tensor) -> torch.dtype:
    return torch.promote_types(input.dtype, torch.float32)


def other_dims(input: Tensor) -> list[int]:
    return [dim for dim in range(input.dim()) if dim != 1]


def along_channels(values: Tensor, input: Tensor) -> Tensor:
    """Shape (channels,) to one that broadcasts over `input`, of shape (batch, channels, …)."""
    return values.view(1, -1, *[1] * (input.dim() - 2))
