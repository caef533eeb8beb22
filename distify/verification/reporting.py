"""What was compared, as a table and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from distify_runtime.trace.compare import Check

from distify.checklist import wrapped
from distify.terminal import Line, is_terminal, put, show, width
from distify.verification.plotting import Curves

_HEADERS = ("check", "result", "largest difference", "parts at step", "")


@dataclass(frozen=True)
class Report:
    """`facts`: what was run, a name and a text each."""

    script: str
    facts: tuple[tuple[str, str], ...]
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    last_lines: tuple[str, ...] = ()  # of a converted script that failed
    curves: Curves | None = None  # None where it has

    @property
    def first(self) -> Check | None:
        """The check that failed at the earliest step, or else the first that failed."""
        failed = [check for check in self.checks if check.difference]
        by_step = [check for check in failed if check.difference and check.difference.step]
        return min(by_step, key=_step_of) if by_step else next(iter(failed), None)


def _step_of(check: Check) -> int:
    assert check.difference is not None
    return check.difference.step or 0


def put_report(report: Report) -> None:
    for name, text in report.facts:
        show([((f"{name:<10} {text}", ""),)], err=False)
    if is_terminal(sys.stdout):
        _put_table(report.checks)
    else:
        show(_plain_table(report.checks), err=False)
    show(_after(report), err=False)


def _cells(check: Check) -> tuple[str, str, str, str, str]:
    result = "differs" if check.difference else "nothing to compare" if check.empty else "same"
    largest = "" if check.largest is None else f"{check.largest:.2g}"
    step = str(check.difference.step or "") if check.difference else ""
    return check.name, result, largest, step, check.difference.message if check.difference else check.found


def _put_table(checks: Sequence[Check]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for header in _HEADERS:
        table.add_column(header, justify="right" if header in _HEADERS[2:4] else "left")
    for check in checks:
        style = "bold red" if check.difference else "dim" if check.empty else "green"
        name, result, *rest = _cells(check)
        table.add_row(name, Text(result, style), *map(Text, rest))
    Console(file=sys.stdout).print(table)


def _plain_table(checks: Sequence[Check]) -> Iterator[Line]:
    rows = [_HEADERS, *map(_cells, checks)]
    sizes = [max(len(row[column]) for row in rows) for column in range(len(_HEADERS) - 1)]
    for row in rows:
        cells = [f"{cell:<{size}}" for cell, size in zip(row, sizes, strict=False)]
        yield (("  ".join([*cells, row[-1]]).rstrip(), ""),)


def _after(report: Report) -> Iterator[Line]:
    columns = width(sys.stdout)
    for note in report.notes:
        for text in wrapped(f"note: {note}", "", columns):
            yield ((text, "yellow"),)
    for text in report.last_lines:
        yield ((f"  {text}", ""),)
    first = report.first
    if first is None or first.difference is None:
        yield (f"{report.script}: ", ""), (_same(report), "bold green")
        return
    parted = f"differs from step {first.difference.step} on" if first.difference.step else "differs"
    yield (f"{report.script}: ", ""), (f"{parted}: {first.difference.message}", "bold red")
    if first.difference.hint:
        for text in wrapped(f"usually: {first.difference.hint}", "  ", columns):
            yield ((text, ""),)


def _same(report: Report) -> str:
    """Who updates parameters by hand takes no step that can be seen; what was saved is compared all the same."""
    has_steps = not any(check.empty for check in report.checks if check.name == "optimizer steps")
    return "the same steps" if has_steps else "the same checkpoints; no optimizer took a step to compare"


def put_json(report: Report) -> None:
    fields = {
        "script": report.script,
        "outcome": "differs" if report.first else "same",
        **dict(report.facts),
        "notes": list(report.notes),
        "checks": [_as_json(check) for check in report.checks],
        "last_lines": list(report.last_lines),
    }
    put(json.dumps(fields, indent=2).encode() + b"\n")


def _as_json(check: Check) -> dict[str, Any]:
    name, result, _, _, message = _cells(check)
    difference = check.difference
    return {
        "check": name,
        "result": result,
        "message": message,
        "largest": check.largest,
        "step": difference.step if difference else None,
        "parameter": (difference.parameter or None) if difference else None,
        "usually": (difference.hint or None) if difference else None,
    }
