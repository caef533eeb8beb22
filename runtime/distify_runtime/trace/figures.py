"""Numbers in printed lines, and names of files, but for times."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TIME = re.compile(
    r"\d{4}-\d\d-\d\d|\d+:\d\d(?::\d\d(?:,\d{3})?)?(?:\.\d+)?"  # as records of `logging` begin: 2026-01-31 12:00:01,003
    r"|\d[\d.,]*\s*(?:(?:ms|s|secs?|seconds?|mins?|minutes?|hours?|h|m)\b|(?:it|s|samples|batch(?:es)?|steps?)/s\b)"
    r"|\((?:ms|s|secs?|seconds?|mins?|minutes?|hours?|h)\)\W*\d+\.\d+(?:\s*\(\s*\d[\d.e+-]*\s*\))?"  # Data(s): 0.016
    r"|(?:time|took|elapsed|duration|speed|eta)\W*\d[\d.e+-]*(?:\s*\(\s*\d[\d.e+-]*\s*\))?",  # now (on average)
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)


def without_clock(line: str) -> str:
    return _TIME.sub("", line).strip()


def different_figure(ours: str, theirs: str, part: float) -> bool:
    """Whether two lines have other numbers: by more than `part` of them, and than their last digit."""
    got, wanted = list(_figures(ours)), list(_figures(theirs))
    return len(got) != len(wanted) or any(
        abs(one - other) > max(part * abs(other), 1.01 * digit)
        for (one, _), (other, digit) in zip(got, wanted, strict=True)
    )


def same_words(ours: str, theirs: str) -> bool:
    """Whether two lines say the same but for numbers and times."""
    return _NUMBER.sub("#", _TIME.sub(" ", ours)) == _NUMBER.sub("#", _TIME.sub(" ", theirs))


def _figures(line: str) -> Iterator[tuple[float, float]]:
    """Each number with what its last digit is worth; 0 for whole ones."""
    for text in _NUMBER.findall(_TIME.sub(" ", line)):
        mantissa, _, exponent = text.lower().partition("e")
        decimals = mantissa.partition(".")[2]
        digit = 10.0 ** (int(exponent or 0) - len(decimals)) if decimals else 0.0
        yield float(text), digit


#: Parts of a date or a time, as in `2026_November_22_05-47-58PM`.
_PART = r"(?:\d{4}|\d{2}|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*)"
_MOMENT = re.compile(
    r"(?<=tfevents\.).*"  # the time, the machine, the process, a count
    rf"|(?<![^\W_]){_PART}(?:[-:_. T]{_PART}){{5}}[-:_]\d{{6}}(?!\d)"  # with microseconds
    rf"|(?<![^\W_]){_PART}(?:[-:_. T]{_PART}){{2,}}(?:\.\d+)?(?!\d)(?:\s?[AP]M)?|\d{{8}}-\d{{6}}|\d{{8,}}(?:\.\d+)?"
    r"|(?<!\d)(?!000)(?:[01]\d|2[0-3])[0-5]\d[0-5]\d(?!\d)"  # 174723
    r"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\d{2}"
)


#: What a library calls a run that it keeps: by chance alone, or behind the time, in that folder and in names below it.
_BY_CHANCE = re.compile(r"(?<![^\W_])(?:[\da-f]{32}|[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})(?![^\W_])")
_RUN = re.compile(r"(?<![^\W_])run-\d{8}_\d{6}-([\da-z]{6,})(?=/)")


def without_times(files: list[str]) -> list[str]:
    """A file named by the time of the run, or by chance, is another one in each run, and one in each."""
    return sorted(_MOMENT.sub("TIME", _BY_CHANCE.sub("RUN", _without_run(path))) for path in files)


def _without_run(path: str) -> str:
    named = _RUN.search(path)
    return path.replace(named[1], "RUN") if named is not None else path


_NAMES_A_TIME = re.compile(
    r"(?:^|_)(?:time|times|timestamp|datetime|date|duration|durations|elapsed|took|secs|seconds)(?:_|$)", re.IGNORECASE
)


def names_a_time(key: str, value: object) -> bool:
    """Whether a number or text in a checkpoint is one by its name: `history[0].duration`. Each run has others."""
    name = re.split(r"[.\[\]]+", key.rstrip("]0123456789["))[-1]
    return isinstance(value, (int, float, str)) and _NAMES_A_TIME.search(name) is not None
