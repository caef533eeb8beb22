"""The diff as a person reads it: in colour, with the reason beside each change."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence

from distify_codemods.results import Change, NewFile

from distify.diff import Group, Hunk, Row, headers, hunks
from distify.files import encoding_of
from distify.terminal import Line

STYLES = {"+": "green", "-": "red", " ": ""}
REASON_STYLE = "dim"
ARROW = "<- "  # no Python: without colours, too, a reason is not taken for a line of the file


def preview(file: NewFile, columns: int) -> Iterator[Line]:
    """The lines of one file's diff for a terminal that is `columns` wide."""
    found = hunks(file.before, file.after)
    rows = [row for hunk in found for row in hunk.rows if row.group is not None]
    encoding = encoding_of(file.before)
    reasons = match_reasons(file.changes, rows, encoding)
    for header in headers(file):
        yield ((os.fsdecode(header).rstrip(), "bold"),)
    for hunk in found:
        yield ((hunk.header.decode().rstrip(), "cyan"),)
        yield from _hunk_lines(hunk, reasons, encoding, columns)


def _hunk_lines(hunk: Hunk, reasons: dict[int, list[Change]], encoding: str, columns: int) -> Iterator[Line]:
    for row in hunk.rows:
        text = row.sign + _shown(row.text, encoding)
        yield from _with_reasons(text, STYLES[row.sign], _texts(reasons.get(id(row), [])), columns)


def _shown(line: bytes, encoding: str) -> str:
    return line.decode(encoding, "replace").rstrip("\r\n").removeprefix("\ufeff").expandtabs(8)


def _texts(changes: Sequence[Change]) -> list[str]:
    return list(dict.fromkeys(f"{change.code}: {change.reason}" for change in changes))


def _with_reasons(text: str, style: str, reasons: Sequence[str], columns: int) -> Iterator[Line]:
    if len(reasons) == 1 and len(text) + 2 + len(ARROW) + len(reasons[0]) <= columns:
        yield (text, style), (f"  {ARROW}{reasons[0]}", REASON_STYLE)
        return
    yield ((text, style),)
    indent = " " * min(12, len(text) - len(text[1:].lstrip()))  # below the code, as far as it is readable
    for reason in reasons:
        for number, part in enumerate(textwrap.wrap(reason, max(20, columns - len(indent) - len(ARROW)))):
            yield ((indent + (ARROW if number == 0 else "   ") + part, REASON_STYLE),)


def match_reasons(changes: Sequence[Change], rows: Sequence[Row], encoding: str) -> dict[int, list[Change]]:
    """Which of the rows that differ each change is the reason of, by their identity.

    What a change inserts is found by its text, where that stands more than once by the line that it is inserted at;
    what it changes, by its line. A change that has left no such row (an import alone) stands at the nearest.
    """
    written: dict[str, list[Row]] = {}
    first: dict[Group, Row] = {}
    for row in rows:
        if row.sign == "+":
            written.setdefault(_shown(row.text, encoding).strip(), []).append(row)
        if row.group is not None:
            first.setdefault(row.group, row)
    gone = {row.old_line: row for row in rows if row.old_line}
    matched: dict[int, list[Change]] = {}
    for change in changes if rows else ():
        inserted = written.get(change.written.strip(), []) if change.written else []
        if inserted:
            row = _nearest(inserted, change.beside)
        else:
            row = gone.get(change.place.line) or _nearest(list(first.values()), change.place.line)
        matched.setdefault(id(row), []).append(change)
    return matched


def _nearest(rows: Sequence[Row], line: int) -> Row:
    return min(rows, key=lambda row: _distance(line, row.group))


def _distance(line: int, group: Group | None) -> int:
    """Lines of the original between one of them, or what is inserted above it, and a group."""
    assert group is not None
    return max(group.old_start - line + 1, line - 1 - group.old_stop, 0)
