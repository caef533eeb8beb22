"""Loaders whose batches the ranks load in shares, and put together before the script sees them.

A rank fetches its part of a batch's samples; all ranks get all of them, in the order of one process, and make the batch
of them as the loader does. So a batch is, bit for bit, what one process would have loaded, whatever puts it together.
Whether that is faster than to load it whole is measured while training goes on (`loading_phases.py`).
"""

from __future__ import annotations

import threading
import time
import weakref
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, MapDataPipe, get_worker_info

from distify_runtime.environment import is_alone
from distify_runtime.meeting import collective
from distify_runtime.noticing import notice
from distify_runtime.shared import costs, region
from distify_runtime.shared.loading_phases import Phases, Took
from distify_runtime.shared.messages import RanksParted, Tag, What, numbered
from distify_runtime.shared.packing import Rows, packed, unpacked
from distify_runtime.shared.samples import Loaded, Samples, Task, collated, drawing, pinned
from distify_runtime.shared.streams import kept

Loader = TypeVar("Loader", bound=DataLoader[Any])


@collective
def shard_loading(loader: Loader, draws: bool = False) -> Loader:
    """Have each rank load its share of the samples of each batch, where that is faster: all go on with whole batches.

    Returns the loader itself. Every rank has to go through it, in the same order, and nobody alone. A loader of a
    stream, without batches, or of a class of its own, and one that is asked for its batches in a thread or while a
    model runs, loads them whole.

    draws: also where the data set draws random numbers. These are then drawn for each sample by its place, and the
    script's streams go on as if it had drawn none: as well as in one process, and others than there. Else such a
    loader loads whole batches.
    """
    if not is_alone() and id(loader) not in _shared and _can_be_shared(loader):
        notice(loader, "__iter__", _iterated, "_distify_loading")
        _shared[id(loader)] = Shared(loader, draws)
        weakref.finalize(loader, _shared.pop, id(loader), None)
    return loader


def _can_be_shared(loader: Any) -> bool:
    return (
        type(loader) is DataLoader
        and loader.batch_sampler is not None
        and not isinstance(loader.dataset, (IterableDataset, MapDataPipe))
        and getattr(loader, "in_order", True)
        and getattr(loader, "worker_method", "multiprocessing") == "multiprocessing"
    )


