"""Batch normalisation over the global batch, as one process would compute it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.modules._functions import SyncBatchNorm as CudaSyncBatchNorm
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parallel import DistributedDataParallel

from distify_runtime import communicator
from distify_runtime.environment import world_size
from distify_runtime.members import modules_of
from distify_runtime.output import stop

#: Statistics are exchanged during a backward pass, beside its gradients.
BATCHNORM = "batchnorm"
T = TypeVar("T")


def convert_sync_batchnorm(model: T) -> T:
    """Let every BatchNorm layer of `model` train on the statistics of all ranks' samples. A collective.

    model: a module, or a list or dictionary of modules.

    The layers are changed in place and stay instances of their classes; they save, pickle and print as
    before. In eval mode and in a world of one they do exactly what they did. Works on CPUs and GPUs.
    Raises SystemExit on all ranks for a BatchNorm class with a forward of its own.
    """
    layers = [layer for one in modules_of(model) for layer in one.modules() if _uses_local_statistics(layer)]
    if not layers or world_size() == 1:
        return model
    for layer in layers:
        _check_convertible(layer)
    communicator.open_purpose(BATCHNORM)
    for layer in layers:
        original: Any = type(layer)
        layer.__class__ = _synchronised(original)
    return model


def average_running_statistics(model: Any) -> None:
    """Average, after each forward pass in training, the running statistics of `model`'s normalisation over the ranks.

    For batches that each rank normalises by itself: all ranks then evaluate, and save, the same model.
    model: a module, or a list or dictionary of modules.
    """
    for one in modules_of(model):
        _average_after_forward(one)


def _average_after_forward(model: nn.Module) -> None:
    layers = [layer for layer in model.modules() if isinstance(layer, _NormBase)]
    running = [one for layer in layers for one in (layer.running_mean, layer.running_var) if one is not None]
    if not running or world_size() == 1:
        return
    communicator.open_purpose(BATCHNORM)

    disable: Any = torch.compiler.disable  # untyped in torch
    if isinstance(model, DistributedDataParallel):
        model.register_forward_hook(disable(lambda *_: _average_running(layers)))
        return
    for layer in layers:  # whose model need not be called itself
        layer.register_forward_hook(disable(lambda layer, *_: _average_running([layer])))


def _average_running(layers: list[_NormBase]) -> None:
    """By way of `data`: a backward pass that is still to come does not depend on these numbers."""
    trained = [layer for layer in layers if layer.training]
    found = [one for layer in trained for one in (layer.running_mean, layer.running_var) if one is not None]
    if not found:
        return
    flat = torch.cat([one.data.double().flatten() for one in found])
    communicator.all_reduce(flat, purpose=BATCHNORM)
    for one, mean in zip(found, torch.split(flat / world_size(), [one.numel() for one in found]), strict=True):
        one.data.copy_(mean.view_as(one))


def _uses_local_statistics(module: nn.Module) -> bool:
    if isinstance(module, torch.jit.ScriptModule):
        return str(module.original_name) in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d")
    synchronised = isinstance(module, nn.SyncBatchNorm | _SynchronisedBatchNorm)
    return isinstance(module, _BatchNorm) and not synchronised


def _check_convertible(layer: nn.Module) -> None:
    name = type(layer).__name__
    if isinstance(layer, torch.jit.ScriptModule):
        stop("a scripted BatchNorm cannot be synchronised: convert it before torch.jit.script")
    if isinstance(layer, LazyModuleMixin):
        stop(f"{name} has no parameters yet: run one forward pass before convert_sync_batchnorm")
    if type(layer).forward is not _BatchNorm.forward or "forward" in vars(layer):
        stop(f"{name} is a BatchNorm with a forward of its own: synchronise its statistics by hand")


class _SynchronisedBatchNorm(_BatchNorm):
    """Comes before the class of a BatchNorm layer in the classes that `_synchronised` makes."""

    _original: ClassVar[type[nn.Module]]

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or world_size() == 1:
            return super().forward(input)
        return self._normalise_over_ranks(input)

    def _normalise_over_ranks(self, input: Tensor) -> Tensor:
        check: Any = self._check_input_dim  # untyped in torch
        check(input)
        factor = self._count_batch()
        running = (self.running_mean, self.running_var) if self.track_running_stats else (None, None)
        group = communicator.open_purpose(BATCHNORM)
        if input.is_cuda and group is not None and torch.is_grad_enabled():  # it cannot tell that all see one batch
            return _cuda_kernel(input, self.weight, self.bias, *running, self.eps, factor, group, world_size())
        mean, variance, count, distinct = _global_statistics(input.detach())
        update_running(running, factor, mean, variance * (distinct / (distinct - 1)))
        return _normalise(input, self.weight, self.bias, mean, variance, count, self.eps)

    def _count_batch(self) -> float:
        """The weight of this batch in the running statistics."""
        if self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # a cumulative average
                return 1.0 / float(self.num_batches_tracked)
        return self.momentum or 0.0

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickles as the class it was, which other programs know."""
        oldest: Any = super().__reduce_ex__(1)  # from 2 on, pickle insists on the class that it is
        function, arguments, *state = oldest
        known = tuple(self._original if argument is type(self) else argument for argument in arguments)
        return (function, known, *state)

    def __deepcopy__(self, memo: dict[int, Any]) -> _SynchronisedBatchNorm:
        """A copy goes on being trained, and so stays synchronised."""
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        vars(twin).update(copy.deepcopy(vars(self), memo))
        return twin


