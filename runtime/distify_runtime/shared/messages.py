"""Parts of the ranks, exchanged in one collective with a header that says what they belong to.

Ranks that have come apart would else pair one's outputs with another's statistics, in silence.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NoReturn

import torch
from torch import Tensor

from distify_runtime import communicator
from distify_runtime.shared import costs

_HEADER_WORDS, _TAG_WORDS = 10, 6
_OF_PASS = (1, 2, 5)  # words of a tag that are the same all through a pass: its model, its call and its form
_NO_SHAPES = -1  # in the place of a fingerprint
_ALIGNED = 16  # bytes: what every dtype can be viewed at


class RanksParted(SystemExit):
    """The ranks do not do the same: what they compute from here on would be wrong. Raised on every rank that sees it.

    Ends a run, whatever errors of its batches a script catches.
    """


class Misfit(RanksParted):
    """What some rank has to send is another thing than the others wait for, in one pass. Raised on every rank."""


class What(IntEnum):
    """What is exchanged."""

    OUTPUTS = 1
    GRADIENTS = 2
    SUM = 3
    SUM_BACKWARD = 4
    SHAPES = 5
    ARGUMENTS = 6
    LOSS = 7
    SAMPLES = 8
    PLACES = 9

    @property
    def said(self) -> str:
        return _SAID[self]


_SAID = {
    What.OUTPUTS: "the outputs",
    What.GRADIENTS: "the gradients of the arguments",
    What.SUM: "a sum inside",
    What.SUM_BACKWARD: "a sum in the backward pass",
    What.SHAPES: "the shapes of the outputs",
    What.ARGUMENTS: "the arguments",
    What.LOSS: "the loss",
    What.SAMPLES: "the samples",
    What.PLACES: "how far they are",
}

#: Lines of the script at which something is summed, by what stands for them in headers.
_lines: dict[int, str] = {}


def of_line(file: str, line: int) -> int:
    """A layer that stands for this line, the same on every rank."""
    text = f"at {os.path.basename(file)}:{line}"
    number = -1 - zlib.crc32(text.encode())
    _lines[number] = text
    return number


#: The names of models, by the numbers under which they are registered: the same on every rank.
_names: list[str] = []


def numbered(name: str) -> int:
    """A number that stands for this name in headers. Every rank has to give its names in the same order."""
    _names.append(name)
    return len(_names) - 1


@dataclass(frozen=True)
class Tag:
    """Where in the program a collective takes place: must be the same on all ranks."""

    what: What
    model: int  # by `numbered`
    call: int  # of this model
    place: int = 0  # within the call
    layer: int = 0  # by the place of its parameters in the model, from 1; below 0, of a line of the script: `of_line`
    form: int = 0  # of the arguments: a hash

    def __str__(self) -> str:
        of = f"of parameter {self.layer}" if self.layer >= 0 else _lines.get(self.layer, "at another line")
        return f"{self.what.said} of {_names[self.model]}, call {self.call}" + (
            f", the {self.place}. inside ({of})" * bool(self.place)
        )

    @property
    def gradients(self) -> str:
        return f"the gradients of {_names[self.model]}, copied for call {self.call}"

    def of(self, what: What) -> Tag:
        return replace(self, what=what)

    def words(self) -> list[int]:
        return [self.what, self.model, self.call, self.place, self.layer, self.form]

    @classmethod
    def of_words(cls, words: Sequence[int]) -> Tag:
        what, *others = words
        return cls(What(what), *others)


@dataclass(frozen=True)
class Station:
    """What a rank sends at one place: how many bytes, and on which device. It has to be that of all ranks."""

    size: int
    device: torch.device

    @classmethod
    def of(cls, tensors: Sequence[Tensor], shapes: Sequence[Sequence[Sequence[int]]]) -> Station:
        """Where these are exchanged."""
        size = _places(tensors, shapes, communicator.world_size())[1]
        return cls(size, tensors[0].device if tensors else torch.device("cpu"))


@dataclass(frozen=True)
class Received:
    """What the ranks sent: `parts[i][r]` is rank r's part of the i-th tensor, `flags[r]` its flags, `read[r]` what
    stands for what it has read."""

    parts: list[list[Tensor]]
    flags: list[int]
    read: list[tuple[int, int]]


def exchange(
    tag: Tag,
    tensors: Sequence[Tensor],
    shapes: Sequence[Sequence[Sequence[int]]],
    flags: int = 0,
    read: tuple[int, int] = (0, 0),
    besides: int = 0,
) -> Received:
    """Each rank's tensors on every rank. A collective.

    shapes[i][r]: the shape of the i-th tensor on rank r. flags: 63 bits of the caller's. read: `Readings.words`.
    besides: what has to be the same, too. Raises RanksParted on every rank where the ranks' tags differ, and Misfit
    where it is the place within a pass that does, or shapes.
    """
    rank, ranks = communicator.rank(), communicator.world_size()
    device = tensors[0].device if tensors else torch.device("cpu")
    places, size = _places(tensors, shapes, ranks)
    fits = all(one.shape == tuple(shape[rank]) for one, shape in zip(tensors, shapes, strict=True))
    sent = torch.zeros(size, dtype=torch.uint8, device=device)
    for tensor, place in zip(tensors if fits else (), places, strict=False):
        _view(sent, place, tensor.dtype, tensor.shape).copy_(tensor)
    everyone, headers = _exchanged(
        tag, sent, (flags, *read, fingerprint(tensors, shapes, besides) if fits else _NO_SHAPES)
    )
    parts = [
        [_view(everyone[rank], place, tensor.dtype, shape[rank]).to(tensor.device) for rank in range(ranks)]
        for tensor, place, shape in zip(tensors, places, shapes, strict=True)
    ]
    told = [header[_TAG_WORDS:] for header in headers]
    return Received(parts, [flags for flags, *_ in told], [(first, second) for _, first, second, _ in told])


def exchange_nothing(tag: Tag, others: Station) -> NoReturn:
    """Meet the others at a station where this rank has nothing to send. Raises Misfit on every rank."""
    sent = torch.zeros(others.size, dtype=torch.uint8, device=others.device)
    _exchanged(tag, sent, (0, 0, 0, _NO_SHAPES))
    raise AssertionError  # what says that there are no shapes is a misfit


def _exchanged(tag: Tag, sent: Tensor, told: Sequence[int]) -> tuple[Tensor, list[list[int]]]:
    words = torch.tensor([*tag.words(), *told], device="cpu")
    everyone = torch.empty(communicator.world_size(), len(sent), dtype=torch.uint8, device=sent.device)
    with costs.of_meeting(tag.what.name):
        if communicator.tells_beside(sent):
            headers = _headers_beside(tag, words)
            _meet(tag, list(everyone.unbind()), sent)
            return everyone, headers
        sent[: 8 * _HEADER_WORDS].view(torch.int64).copy_(words)
        _meet(tag, list(everyone.unbind()), sent)
    headers = everyone[:, : 8 * _HEADER_WORDS].contiguous().view(torch.int64).tolist()
    _check_headers(tag, headers)
    return everyone, headers


def _headers_beside(tag: Tag, words: Tensor) -> list[list[int]]:
    everyone = words.new_empty(communicator.world_size(), len(words))
    _meet(tag, list(everyone.unbind()), words)
    headers: list[list[int]] = everyone.tolist()
    _check_headers(tag, headers)
    return headers


def _check_headers(tag: Tag, headers: list[list[int]]) -> None:
    _check_tags(tag, headers)
    if any(header[-1] == _NO_SHAPES or header[-1] != headers[0][-1] for header in headers):
        raise Misfit(f"distify: the ranks have {tag} in shapes that do not go together")


def fingerprint(tensors: Sequence[Tensor], shapes: Sequence[Sequence[Sequence[int]]], besides: int = 0) -> int:
    """A number that follows from the shapes of all ranks, as this rank takes them to be."""
    told = tuple(tuple(map(tuple, shape)) for shape in shapes), tuple(one.element_size() for one in tensors), besides
    return hash(told) & (2**62 - 1)  # of numbers alone: the same in every process


def report_failure(error: Exception) -> None:
    """Leave word of what this rank failed with: the others may wait for it."""
    text = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    communicator.store().set(f"distify/failed/{communicator.rank()}", text)


def failures() -> dict[int, str]:
    """What ranks have left word of."""
    keys = {rank: f"distify/failed/{rank}" for rank in range(communicator.world_size())}
    store = communicator.store()
    return {rank: store.get(key).decode() for rank, key in keys.items() if store.check([key])}


def _failures() -> str:
    told = [f"rank {rank} failed: {one}" for rank, one in failures().items()]
    return f" ({'; '.join(told)})" if told else ""


def _meet(tag: Tag, everyone: list[Tensor], sent: Tensor) -> None:
    try:
        communicator.all_gather(everyone, sent)
    except RuntimeError as error:
        raise RanksParted(
            f"distify: rank {communicator.rank()} shares {tag}, and some other rank does not{_failures()}: {error}"
        ) from error


def _check_tags(tag: Tag, headers: list[list[int]]) -> None:
    mine = tag.words()
    if all(header[:_TAG_WORDS] == mine for header in headers):
        return
    told = "; ".join(f"rank {rank}: {_told(header)}" for rank, header in enumerate(headers))
    passes = {tuple(header[place] for place in _OF_PASS) for header in headers}
    raise (Misfit if len(passes) == 1 else RanksParted)(apart(told))


def apart(told: str) -> str:
    """What is said where ranks have come apart. told: where each of them is."""
    return (
        f"distify: the ranks have come apart; they meet with different calls ({told}). A call that only some ranks "
        "make, or a draw inside the model that decides what it computes, does this; `with rt.draw_alike():` around "
        f"such a draw has all ranks draw the same{_failures()}"
    )


def _told(header: list[int]) -> str:
    what, model, call, place, layer, form = header[:_TAG_WORDS]
    if what not in set(What) or not 0 <= model < len(_names):
        return "something else"
    return str(Tag(What(what), model, call, place, layer, form)) + f", form {form & 0xFFFF:04x}"


def _places(tensors: Sequence[Tensor], shapes: Sequence[Sequence[Sequence[int]]], ranks: int) -> tuple[list[int], int]:
    """Where each tensor begins in a message, in bytes, and how long one is: as long as the longest rank needs."""
    end, places = 8 * _HEADER_WORDS, []
    for tensor, shape in zip(tensors, shapes, strict=True):
        places.append(end)
        most = max(math.prod(shape[rank]) for rank in range(ranks)) * tensor.element_size()
        end += -(-most // _ALIGNED) * _ALIGNED
    return places, end


def _view(message: Tensor, place: int, dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
    size = math.prod(shape) * dtype.itemsize
    return message[place : place + size].view(dtype).view(tuple(shape))
