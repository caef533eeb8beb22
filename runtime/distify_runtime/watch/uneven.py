"""Each rank takes as many steps, after as many forward passes; what one rank catches around a step, all hear of.

A rank that goes on to its next batch after an error leaves the others in a collective that it then enters with another
batch: from there on, gradients of different steps are averaged, and nothing says so.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from distify_runtime import communicator
from distify_runtime.watch import frames
from distify_runtime.watch.board import Board
from distify_runtime.watch.verdict import of_ranks
from distify_runtime.watch.watching import Watching

#: A script whose ranks have been uneven together so often has no even course.
_TOGETHER = 20

#: How it is said.
APART = "the ranks are not at the same step"
#: Seconds after which a rank that stands still behind the head of a pass has not had the error of another.
_STILL = 5.0

_watching: Watching | None = None
_passes = 0
_usual = -1
_error = ""
_told = 0


def watch(watching: Watching) -> None:
    global _watching
    _watching = watching


def passes() -> int:
    """How many forward passes have begun since the last step."""
    return _passes


def before_pass(given: tuple[Any, ...]) -> None:
    global _passes, _error
    if _error and _watching is not None:  # it has been caught: this rank goes on
        _tell(_watching, _watching.steps + 1, _error)
        _error = ""
    _passes += 1


def behind_pass(error: Exception | None) -> None:
    global _error
    if error is not None:
        _error = _error or frames.told_of(error)
    else:
        communicator.comes_to("the gradients of DistributedDataParallel")  # in the backward pass


def check(watching: Watching) -> None:
    """After each step. Tells of one that has had more or fewer forward passes than the one before, or an error."""
    global _passes, _usual, _error
    if _error or (_usual not in (-1, _passes) and _told < _TOGETHER):
        _tell(watching, watching.steps, _error)
    _usual, _passes, _error = _passes, 0, ""


def _tell(watching: Watching, step: int, error: str) -> None:
    global _told
    _told += 1
    watching.board.append("uneven", [watching.board.rank, step, _passes, _usual, error])


class Reader:
    """Rank 0's, beside the training."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._read = 0
        self._found: dict[int, dict[int, Any]] = defaultdict(dict)

    def judged(self, notes: dict[int, Any]) -> str:
        """notes: what each rank has got to by now, and for how many seconds it has been still."""
        for rank, step, *what in (new := self._board.appended("uneven", self._read)):
            self._found[step].setdefault(rank, what)
        self._read += len(new)
        for step, said in sorted(self._found.items()):
            if len(said) == self._board.ranks:
                del self._found[step]
            elif all(_is_past(notes.get(rank), step) for rank in range(self._board.ranks) if rank not in said):
                return _told_of(step, said)
        return ""


def _is_past(note: Any, step: int) -> bool:
    if note is None:
        return False
    waits = note["passes"] > 0 and note["still"] > _STILL  # in a pass, for who has not come to it
    return bool(note["steps"] > step or waits)


def _told_of(step: int, said: dict[int, Any]) -> str:
    rank = min(said, key=lambda one: (not said[one][2], one))
    passes, usual, error = said[rank]
    if error:
        what = f"{of_ranks([rank])} has gone on after an error that the others have not had: {error}"
    else:
        what = (
            f"{of_ranks(sorted(said))} went forward {passes} times (before: {usual}), the others did not: an error may "
            "have been caught, or a rank may have left out a batch"
        )
    return f"{APART}: before step {step}, {what}. Their gradients would be averaged with those of another step"


def ends(watching: Watching) -> None:
    """At the end of a script that has come to its end on all ranks."""
    watching.exchange("ends", watching.steps, _all_alike)


def _all_alike(everyone: list[Any]) -> str:
    if len(set(everyone)) == 1:
        return ""
    other = next(rank for rank, steps in enumerate(everyone) if steps != everyone[0])
    return (
        f"the ranks have not taken equally many steps: rank 0 took {everyone[0]}, rank {other} took {everyone[other]}"
    )
