"""Ranks that never join the others, and those that wait for them: in torch, for half an hour.

A rank is given up where it has ended, or has neither come nor computed anything for as long as a run may stand still.
One that still computes is waited for, and so is a script that does not use the runtime: it may meet in its own way.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from distify_runtime.arriving import (
    ASKS_FOR_STACK,
    CAME,
    PATIENCE_VARIABLE,
    STACK,
    UNEVEN,
    USUAL_PATIENCE,
    WATCH_VARIABLE,
)
from distify_runtime.launch.config import LaunchConfig, asked_variables
from distify_runtime.launch.processes import ticks_of_group
from distify_runtime.launch.report import RankEnd, names_of, read_tail, waiting_line
from distify_runtime.launch.supervisor import SIGNS

#: Of the time that passes; a process that waits, even one that asks again and again, takes less.
_LEAST_SHARE = 0.005
_TICKS_PER_SECOND = 100
_LONGEST_BETWEEN = 5.0
#: For a rank to write its stack.
_STACK_SECONDS = 1.0


class Joining:
    """The ranks of this machine, until all have come to where they meet. `folder`: of their signs."""

    def __init__(self, config: LaunchConfig, environ: Mapping[str, str], folder: Path) -> None:
        self._said: list[str] = []  # why the run cannot go on, once that is so
        self._waits = ""  # and who waits
        self.patience, self._watch = _asked(config, environ)
        self._config, self._folder = config, folder
        self._between = min(_LONGEST_BETWEEN, self.patience / 8)
        self._due = 0.0
        self._have_come = self._has_told = not self.patience or not config.is_here
        self._has_told_who_left = False
        self._since: dict[int, tuple[int, float]] = {}  # rank: what it had computed, and since when it is that
        self._has_asked = False  # for stacks

    def start_anew(self) -> None:
        """All ranks do, perhaps by other numbers."""
        for sign in (CAME, STACK, UNEVEN):
            for left in self._folder.glob(f"{SIGNS}*{sign}"):
                left.unlink()
        self._since.clear()
        self._have_come = self._has_told = not self.patience or not self._config.is_here
        self._has_asked = False
        self._said = []

    def look(
        self, groups: Mapping[int, int], ends: Mapping[int, RankEnd], ask: Callable[[int, int], None]
    ) -> list[int]:
        """The ranks to end, since the others wait for them in vain, or they for others; `said()` is why.

        ask: (rank, number of a signal) sends it to the rank's script.
        """
        now = time.monotonic()
        if self._have_come or self._has_told or now < self._due or len(groups) < self._config.nproc:
            return []
        self._due = now + self._between
        if any(end.code for end in ends.values()):
            return []
        missing = [rank for rank in sorted(groups) if not self._words_of(rank)]
        self._have_come = not missing
        waiting = [rank for rank in sorted(groups) if rank not in missing and rank not in ends]
        # To write a stack is to compute, too.
        if not missing or not (self._has_asked or self._is_hopeless(missing, waiting, groups, ends, now)):
            return []
        if not self._has_asked:
            self._has_asked = True
            for rank in missing:
                if rank not in ends and self._sign(rank, STACK).exists():  # without it the signal would end it
                    ask(rank, ASKS_FOR_STACK)
            self._due = now + _STACK_SECONDS
            return []
        self._has_told = True
        self._said = list(self._lines(missing, ends, now))
        them = "it" if len(missing) == 1 else "them"
        self._waits = f"{names_of(waiting)} {'waits' if len(waiting) == 1 else 'wait'} for {them}" if waiting else ""
        return [rank for rank in missing if rank not in ends] or waiting

    def tell_who_left(self, groups: Mapping[int, int], ends: Mapping[int, RankEnd]) -> str:
        """To be said, once: that a rank has ended while others go on. If they wait for it, they may wait for long."""
        early = min(ends.values(), key=lambda end: end.ended, default=None)
        seconds = self._config.patience
        if self._has_told_who_left or early is None or early.code != 0 or time.time() - early.ended < seconds:
            return ""
        self._has_told_who_left = True
        others = sorted(groups.keys() - ends.keys())
        return waiting_line(early, others, seconds) if others else ""

    def said(self, *ends: str) -> list[str]:
        """Why ranks wait in vain, in lines, and what becomes of the run; [] where they do not."""
        last = ", and ".join(filter(None, (self._waits, *ends)))
        return [*self._said, *([f"distify: {last}"] if self._said and last else [])]

    def parted(self) -> str:
        """Which rank may have come to another step than the others, by what ranks have left of it, and why."""
        found: dict[int, dict[int, tuple[bool, str]]] = defaultdict(dict)
        for rank in range(self._config.world_size):
            for line in read_tail(self._sign(rank, UNEVEN)).splitlines():
                with contextlib.suppress(ValueError):  # a line that was cut off
                    step, is_sure, told = json.loads(line)
                    found[step].setdefault(rank, (is_sure, told))
                    if is_sure and not found[step][rank][0]:
                        found[step][rank] = is_sure, told
        alone = [max(said.values()) for _, said in sorted(found.items()) if len(said) < self._config.world_size]
        return next((told for is_sure, told in alone if is_sure), alone[-1][1] if alone else "")

    @property
    def ends_the_run(self) -> bool:
        """Whether what is said is not all."""
        return self._watch != "warn"

    def _is_hopeless(
        self,
        missing: list[int],
        waiting: list[int],
        groups: Mapping[int, int],
        ends: Mapping[int, RankEnd],
        now: float,
    ) -> bool:
        left = [rank for rank in missing if rank not in ends]
        if not waiting and not any(self._sign(rank, STACK).exists() for rank in left):
            return False
        words = {self._words_of(rank) for rank in waiting}
        self._watch = next(iter(words), self._watch)
        if self._watch == "off":
            return False
        still = [self._still(rank, groups[rank], now) >= self.patience for rank in left]
        return bool(waiting and len(left) < len(missing)) or all(still)

    def _still(self, rank: int, group: int, now: float) -> float:
        """For how many seconds it has computed nothing."""
        computed = ticks_of_group(group)
        before, since = self._since.get(rank, (-1, now))
        if computed is None or abs(computed - before) > self._between * _LEAST_SHARE * _TICKS_PER_SECOND:
            since = now
        self._since[rank] = (before if computed is None else computed), since
        return now - since

    def _lines(self, missing: list[int], ends: Mapping[int, RankEnd], now: float) -> Iterator[str]:
        from distify_runtime.watch.frames import last_of_script, told  # only here: a launch need not wait for them
        from distify_runtime.watch.pulse import calls_of

        for rank in missing[:8]:
            name, log = f"rank {rank} of {self._config.world_size}", self._config.log(rank)
            if rank in ends:
                yield f"distify: {name} ended with exit code 0 before it had joined the others; its log is {log}"
                continue
            calls = []
            with contextlib.suppress(OSError):
                calls = calls_of(self._sign(rank, STACK).read_text(errors="replace"))
            place = f"is at {last_of_script(calls) or 'no line of the script'}" if calls else "does not say where it is"
            seconds = now - self._since[rank][1]
            how = f"has not joined the others, and computed nothing for {seconds:.0f} s: it {place}"
            yield f"distify: {name} {how}; its log is {log}"
            yield from told(calls).splitlines()

    def _words_of(self, rank: int) -> str:
        """What a rank that has come says; "" for one that has not."""
        try:
            return self._sign(rank, CAME).read_text(encoding="utf-8")
        except OSError:
            return ""

    def _sign(self, rank: int, sign: str) -> Path:
        return self._folder / f"{SIGNS}{rank}{sign}"


def _asked(config: LaunchConfig, environ: Mapping[str, str]) -> tuple[float, str]:
    """How long a run may stand still (0: for ever), and how it is watched; the ranks say what is wrong with it."""
    asked = {**environ, **asked_variables(config)}
    watch = asked.get(WATCH_VARIABLE) or "on"
    with contextlib.suppress(ValueError):
        return (0.0 if watch == "off" else max(0.0, float(asked.get(PATIENCE_VARIABLE) or USUAL_PATIENCE))), watch
    return 0.0, watch
