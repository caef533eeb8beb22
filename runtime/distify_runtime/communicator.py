"""How ranks speak to each other: over torch.distributed, or over Horovod. The rest of the runtime does not know which.

    communicator.all_reduce(tensor)
    communicator.store().set(key, value)

A script chooses Horovod by importing it and `hvd.init()`; else it is torch.distributed, with the group that
`init_process_group` joins or that the script has made by itself.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, ClassVar, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import Store
from torch.distributed.distributed_c10d import _get_default_store

from distify_runtime import accelerators
from distify_runtime.backends import backend, of_accelerator
from distify_runtime.launchers import HOROVODRUN, OPEN_MPI
from distify_runtime.memory import pickled, unpickled
from distify_runtime.one_rank import refuse_alone
from distify_runtime.sight import seeing, seeing_all
from distify_runtime.starts import where_to_meet
from distify_runtime.taking_turns import take_turn

#: Launchers that Horovod follows by itself.
HOROVODS_LAUNCHERS = (HOROVODRUN, OPEN_MPI)


class Op(Enum):
    """What becomes of the ranks' numbers."""

    SUM = "sum"
    MAX = "max"
    OR = "or"  # of the bits of whole numbers


class Pending(Protocol):
    """A collective that goes on by itself."""

    def wait(self) -> object: ...


class Communicator(ABC):
    """Collectives over all ranks. `purpose` parts those that must not meet in one queue."""

    @property
    @abstractmethod
    def rank(self) -> int: ...

    @property
    @abstractmethod
    def world_size(self) -> int: ...

    @abstractmethod
    def all_reduce(self, tensor: Tensor, op: Op, purpose: str) -> None:
        """Put the ranks' sum, maximum or OR in the tensor's place."""

    @abstractmethod
    def start_all_reduce(self, tensor: Tensor, op: Op, purpose: str) -> Pending:
        """The same, without waiting. Of one purpose, ranks start and wait for several in one order."""

    @abstractmethod
    def broadcast(self, tensor: Tensor) -> None:
        """Put rank 0's tensor in the tensor's place."""

    @abstractmethod
    def all_gather(self, parts: list[Tensor], tensor: Tensor, purpose: str) -> None:
        """Put each rank's tensor in its place among the parts; all have one shape."""

    @abstractmethod
    def all_gather_object(self, value: Any) -> list[Any]:
        """What each rank has, pickled."""

    @abstractmethod
    def broadcast_object(self, value: Any) -> Any:
        """What rank 0 has, pickled."""

    @abstractmethod
    def store(self) -> Store:
        """Where a rank leaves things for others without waiting for them."""

    @abstractmethod
    def open_purpose(self, purpose: str) -> dist.ProcessGroup | None:
        """To be called by all ranks before the first collective of a purpose. torch's group for it, if there is one."""

    @abstractmethod
    def close(self) -> None:
        """Leave the others. No collective; nothing that blocks where a rank has failed."""


@seeing_all
class TorchCommunicator(Communicator):
    """torch.distributed, over NCCL or Gloo."""

    _OPS: ClassVar = {Op.SUM: dist.ReduceOp.SUM, Op.MAX: dist.ReduceOp.MAX, Op.OR: dist.ReduceOp.BOR}

    def __init__(self) -> None:
        self._groups: dict[str, dist.ProcessGroup] = {}
        self._place = 0, 0, 0  # of a group, by its identity: the rank, and how many there are

    @property
    def rank(self) -> int:
        return self._found()[1]

    @property
    def world_size(self) -> int:
        return self._found()[2]

    def _found(self) -> tuple[int, int, int]:
        """Asked of torch once for a group: it takes its time, and a shared pass asks again and again."""
        group = id(dist.GroupMember.WORLD)
        if self._place[0] != group:
            self._place = group, dist.get_rank(), dist.get_world_size()
        return self._place

    def all_reduce(self, tensor: Tensor, op: Op, purpose: str) -> None:
        dist.all_reduce(tensor, self._OPS[op], group=self.open_purpose(purpose))

    def start_all_reduce(self, tensor: Tensor, op: Op, purpose: str) -> Pending:
        started: Pending = dist.all_reduce(tensor, self._OPS[op], group=self.open_purpose(purpose), async_op=True)
        return started

    def broadcast(self, tensor: Tensor) -> None:
        dist.broadcast(tensor, 0)

    def all_gather(self, parts: list[Tensor], tensor: Tensor, purpose: str) -> None:
        dist.all_gather(parts, tensor, group=self.open_purpose(purpose))

    def all_gather_object(self, value: Any) -> list[Any]:
        sent = pickled(value)
        sizes = [torch.empty(1, dtype=torch.int64, device=home()) for _ in range(self.world_size)]
        dist.all_gather(sizes, torch.tensor([len(sent)], device=home()))
        lengths = [int(size) for size in sizes]
        room = torch.empty(max(lengths), dtype=torch.uint8, device=home())
        room[: len(sent)] = sent
        parts = [torch.empty_like(room) for _ in lengths]
        dist.all_gather(parts, room)
        return [unpickled(part[:length].cpu()) for part, length in zip(parts, lengths, strict=True)]

    def broadcast_object(self, value: Any) -> Any:
        sent = pickled(value if self.rank == 0 else None).to(home())
        size = torch.tensor([len(sent)], device=home())
        dist.broadcast(size, 0)
        if self.rank != 0:
            sent = torch.empty(int(size), dtype=torch.uint8, device=home())
        dist.broadcast(sent, 0)
        return value if self.rank == 0 else unpickled(sent.cpu())

    def store(self) -> Store:
        return _get_default_store()

    def open_purpose(self, purpose: str) -> dist.ProcessGroup | None:
        if not purpose:
            return None
        if purpose not in self._groups:
            group = dist.new_group()
            assert isinstance(group, dist.ProcessGroup)  # no rank is left out
            self._groups[purpose] = group
        return self._groups[purpose]

    def close(self) -> None:
        self._groups.clear()
        self._place = 0, 0, 0
        dist.destroy_process_group()


