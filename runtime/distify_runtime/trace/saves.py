"""What is in a checkpoint; and which saves of two runs stand beside each other.

A library may save into memory, and write the file by itself.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from distify_runtime.trace.traces import Save

#: What `tempfile` ends a name with: another one in each run.
_BY_CHANCE = re.compile(r"[a-z0-9_]{8}$")


def path_told(path: str | os.PathLike[str]) -> str:
    """Relative to the working folder; of a temporary folder or file, without what its name has by chance."""
    whole, temporary = Path(os.path.abspath(path)), Path(tempfile.gettempdir())
    if whole.is_relative_to(Path.cwd()) or not whole.is_relative_to(temporary):
        return os.path.relpath(path)
    first, *rest = whole.relative_to(temporary).parts
    return str(temporary.joinpath(_BY_CHANCE.sub("*", first), *rest))


def with_those_of_libraries(
    saves: Sequence[Save], in_memory: Sequence[Save], wanted: Sequence[Save], files: Sequence[str]
) -> list[Save]:
    """The saves, and those into memory that became files by another hand, in the order of the wanted ones.

    It stands for a file that is there at the end, that nothing else has saved, and that has much of the same in it; or
    for none, as where ranks send each other objects.
    """
    names = {save.path for save in saves}
    by_library = [save for save in wanted if save.path in files and save.path not in names]
    left = list(saves)
    for save in in_memory:
        if by_library and 2 * len(save.contents.keys() & by_library[0].contents.keys()) > len(by_library[0].contents):
            left.append(Save(by_library.pop(0).path, save.contents))
    if len(left) == len(saves):
        return left
    found = []
    for one in wanted:
        if same := next((save for save in left if save.path == one.path), None):
            left.remove(same)
            found.append(same)
    return [*found, *left]


def without_wraps(contents: Mapping[str, Any]) -> dict[str, Any]:
    """What a checkpoint holds, by its keys without what nn.DataParallel has put before all that is at one place."""
    split = {key: key.split(".") for key in contents}
    at: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for parts in split.values():
        for depth, part in enumerate(parts):
            at[tuple(parts[:depth])].add(part)
    wraps = {(*place, "module") for place, names in at.items() if names == {"module"}}
    plain = {
        ".".join(part for depth, part in enumerate(parts, 1) if tuple(parts[:depth]) not in wraps): contents[key]
        for key, parts in split.items()
    }
    return plain if len(plain) == len(contents) else dict(contents)


def flat(value: object, key: str) -> Iterator[tuple[str, object]]:
    """(dotted key, tensor | number | text) of everything inside a saved object."""
    if isinstance(value, nn.Module):
        yield f"{key}<{type(value).__name__}>", True
        value = value.state_dict()
    if isinstance(value, dict):
        for name, item in value.items():
            yield from flat(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from flat(item, f"{key}[{index}]")
    elif isinstance(value, Tensor):
        yield key, value.detach().cpu().clone()
    else:
        yield key, _plain(value)


def _plain(value: Any) -> object:
    """A number, text or array as what a trace can hold, whatever class of those it is; else its type's name.

    Of a path in the working folder, what is the same in another copy of that.
    """
    if type(value).__module__ == "numpy":
        if getattr(value, "shape", ()) == ():
            value = value.item()
        elif value.dtype.kind in "biuf":
            return torch.as_tensor(value.astype("f8" if value.dtype.kind == "f" else "i8"))
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return value.replace(os.getcwd(), ".") if isinstance(value, str) else kind(value)
    return type(value).__name__
