"""Which rank failed first, and what is said about it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from distify_runtime.launch.causes import cause_of

TAIL_BYTES = 64 * 1024
TRACEBACK_LINES = 100
LAST_LINES = 10
#: Seconds within which two ends are noted in any order: whoever waits for a rank may be late to hear of it.
NOTED_WITHIN = 1.0
#: A traceback's last lines that may belong to its error's message.
ERROR_LINES = 8
WATCHDOG_LINES = 40

HINTS = {
    signal.SIGKILL: "out of memory?",
    signal.SIGBUS: "is /dev/shm full?",
}

#: torch puts `[rank1]: ` before each line of an uncaught error's traceback; newer Pythons colour it.
_LINE_START = r"(?:\x1b\[[0-9;]*m|\[rank\d+\]: ?|[ |+])*"
_PREFIX = re.compile(r"^(?:\x1b\[[0-9;]*m)*(?:\[rank\d+\]: ?)?(?:\x1b\[[0-9;]*m)*")
_HEADER = re.compile(_LINE_START + r"(?:Exception Group )?Traceback \(most recent call last\):")
#: Where there are other machines.
LOST_LINE = (
    "distify: a rank of another machine was gone first: what the run there says last is why; where it says nothing, "
    "that machine, or the network, went down"
)
#: Between two tracebacks that belong together.
_CHAINED = re.compile(
    _LINE_START + r"(?:During handling of the above|The above exception was the direct|Exception ignored )"
)
#: How a rank fails because another one is gone.
_CONSEQUENCE = re.compile(
    r"Connection (?:closed|reset|refused)|Broken pipe|remote process|ncclRemoteError|communicator was aborted"
    r"|HorovodInternalError|Horovod has been shut down|DistNetworkError|DistStoreError|[Tt]imed? ?out",
)


@dataclass(frozen=True)
class RankEnd:
    """How a rank ended: `code` as of subprocess (negative: a signal), `stopped` where it was told to.

    `ended` is the time in seconds. `host`: the machine that it was on, where that is not known anyway.
    """

    rank: int
    code: int
    ended: float
    stopped: bool = False
    host: str = ""

    @property
    def exit_code(self) -> int:
        """As a shell gives it: 128 + signal."""
        return self.code if self.code >= 0 else 128 - self.code

    def name(self, nproc: int) -> str:
        """`rank 1 of 2 on gpu07`"""
        return f"rank {self.rank} of {nproc}" + (f" on {self.host}" if self.host else "")

    def describe(self) -> str:
        """`failed with exit code 3`, or `was killed by SIGKILL (out of memory?)`."""
        if self.code >= 0:
            return f"failed with exit code {self.code}"
        try:
            number = signal.Signals(-self.code)
        except ValueError:
            return f"was killed by signal {-self.code}"
        hint = f" ({HINTS[number]})" if number in HINTS else ""
        return f"was killed by {number.name}{hint}"


def ended_well(ends: Iterable[RankEnd], count: int) -> bool:
    """Whether at least so many ranks have ended, and all with 0: what their engine says need not tell."""
    codes = [end.code for end in ends]
    return not any(codes) and len(codes) >= count


def first_failure(ends: Sequence[RankEnd], tails: Mapping[int, str]) -> RankEnd | None:
    """The rank whose failure brought the others down, or None; `tails` holds the end of each rank's log.

    The earliest end decides, but for two cases: a rank that fails because it lost another can be quicker to
    leave than the one that it lost; and of ranks that all give up for one reason, often only rank 0 says it.
    """

    def order(end: RankEnd) -> tuple[bool, bool, float]:
        tail = tails.get(end.rank, "")
        silent = end.code > 0 and not tail.strip()
        return is_consequence(end, tail), silent, end.ended

    return min((end for end in ends if end.code != 0 and not end.stopped), key=order, default=None)


def left_early(ends: Sequence[RankEnd], first: RankEnd, tails: Mapping[int, str]) -> RankEnd | None:
    """The rank that ended with 0 while others waited for it, if that is why `first` failed: by losing another."""
    if not is_consequence(first, tails.get(first.rank, "")):
        return None
    early = [end for end in ends if end.code == 0 and not end.stopped and end.ended <= first.ended + NOTED_WITHIN]
    return min(early, key=lambda end: end.ended, default=None)


def is_consequence(end: RankEnd, tail: str) -> bool:
    """Whether the rank says that it failed because of another one."""
    last = traceback_of(tail)[-ERROR_LINES:]
    if not last and end.code == -signal.SIGABRT:  # NCCL's watchdog aborts without a Python traceback
        last = tail.splitlines()[-WATCHDOG_LINES:]
    return _CONSEQUENCE.search("\n".join(last)) is not None


def traceback_of(text: str) -> list[str]:
    """The last traceback with the errors that led to it, to the end of `text`; [] where there is none."""
    lines = text.splitlines()
    headers = [index for index, line in enumerate(lines) if _HEADER.match(line)]
    if not headers:
        return []
    start = headers.pop()
    while headers and any(_CHAINED.match(line) for line in lines[max(headers[-1], start - 3) : start]):
        start = headers.pop()
    found = lines[start:]
    if len(found) > TRACEBACK_LINES:
        return [found[0], "  …", *found[2 - TRACEBACK_LINES :]]
    return found


def failure_lines(
    end: RankEnd, nproc: int, log: Path, tail: str, *, repeats: bool = True, is_far: bool = False
) -> list[str]:
    """What is printed last. repeats: what the rank itself has said last comes once more, or for the first time.

    is_far: the log is on the rank's own machine.
    """
    first = f"distify: {end.name(nproc)} {end.describe()}; its log {'there ' * is_far}is {log}"
    shown = traceback_of(tail) or tail.splitlines()[-LAST_LINES:]
    return [first, *(shown if repeats else ()), *meaning(end.code, shown)]


def meaning(code: int, shown: Sequence[str]) -> list[str]:
    """What is said of a failure besides, in plain words; `shown` are the last lines of its log, or its traceback."""
    plain = [_PREFIX.sub("", line) for line in shown]
    # Code that is quoted is no message, nor is it of a script's own lines that there is anything to be said.
    found = cause_of(code, [line for line in plain if not line.startswith("  ")])
    return [f"distify: {found}"] if found else []


def early_line(end: RankEnd, nproc: int, log: Path) -> str:
    return (
        f"distify: {end.name(nproc)} ended before the others, with exit code 0, and they waited for it: ranks "
        f"have to take equally many steps; its log is {log}"
    )


def waiting_line(end: RankEnd, others: Sequence[int], seconds: float) -> str:
    verb = "goes" if len(others) == 1 else "go"
    return (
        f"distify: rank {end.rank} ended {seconds:.0f} s ago with exit code 0, and {names_of(others)} {verb} on; where "
        "they wait for it, it has ended too early (Ctrl-C ends all)"
    )


def names_of(ranks: Sequence[int]) -> str:
    """`rank 1`, `ranks 1, 3`"""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks[:8]))}{' …' * (len(ranks) > 8)}"


def agent_exit_code(code: int) -> int:
    """The exit code where torchrun or horovodrun failed and no rank did; never 0."""
    return 128 - code if code < 0 else code or 1


def far_line(agent: str, code: int, logs: Path) -> str:
    """The same where ranks are on other machines: what it had to say is on the screen, and what ranks had, there."""
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
    return f"distify: {agent} {how}, for what is said above; ranks from 1 have their logs in {logs} on their machines"


def agent_lines(agent: str, code: int, log: Path) -> list[str]:
    """What is printed where an engine failed and no rank did."""
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
    how = how if code else "ended before its ranks had"
    tail = read_tail(log)
    shown = traceback_of(tail) or tail.splitlines()[-LAST_LINES:]
    return [f"distify: {agent} itself {how}; its log is {log}", *shown, *meaning(code, shown)]


def read_tail(path: Path) -> str:
    """The end of a log; "" where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
