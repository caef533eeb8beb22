"""Each rank takes as many steps, after as many forward passes; what one rank catches around a step, all hear of.

A rank that goes on to its next batch after an error leaves the others in a collective that it then enters with another
batch: from there on, gradients of different steps are averaged, and nothing says so.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import astuple, dataclass
from typing import Any
from weakref import ref

from distify_runtime import arriving
from distify_runtime.watch import frames
from distify_runtime.watch.board import Board
from distify_runtime.watch.verdict import of_ranks
from distify_runtime.watch.watching import Watching

#: A script whose ranks have been uneven together so often has no even course.
_TOGETHER = 20

#: How it is said.
APART = "the ranks are not at the same step"
#: Ranks whose errors are told at the end.
_MOST_TOLD = 4
#: Seconds after which a rank that stands still behind the head of a pass has not had the error of another.
_STILL = 5.0


@dataclass
class Turn:
    """What there has been since the last step. `heard`: the last error, and the calls that it came through."""

    passes: int = 0
    batches: int = 0
    is_met: bool = False  # a backward pass has begun, in which gradients may travel
    heard: tuple[str, str] = ("", "")
    has_failed: bool = False  # a pass of a wrapped model: others wait in it
    is_told: bool = False
    is_sure: bool = False  # what has been told


@dataclass(frozen=True)
class Said:
    """What a rank tells of one of its turns. `usual`: as many as before. is_sure: it may have no good reason."""

    what: str
    count: int
    usual: int
    error: str
    calls: str
    is_sure: bool

    def told(self, step: int, ranks: list[int]) -> str:
        who = of_ranks(ranks)
        if self.error:
            what = f"{who} has gone on after an error that the others have not had: {self.error}"
        else:
            what = (
                f"{who} {self.what} {self.count} times (before: {self.usual}), the others did not: an error may "
                "have been caught, or a rank may have left out a batch"
            )
        message = f"{APART}: before step {step}, {what}. Their gradients would be averaged with those of another step"
        return f"{message}\n{self.calls}" if self.calls else message


_watching: Watching | None = None
_turn = Turn()
#: The error that came last, if nothing has gone well since, and whether ranks may have waited for each other there.
_last = ("", False)
_usual = 0
_usual_batches = 0
#: The iterator of a loader from which the last batch came, in the thread that trains.
_source: Any = None
#: The sampler of the loader that it came from before the last step: what an evaluation takes is no turn's.
_usual_sampler: Any = None
_told = 0
_is_wrapped = False


def watch(watching: Watching) -> None:
    global _watching
    _watching = watching


def wrapped() -> None:
    """Some model has been: ranks meet in its forward passes, and none does one for itself."""
    global _is_wrapped
    _is_wrapped = True


def passes() -> int:
    """How many forward passes have begun since the last step."""
    return _turn.passes


def meets() -> bool:
    """Whether others may be waited for, in what has begun since the last step."""
    return _turn.passes > 0 or _turn.is_met


def before_backward() -> None:
    _turn.is_met = True


def took(source: Any) -> None:
    """A batch has come from this iterator. Evaluations take theirs from others, threads that read ahead at any time."""
    global _source
    if _watching is None or threading.current_thread() is not threading.main_thread():
        return
    _turn.is_met = False
    went_well()
    if _source is None or _source() is not source:
        _source, _turn.batches = ref(source), 1
        return
    _turn.batches += 1
    is_over = _sampler() is _usual_sampler is not None and _turn.batches > _usual_batches
    if is_over and not _turn.is_told and _told < _TOGETHER:
        said = Said("took a batch", _turn.batches, _usual_batches, *_turn.heard, bool(_turn.heard[0]))
        _tell(_watching, _watching.steps + 1, said)


def _sampler() -> Any:
    return getattr(_source() if _source is not None else None, "_index_sampler", None)


def before_pass(given: tuple[Any, ...]) -> None:
    if _turn.has_failed and _watching is not None:  # it has been caught: this rank goes on
        _tell(_watching, _watching.steps + 1, Said("", 0, 0, *_turn.heard, True))
        _turn.has_failed, _turn.heard = False, ("", "")
    _turn.passes += 1


def behind_pass(error: Exception | None, outputs: Any) -> None:
    if error is not None:
        heard(error)
    else:
        went_well()


def failed() -> None:
    """Behind a pass that ranks meet in."""
    _turn.has_failed = True


def heard(error: Exception) -> None:
    """It passes by, and may be caught; the first of a turn may be why there are others."""
    global _last
    if not _turn.heard[0]:
        _turn.heard = frames.told_of(error), frames.raised(error)
    if threading.current_thread() is threading.main_thread():
        _last = frames.told_of(error), meets()


def went_well() -> None:
    """A pass, forward or backward: whatever error there was before, the script has gone on."""
    global _last
    _last = "", False


def check(watching: Watching) -> None:
    """After each step. Tells of one that has had more or fewer forward passes than the one before, or an error."""
    global _turn, _usual, _usual_batches, _usual_sampler
    counts = 0 < _usual != _turn.passes and (_is_wrapped or _turn.is_told)
    if _turn.has_failed or (counts and _told < _TOGETHER):
        _tell(watching, watching.steps, Said("went forward", _turn.passes, _usual, *_turn.heard, True))
    _usual = _turn.passes
    if _turn.batches:
        _usual_batches, _usual_sampler = _turn.batches, _sampler()
    _turn = Turn()


def _tell(watching: Watching, step: int, said: Said) -> None:
    global _told
    if _turn.is_sure:
        return
    _told += 1
    _turn.is_told, _turn.is_sure = True, said.is_sure
    watching.board.append("uneven", [watching.board.rank, step, *astuple(said)])
    arriving.leave_note(step, said.is_sure, said.told(step, [watching.board.rank]))


class Reader:
    """Rank 0's, beside the training."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._read = 0
        self._found: dict[int, dict[int, Said]] = defaultdict(dict)

    def judged(self, notes: dict[int, Any]) -> str:
        """notes: what each rank has got to by now, and for how many seconds it has been still."""
        for rank, step, *what in (new := self._board.appended("uneven", self._read)):
            said, before = Said(*what), self._found[step].get(rank)
            if before is None or (said.is_sure and not before.is_sure):
                self._found[step][rank] = said
        self._read += len(new)
        for step, found in sorted(self._found.items()):
            others = [rank for rank in range(self._board.ranks) if rank not in found]
            if not others:
                del self._found[step]
            elif any(one.is_sure for one in found.values()) and all(_is_past(notes.get(rank), step) for rank in others):
                return _told_of(step, found)
        return ""

    def reason(self) -> str:
        """What may be why ranks wait for each other for ever."""
        return next((f"; {_told_of(step, found)}" for step, found in sorted(self._found.items())), "")


