"""Which functions of torch and of the runtime are which part of a step."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from distify_runtime import communicator
from distify_runtime.bench import replicas
from distify_runtime.bench.clock import (
    BACKWARD,
    BATCHNORM,
    CHECKPOINTS,
    FIGURES,
    GATHERING,
    GRADIENTS,
    LOADING,
    OTHER,
    SYNCHRONISING,
    Clock,
)
from distify_runtime.bench.passes import Passes
from distify_runtime.patching import wrap
from distify_runtime.shared import costs

#: The part that a module's collectives are.
_OF_MODULES = {
    "reduce": FIGURES, "losses": FIGURES,
    "gradients": GRADIENTS, "overlap": GRADIENTS, "shared.sums": GRADIENTS,
    "batchnorm": BATCHNORM, "normalise": BATCHNORM,
    "gather": GATHERING, "gather_entries": GATHERING, "gather_samples": GATHERING, "shared.messages": GATHERING,
}  # fmt: skip
#: What scripts call, where more than the collective is done for the ranks: numbers are packed, buckets filled.
_OF_FUNCTIONS = {
    "reduce": ("all_reduce_sum", "all_reduce_mean", "any_rank"),
    "losses": ("global_mean", "mean_over_ranks", "sum_over_ranks", "weighted_mean"),
    "gradients": ("all_reduce_gradients", "average_gradients"),
    "gather": ("gather_batch",),
    "gather_entries": ("gather_entries",),
    "gather_samples": ("gather_samples",),
}
#: What shared forward passes exchange, by its name there; all else is gathering.
_OF_MESSAGES = {
    costs.SUMS: GRADIENTS, "SUM": BATCHNORM, "SUM_BACKWARD": BATCHNORM,
    "SHAPES": OTHER, "ARGUMENTS": OTHER, "LOSS": OTHER,
}  # fmt: skip
_COLLECTIVES = (
    "all_reduce", "start_all_reduce", "broadcast", "all_gather", "all_gather_object", "broadcast_object",
)  # fmt: skip
_RUNTIME = "distify_runtime"


def watch_parts(clock: Clock, passes: Passes) -> None:
    """From now on, the clock knows what this process is at."""
    _watch_loading(clock, passes)
    _watch_backward(clock, passes)
    _watch_synchronising(clock)
    wrap(torch, "save", clock.timed(CHECKPOINTS))


def _watch_loading(clock: Clock, passes: Passes) -> None:
    def ask(original: Any, iterator: Any) -> Any:
        passes.asked(iterator)
        try:
            with clock.of(LOADING):
                batch = original(iterator)
        except StopIteration:
            passes.over(iterator)
            raise
        passes.given(iterator, batch)
        return batch

    wrap(_BaseDataLoaderIter, "__next__", ask)
    wrap(DataLoader, "__iter__", clock.timed(LOADING))


def _watch_backward(clock: Clock, passes: Passes) -> None:
    def backward(original: Any, *args: Any, **kwargs: Any) -> Any:
        with clock.of(BACKWARD):
            found = original(*args, **kwargs)
        passes.backwards += 1
        if not clock.is_within(BACKWARD):
            clock.move(replicas.waited(), GRADIENTS)
        return found

    replicas.watch_replicas()
    for name in ("backward", "grad"):
        wrap(torch.autograd, name, backward)


def _watch_synchronising(clock: Clock) -> None:
    for module, names in _OF_FUNCTIONS.items():
        for name in names:
            wrap(import_module(f"{_RUNTIME}.{module}"), name, clock.timed(_OF_MODULES[module]))
            vars(sys.modules[_RUNTIME]).pop(name, None)  # it is asked for anew
    for name in _COLLECTIVES:
        wrap(communicator, name, _by_caller(clock))
    wrap(DistributedDataParallel, "_sync_buffers", clock.timed(OTHER))
    wrap(costs, "of_meeting", _of_meeting(clock))
    wrap(costs, "of_loading", _beside(clock, LOADING))


def _by_caller(clock: Clock) -> Any:
    def around(original: Any, *args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(2).f_globals.get("__name__", "").removeprefix(f"{_RUNTIME}.")
        known = clock.part in SYNCHRONISING  # what somebody has called this for
        with clock.of(clock.part if known else _OF_MODULES.get(caller, OTHER)):
            return original(*args, **kwargs)

    return around


def _of_meeting(clock: Clock) -> Any:
    def around(original: Any, what: str) -> AbstractContextManager[None]:
        return _both(original(what), clock.of(_OF_MESSAGES.get(what, GATHERING)))

    return around


def _beside(clock: Clock, part: str) -> Any:
    def around(original: Any, *args: Any) -> AbstractContextManager[None]:
        return _both(original(*args), clock.of(part))

    return around


@contextmanager
def _both(outer: AbstractContextManager[None], inner: AbstractContextManager[None]) -> Iterator[None]:
    with outer, inner:
        yield
