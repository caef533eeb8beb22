"""What the user sees: rank 0 speaks for all ranks."""

from __future__ import annotations

import sys
import time
from typing import IO, NoReturn

from distify_runtime.environment import is_a_ranks_child, is_main_process, local_rank
from distify_runtime.meeting import by_itself


@by_itself
def rank_zero_print(
    *values: object,
    sep: str | None = " ",
    end: str | None = "\n",
    file: IO[str] | None = None,
    flush: bool = False,
) -> None:
    """Python's `print` on rank 0, nothing on the others."""
    if is_main_process():
        print(*values, sep=sep, end=end, file=file, flush=flush)


def note(message: str, *, on_each_machine: bool = False) -> None:
    """Tell the user something, once for all ranks and what they start; not on stdout, which is the script's own."""
    if _speaks(on_each_machine) and not is_a_ranks_child():
        print(f"distify: {message}", file=sys.stderr)


def stop(message: str) -> NoReturn:
    """End the run on every rank with a non-zero exit code; rank 0 says why, in one line.

    For mistakes that all ranks find at the same place. Raises SystemExit.
    """
    if is_main_process():
        raise SystemExit(f"distify: {message}")
    # Launchers kill the other ranks as soon as one has failed: rank 0 must have spoken by then. Waiting for
    # it in a collective would hang for ever if it had, after all, not come here.
    time.sleep(1)
    raise SystemExit(1)


def _speaks(on_each_machine: bool) -> bool:
    return is_main_process() or (on_each_machine and local_rank() == 0)
