"""How rank 0 hands a value to the others: left in the store while it is small, broadcast where it is not."""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch
from torch._C._distributed_c10d import Store

from distify_runtime import accelerators, communicator
from distify_runtime.environment import device
from distify_runtime.memory import memory_of, row_of
from distify_runtime.process_group import wait_for

#: Bytes that a store takes at once: connections break at some eight times as much.
_PIECE = 2**20
#: After so many values that all have read, the store forgets them.
_BLOCK = 64

_SMALL, _BROADCAST, _PIECES, _NOTHING = b"small", b"broadcast", b"pieces", b"nothing"
_read: list[str] = []  # keys of this block


def _key(number: int) -> str:
    return f"distify/from_main_process/{number}"


def leave(store: Store, number: int, value: Any, meets: bool) -> None:
    """Of rank 0. meets: whether the others are on their way here, so that what is large may be broadcast.

    Raises TypeError, on all ranks, where the value cannot be pickled.
    """
    key = _key(number)
    try:
        data = _packed(value)
    except Exception as error:
        message = f"what rank 0 has made cannot be sent to the other ranks: {error}"
        _set(store, key, _NOTHING + message.encode())
        raise TypeError(message) from error
    if len(data) <= _PIECE:
        _set(store, key, _SMALL + data)
    elif meets:
        _set(store, key, _BROADCAST + str(len(data)).encode())
        communicator.broadcast(row_of(bytearray(data)))
    else:
        pieces = range(0, len(data), _PIECE)
        for start in pieces:
            _set(store, f"{key}/{start}", data[start : start + _PIECE])
        _set(store, key, _PIECES + str(len(data)).encode())


def take(store: Store, number: int) -> Any:
    """Of the other ranks."""
    key = _key(number)
    wait_for(store, key)
    told: bytes = store.get(key)
    found = [key]
    if told.startswith(_NOTHING):
        raise TypeError(told.removeprefix(_NOTHING).decode())
    if told.startswith(_SMALL):
        data = told.removeprefix(_SMALL)
    elif told.startswith(_BROADCAST):
        row = torch.empty(int(told.removeprefix(_BROADCAST)), dtype=torch.uint8, device="cpu")
        communicator.broadcast(row)
        data = bytes(memory_of(row))
    else:
        found += [f"{key}/{start}" for start in range(0, int(told.removeprefix(_PIECES)), _PIECE)]
        data = b"".join(store.get(one) for one in found[1:])
    _forget(store, number, found)
    return _Unpickler(io.BytesIO(data)).load()


def _forget(store: Store, number: int, keys: list[str]) -> None:
    _read.extend(keys)
    if number % _BLOCK < _BLOCK - 1:
        return
    readers = store.add(f"distify/from_main_process/read/{number // _BLOCK}", 1)
    if readers == communicator.world_size() - 1:
        for key in _read:
            store.delete_key(key)
    _read.clear()


def _set(store: Store, key: str, data: bytes) -> None:
    store.set(key, data)  # type: ignore[arg-type]  # takes bytes as well


# ---- tensors of a GPU are another rank's on its own


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is torch.Tensor and accelerators.has(obj):
            return obj.detach().cpu(), obj.requires_grad
        return None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, told: Any) -> Any:
        tensor, wants_gradient = told
        return tensor.to(device()).requires_grad_(wants_gradient)


def _packed(value: Any) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream).dump(value)
    return stream.getvalue()
