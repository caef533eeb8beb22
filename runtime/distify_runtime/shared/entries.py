"""Batches that are lists: of documents, images, graphs of several sizes, one entry for each sample."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from distify_runtime.shared.structure import tensors_in

_OUTER = 2  # how deep the arguments themselves are: in `(args, kwargs)`
Path = tuple[Any, ...]


@dataclass(frozen=True)
class Entries:
    """A list in the arguments of a call: the way to it, and which of the call's tensors each entry holds."""

    path: Path
    tensors: tuple[range, ...]

    def __len__(self) -> int:
        return len(self.tensors)


def lists_in(value: Any, path: Path = (), begin: int = 0) -> Iterator[Entries]:
    """The outermost lists and tuples of which each entry holds tensors. Raises Unknown."""
    if type(value) not in (list, tuple, dict):
        return
    named = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    spans = []
    for _, one in named:
        spans.append(range(begin, begin + len(tensors_in(one))))
        begin = spans[-1].stop
    if len(path) >= _OUTER and len(named) > 1 and not isinstance(value, dict) and all(spans):
        yield Entries(path, tuple(spans))
        return
    for (name, one), span in zip(named, spans, strict=True):
        yield from lists_in(one, (*path, name), span.start)


def cut(value: Any, paths: Collection[Path], part: slice, at: Path = ()) -> Any:
    """A copy in which the lists that these paths lead to have a part of their entries."""
    if at in paths:
        return value[part]
    if not any(path[: len(at)] == at for path in paths):
        return value
    if isinstance(value, dict):
        return {name: cut(one, paths, part, (*at, name)) for name, one in value.items()}
    return type(value)(cut(one, paths, part, (*at, index)) for index, one in enumerate(value))


# ---- outputs


def filled(value: Any, counts: Sequence[int], rank: int) -> Any:
    """Outputs in which lists with an entry for each of this rank's samples have one for each of all: blank ones."""
    own, begin = counts[rank], sum(counts[:rank])
    if type(value) is list and len(value) == own and all(map(_is_of_tensors, value)):
        before = [_blank(value[0], number) for number in range(begin)]
        return [*before, *value, *(_blank(value[0], number) for number in range(begin + own, sum(counts)))]
    if type(value) in (list, tuple):
        return type(value)(filled(one, counts, rank) for one in value)
    return {name: filled(one, counts, rank) for name, one in value.items()} if type(value) is dict else value


def blank_of(number: int) -> tuple[int, ...]:
    """The shape of what stands for an entry that another rank has: it says which."""
    return 0, number


def owner_of(number: int, counts: Sequence[int]) -> int:
    """The rank that has an entry."""
    return next(rank for rank in range(len(counts)) if number < sum(counts[: rank + 1]))


def _is_of_tensors(entry: Any) -> bool:
    """Nothing else: what is no tensor is not sent to the other ranks."""
    return isinstance(entry, Tensor) or (type(entry) in (list, tuple) and all(map(_is_of_tensors, entry)))


def _blank(entry: Any, number: int) -> Any:
    if isinstance(entry, Tensor):
        return entry.detach().new_empty(blank_of(number))
    return type(entry)(_blank(one, number) for one in entry)
