"""Batch normalisation over the global batch, as one process would compute it."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch._jit_internal import is_scripting
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parallel import DistributedDataParallel

from distify_runtime import communicator
from distify_runtime.environment import is_alone, world_size
from distify_runtime.meeting import collective
from distify_runtime.members import modules_of
from distify_runtime.normalise import (
    BATCHNORM,
    contiguous,
    local_statistics,
    merged,
    normalise,
    normalise_by_cuda,
    total_over_ranks,
    update_running,
)
from distify_runtime.output import stop
from distify_runtime.watch.parameters import of_all_ranks

T = TypeVar("T")


@collective
def convert_sync_batchnorm(model: T) -> T:
    """Let every BatchNorm layer of `model` train on the statistics of all ranks' samples. A collective.

    model: a module, or a list or dictionary of modules.

    The layers are changed in place and stay instances of their classes; they save, pickle and print as
    before. In eval mode and in a world of one they do exactly what they did. Works on CPUs and GPUs.
    Raises SystemExit on all ranks for a BatchNorm class with a forward of its own.
    """
    layers = [layer for one in modules_of(model) for layer in one.modules() if _uses_local_statistics(layer)]
    if not layers or is_alone():
        return model
    for layer in layers:
        _check_convertible(layer)
    communicator.open_purpose(BATCHNORM)
    for layer in layers:
        original: Any = type(layer)
        layer.__class__ = _synchronised(original)
    of_all_ranks(layers)
    return model


@collective
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
    if not running or is_alone():
        return
    communicator.open_purpose(BATCHNORM)
    of_all_ranks(layers)

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
        if is_scripting():  # what is compiled, which has no super(), is for one process
            return self._for_one_process(input)
        if not self.training or is_alone():
            return super().forward(input)
        return self._normalise_over_ranks(input)

    def _for_one_process(self, input: Tensor) -> Tensor:
        """As torch has it, spelled as TorchScript wants it."""
        self._check_input_dim(input)  # type: ignore[no-untyped-call]
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        keeps = not self.training or self.track_running_stats
        mean = self.running_mean if keeps else None
        variance = self.running_var if keeps else None
        by_batch = self.training or self.running_mean is None
        return nn.functional.batch_norm(input, mean, variance, self.weight, self.bias, by_batch, factor, self.eps)

    def _normalise_over_ranks(self, input: Tensor) -> Tensor:
        check: Any = self._check_input_dim  # untyped in torch
        check(input)
        factor = self._count_batch()
        running = (self.running_mean, self.running_var) if self.track_running_stats else (None, None)
        group = communicator.open_purpose(BATCHNORM)
        if input.is_cuda and group is not None and torch.is_grad_enabled():  # it cannot tell that all see one batch
            taken = contiguous(input)
            return normalise_by_cuda(taken, self.weight, self.bias, *running, self.eps, factor, group, world_size())
        mean, variance, count, distinct = _global_statistics(input.detach())
        update_running(running, factor, mean, variance * (distinct / (distinct - 1)))
        return normalise(input, self.weight, self.bias, (mean, variance, count), self.eps, total_over_ranks)

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


def _global_statistics(input: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
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
        raise ValueError(f"training BatchNorm needs more than one value per channel, all ranks have {count.item():.0f}")
    is_one_batch = mine[-1] > 1 and all(torch.equal(one, mine) for one in everyone)
    return mean, variance, count, mine[-1] if is_one_batch else count
