"""What is shown once is the same on all ranks: rank 0 speaks for them. A line that would say something else on another
rank tells of rank 0's own samples, unless it tells of the process itself.
"""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Callable
from itertools import islice
from types import FrameType
from typing import Any

from torch.optim import Optimizer

from distify_runtime import one_rank, output
from distify_runtime.environment import is_a_ranks_child
from distify_runtime.sight import is_hidden
from distify_runtime.trace.figures import different_figure, same_words
from distify_runtime.watch import frames
from distify_runtime.watch.of_process import tells_of_the_process
from distify_runtime.watch.verdict import say
from distify_runtime.watch.watching import Steps, Watching

#: Of a text, of a place's callers, of places between two looks, and of those that are told.
_MOST_LETTERS, _MOST_CALLERS, _MOST_PLACES, _MOST_TOLD = 400, 6, 200, 3
#: Of a text in a message.
_MOST_QUOTED = 60
#: Each process has its own: addresses of objects, devices.
_OWN = re.compile(r"\b0x[0-9a-fA-F]+|\b[a-z]{2,5}:\d+\b")
#: Of a number, as sums over ranks in another order may leave it.
_ROUNDING = 1e-3

#: Why, and what would mend it.
_WHERE_SHARDED = (
    "a figure of its own samples is not that of all; average it over ranks (rt.all_reduce_mean), or convert with "
    "--strategy shared"
)
_WHERE_WHOLE = "within a forward pass that is shared it is that of its part, elsewhere of what it has drawn for itself"

_times: Counter[str] = Counter()
#: By place and how often it has come there: the text, and the lines that lead there.
_new: dict[str, tuple[str, list[tuple[str, int]]]] = {}
_told: set[str] = set()


def watch() -> None:
    output.when_shown(_note)


def stop() -> None:
    output.when_shown(None)


def _note(text: Callable[[], str], frame: FrameType) -> None:
    """In a call that shows something, on every rank; looked at less and less often at one place."""
    if one_rank.is_alone() or is_a_ranks_child():
        return
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    _times[place] += 1
    times = _times[place]
    if times & (times - 1) or len(_new) >= _MOST_PLACES:
        return
    way = [(one.f_code.co_filename, line) for one, line in traceback.walk_stack(frame)]
    lines = list(islice((one for one in way if frames.is_of_script(one[0])), _MOST_CALLERS))
    told = text()
    _new[f"{place}:{times}"] = told if len(told) < _MOST_LETTERS else told[:_MOST_LETTERS].rpartition(" ")[0], lines


def look(watching: Watching, optimizer: Optimizer, steps: Steps) -> None:
    if steps.number == 0:
        exchange(watching, f"shown/{steps.taken}")


def exchange(watching: Watching, topic: str) -> None:
    new = dict(_new)
    _new.clear()
    watching.exchange(topic, new, _judged)


def _judged(everyone: list[Any]) -> str:
    """Says it, and ends no run: what a script shows has changed nothing of what it learns."""
    mine = everyone[0]
    for rank, others in enumerate(everyone[1:], 1):
        for place, (text, lines) in mine.items():
            other = others.get(place, (text,))[0]
            if not is_alike(text, other) and not tells_of_the_process(lines):
                _say(lines, rank, text, other)
    return ""


def is_alike(text: str, other: str) -> bool:
    """Whether two ranks show the same: the same words, and numbers that are equal as far as they are shown."""
    text, other = _OWN.sub("", text), _OWN.sub("", other)
    return text == other or (same_words(text, other) and not different_figure(text, other, _ROUNDING))


def _say(lines: list[tuple[str, int]], rank: int, text: str, other: str) -> None:
    """Once for each place, and of few places."""
    place = f"{frames.shown(lines[0][0])}:{lines[0][1]}" if lines else "a library"
    if place in _told or len(_told) >= _MOST_TOLD:
        return
    _told.add(place)
    why = _WHERE_WHOLE if is_hidden() else _WHERE_SHARDED
    say(f"{place}: rank 0 shows {_quoted(text, other)}, rank {rank} would show {_quoted(other, text)}: {why}")


def _quoted(text: str, other: str) -> str:
    """From a little before where they part."""
    parted = next((at for at, (one, two) in enumerate(zip(text, other, strict=False)) if one != two), 0)
    start = max(0, text.rfind(" ", 0, max(0, parted - _MOST_QUOTED // 2)) + 1) if parted > _MOST_QUOTED // 2 else 0
    shown = text[start : start + _MOST_QUOTED]
    return repr(("..." if start else "") + shown + ("..." if start + _MOST_QUOTED < len(text) else ""))
