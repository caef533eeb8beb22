"""Tensors as bytes and bytes as tensors, without a copy. torch goes by way of NumPy, which it does not bring along."""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def memory_of(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous tensor on the CPU, which lives as long as they are looked at."""
    held: Any = (ctypes.c_ubyte * tensor.nbytes).from_address(tensor.data_ptr())
    held.tensor = tensor
    return memoryview(held).cast("B")


def row_of(data: bytearray | memoryview) -> Tensor:
    """One row of uint8, which lies in the bytes."""
    return torch.frombuffer(data, dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8, device="cpu")


def pickled(value: Any) -> Tensor:
    return row_of(bytearray(pickle.dumps(value)))


def unpickled(row: Tensor) -> Any:
    load: Callable[[Any], Any] = pickle.loads  # takes whatever is a buffer
    return load(memory_of(row))
