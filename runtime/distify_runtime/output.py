"""What the user sees: rank 0 speaks for all ranks."""

from __future__ import annotations

import builtins
import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import IO, Any, NoReturn

import torch
from torch import Tensor
from torch.nn import Parameter

from distify_runtime.environment import is_a_ranks_child, is_main_process, local_rank
from distify_runtime.meeting import by_itself
from distify_runtime.watch.frames import is_defined_by_script

#: What puts a text together, and the line that shows it.
Look = Callable[[Callable[[], str], FrameType], None]

#: Types whose objects stay what they are when they are shown.
_PLAIN = {str, int, float, complex, bool, bytes, type(None), Tensor, Parameter}
_of_python = builtins.print
#: What whoever has started the script has put there sees what is shown, and no more.
_streams = (sys.stdout, sys.stderr)

_printing = ContextVar("distify_prints", default=False)
_look: Look | None = None


@by_itself
def rank_zero_print(
    *values: object,
    sep: str | None = " ",
    end: str | None = "\n",
    file: IO[str] | None = None,
    flush: bool = False,
) -> None:
    """Python's `print` on rank 0, nothing on the others; into a text in memory, and into a stream of the script's own,
    which may keep it, on all.

    What an object says of itself is asked on all ranks: it may change by that, or meet the other ranks.
    """
    text = _Text(values, sep)
    look_at(text, sys._getframe(1))
    stream = sys.stdout if file is None else file
    if is_main_process() or isinstance(stream, io.StringIO):
        _print(*text.values, sep=sep, end=end, file=file, flush=flush)
    elif _is_of_script(stream) or (builtins.print is not _of_python and not _printing.get()):
        with _muted():
            _print(*text.values, sep=sep, end=end, file=file, flush=flush)
    else:
        text.ask_objects()


def _print(*values: object, **how: Any) -> None:
    """Python's `print`, or what a script has put in its place: that may call what `print` has been before, which is
    this."""
    again = _printing.get()
    token = _printing.set(True)
    try:
        (_of_python if again else builtins.print)(*values, **how)
    finally:
        _printing.reset(token)


def _is_of_script(stream: object) -> bool:
    return not any(stream is one for one in _streams) and is_defined_by_script(type(stream), "write")


@contextmanager
def _muted() -> Iterator[None]:
    """What a stream of the script's own hands on to the terminal, rank 0's does."""
    streams = [one for one in (sys.__stdout__, sys.__stderr__) if one is not None]
    for one in streams:
        one.write = len  # type: ignore[method-assign]
    try:
        yield
    finally:
        for one in streams:
            vars(one).pop("write", None)  # another thread may have been here


class _Text:
    """What a call shows, put together once, if at all: an object may say something else the next time."""

    def __init__(self, values: tuple[object, ...], sep: str | None) -> None:
        self.values = values
        self._sep = sep

    def __call__(self) -> str:
        texts = [str(one) for one in self.values]
        self.values = tuple(texts)
        return (" " if self._sep is None else self._sep).join(texts)

    def ask_objects(self) -> None:
        """Unless that has been done already. Tensors are left out: they would wait for their device."""
        for one in self.values:
            if type(one) not in _PLAIN:
                str(one)


def look_at(text: Callable[[], str], frame: FrameType) -> None:
    """Where the script shows something, on every rank. frame: of the line that does."""
    if _look is not None and not torch.compiler.is_compiling():
        _look(text, frame)


def when_shown(look: Look | None) -> None:
    """Call `look` on each rank that comes to show something, with what puts the text together and the line."""
    global _look
    _look = look


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
