"""The process group from its beginning to its end."""

from __future__ import annotations

import atexit
import gc
import importlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
from torch._C._distributed_c10d import Store
from torch.nn.parallel import DistributedDataParallel

from distify_runtime import accelerators, communicator
from distify_runtime.arriving import come
from distify_runtime.batch import keep_batch_size
from distify_runtime.environment import (
    device,
    is_alone,
    local_rank,
    local_world_size,
    rank,
    take_rank,
    tell_torch,
    world_size,
)
from distify_runtime.meeting import by_itself, collective
from distify_runtime.metrics import leave_metrics_alone
from distify_runtime.own_random import draw_by_themselves
from distify_runtime.randomness import DrawnByOne, seed_ranks_alike
from distify_runtime.same_everywhere import check_machines
from distify_runtime.saving import save_whole
from distify_runtime.sight import hide_group
from distify_runtime.threads import share_cores
from distify_runtime.watch import recorder
from distify_runtime.watch.mode import Mode, mode, patience
from distify_runtime.watch.start import start

#: Each use of `main_process_first` has a number, the same on every rank.
_turns = itertools.count()
_taking_turns = False
#: What gives up its references to process groups before they go.
_endings: list[Callable[[], None]] = []


@collective
def init_process_group(
    per_rank_batch: bool = False, watch: str | None = None, whole_batches: bool = False,
    own_random: Sequence[str] = (),
) -> None:  # fmt: skip
    """Join the ranks that the launcher started; under plain `python` a world of one. Harmless to call twice.

    Binds this process to its GPU, lets all ranks go on with rank 0's random numbers (rank 0 keeps exactly
    those it would have had), and registers the teardown, so that a script needs no last line. A process that a rank has
    started, such as a worker of a loader that imports the script anew, is no rank: it joins nobody.

    per_rank_batch: training loaders keep their batch size on each rank; else the global batch stays what it was.
    watch: "on", where what is alike by construction is compared as the run goes on, and ends it where it is not;
    "warn", where it says so once; or "off". DISTIFY_WATCH in the environment comes first.
    whole_batches: every rank goes through the script as one process does: libraries that add up over a process group
    wherever there is one are to see none. `data_parallel` says the same, of what is made after it.
    own_random: packages that rank 0 alone calls, and that draw with `random`: they have a stream of their own, so that
    the script's is the same on all ranks. (Alone they go on as in the original.)
    """
    if per_rank_batch:
        keep_batch_size()
    if whole_batches:
        hide_group()
    if communicator.is_initialized():
        return
    # Its functions' default arguments are the default group at the time of the import. Imported later, as
    # DistributedDataParallel does, they would keep the group and its threads alive past its destruction.
    importlib.import_module("torch.distributed.nn.functional")
    tell_torch()
    accelerators.bind(device())
    alone, how = is_alone(), mode(watch)
    if not alone:
        come(how.value)
    if how is not Mode.OFF:
        recorder.begin()
    communicator.join(alone, patience() if how is Mode.ON else 0.0)
    save_whole()
    if not alone:
        take_rank()
        check_machines(watch, local_world_size() < world_size())
        share_cores()
        leave_metrics_alone()
        seed_ranks_alike()
        draw_by_themselves(own_random)
        at_the_end(start(watch, ranks_take_turns))
    atexit.register(destroy_process_group)


@by_itself
def destroy_process_group() -> None:
    """Leave the process group, whatever still refers to it. No collective; harmless to call twice.

    A Gloo group joins its threads when its last reference goes. Python aborts ("terminate called without an
    active exception") if one of them asks for the interpreter lock once the interpreter is shutting down.
    Hence every reference has to go before: above all those of DistributedDataParallel models, which live as
    long as the script's globals. Their parameters stay as they are.
    """
    if not communicator.is_initialized():
        return
    for ending in _endings:
        ending()
    for replica in _live_replicas():
        vars(replica).update(reducer=None, logger=None, process_group=None)
    gc.collect()
    communicator.leave()
    # A group that the script itself holds on to keeps its threads: let them finish what they are at.
    time.sleep(0.05)


@collective
def barrier() -> None:
    """Wait until every rank has come here. Joins the process group where that is still to do, as in an import."""
    if not is_alone():
        init_process_group()
        # Over the CPU: torch's own barrier would guess a GPU, and warn.
        communicator.all_reduce(torch.zeros(1, device=communicator.home()))


@collective
@contextmanager
def main_process_first() -> Iterator[None]:
    """Let rank 0 run the block first, then the first rank of every other node, then all others.

    For downloads and caches: who comes later finds them done, on node-local and on shared disks. What rank 0 draws in
    the meantime, the others have drawn behind it. Ranks wait in the store, not in a collective, whose time limit a
    large download would exceed.
    """
    key = f"distify/main_process_first/{next(_turns)}"
    if is_alone():
        yield
        return
    global _taking_turns
    store = communicator.store()
    turn = 0 if rank() == 0 else 1 if local_rank() == 0 else 2
    store.add(f"{key}/firsts", int(turn == 1))
    store.add(f"{key}/arrived", 1)
    if turn > 0:
        wait_for(store, f"{key}/main")
    while turn == 2 and not _other_nodes_are_done(store, key):
        time.sleep(0.05)
    drawn = DrawnByOne()
    _taking_turns = True
    try:
        yield
    finally:  # also after an exception that the script catches
        _taking_turns = False
        if turn == 0:
            store.set(f"{key}/main", drawn.told())  # type: ignore[arg-type]  # takes bytes as well
        else:
            drawn.follow(store.get(f"{key}/main"))
        store.add(f"{key}/done", int(turn == 1))


def ranks_take_turns() -> bool:
    """Whether this is inside of `main_process_first`, where ranks must not wait for each other in a collective."""
    return _taking_turns


def _other_nodes_are_done(store: Store, key: str) -> bool:
    """Whether the first rank of every other node has been through: how many there are shows once all have come."""
    if store.add(f"{key}/arrived", 0) < world_size():
        return False
    return store.add(f"{key}/done", 0) == store.add(f"{key}/firsts", 0)


def wait_for(store: Store, key: str) -> None:
    """Until another rank sets the key, as long as that takes: if that rank dies, the launcher ends this one."""
    store.wait([key], timedelta(days=7))


def at_the_end(ending: Callable[[], None]) -> None:
    """Call `ending` before the process group is destroyed."""
    _endings.append(ending)


def _live_replicas() -> list[DistributedDataParallel]:
    # isinstance() would ask each object for its __class__, which lazy proxies answer with side effects.
    return [o for o in gc.get_objects() if issubclass(type(o), DistributedDataParallel)]
