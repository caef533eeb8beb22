"""Collectives over Horovod, and a store, which Horovod has none of."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import horovod.torch as hvd
import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import HashStore, Store, TCPStore

from distify_runtime.communicator import Communicator, Op, Pending
from distify_runtime.memory import pickled, unpickled

#: What Horovod adds up by itself; other numbers travel as one of these.
_WIDER = {torch.bfloat16: torch.float32, torch.int16: torch.int32, torch.bool: torch.uint8}
_STORE_LIMIT = timedelta(minutes=30)  # as torch has it
_FAREWELL_SECONDS = 1800.0


class HorovodCommunicator(Communicator):
    """Horovod finds by names which tensors of the ranks belong together, so each kind of collective has its own."""

    def __init__(self) -> None:
        self._rank, self._world_size = int(hvd.rank()), int(hvd.size())
        self._pending: Counter[str] = Counter()  # all-reduces under way, by purpose
        self._store = self._open_store()

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def world_size(self) -> int:
        return self._world_size

    def all_reduce(self, tensor: Tensor, op: Op, purpose: str) -> None:
        self.start_all_reduce(tensor, op, purpose).wait()

    def start_all_reduce(self, tensor: Tensor, op: Op, purpose: str) -> Pending:
        number = self._pending[purpose]
        name = f"distify.all_reduce.{purpose}.{number}"
        self._pending[purpose] += 1

        def done() -> None:
            self._pending[purpose] -= 1

        if tensor.numel() == 0:
            return _Started(done)
        numbers = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
        if op is Op.OR:
            everyone = hvd.allgather_async(_bytes(numbers.contiguous()), name=name)
            return _Started(done, everyone, lambda bits: numbers.copy_(_or(bits, numbers, self.world_size)))
        sent = numbers.to(_WIDER.get(numbers.dtype, numbers.dtype)).contiguous()
        total = hvd.allreduce_async_(sent, name=name, op=hvd.Sum if op is Op.SUM else hvd.Max)
        return _Started(done, total, numbers.copy_ if sent.data_ptr() != numbers.data_ptr() else None)

    def broadcast(self, tensor: Tensor) -> None:
        if tensor.numel() == 0:
            return
        sent = tensor.detach().contiguous()
        hvd.broadcast_(_bytes(sent), root_rank=0, name="distify.broadcast")
        if sent.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(sent)

    def all_gather(self, parts: list[Tensor], tensor: Tensor, purpose: str) -> None:
        if tensor.numel() == 0:
            return
        sent = _bytes(tensor.detach().contiguous())
        everyone = hvd.allgather(sent, name=f"distify.all_gather.{purpose}").view(self.world_size, -1)
        for part, received in zip(parts, everyone.unbind(), strict=True):
            part.copy_(received.view(tensor.dtype).view(part.shape))

    def all_gather_object(self, value: Any) -> list[Any]:
        sent = pickled(value)
        sizes = hvd.allgather(torch.tensor([len(sent)], device="cpu"), name="distify.sizes").tolist()
        everyone = hvd.allgather(sent, name="distify.objects")
        return [unpickled(part) for part in torch.split(everyone, sizes)]

    def broadcast_object(self, value: Any) -> Any:
        sent = pickled(value if self.rank == 0 else None)
        size = torch.tensor([len(sent)], device="cpu")
        hvd.broadcast_(size, root_rank=0, name="distify.size")
        if self.rank != 0:
            sent = torch.empty(int(size), dtype=torch.uint8, device="cpu")
        hvd.broadcast_(sent, root_rank=0, name="distify.object")
        return unpickled(sent)

    def store(self) -> Store:
        return self._store

    def open_purpose(self, purpose: str) -> dist.ProcessGroup | None:
        return None

    def close(self) -> None:
        """Rank 0 serves the store, and so is the last to leave, unless it has failed: then the others fail, too."""
        hvd.shutdown()
        if self.world_size == 1:
            return
        failed = getattr(sys, "last_value", None) is not None
        try:
            self._store.add("distify/left", 1)
            deadline = time.monotonic() + (0.0 if failed else _FAREWELL_SECONDS)
            while self.rank == 0 and self._store.add("distify/left", 0) < self.world_size:
                if time.monotonic() > deadline:
                    break
                time.sleep(0.02)
        except RuntimeError:
            pass  # rank 0 has failed and is gone

    def _open_store(self) -> Store:
        if self.world_size == 1:
            return HashStore()
        local = int(hvd.local_size()) == self.world_size
        if self.rank != 0:
            host, port = self.broadcast_object(None)
            return TCPStore(host, port, is_master=False, timeout=_STORE_LIMIT)
        # The port is held from here on: no other process can take it before the store listens.
        listener = socket.create_server(("127.0.0.1" if local else "", 0))
        host, port = "127.0.0.1" if local else _own_address(), listener.getsockname()[1]
        store = TCPStore(
            host, port, is_master=True, wait_for_workers=False, timeout=_STORE_LIMIT, master_listen_fd=listener.detach()
        )
        self.broadcast_object((host, port))
        return store


@dataclass
class _Started:
    """What is under way, and what is then done with the result."""

    done: Callable[[], None]
    handle: Any = None
    then: Callable[[Tensor], object] | None = None

    def wait(self) -> None:
        found: Any = hvd.synchronize(self.handle) if self.handle is not None else None
        self.done()
        if self.then is not None:
            self.then(found)


def _or(bits: Tensor, like: Tensor, ranks: int) -> Tensor:
    first, *others = bits.view(ranks, -1).unbind()
    for one in others:
        first |= one
    return first.view(like.dtype).view(like.shape)


def _bytes(tensor: Tensor) -> Tensor:
    """Suit every dtype."""
    return tensor.reshape(-1).view(torch.uint8)


def _own_address() -> str:
    """Where other nodes find this one: at the interface that Horovod was told to use, else by its name."""
    import psutil  # Horovod needs it, too

    interface = os.environ.get("HOROVOD_GLOO_IFACE", "")
    for address in psutil.net_if_addrs().get(interface, ()):
        if address.family == socket.AF_INET:
            return str(address.address)
    return socket.gethostname()
