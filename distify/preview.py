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
#: What a group without a reason costs: rather is a reason put this many lines away than doubled up.
LEFT_OUT = 12


def preview(file: NewFile, columns: int) -> Iterator[Line]:
    """The lines of one file's diff for a terminal that is `columns` wide."""
    found = hunks(file.before, file.after)
    changed = [row.group for hunk in found for row in hunk.rows if row.group is not None]
    groups = list(dict.fromkeys(changed))
    encoding = encoding_of(file.before)
    reasons = match_reasons(file.changes, groups)
    for header in headers(file):
        yield ((os.fsdecode(header).rstrip(), "bold"),)
    for hunk in found:
        yield ((hunk.header.decode().rstrip(), "cyan"),)
        yield from _hunk_lines(hunk, reasons, encoding, columns)


def _hunk_lines(hunk: Hunk, reasons: dict[Group, list[Change]], encoding: str, columns: int) -> Iterator[Line]:
    seen: set[Group] = set()
    for row in hunk.rows:
        text = row.sign + _shown(row.text, encoding)
        here: list[Change] = []
        if row.group is not None:
            first = row.group not in seen
            seen.add(row.group)
            here = [change for change in reasons.get(row.group, []) if _is_here(change, row, first)]
        yield from _with_reasons(text, STYLES[row.sign], _texts(here), columns)


def _shown(line: bytes, encoding: str) -> str:
    return line.decode(encoding, "replace").rstrip("\r\n").removeprefix("\ufeff").expandtabs(8)


def _is_here(change: Change, row: Row, first: bool) -> bool:
    """Whether the reason goes to this row: the removed line that it is about, else the group's first line."""
    assert row.group is not None
    if row.group.old_start < change.place.line <= row.group.old_stop:
        return row.old_line == change.place.line
    return first


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


def match_reasons(changes: Sequence[Change], groups: Sequence[Group]) -> dict[Group, list[Change]]:
    """Which group of changed lines each change is the reason of.

    A change knows the line where its statement begins; what was inserted behind a statement of several lines,
    or around it, lies some lines away. Both lists run down the file, so they are aligned: at the least total
    distance, where a group that is left without a reason counts as LEFT_OUT lines.
    """
    if not groups or not changes:
        return {}
    ordered = sorted(changes, key=lambda change: change.place.line)
    # costs[g]: the least cost of all changes so far, the latest of them being at group g; came[i][g]: where
    # the one before it then is.
    costs = [g * LEFT_OUT + _distance(ordered[0], group) for g, group in enumerate(groups)]
    came: list[list[int]] = []
    for change in ordered[1:]:
        arrivals = _cheapest_arrivals(costs)
        costs = [cost + _distance(change, group) for (cost, _), group in zip(arrivals, groups, strict=True)]
        came.append([source for _, source in arrivals])
    index = min(range(len(groups)), key=lambda g: costs[g] + (len(groups) - 1 - g) * LEFT_OUT)
    path = [index]
    for sources in reversed(came):
        path.append(sources[path[-1]])
    matched: dict[Group, list[Change]] = {}
    for change, index in zip(ordered, reversed(path), strict=True):
        matched.setdefault(groups[index], []).append(change)
    return matched


def _cheapest_arrivals(costs: Sequence[int]) -> list[tuple[int, int]]:
    """For each group: the least cost to go there from the same or an earlier group, and that group."""
    arrivals = [(costs[0], 0)]
    skipping = (costs[0], 0)  # from the groups before the one at hand
    for g, cost in enumerate(costs[1:], start=1):
        arrivals.append(min((cost, g), skipping, key=lambda way: way[0]))
        skipping = min((skipping[0] + LEFT_OUT, skipping[1]), (cost, g), key=lambda way: way[0])
    return arrivals


def _distance(change: Change, group: Group) -> int:
    """Lines between a change's place and a group; 0 only where the place is among the replaced lines."""
    line = change.place.line
    if group.old_start < line <= group.old_stop:
        return 0
    return 1 + max(group.old_start - line, line - group.old_stop - 1, 0)
