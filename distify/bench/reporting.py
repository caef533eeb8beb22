"""The table of a bench, and its JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from distify_runtime.bench.clock import APART

from distify.bench.model import Predicted
from distify.bench.report import Report
from distify.bench.saying import sentences
from distify.bench.timings import PARTS, Timings
from distify.bench.units import time_text
from distify.checklist import wrapped
from distify.terminal import Line, is_terminal, put, show, width

#: What parts are called in the table; figures of it are milliseconds.
NAMES = {
    "computing": "forward",
    "gradients": "all-reduce",
    "batchnorm": "BatchNorm",
}
_HEADERS = ("ranks", "step ms", *(NAMES.get(part, part) for part in PARTS), "speed-up", "efficiency")


def put_report(report: Report) -> None:
    show([((f"{name:<10} {text}", ""),) for name, text in _facts(report)], err=False)
    rows = [_row(report, one, str(one.ranks)) for one in report.measured]
    rows += [_row(report, one, f"{one.ranks} predicted") for one in (*report.checked, *report.predicted)]
    if is_terminal(sys.stdout):
        _put_table(rows)
    else:
        show(_plain_table(rows), err=False)
    show(_after(report), err=False)


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    yield "script", f"{report.script}, {report.how}"
    yield "machine", report.machine
    steps = " and ".join(dict.fromkeys(str(one.counted) for one in report.measured))
    batch = report.alone.samples
    kept = "on each rank" if report.weak else "over all ranks"
    yield "steps", f"{steps} timed" + (f", with a batch of {batch} {kept}" if batch else "")


def _row(report: Report, one: Timings | Predicted, name: str) -> list[str]:
    times = report.speed_up(one)
    figures = [f"{seconds * 1e3:.2f}" for seconds in (one.step, *(one.parts[part] for part in PARTS))]
    return [name, *figures, f"{times:.2f}", f"{times / one.ranks:.0%}"]


def _put_table(rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for header in _HEADERS:
        table.add_column(header, justify="right", style="bold" if header in ("step ms", "speed-up") else "")
    for row in rows:
        table.add_row(*row, style="dim" if "predicted" in row[0] else "")
    Console(file=sys.stdout).print(table)


def _plain_table(rows: Sequence[Sequence[str]]) -> Iterator[Line]:
    everything = [_HEADERS, *rows]
    sizes = [max(len(row[column]) for row in everything) for column in range(len(_HEADERS))]
    for row in everything:
        yield (("  ".join(f"{cell:>{size}}" for cell, size in zip(row, sizes, strict=True)), ""),)


def _after(report: Report) -> Iterator[Line]:
    columns = width(sys.stdout)
    for one in report.measured:
        told = [f"{part} {time_text(one.apart[part])}" for part in APART if one.apart[part]]
        if told:
            many = f"{one.ranks} rank{'s' * (one.ranks != 1)}"
            yield ((f"apart from steps, {many}: {', '.join(told)}", ""),)
    for off in report.checked:
        yield ((f"predicted for {off.ranks} ranks here: {report.off(off):+.0%} of what was measured", ""),)
    for note in report.notes:
        for text in wrapped(f"note: {note}", "", columns):
            yield ((text, "yellow"),)
    for sentence in sentences(report):
        for text in wrapped(sentence, "", columns):
            yield ((text, ""),)


def put_json(report: Report) -> None:
    fields = {
        "script": report.script,
        "how": report.how,
        "machine": report.machine,
        "scaling": "weak" if report.weak else "strong",
        "measured": [_measured(report, one) for one in report.measured],
        "checked": [{**_predicted(report, one), "off": report.off(one)} for one in report.checked],
        "predicted": [_predicted(report, one) for one in report.predicted],
        "notes": list(report.notes),
        "sentences": list(sentences(report)),
    }
    put(json.dumps(fields, indent=2).encode() + b"\n")


def _measured(report: Report, one: Timings) -> dict[str, Any]:
    return {
        "ranks": one.ranks,
        "step_ms": one.step * 1e3,
        "quartiles_ms": [one.low * 1e3, one.high * 1e3],
        "parts_ms": {part: one.parts[part] * 1e3 for part in PARTS},
        "waiting_ms": one.waiting * 1e3,
        "apart_s": {part: one.apart[part] for part in APART},
        "speed_up": report.speed_up(one),
        "steps": one.counted,
        "samples_of_a_rank": one.samples or None,
        "parameter_bytes": one.size,
        "threads": one.threads,
        "device": one.device,
    }


def _predicted(report: Report, one: Predicted) -> dict[str, Any]:
    return {
        "ranks": one.ranks,
        "here": one.here,
        "step_ms": one.step * 1e3,
        "parts_ms": {part: one.parts[part] * 1e3 for part in PARTS},
        "speed_up": report.speed_up(one),
        "bandwidth_bytes_per_s": one.link.bandwidth,
        "latency_us": one.link.latency * 1e6,
        "samples_of_a_rank": one.samples or None,
    }
