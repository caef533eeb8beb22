"""Loaders whose batches grow with the number of ranks, where all ranks see whole batches."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from distify_runtime.environment import world_size
from distify_runtime.learning_rate import pass_begins
from distify_runtime.meeting import collective
from distify_runtime.noticing import notice
from distify_runtime.output import note, stop

Loader = TypeVar("Loader", bound=DataLoader[Any])

_scaled: set[int] = set()


@collective
def scale_batch_size(loader: Loader) -> Loader:
    """The loader itself, whose batches have as many times as many samples as there are ranks.

    For ranks that share forward passes, and see whole batches: each computes as much of one as the script says.
    Raises SystemExit on all ranks for a loader that does not make batches of a size by itself.
    """
    ranks = world_size()
    if ranks == 1 or id(loader) in _scaled:
        return loader
    size = loader.batch_size
    if size is None or not (isinstance(loader.dataset, IterableDataset) or type(loader.batch_sampler) is BatchSampler):
        stop("the loader does not make batches by their size: keep the global batch (--scale global)")
    note(f"batches of {size * ranks}: those of {size} that the script asks for, for each of {ranks} ranks")
    sampler = BatchSampler(loader.sampler, size * ranks, loader.drop_last)
    loader.__dict__.update(batch_sampler=sampler, batch_size=size * ranks)  # a DataLoader forbids to set these
    _scaled.add(id(loader))
    weakref.finalize(loader, _scaled.discard, id(loader))
    notice(loader, "__iter__", _iterated, "_distify_scaled")
    return loader


def _iterated(loader: Any, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if id(loader) in _scaled:
        try:
            pass_begins(len(loader))
        except TypeError:  # of a stream nobody knows
            pass_begins(0)
    return original()