_torch = TorchCommunicator()
_horovod: Communicator | None = None


@seeing
def join(world_of_one: bool, patience: float = 0.0) -> None:
    """Join the other ranks: those of Horovod where the script has called `hvd.init()`, else torch's.

    patience: the seconds that a run may stand still; 0: as long as torch has patience.
    """
    global _horovod
    refuse_alone()
    if (hvd := horovod()) is not None:
        hvd.init()  # harmless where the script has done it
        from distify_runtime.horovod_communicator import HorovodCommunicator

        _horovod = HorovodCommunicator()
    else:
        dist.init_process_group(backend(), **where_to_meet(world_of_one, os.environ, patience))


def leave() -> None:
    global _horovod
    ours, _horovod = _current(), None
    ours.close()


@seeing
def is_initialized() -> bool:
    return _horovod is not None or dist.is_initialized()


def horovod() -> Any:
    """`horovod.torch`, where the script is to run over it: it has called `hvd.init()`, or imports it and was started
    by a launcher of Horovod's. Else None.
    """
    hvd: Any = sys.modules.get("horovod.torch")
    started = "WORLD_SIZE" not in os.environ and any(one.world_size in os.environ for one in HOROVODS_LAUNCHERS)
    return hvd if hvd is not None and (started or hvd.is_initialized()) else None


def _current() -> Communicator:
    return _horovod or _torch


_met, _meetings = "", 0


def _meeting(what: str = "") -> Communicator:
    """`what`: the collective that it is for, if it is for one."""
    global _met, _meetings
    refuse_alone()
    take_turn()
    if what:
        _met, _meetings = what, _meetings + 1
    return _current()


def comes_to(what: str) -> None:
    """Note that the next meeting of this rank is one that torch makes by itself."""
    global _met, _meetings
    _met, _meetings = what, _meetings + 1


def last_met() -> str:
    """The last collective that this rank came to, of those of the runtime and of DistributedDataParallel, and how many
    it has come to; or nothing.
    """
    return f"{_met} (its collective {_meetings})" if _met else ""


# ---- over the present communicator


@seeing
def home() -> torch.device:
    """Where numbers travel, and what is pickled: NCCL alone, which a script may have begun with, reaches no CPU."""
    kind = accelerators.kind()
    alone = bool(kind) and _horovod is None and dist.get_backend() == of_accelerator(kind)
    return torch.device(kind if alone else "cpu")


def tells_beside(tensor: Tensor) -> bool:
    """Whether what ranks must know of this tensor, as they exchange it, travels over the CPU: to look at what lies on
    an accelerator would wait until that has done all that it was told before.
    """
    return accelerators.has(tensor) and home().type == "cpu"


def rank() -> int:
    return _current().rank


def world_size() -> int:
    return _current().world_size


def all_reduce(tensor: Tensor, op: Op = Op.SUM, purpose: str = "") -> None:
    _meeting("all_reduce").all_reduce(tensor, op, purpose)


def start_all_reduce(tensor: Tensor, op: Op = Op.SUM, purpose: str = "") -> Pending:
    return _meeting("start_all_reduce").start_all_reduce(tensor, op, purpose)


def broadcast(tensor: Tensor) -> None:
    _meeting("broadcast").broadcast(tensor)


def all_gather(parts: list[Tensor], tensor: Tensor, purpose: str = "") -> None:
    _meeting("all_gather").all_gather(parts, tensor, purpose)


def all_gather_object(value: Any) -> list[Any]:
    return _meeting("all_gather_object").all_gather_object(value)


def broadcast_object(value: Any) -> Any:
    return _meeting("broadcast_object").broadcast_object(value)


def store(waits: bool = True) -> Store:
    """waits: for what some rank waits for, which no rank may come to alone."""
    return (_meeting() if waits else _current()).store()


def open_purpose(purpose: str) -> dist.ProcessGroup | None:
    return _meeting("open_purpose").open_purpose(purpose)
