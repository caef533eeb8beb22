"""What is said where an invariant does not hold, and what becomes of the run."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterable

from distify_runtime.watch.mode import Mode

#: What has been said, by what it is about.
said: dict[str, str] = {}


class InvariantBroken(BaseException):
    """No Exception: what a script catches around a step must not swallow it."""

    __module__ = "distify_runtime"


def broken(what: str, message: str, mode: Mode) -> None:
    """In the thread that trains. Raises InvariantBroken, or says it once for each `what`."""
    if mode is Mode.ON:
        raise InvariantBroken(message)
    say_once(what, message)


def broken_elsewhere(what: str, message: str, mode: Mode) -> None:
    """The same in a thread beside it, which may never get on: the process ends here."""
    say_once(what, message)
    if mode is Mode.ON:
        end_process()


def end_process() -> None:
    """At once, with the processes that it has started: a worker that sleeps would never see that nobody waits."""
    sys.stdout.flush()
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(1)


def say_once(what: str, message: str) -> None:
    if what not in said:
        said[what] = message
        say(message)


def say(message: str) -> None:
    print(f"distify: {message}", file=sys.stderr, flush=True)


def of_ranks(ranks: Iterable[int]) -> str:
    """`rank 1`, `ranks 1 and 3`, `ranks 1, 2, 3 and 5 more`"""
    names = [str(rank) for rank in ranks]
    if len(names) == 1:
        return f"rank {names[0]}"
    shown = names if len(names) < 5 else [*names[:3], f"{len(names) - 3} more"]
    return f"ranks {', '.join(shown[:-1])} and {shown[-1]}"
