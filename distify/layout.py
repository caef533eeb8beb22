"""Where a conversion goes: beside the originals, in their place, or into a copy of the project."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from distify_codemods import Conversion

from distify.errors import DistifyError
from distify.files import Write, content
from distify.folders import files_to_copy, folders_to_copy
from distify.resolver import LocalModules
from distify.stale import is_stale, original_of

#: What is larger is linked into a copy instead of copied: data, as a rule.
MOST_COPIED = 100 * 2**20


@dataclass(frozen=True)
class Layout:
    """What is to be written. `script`: the converted script; `notes`: what to say of files that are not."""

    script: str
    writes: tuple[Write, ...]  # of source files
    others: tuple[Write, ...] = ()  # what only goes along
    notes: tuple[str, ...] = ()
    folder: str = ""  # the copy's
    folders: tuple[str, ...] = ()  # in there, that a script may write into

    def missing(self) -> tuple[Write, ...]:
        """What is not there yet, or not as it has to be."""
        return (*(write for write in self.writes if not is_up_to_date(write)), *self.others)

    def confirm(self) -> None:
        """Dates what is there as it has to be, so that it is not taken for older than its original."""
        for write in self.writes:
            if is_up_to_date(write) and is_stale(write.path):
                with contextlib.suppress(OSError):  # it may be another user's
                    os.utime(write.path)


def is_up_to_date(write: Write) -> bool:
    return os.path.isfile(write.path) and os.access(write.path, os.R_OK) and content(write.path) == write.data


def beside(conversion: Conversion, script: str, force: bool) -> Layout:
    """Each converted file under its new name; the entry's is `script`."""
    writes = tuple(Write(file.target, file.after, mode_of=file.path, force=force) for file in conversion.files)
    return Layout(script, writes)


def in_place(conversion: Conversion, script: str) -> Layout:
    writes = tuple(Write(file.path, file.after, mode_of=file.path, expected=file.before) for file in conversion.files)
    return Layout(script, writes)


def copied(conversion: Conversion, script: str, folder: str, modules: LocalModules, force: bool) -> Layout:
    """The project in another folder: what the script reaches, converted or not, and what lies beside it.

    Caches, hidden files beside code, version control, environments and earlier conversions stay behind. Links stay
    links. What is larger than MOST_COPIED below one name of the topmost folder is linked. Other files that the copy has
    already are left.
    """
    own = modules.project
    reached = {os.path.abspath(script), *modules.found}
    root = os.path.commonpath([own, *map(os.path.dirname, reached)])
    if os.path.samefile(root, folder) if os.path.exists(folder) else False:
        raise DistifyError(f"{folder} is the project's own folder; --in-place changes it")
    after = {os.path.abspath(file.path): file.after for file in conversion.files}
    place = {path: os.path.join(folder, os.path.relpath(path, root)) for path in sorted(reached)}
    writes = tuple(
        Write(target, after.get(path, _read(path)), mode_of=path, force=force) for path, target in place.items()
    )
    others, notes = _others(own, root, folder, reached)
    linked = {write.path for write in others if write.link}
    empty = tuple(one for one in _folders(own, root, folder) if linked.isdisjoint((one, *_above(one))))
    return Layout(place[os.path.abspath(script)], writes, tuple(others), tuple(notes), folder, empty)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _others(own: str, root: str, folder: str, reached: set[str]) -> tuple[list[Write], list[str]]:
    """What goes along, and what is said of it."""
    writes: list[Write] = []
    linked, size = [], 0
    tops: dict[str, list[str]] = {}
    for path in files_to_copy(own):
        if path not in reached and not _stays_behind(path, folder):
            tops.setdefault(os.path.relpath(path, own).split(os.sep)[0], []).append(path)
    for name, paths in tops.items():
        top, total = os.path.join(own, name), sum(os.lstat(path).st_size for path in paths)
        to = os.path.join(folder, os.path.relpath(top, root))
        if total > MOST_COPIED and not any(path.startswith(top + os.sep) for path in reached):
            linked.append(f"{name} ({total / 2**20:.0f} MB) is linked, not copied")
            found = [Write(to, None, mode_of=top, link=top)]
        else:
            found = [_copy(path, os.path.join(folder, os.path.relpath(path, root)), own) for path in paths]
        found = [write for write in found if not os.path.lexists(write.path)]
        size += sum(os.lstat(write.mode_of).st_size for write in found if not write.link)
        writes += found
    copies = sum(not write.link for write in writes)
    notes = [f"{copies} other file{'s' * (copies != 1)} ({size / 2**20:.1f} MB) copied along"] if copies else []
    return writes, [*notes, *(linked if any(write.link for write in writes) else [])]


def _folders(own: str, root: str, folder: str) -> Iterator[str]:
    """Where a script may mean to write: also those in which there is nothing, or what only holds their place."""
    for path in folders_to_copy(own):
        if not _is_in(path, folder):
            yield os.path.join(folder, os.path.relpath(path, root))


def _above(path: str) -> Iterator[str]:
    while (above := os.path.dirname(path)) not in ("", path):
        yield above
        path = above


def _stays_behind(path: str, folder: str) -> bool:
    name = os.path.basename(path)
    compiled = name.endswith((".pyc", ".pyo"))
    return compiled or _is_in(path, folder) or not _is_ordinary(path) or _is_twin(path)


def _is_twin(path: str) -> bool:
    """Whether a conversion has put it beside its original."""
    return bool(original_of(path)) and os.path.isfile(path) and _is_ours(_read(path))


def _is_ours(data: bytes) -> bool:
    """Of a conversion in which only an import was changed, the name of what it imports tells."""
    return b"distify_runtime" in data or re.search(rb"^\s*(from|import)\b.*_dist\b", data, re.MULTILINE) is not None


def _is_in(path: str, folder: str) -> bool:
    """Whether it is the folder, or lies below it."""
    return os.path.join(os.path.abspath(path), "").startswith(os.path.join(os.path.abspath(folder), ""))


def _is_ordinary(path: str) -> bool:
    return os.path.islink(path) or os.path.isfile(path)


def _copy(path: str, target: str, root: str) -> Write:
    if not os.path.islink(path):
        return Write(target, None, mode_of=path)
    to = os.readlink(path)
    absolute = os.path.join(os.path.dirname(path), to)
    inside = os.path.abspath(absolute).startswith(os.path.join(root, ""))
    return Write(target, None, mode_of=path, link=to if inside or os.path.isabs(to) else os.path.abspath(absolute))


def conflicts(writes: Sequence[Write], script: str) -> Iterator[str]:
    """What is in the way, one line each."""
    for write in writes:
        if write.expected is None and not write.force and write.data is not None and os.path.lexists(write.path):
            if write.path == script:
                yield f"{write.path} exists already: --force overwrites it, -o names another"
            else:
                old = is_stale(write.path)
                why = "is older than its original" if old else "differs, as from another script's conversion"
                less = "--force overwrites it, -o DIR/ and --in-place do without it"
                yield f"{write.path} exists already and {why}: {less}"