@cache
def _synchronised(original: Any) -> type[nn.Module]:
    """`original` with a synchronised forward; its name stays, as scripts initialise layers by it."""
    disable: Any = torch.compiler.disable  # untyped in torch
    attributes = {
        "_original": original,
        "_normalise_over_ranks": disable(_SynchronisedBatchNorm._normalise_over_ranks),
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
    }
    return type(original.__name__, (_SynchronisedBatchNorm, original), attributes)


def _global_statistics(input: Tensor) -> tuple[Tensor, Tensor, float, float]:
    """Mean and biased variance of each channel over all ranks, in float64, and how many values they are of; and of how
    many, where all ranks see one batch: ranks that hold the same to the last bit do.

    Ranks exchange their own mean, sum of squared deviations and count, which merge without cancellation
    (Chan, Golub, LeVeque: "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
    """
    mine = local_statistics(input)
    everyone = [torch.empty_like(mine) for _ in range(world_size())]
    communicator.all_gather(everyone, mine, BATCHNORM)
    mean, variance, count = merged(torch.stack(everyone))
    if count < 2:
        raise ValueError(f"training BatchNorm needs more than one value per channel, all ranks have {count:.0f}")
    local_count = float(mine[-1])
    is_one_batch = local_count > 1 and all(torch.equal(one, mine) for one in everyone)
    return mean, variance, count, local_count if is_one_batch else count


def local_statistics(input: Tensor) -> Tensor:
    """Mean and sum of squared deviations of each channel, and their count: float64, shape (2 * channels + 1,)."""
    local_count = input.numel() // input.shape[1]
    values = input.to(statistics_dtype(input))
    mean = values.sum(other_dims(input)) / max(local_count, 1)
    deviations = (values - along_channels(mean, input)).square().sum(other_dims(input))
    counted = torch.tensor([local_count], dtype=torch.float64, device=input.device)
    return torch.cat([mean.double(), deviations.double(), counted])


def merged(everyone: Tensor) -> tuple[Tensor, Tensor, float]:
    """Mean, biased variance and count of all ranks' values, of their `local_statistics` in rows."""
    channels = everyone.shape[1] // 2
    means, spreads, counts = torch.split(everyone, [channels, channels, 1], dim=1)
    count = float(counts.sum())
    mean = (counts * means).sum(0) / max(count, 1.0)
    spread = (spreads + counts * (means - mean).square()).sum(0)
    return mean, spread / max(count, 1.0), count


def update_running(running: tuple[Tensor | None, Tensor | None], factor: float, mean: Tensor, variance: Tensor) -> None:
    for buffer, statistic in zip(running, (mean, variance), strict=True):
        if buffer is not None:
            buffer.lerp_(statistic.to(buffer.dtype), factor)


class _Normalise(torch.autograd.Function):
    """Normalises by the global statistics and differentiates through them: they depend on all ranks' inputs.

    The gradient of the input is that of the sum of all ranks' losses; those of weight and bias are this
    rank's own, for DistributedDataParallel to average with all others.
    """

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        variance: Tensor,
        count: float,
        eps: float,
    ) -> Tensor:
        dtype = weight.dtype if weight is not None else statistics_dtype(input)
        ctx.count = count
        ctx.save_for_backward(input, weight, mean, (variance + eps).rsqrt())
        return F.batch_norm(input, mean.to(dtype), variance.to(dtype), weight, bias, eps=eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        input, weight, mean, inverse_std = ctx.saved_tensors
        dims, dtype = other_dims(input), statistics_dtype(input)
        mean, inverse_std = (along_channels(value.to(dtype), input) for value in (mean, inverse_std))
        normalised = (input.to(dtype) - mean).mul_(inverse_std)
        grad = grad_output.to(dtype)
        grad_bias, grad_weight = grad.sum(dims), (grad * normalised).sum(dims)
        grad_input = None
        input_wanted, weight_wanted, bias_wanted, *_ = ctx.needs_input_grad
        if input_wanted:
            sums = torch.stack([grad_bias, grad_weight])
            communicator.all_reduce(sums, purpose=BATCHNORM)
            of_mean, of_variance = (along_channels(value, input) for value in sums / ctx.count)
            scale = inverse_std if weight is None else inverse_std * along_channels(weight.to(dtype), input)
            grad_input = (grad - of_mean).addcmul_(normalised, of_variance, value=-1).mul_(scale)
        return (
            grad_input,
            grad_weight if weight_wanted else None,
            grad_bias if bias_wanted else None,
            *[None] * 4,
        )


_normalise: Callable[..., Tensor] = _Normalise.apply
_cuda_kernel: Callable[..., Tensor] = CudaSyncBatchNorm.apply


def statistics_dtype(input: Tensor) -> torch.dtype:
    return torch.promote_types(input.dtype, torch.float32)


def other_dims(input: Tensor) -> list[int]:
    return [dim for dim in range(input.dim()) if dim != 1]


def along_channels(values: Tensor, input: Tensor) -> Tensor:
    """Shape (channels,) to one that broadcasts over `input`, of shape (batch, channels, …)."""
    return values.view(1, -1, *[1] * (input.dim() - 2))
