"""Batches that are lists: of documents, images, graphs of several sizes, one entry for each sample."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

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