def _is_past(note: Any, step: int) -> bool:
    if note is None:
        return False
    waits = note["meets"] and note["still"] > _STILL  # in a pass, for who has not come to it
    return bool(note["steps"] > step or waits)


def _told_of(step: int, found: dict[int, Said]) -> str:
    rank = min(found, key=lambda one: (not found[one].error, not found[one].is_sure, one))
    one = found[rank]
    return one.told(step, [rank] if one.error else sorted(found))


def ends(watching: Watching) -> None:
    """At the end of a script that has come to its end on all ranks, perhaps behind an error that it has caught."""
    watching.exchange("ends", [watching.steps, *_last], _ended_alike)


def _ended_alike(everyone: list[Any]) -> str:
    steps, errors, met = zip(*everyone, strict=True)
    if len(set(steps)) > 1:
        other = next(rank for rank, taken in enumerate(steps) if taken != steps[0])
        said = f"the ranks have not taken equally many steps: rank 0 took {steps[0]}, rank {other} took {steps[other]}"
    elif len(set(errors)) > 1 and (any(met) or not all(errors)):
        said = (
            f"the script has come to its end after {steps[0]} steps behind an error that not all ranks have had alike"
        )
    else:
        return ""
    had = [f"rank {rank}: {error}" for rank, error in enumerate(errors) if error]
    return "; ".join([said, *had[:_MOST_TOLD]])
