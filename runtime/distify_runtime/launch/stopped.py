"""Ranks that a signal has stopped (SIGSTOP): the others wait for them, and say no more than that.

Once a rank has failed, those that are stopped go on for as long as it takes them to write where they are.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from distify_runtime.arriving import ASKS_FOR_STACK, STACK
from distify_runtime.launch.config import LaunchConfig
from distify_runtime.launch.processes import send, send_to_main_thread, stopped_children
from distify_runtime.launch.supervisor import SIGNS


class Stopped:
    """The ranks of this machine. `folder`: of their signs."""

    def __init__(self, config: LaunchConfig, folder: Path) -> None:
        self._config, self._folder = config, folder
        self._found: set[int] = set()
        self._has_looked = False

    def wake(self, supervisors: Mapping[int, int], ended: Collection[int]) -> None:
        """Those scripts that are stopped, by the processes that each rank's was started by: they write their stacks
        first of all. To be called once a rank has failed; looks once."""
        if self._has_looked:
            return
        self._has_looked = True
        rank_of = {process: rank for rank, process in supervisors.items() if rank not in ended}
        for script, supervisor in stopped_children(rank_of).items():
            rank = rank_of[supervisor]
            self._found.add(rank)
            if ASKS_FOR_STACK and self._sign(rank).exists():  # without it the signal would end it
                send_to_main_thread(script, ASKS_FOR_STACK)
            send(script, signal.SIGCONT)

    def said(self) -> Iterator[str]:
        """Which ranks were, and where, in lines."""
        from distify_runtime.watch.frames import last_of_script, told  # only here: a launch need not wait for them
        from distify_runtime.watch.pulse import calls_of

        for rank in sorted(self._found):
            calls = []
            with contextlib.suppress(OSError):
                calls = calls_of(self._sign(rank).read_text(errors="replace"))
            place = f" at {last_of_script(calls) or 'no line of the script'}" if calls else ""
            log = self._config.log(rank)
            yield (
                f"distify: rank {rank} of {self._config.world_size} had been stopped by a signal (SIGSTOP){place}; "
                f"its log is {log}"
            )
            yield from told(calls).splitlines()

    def _sign(self, rank: int) -> Path:
        return self._folder / f"{SIGNS}{rank}{STACK}"
