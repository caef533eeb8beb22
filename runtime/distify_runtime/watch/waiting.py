"""A run in which no rank gets on is ended, with what each rank was doing."""

from __future__ import annotations

import faulthandler
import threading
import time
from typing import Any

from distify_runtime import communicator
from distify_runtime.watch import frames, recorder, uneven
from distify_runtime.watch.board import Board
from distify_runtime.watch.mode import Mode
from distify_runtime.watch.pulse import Pulse
from distify_runtime.watch.unanswered import Unanswered
from distify_runtime.watch.verdict import broken_elsewhere, end_process, say
from distify_runtime.watch.watching import Watching

#: How it is said.
NOBODY = "no rank has got on for"
#: Seconds between two looks; between two notes for the others; after which it is said that nobody gets on.
_EACH, _BETWEEN, _SAID_AFTER = 1.0, 3.0, 30.0
#: Seconds after which a rank that stands still looks into torch's flight recorder.
_RECORDED_AFTER = 2.0
#: Seconds after which a rank that leaves no notes is taken to have stopped.
_GONE_AFTER = 15.0
#: Rank 0 judges; rank 1 does if that has stopped.
_JUDGES = 2


class Waiting(threading.Thread):
    """Beside the training. `board`: of this thread alone. patience: seconds; 0: for ever."""

    def __init__(self, board: Board, mode: Mode, patience: float, watching: Watching) -> None:
        super().__init__(name="distify-watch", daemon=True)
        self._board, self._mode, self._patience, self._watching = board, mode, patience, watching
        self._over = threading.Event()
        self._pulse = Pulse()
        self._notes: dict[int, tuple[int, float]] = {}  # of each rank: its last note, and since when that is there
        self._uneven = uneven.Reader(board) if board.rank == 0 else None
        self._told = False
        self._unanswered = Unanswered(mode, patience)

    def end(self) -> None:
        self._over.set()
        self._unanswered.end()
        self.join(_BETWEEN)

    def run(self) -> None:
        number, due = 0, 0.0
        self._unanswered.start()
        try:
            while not self._over.wait(_EACH):
                still, now = self._pulse.still(), time.monotonic()
                if now >= due:
                    due = now + _BETWEEN
                    number += 1
                    self._judge(self._exchanged(self._note(number, still)), now)
                with self._unanswered.asking():
                    is_over = self._board.appended("waiting", 0)
                if is_over:
                    self._leave()
                    return
        except RuntimeError:  # the store is gone: so is the run
            return

    def _exchanged(self, note: dict[str, Any]) -> dict[int, Any]:
        """Leaves a note for the others; theirs, for who judges."""
        with self._unanswered.asking():
            self._board.post("pulse", note)
            return self._board.present("pulse") if self._board.rank < _JUDGES else {}

    def _leave(self) -> None:
        """Rank 0, or who judges in its place, has ended the run."""
        faulthandler.dump_traceback(all_threads=True)
        if self._mode is Mode.ON:
            time.sleep(3 * _EACH)  # a launcher ends this rank as the judge fails first; without one, it ends by itself
            end_process()

    def _note(self, number: int, still: float) -> dict[str, Any]:
        stack = self._pulse.stack()
        return {
            "number": number,
            "still": still,
            "steps": self._watching.steps,
            "meets": uneven.meets(),
            "line": frames.last_of_script(stack),
            "stack": frames.told(stack),
            "window": frames.shows_a_window(stack),
            "met": communicator.last_met(),
            "recorded": recorder.last() if still > _RECORDED_AFTER else "",
        }

    def _judge(self, notes: dict[int, Any], now: float) -> None:
        if self._over.is_set() or not notes:
            return
        if self._uneven and (said := self._uneven.judged(notes)):
            broken_elsewhere("uneven", said, self._mode)
        for rank, note in notes.items():
            if self._notes.get(rank, (0, 0.0))[0] != note["number"]:
                self._notes[rank] = note["number"], now
        silent = {rank: now - since for rank, (_, since) in self._notes.items()}
        gone = [rank for rank, seconds in silent.items() if seconds > _GONE_AFTER]
        if (self._board.rank and 0 not in gone) or len(notes) < self._board.ranks:
            return
        still = min(max(note["still"], silent[rank] if rank in gone else 0.0) for rank, note in notes.items())
        if any(note["window"] for rank, note in notes.items() if rank not in gone):
            return  # one process would wait as well
        if still < _SAID_AFTER:
            self._told = False
        elif not self._told:
            self._told = True
            say(f"{NOBODY} {still:.0f} s: {self._places(notes, gone)}")
        if self._patience and still >= self._patience:
            self._end(notes, gone, still)

    @staticmethod
    def _places(notes: dict[int, Any], gone: list[int]) -> str:
        said = []
        for rank, note in sorted(notes.items())[:8]:
            how = "does not answer, and was" if rank in gone else "is"
            said.append(f"rank {rank} {how} at {note['line'] or 'no line of the script'} after {note['steps']} steps")
        return "; ".join(said)

    def _end(self, notes: dict[int, Any], gone: list[int], still: float) -> None:
        self._board.append("waiting", True)
        for rank, note in sorted(notes.items()):
            met = f"; came last to {note['met']}" if note["met"] else ""
            met += f"; torch's recorder has last {note['recorded']}" if note["recorded"] else ""
            say(f"rank {rank}, after {note['steps']} steps{met}:\n{note['stack']}".rstrip())
        time.sleep(2 * _EACH)  # the others write their stacks into their logs
        message = f"{NOBODY} {still:.0f} s, and the run is ended: {self._places(notes, gone)}"
        message += self._uneven.reason() if self._uneven else ""
        broken_elsewhere("waiting", message, self._mode)
