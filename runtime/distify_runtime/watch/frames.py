"""Where in the script something happens."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from types import FrameType

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: Also of an environment that lies beneath this one.
_INSTALLED = {"site-packages", "dist-packages"}
#: Of a stack.
_MOST_LINES = 20
#: Of what an error has come through.
_MOST_CALLS = 3
#: What is installed; a script of the user's stands elsewhere.
_LIBRARIES = tuple(
    {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")} | {_OURS}
)


def is_of_script(file: str) -> bool:
    real = os.path.realpath(file)
    return not file.startswith("<") and not real.startswith(_LIBRARIES) and _INSTALLED.isdisjoint(real.split(os.sep))


def is_defined_by_script(kind: type, method: str) -> bool:
    """Whether the script says what this method of a class does."""
    code = getattr(getattr(kind, method, None), "__code__", None)
    return code is not None and is_of_script(code.co_filename)


def line_of_script(frame: FrameType) -> str:
    """`train.py:12`, of the innermost line that is no library's; empty where there is none."""
    return _line_of_script((one.f_code.co_filename, line) for one, line in traceback.walk_stack(frame))


def last_of_script(stack: list[traceback.FrameSummary]) -> str:
    """The same, of a stack that is only told."""
    return _line_of_script((one.filename, one.lineno or 0) for one in reversed(stack))


def _line_of_script(innermost_first: Iterable[tuple[str, int]]) -> str:
    return next((f"{shown(file)}:{line}" for file, line in innermost_first if is_of_script(file)), "")


def here() -> str:
    """The line of the script that is being run, ` (train.py:12)`, or nothing."""
    line = line_of_script(sys._getframe(1))
    return f" ({line})" if line else ""


def told(stack: list[traceback.FrameSummary]) -> str:
    """As Python prints it, what is called last standing last."""
    lines = [one for one in stack if not one.filename.startswith("<frozen ")]
    return "".join(traceback.format_list(lines[-_MOST_LINES:]))


def shows_a_window(stack: list[traceback.FrameSummary]) -> bool:
    """Whether somebody has to close a figure before this goes on."""
    return any(one.name == "show" and os.path.basename(one.filename) == "pyplot.py" for one in stack)


def told_of(error: BaseException) -> str:
    """`RuntimeError: out of memory (train.py:12)`: of the line that is being run."""
    said = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {said}{here()}"


def raised(error: BaseException) -> str:
    """Where an error that is passing by comes from: the script's line that is being run, its innermost lines below
    that, and the library's line that has raised it."""
    here = [one for one in traceback.extract_stack(sys._getframe(1)) if is_of_script(one.filename)][-1:]
    below = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(_OURS)]
    calls = [*here, *[one for one in below[:-1] if is_of_script(one.filename)][-_MOST_CALLS:], *below[-1:]]
    told = {f'  File "{one.filename}", line {one.lineno}, in {one.name}\n    {one.line}': None for one in calls}
    return "\n".join(told)


def shown(file: str) -> str:
    """A file as it is told: from the working folder on, if it lies there."""
    near = os.path.relpath(file)
    return file if near.startswith("..") else near
