"""Who this process is: read from the process group, and before there is one from the launcher's environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

from distify_runtime import accelerators, communicator, launchers
from distify_runtime.launchers import Launch
from distify_runtime.meeting import by_itself

Named = TypeVar("Named")
#: Set by a rank: its process, and what tells it from the others.
_TAKEN = "DISTIFY_RANK_TAKEN"


def read_launch() -> Launch:
    """The launch as Horovod has it, in a script that runs over Horovod, else as the environment does."""
    return _horovod_launch() or launchers.read_launch(os.environ)


def tell_torch() -> None:
    """Put what another launcher than torchrun has said into torchrun's terms, for torch and all who read those."""
    if communicator.horovod() is None:
        os.environ |= launchers.in_torchruns_terms(read_launch(), os.environ)


def take_rank() -> None:
    """Note that this process is the rank of its environment: those that it starts inherit that, and are none."""
    global _is_a_rank
    _is_a_rank = True
    os.environ[_TAKEN] = f"{os.getpid()} {_place()}"


def is_a_ranks_child() -> bool:
    """Whether this process was started by a rank that has joined the others: a worker, or a program of the script's.

    It keeps its rank's number: what it deals out is that rank's, and it prints and writes where its rank does, as the
    workers of one process do. But it has nobody to meet.
    """
    return _is_a_child


def _place() -> str:
    """What a launcher tells each rank apart by; one that a rank has started itself tells its ranks something else."""
    return " ".join(os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def _inherits() -> bool:
    taken, _, place = os.environ.get(_TAKEN, "").partition(" ")
    return bool(taken) and taken != str(os.getpid()) and place == _place()


def _forked() -> None:
    global _is_a_child
    _is_a_child = _is_a_child or _is_a_rank


# Asked in every forward pass, which may be compiled: found out once for a process.
_is_a_rank = False
_asked: Callable[[], None] | None = None
_is_a_child = _inherits()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def is_alone() -> bool:
    """Whether there is no other rank to meet: in a world of one, or in what a rank has started."""
    return world_size() == 1 or is_a_ranks_child()


@by_itself
def rank() -> int:
    """This process's number among all ranks, from 0."""
    return communicator.rank() if _is_in_the_group() else read_launch().rank


@by_itself
def local_rank() -> int:
    """This process's number among the ranks of its node, from 0."""
    return read_launch().local_rank


@by_itself
def world_size() -> int:
    """How many ranks train together."""
    return communicator.world_size() if _is_in_the_group() else read_launch().world_size


def _is_in_the_group() -> bool:
    """Whether the group knows who this is: that of a rank's child is one of its own."""
    return communicator.is_initialized() and not is_a_ranks_child()


def local_world_size() -> int:
    """How many of them run on this node."""
    return read_launch().local_world_size


@by_itself
def is_main_process() -> bool:
    """Whether this is rank 0, which prints and writes for all."""
    if _asked is not None and not torch.compiler.is_compiling():
        _asked()
    return rank() == 0


def when_asked(look: Callable[[], None] | None) -> None:
    """Call `look` on each rank that asks whether it is rank 0, as all do before one of them writes a checkpoint."""
    global _asked
    _asked = look


@contextmanager
def unasked() -> Iterator[None]:
    """No rank looks for having asked: in a part of a forward pass, ranks neither hold nor have drawn the same."""
    global _asked
    before, _asked = _asked, None
    try:
        yield
    finally:
        _asked = before


@by_itself
def device() -> torch.device:
    """The one device of this rank: its GPU or other accelerator, or the CPU where there is none.

    Raises SystemExit where a node has fewer of them than ranks.
    """
    kind = accelerators.kind()
    if not kind:
        return torch.device("cpu")
    index, gpus = local_rank(), accelerators.count()
    if index >= gpus:
        raise SystemExit(
            f"distify: local rank {index} sees {gpus} GPUs, and none for itself: start at most one rank for each "
            f"GPU of this node, and let every rank see all of them"
        )
    return torch.device(kind, index)


@by_itself
def device_kind(name: Named) -> Named | str:
    """`"cuda"` for `"cuda:1"`, and for 1: this rank's own GPU, whatever number the command line says. Other devices
    stay, and what is neither a text nor a number.
    """
    if isinstance(name, int) and not isinstance(name, bool) and name >= 0:
        return accelerators.kind() or "cuda"
    kind, _, number = name.partition(":") if isinstance(name, str) else ("", "", "")
    return kind if kind in ("cuda", accelerators.kind()) and number.isdecimal() else name


@by_itself
def gpu_index() -> int:
    """The number of this rank's GPU; -1, which `torch.cuda.device` takes for none, where there is no GPU."""
    found = device().index
    return -1 if found is None else found


def _horovod_launch() -> Launch | None:
    """As Horovod sees it, or is going to see it, in a script that runs over it; None in others."""
    hvd = communicator.horovod()
    if hvd is None:
        return None
    if not hvd.is_initialized():
        started_by = next(one for one in communicator.HOROVODS_LAUNCHERS if one.world_size in os.environ)
        return launchers.launch_of(started_by, os.environ)
    found = Launch(hvd.rank(), hvd.local_rank(), hvd.size(), hvd.local_size())
    if found.world_size == 1:
        _refuse_lonely()
    return found


def _refuse_lonely() -> None:
    """Where several processes were started, and Horovod found itself alone in each."""
    for launcher in (launchers.TORCHRUN, *launchers.LAUNCHERS):
        if launcher.claims(os.environ):
            count, name = os.environ[launcher.world_size], launcher.world_size
            raise SystemExit(
                f"distify: the {count} processes that {launcher.name} started ({name}) cannot find each other: start "
                "the script with horovodrun or distify run"
            )
