"""The unified diff of a file, on bytes: line ends and encodings reach `patch` and `git apply` untouched."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from distify_codemods.results import NewFile

CONTEXT = 3  # lines around a change, as diff -u and git have it


@dataclass(frozen=True)
class Group:
    """Neighbouring lines that differ: `old[old_start:old_stop]` became `new[new_start:new_stop]`."""

    old_start: int
    old_stop: int
    new_start: int
    new_stop: int


@dataclass(frozen=True)
class Row:
    """A line of a hunk. `sign`: " ", "-" or "+"; `old_line`: its number in the original, from 1 ("+": 0)."""

    sign: str
    text: bytes
    group: Group | None
    old_line: int = 0


@dataclass(frozen=True)
class Hunk:
    header: bytes
    rows: tuple[Row, ...]


def unified(file: NewFile) -> bytes:
    """The diff of one file, with `a/` and `b/` headers; empty where nothing changes."""
    body = b"".join(hunk.header + b"".join(map(_row_bytes, hunk.rows)) for hunk in hunks(file.before, file.after))
    return b"".join(headers(file)) + body if body else b""


def headers(file: NewFile) -> tuple[bytes, bytes]:
    """The two lines that name the file: below the working directory its path, elsewhere its bare name."""
    old = b"/dev/null" if not file.before else _quoted(b"a/" + os.fsencode(_shown(file.path)))
    new = _quoted(b"b/" + os.fsencode(_shown(file.target or file.path)))
    return b"--- " + old + b"\n", b"+++ " + new + b"\n"


def _shown(path: str) -> str:
    path = os.path.relpath(path)
    return os.path.basename(path) if path.startswith(os.pardir) else path.replace(os.sep, "/")


def hunks(before: bytes, after: bytes) -> list[Hunk]:
    """The hunks of the diff, with up to three lines of context on either side."""
    old, new = split_lines(before), split_lines(after)
    found: list[list[Group]] = []
    for group in groups(old, new):
        if found and group.old_start - found[-1][-1].old_stop <= 2 * CONTEXT:
            found[-1].append(group)
        else:
            found.append([group])
    return [_hunk(old, new, together) for together in found]


def groups(old: Sequence[bytes], new: Sequence[bytes]) -> list[Group]:
    """What differs between two lists of lines, in order."""
    # The matcher is quadratic in repeated lines: the equal ends are taken off first.
    head = _common(old, new)
    tail = min(_common(old[::-1], new[::-1]), len(old) - head, len(new) - head)
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    # `autojunk` lets frequent lines only prolong a match: some changes come out larger, in seconds less.
    matcher = SequenceMatcher(None, middle_old, middle_new, autojunk=len(middle_new) > 3000)
    return [
        Group(head + i1, head + i2, head + j1, head + j2)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def split_lines(data: bytes) -> list[bytes]:
    """Lines with their ends. As in `patch`, only a line feed ends one: a carriage return belongs to it."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))


def _hunk(old: Sequence[bytes], new: Sequence[bytes], together: Sequence[Group]) -> Hunk:
    first, last = together[0], together[-1]
    before = min(CONTEXT, first.old_start)
    behind = min(CONTEXT, len(old) - last.old_stop)
    rows = tuple(_rows(old, new, together, first.old_start - before, last.old_stop + behind))
    old_range = _range(first.old_start - before, last.old_stop + behind)
    new_range = _range(first.new_start - before, last.new_stop + behind)
    return Hunk(f"@@ -{old_range} +{new_range} @@\n".encode(), rows)


def _rows(
    old: Sequence[bytes], new: Sequence[bytes], together: Sequence[Group], start: int, stop: int
) -> Iterator[Row]:
    at = start
    for group in together:
        yield from (Row(" ", old[index], None, index + 1) for index in range(at, group.old_start))
        for index in range(group.old_start, group.old_stop):
            yield Row("-", old[index], group, index + 1)
        yield from (Row("+", line, group) for line in new[group.new_start : group.new_stop])
        at = group.old_stop
    yield from (Row(" ", old[index], None, index + 1) for index in range(at, stop))


def _range(start: int, stop: int) -> str:
    if stop - start == 1:
        return str(start + 1)
    return f"{start + (stop > start)},{stop - start}"  # an empty range is named by the line before it


def _row_bytes(row: Row) -> bytes:
    text = row.sign.encode() + row.text
    return text if text.endswith(b"\n") else text + b"\n\\ No newline at end of file\n"


def _quoted(name: bytes) -> bytes:
    """The name as git spells it: in C quotes if it has odd characters, with a tab behind if it has spaces."""
    if any(byte < 32 or byte in b'"\\\x7f' for byte in name):
        plain = b"".join(bytes([c]) if 32 <= c < 127 and c not in b'"\\' else b"\\%03o" % c for c in name)
        return b'"' + plain + b'"'
    return name + b"\t" if b" " in name else name
