"""Samples as bytes, whatever they are made of: arrays and tensors as they lie in memory, the rest pickled."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from distify_runtime import communicator
from distify_runtime.memory import memory_of, row_of
from distify_runtime.shared.messages import Tag, exchange

_ALIGNED = 16  # bytes: what every dtype can be viewed at
_WORD = 8
_PAGE = 4096


class _Pickler(pickle.Pickler):
    """Tensors as their bytes: torch would pickle all of the storage that a sample is a row of."""

    def reducer_override(self, one: Any) -> Any:
        if type(one) is Tensor and one.layout is torch.strided and one.device.type == "cpu" and not one.requires_grad:
            flat = one.resolve_conj().resolve_neg().contiguous().view(-1)
            return _tensor, (pickle.PickleBuffer(memory_of(flat)), one.dtype, tuple(one.shape))
        return NotImplemented


def _tensor(data: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    return row_of(data).view(dtype).view(shape)


def packed(value: Any) -> Tensor:
    """One row of bytes. Raises what pickle does, of what cannot be sent."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    keep: Callable[[pickle.PickleBuffer], Any] = buffers.append
    _Pickler(stream, protocol=5, buffer_callback=keep).dump(value)
    pieces = [memoryview(stream.getbuffer()), *(one.raw() for one in buffers)]
    sizes = [len(piece) for piece in pieces]
    head = torch.tensor([len(sizes), *sizes], device="cpu")
    places, end = _places(sizes)
    whole = torch.zeros(end, dtype=torch.uint8, device="cpu")
    whole[: _WORD * len(head)].view(torch.int64).copy_(head)
    to = memory_of(whole)
    for place, piece in zip(places, pieces, strict=True):
        to[place : place + len(piece)] = piece
    return whole


def unpacked(row: Tensor) -> Any:
    """What was packed. Arrays and tensors lie in the row itself."""
    count = int(row[:_WORD].view(torch.int64))
    sizes = row[_WORD : _WORD * (1 + count)].view(torch.int64).tolist()
    places, _ = _places(sizes)
    found = memory_of(row)
    first, *buffers = (found[place : place + size] for place, size in zip(places, sizes, strict=True))
    return pickle.loads(first, buffers=buffers)


def _places(sizes: list[int]) -> tuple[list[int], int]:
    end, places = _aligned(_WORD * (1 + len(sizes))), []
    for size in sizes:
        places.append(end)
        end += _aligned(size)
    return places, end


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


class Rows:
    """Rows of bytes, each rank's of a length of its own."""

    def __init__(self) -> None:
        self._room = _PAGE  # bytes in a message, on all ranks: as many as were needed at most

    def exchange(self, tag: Tag, row: Tensor, words: tuple[int, ...]) -> list[tuple[list[int], Tensor]]:
        """Each rank's words and row. A collective; a second one where a row is longer than any before."""
        found = self._exchanged(tag, row, words)
        longest = max(length for length, _, _ in found)
        if longest > self._room:
            self._room = -(-longest // _PAGE) * _PAGE
            found = self._exchanged(replace(tag, place=1), row, words)
        return [(told, part) for _, told, part in found]

    def _exchanged(self, tag: Tag, row: Tensor, words: tuple[int, ...]) -> list[tuple[int, list[int], Tensor]]:
        head = _aligned(_WORD * (1 + len(words)))
        sent = torch.empty(head + self._room, dtype=torch.uint8, device="cpu")
        sent[: _WORD * (1 + len(words))].view(torch.int64).copy_(torch.tensor([len(row), *words], device="cpu"))
        if len(row) <= self._room:
            sent[head : head + len(row)] = row
        everyone = exchange(tag, [sent], [[sent.shape] * communicator.world_size()]).parts[0]
        found = []
        for one in everyone:
            length, *told = one[: _WORD * (1 + len(words))].view(torch.int64).tolist()
            found.append((length, told, one[head : head + length]))
        return found
