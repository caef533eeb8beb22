"""The picture: what a step is made of on each number of ranks, and how much faster that is."""

from __future__ import annotations

from typing import Any

from distify.bench.model import Predicted
from distify.bench.report import Report
from distify.bench.reporting import NAMES
from distify.bench.timings import PARTS, Timings

_COLOURS = ("tab:gray", "tab:blue", "tab:cyan", "tab:red", "tab:orange", "tab:purple", "tab:pink", "tab:olive")
#: In inches; and of a pixel picture, how many to the inch.
_SIZE, _DENSITY = (8.4, 3.8), 120


def draw(report: Report, path: str) -> None:
    """Stacked bars, predictions hatched, and the speed-up beside the ideal one. `path` has been checked."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    bars, lines = figure.subplots(1, 2)
    shown: list[Timings | Predicted] = sorted([*report.measured, *report.predicted], key=lambda one: one.ranks)
    names = [f"{one.ranks}{'*' if isinstance(one, Predicted) else ''}" for one in shown]
    floor = [0.0] * len(shown)
    for part, colour in zip(PARTS, _COLOURS, strict=True):
        heights = [one.parts[part] * 1e3 for one in shown]
        if max(heights) <= 0:
            continue
        drawn = bars.bar(names, heights, bottom=floor, color=colour, label=NAMES.get(part, part))
        for one, bar in zip(shown, drawn, strict=True):
            bar.set_hatch("//" if isinstance(one, Predicted) else "")
        floor = [below + height for below, height in zip(floor, heights, strict=True)]
    bars.set_xlabel("ranks (* predicted)" if report.predicted else "ranks")
    bars.set_ylabel("ms a step")
    bars.legend(fontsize="small")
    bars.set_title(report.script)
    _speed(lines, report, shown)
    figure.savefig(path, dpi=_DENSITY)


def _speed(lines: Any, report: Report, shown: list[Timings | Predicted]) -> None:
    ranks = [one.ranks for one in shown]
    lines.plot(ranks, ranks, ":", color="black", label="ideal")
    for kind, style, name in ((Timings, "o-", "measured"), (Predicted, "s--", "predicted")):
        some = [one for one in shown if isinstance(one, kind)]
        if some:
            speeds = [report.speed_up(one) for one in some]
            lines.plot([one.ranks for one in some], speeds, style, label=name)
    lines.set_xlabel("ranks")
    lines.set_ylabel("times as fast as one")
    lines.legend(fontsize="small")