def _iterated(loader: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    shared = _shared.get(id(loader))
    aside = threading.current_thread() is not threading.main_thread() or get_worker_info() is not None
    inside = region.current() is not None or region.computes_whole()
    if shared is None or aside or inside or is_alone() or shared.phases.is_over:
        return original()
    return shared.begun(loader)


class Shared:
    """What holds for a loader in all of its passes."""

    def __init__(self, loader: DataLoader[Any], draws: bool) -> None:
        self.name = f"the DataLoader over {type(loader.dataset).__name__}"
        self.number = numbered(self.name)
        self.phases = Phases(self, draws)
        self.rows = Rows()
        self._view: tuple[DataLoader[Any], _Tasks] | None = None  # with workers that stay

    def tag(self, call: int, place: int = 0) -> Tag:
        return Tag(What.SAMPLES, self.number, call, place)

    def begun(self, loader: DataLoader[Any]) -> Iterator[Any]:
        self.phases.pass_begins(loader)
        if self._view is None or not loader.persistent_workers:
            self._view = self._viewed(loader)
        view, tasks = self._view
        tasks.under_way = deque()
        return _Pass(self, loader, iter(view), tasks.under_way)

    def _viewed(self, loader: DataLoader[Any]) -> tuple[DataLoader[Any], _Tasks]:
        """The same loader, of batches as this rank is to load them."""
        tasks = _Tasks(loader, self.phases)
        view: DataLoader[Any] = object.__new__(DataLoader)
        view.__dict__.update(loader.__dict__)  # a DataLoader forbids to set these
        samples = Samples(loader.dataset, loader.collate_fn)
        # Without automatic batching: an item of the data set is a batch, and its index what the sampler gives.
        view.__dict__.update(sampler=tasks, batch_sampler=None, dataset=samples, collate_fn=_as_it_is, _iterator=None)
        view.__dict__.update(worker_init_fn=_WorkerInit(loader.worker_init_fn))
        return view, tasks


_shared: dict[int, Shared] = {}


def _as_it_is(loaded: Loaded) -> Loaded:
    return loaded


class _WorkerInit:
    """What a script does in a worker first sees the data set of the script."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __call__(self, worker: int) -> None:
        info: Any = get_worker_info()
        object.__setattr__(info, "dataset", info.dataset.dataset)
        if self.inner is not None:
            self.inner(worker)


class _Tasks:
    """The batches of a loader as this rank is to load them: it takes the place of the batch sampler."""

    def __init__(self, loader: DataLoader[Any], phases: Phases) -> None:
        self._loader, self._phases = loader, phases
        self.under_way: deque[Task] = deque()

    def __iter__(self) -> Iterator[Task]:
        batches = iter(self._loader._index_sampler)  # now, as the loader does: it may draw something
        return self._dealt(batches, self.under_way)

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def _dealt(self, batches: Iterator[Any], under_way: deque[Task]) -> Iterator[Task]:
        for indices in batches:
            task = self._phases.task(indices)
            under_way.append(task)
            yield task


class _Pass:
    """A pass over the batches."""

    def __init__(self, shared: Shared, loader: DataLoader[Any], inner: Iterator[Any], tasks: deque[Task]) -> None:
        self._shared, self._loader, self._inner, self._tasks = shared, loader, inner, tasks

    def __iter__(self) -> _Pass:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        with costs.of_loading():
            return self._next()

    def _next(self) -> Any:
        began, met = time.perf_counter(), costs.taken(costs.SAMPLES)
        failed: Exception | None = None
        loaded = Loaded(None)
        try:
            loaded = next(self._inner)
        except StopIteration:
            raise
        except Exception as error:  # whatever a data set says of a sample
            failed = error
        task = self._tasks.popleft() if self._tasks else None
        while failed is None and self._tasks and task is not None and task.number != loaded.number:
            task = self._tasks.popleft()  # whoever goes through the sampler may leave some out
        if task is not None and task.is_share:
            loaded = self._put_together(task, loaded, failed)
        elif failed is not None:
            raise failed
        assert task is not None
        exchanging = costs.taken(costs.SAMPLES) - met
        loading = time.perf_counter() - began - exchanging
        self._shared.phases.loaded(task, loaded, Took(loading, exchanging), len(self._tasks))
        return loaded.batch

    def _put_together(self, task: Task, loaded: Loaded, failed: Exception | None) -> Loaded:
        """The batch of all ranks' samples. A collective. Raises, on every rank, what a sample of any rank raises."""
        row = loaded.batch if failed is None else _told(failed)
        order = zlib.crc32(repr(task.indices).encode())
        rows = self._shared.rows.exchange(self._shared.tag(task.number), row, (order, failed is not None, loaded.drew))
        if any(words[0] != order for words, _ in rows):
            raise RanksParted(
                f"distify: the ranks' loaders have come apart: {self._shared.name} draws other samples on some rank in "
                f"its batch {task.number + 1}. Seed what its sampler draws from alike on all ranks"
            )
        for words, one in rows:
            if words[1]:
                raise unpacked(one)
        samples = [sample for _, one in rows for sample in unpacked(one)]
        aside = self._loader.num_workers > 0 or task.seed is not None
        with drawing() as drawn, kept() if aside else nullcontext():
            batch = collated(self._loader.collate_fn, samples, task)
            drew = drawn()
        if self._loader.pin_memory and torch.cuda.is_available():
            batch = pinned(batch)
        return Loaded(batch, task.number, drew or any(bool(words[2]) for words, _ in rows))


def _told(error: Exception) -> Tensor:
    """An error as it is, or in words where it cannot be sent."""
    try:
        row = packed(error)
        if type(unpacked(row)) is type(error):
            return row
    except Exception:
        pass
    return packed(RuntimeError(f"{type(error).__name__}: {error}"))
