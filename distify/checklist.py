"""The checklist: every step of distribution: whether it was made, is not needed, or needs a person."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from distify_codemods.results import Finding, Level

from distify.terminal import Line

#: What needs the user comes last: that is what stands above the prompt.
ORDER = (Level.APPLIED, Level.NOT_NEEDED, Level.ADVICE, Level.BLOCKING)
STYLES = {Level.APPLIED: "green", Level.NOT_NEEDED: "dim", Level.ADVICE: "yellow", Level.BLOCKING: "bold red"}


def checklist(
    findings: Sequence[Finding],
    columns: int | None = None,
    headline: str = "",
    verbose: bool = True,
    shown_by: Mapping[str, str] | None = None,
) -> Iterator[Line]:
    """The lines of the checklist, messages wrapped to `columns` (None: one line each, for grep).

    headline: the strategy of the conversion, which stands above all else. Unless `verbose`, what is not needed is
    one line. shown_by: by code, the check of two runs that has shown right what was applied.
    """
    if headline:
        yield from (((line, "bold"),) for line in wrapped(headline, "", columns))
    for level in ORDER:
        mine = [finding for finding in findings if finding.level is level]
        if not mine:
            continue
        if level is Level.NOT_NEEDED and not verbose:
            yield ((f"{level.value} ({len(mine)}; -v says what, and why)", STYLES[level]),)
            continue
        yield ((level.value, STYLES[level]), (f" ({len(mine)})", STYLES[level]))
        for (code, title), same in groupby(mine, key=lambda finding: (finding.code, finding.title)):
            check = (shown_by or {}).get(code) if level is Level.APPLIED else None
            mark = ((f" (proved: {check})", STYLES[level]),) if check else ()
            yield ((f"  {code} ", STYLES[level]), (title, "bold" if level is Level.BLOCKING else ""), *mark)
            for finding in same:
                yield from _finding(finding, columns)


def _finding(finding: Finding, columns: int | None) -> Iterator[Line]:
    place = f"{finding.place}: " if finding.place else ""
    style = "dim" if finding.level is Level.NOT_NEEDED else ""
    for line in wrapped(place + finding.message, "    ", columns):
        yield ((line, style),)
    if finding.fix:
        yield (("      to do:", ""),)
        for line in finding.fix.splitlines():  # code: never wrapped
            yield ((f"        {line}", "cyan"),)


def wrapped(text: str, indent: str, columns: int | None) -> list[str]:
    """The text in lines of at most `columns`; None: as one line."""
    if columns is None:
        return [indent + text]
    # A path or a name that is longer than a line stays whole: it is there to be copied.
    return textwrap.wrap(
        text,
        max(40, columns),
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def summary(findings: Sequence[Finding]) -> str:
    """How many findings there are of each kind: `12 applied, 3 not needed, 1 needs you`."""
    counts = [(sum(finding.level is level for finding in findings), level) for level in ORDER]
    return ", ".join(f"{number} {level.value}" for number, level in counts if number) or "nothing found"
