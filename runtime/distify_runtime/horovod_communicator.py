"""Collectives over Horovod, and a store, which Horovod has none of."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import time
from datetime import timedelta
from typing import Any

import horovod.torch as hvd
import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import HashStore, Store, TCPStore

from distify_runtime.communicator import Communicator, Op

#: What Horovod adds up by itself; other numbers travel as one of these.
_WIDER = {torch.bfloat16: torch.float32, torch.int16: torch.int32, torch.bool: torch.uint8}
_STORE_LIMIT = timedelta(minutes=30)  # as torch has it
_FAREWELL_SECONDS = 1800.0


class HorovodCommunicator(Communicator):
    """Horovod finds by names which tensors of the ranks belong together, so each kind of collective has its own."""

    def __init__(self) -> None:
        self._rank, self._world_size = int(hvd.rank()), int(hvd.size())
        self._store = self._open_store()

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def world_size(self) -> int:
        return self._world_size

    def all_reduce(self, tensor: Tensor, op: Op, purpose: str) -> None:
        if tensor.numel() == 0:
            return
        if op is Op.OR:
            parts = [torch.empty_like(tensor) for _ in range(self.world_size)]
            self.all_gather(parts, tensor, purpose)
            for part in parts:
                tensor.bitwise_or_(part)
            return
        numbers = tensor.detach()
        if numbers.is_complex():
            numbers = torch.view_as_real(numbers)
        sent = numbers.to(_WIDER.get(numbers.dtype, numbers.dtype)).contiguous()
        hvd.allreduce_(sent, name=f"distify.all_reduce.{purpose}", op=hvd.Sum if op is Op.SUM else hvd.Max)
        if sent.data_ptr() != numbers.data_ptr():
            numbers.copy_(sent)

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
        sent = _pickled(value)
        sizes = hvd.allgather(torch.tensor([len(sent)]), name="distify.sizes").tolist()
        everyone = hvd.allgather(sent, name="distify.objects")
        return [_unpickled(part) for part in torch.split(everyone, sizes)]

    def broadcast_object(self, value: Any) -> Any:
        sent = _pickled(value if self.rank == 0 else None)
        size = torch.tensor([len(sent)])
        hvd.broadcast_(size, root_rank=0, name="distify.size")
        if self.rank != 0:
            sent = torch.empty(int(size), dtype=torch.uint8)
        hvd.broadcast_(sent, root_rank=0, name="distify.object")
        return _unpickled(sent)

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


def _bytes(tensor: Tensor) -> Tensor:
    """Suit every dtype."""
    return tensor.reshape(-1).view(torch.uint8)


def _pickled(value: Any) -> Tensor:
    return torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8)


def _unpickled(sent: Tensor) -> Any:
    return pickle.loads(sent.numpy().tobytes())


def _own_address() -> str:
    """Where other nodes find this one: at the interface that Horovod was told to use, else by its name."""
    import psutil  # Horovod needs it, too

    interface = os.environ.get("HOROVOD_GLOO_IFACE", "")
    for address in psutil.net_if_addrs().get(interface, ()):
        if address.family == socket.AF_INET:
            return str(address.address)
    return socket.gethostname()
