"""What both runs did, as a picture: their losses, and how far the parameters of the ranks are from the original's."""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distify_runtime.trace.traces import Trace

from distify.errors import DistifyError
from distify.files import check_target

_COLOURS = ("tab:blue", "tab:orange")
#: In inches; and of a pixel picture, how many to the inch.
_SIZE, _DENSITY = (7.2, 5.4), 150


@dataclass(frozen=True)
class Curves:
    """A number for each step: the losses of which gradients were taken, of ranks their mean; NaN where there is none.

    `gaps`: the largest difference of a parameter between any rank and the original.
    """

    original: Sequence[float]
    converted: Sequence[float]
    gaps: Sequence[float]


def curves_of(original: Trace, ranks: Sequence[Trace]) -> Curves:
    steps = [[trace.losses[step] for trace in ranks] for step in range(min(len(trace.losses) for trace in ranks))]
    gaps = [
        max(_gap(trace.steps[step][1], wanted) for trace in ranks)
        for step, (_, wanted) in enumerate(original.steps[: min(len(trace.steps) for trace in ranks)])
    ]
    return Curves(original.losses, [sum(losses) / len(ranks) for losses in steps], gaps)


def _gap(ours: Any, theirs: Any) -> float:
    if ours.shape != theirs.shape or not ours.numel():
        return math.nan
    return float((ours - theirs).abs().max())


def check_plot(path: str) -> None:
    """Raises DistifyError where no picture can be written to `path`; to be asked before anything is run."""
    if importlib.util.find_spec("matplotlib") is None:
        raise DistifyError(f"{path}: matplotlib, which draws it, is not installed: pip install 'distify[plot]'")
    from matplotlib.backend_bases import FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    suffix = os.path.splitext(path)[1].removeprefix(".").lower()
    if suffix not in known:
        wrong = f"writes no .{suffix}" if suffix else "goes by the end of the name, and there is none"
        raise DistifyError(f"{path}: matplotlib {wrong}; it writes {', '.join(known)}")
    check_target(path)


def plot(curves: Curves, script: str, path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    both = ((curves.original, "original", "-"), (curves.converted, "converted", "--"))
    for (losses, name, line), colour in zip(both, _COLOURS, strict=True):
        above.plot(range(1, len(losses) + 1), losses, line, color=colour, label=name)
    above.set_ylabel("loss")
    above.set_title(script)
    above.legend()
    gaps = [gap or math.nan for gap in curves.gaps]  # of nothing there is no logarithm
    below.plot(range(1, len(gaps) + 1), gaps, ".-", color="black")
    below.set_yscale("log" if any(gap == gap for gap in gaps) else "linear")
    below.set_ylabel("largest difference of a parameter")
    below.set_xlabel("optimizer step")
    figure.savefig(path, dpi=_DENSITY)
