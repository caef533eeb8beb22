"""Which tensors that steps change in place a loss depends on: seen as torch's operations are called, in a few steps.

Tensors are known by their memory, whatever names and views they have. One that was there in an earlier step and has
been changed since holds what steps have left in it; what is computed of it, before it is written anew, depends on that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from distify_runtime.watch import rows
from distify_runtime.watch.frames import line_of_script

#: After these nothing is left of what was in the tensor that they are called of.
_OVERWRITING = frozenset(
    "copy_ fill_ zero_ normal_ uniform_ random_ bernoulli_ exponential_ cauchy_ log_normal_ geometric_".split()
)
#: The statistics of these are changed as they go by, and what they return in training does not depend on them.
_NORMALISING, _OF_THE_BATCH = "batch_norm", 3
_VIEWS = ("view", "_unsafe_view", "_reshape_alias")
#: Steps that a tensor is there for before what is in it is counted as left by others.
_LONG = 2


@dataclass
class Memory:
    """Of one tensor and its views. `since`: the step in which it was seen first."""

    ref: Any  # a StorageWeakRef
    since: int
    version: int
    trained: bool = False  # of a parameter, seen as itself before its views are
    changed: bool = False  # in a later step than that
    of_parameters: bool = False  # and of nothing else it was made
    line: str = ""  # of the script, where that was seen
    depends: frozenset[int] = frozenset()  # on what steps have left: numbers of `Read`s
    read: int | None = None  # the number of what has been read of it in this step
    written: list[tuple[int, int]] = field(default_factory=list)  # parts that are written anew in this step


@dataclass
class Read:
    """What steps have left in a tensor, as a later one reads it. sums: of its numbers, and of their sizes."""

    written_at: str
    shape: tuple[int, ...]
    sums: Tensor
    precision: float
    read_at: str = ""


class Following(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows what is computed while it is entered."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.step = 0
        self.reads: list[Read] = []
        self._memories: dict[int, Memory] = {}

    def next_step(self) -> None:
        self.step += 1
        for key, one in list(self._memories.items()):
            if one.ref.expired():
                del self._memories[key]
            else:
                one.depends, one.read = frozenset(), None
        self.next_batch()

    def next_batch(self) -> None:
        """What is written from here on is of this batch; what was written behind a step is left for the next."""
        for one in self._memories.values():
            one.written.clear()

    def next_steps(self) -> None:
        """What was read some steps ago is told; what was changed meanwhile is seen by its version."""
        self.reads.clear()
        self.next_step()

    def depends(self, tensors: Iterable[Tensor]) -> set[int]:
        """The numbers of the reads that these depend on."""
        found: set[int] = set()
        for tensor in tensors:
            key = _key(tensor)
            if key is not None and key in self._memories:
                found |= self._memories[key].depends
        return found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.inplace_view in func.tags:
            return func(*args, **kwargs)
        name = func._schema.name.rpartition("::")[2]
        read, written, viewed = _taken_apart(func._schema.arguments, args, kwargs)
        anew = name in _OVERWRITING or kwargs.get("out") is not None
        if _NORMALISING in name:
            read = read[:_OF_THE_BATCH]
        of_any = [self._known(one) for one in viewed]
        sources = read if anew else [*read, *written]
        depends = frozenset[int]().union(*(self._read(one, read) for one in sources))
        result = func(*args, **kwargs)
        if name in _VIEWS and not all(map(_is_of_parameters, of_any)):  # whose rows are no samples
            rows.at_view(tuple(args[0].shape), tuple(result.shape))
        for one in written:
            self._wrote(one, depends, anew)
        of_parameters = bool(sources) and all(_is_of_parameters(self._known(one)) for one in sources)
        for one in _tensors(result):
            self._made(one, depends, of_parameters)
        return result

    def _read(self, tensor: Tensor, read: list[Tensor]) -> frozenset[int]:
        """read: what is not changed by that as well, as in `mean += x`, which says less of where it is used."""
        memory = self._known(tensor)
        if memory is None or not self._is_left(memory) or _is_within(_extent(tensor), memory.written):
            return memory.depends if memory is not None else frozenset()
        if memory.read is None:
            memory.read = len(self.reads)
            self.reads.append(Read(memory.line, tuple(tensor.shape), _sums(tensor), torch.finfo(_kind(tensor)).eps))
        found = self.reads[memory.read]
        if not found.read_at and any(tensor is one for one in read):
            found.read_at = line_of_script(sys._getframe(3))
        return memory.depends | {memory.read}

    def _is_left(self, memory: Memory) -> bool:
        """Whether steps have changed it; a batch that is made ahead of its step is gone behind that."""
        return memory.changed and self.step - memory.since >= _LONG

    def _wrote(self, tensor: Tensor, depends: frozenset[int], anew: bool) -> None:
        memory = self._known(tensor)
        if memory is None:
            return
        if memory.since < self.step and not memory.line:
            memory.changed, memory.line = True, line_of_script(sys._getframe(2))
        whole = anew and tensor.is_contiguous()
        if whole:
            memory.written = _joined([*memory.written, _extent(tensor)])
        memory.depends = depends if whole and tensor.numel() == _size(tensor) else memory.depends | depends
        memory.version = _version(tensor)

    def _made(self, tensor: Tensor, depends: frozenset[int], of_parameters: bool) -> None:
        memory = self._known(tensor)
        if memory is not None:
            memory.depends |= depends
            memory.of_parameters = memory.of_parameters or of_parameters

    def _known(self, tensor: Tensor) -> Memory | None:
        """Its memory; none of parameters, which are compared elsewhere."""
        key = _key(tensor)
        if key is None:
            return None
        version, found = _version(tensor), self._memories.get(key)
        if found is None or found.ref.expired():
            weak: Any = StorageWeakRef
            found = self._memories[key] = Memory(weak(tensor.untyped_storage()), self.step, version)
        elif version > found.version:
            found.version = version
            found.changed = found.changed or found.since < self.step
        found.trained = found.trained or (tensor.is_leaf and tensor.requires_grad)
        return None if found.trained else found


def _is_of_parameters(memory: Memory | None) -> bool:
    return memory is None or memory.of_parameters


def _taken_apart(arguments: Any, args: Any, kwargs: Any) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """The tensors that an operation reads, those that it writes into, and those that it gives a view of."""
    read, written, viewed = list[Tensor](), list[Tensor](), list[Tensor]()
    for place, argument in enumerate(arguments):
        given = args[place] if place < len(args) else kwargs.get(argument.name)
        alias = argument.alias_info
        (read if alias is None else written if alias.is_write else viewed).extend(_tensors(given))
    return read, written, viewed


def _tensors(given: Any) -> Iterator[Tensor]:
    if isinstance(given, Tensor):
        yield given
    elif isinstance(given, (list, tuple)):
        for one in given:
            yield from _tensors(one)


def _key(tensor: Tensor) -> int | None:
    """What its memory is known by; None for what has none of the usual kind."""
    if tensor.layout is not torch.strided or tensor.is_meta:
        return None
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _size(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes() // tensor.element_size()


def _extent(tensor: Tensor) -> tuple[int, int]:
    """From which entry of its memory to which it lies."""
    start = int(tensor.storage_offset())
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (steps + 1 if tensor.numel() else 0)


def _joined(parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that touch are one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(parts):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _is_within(extent: tuple[int, int], parts: Iterable[tuple[int, int]]) -> bool:
    return any(start <= extent[0] and extent[1] <= end for start, end in parts)


def _kind(tensor: Tensor) -> torch.dtype:
    return tensor.dtype if tensor.dtype.is_floating_point else torch.float64


def _sums(tensor: Tensor) -> Tensor:
    """Of its numbers, of these by their places, and of their sizes."""
    numbers = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    flat = numbers.detach().reshape(-1).to(torch.float64)
    return torch.stack([flat.sum(), (flat * torch.linspace(1, 2, len(flat)).to(flat)).sum(), flat.abs().sum()])
