"""Where in the script something happens."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from types import FrameType

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: Also of an environment that lies beneath this one.
_INSTALLED = {"site-packages", "dist-packages"}
#: Of a stack.
_MOST_LINES = 20
#: What is installed; a script of the user's stands elsewhere.
_LIBRARIES = tuple(
    {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")} | {_OURS}
)


def is_of_script(file: str) -> bool:
    real = os.path.realpath(file)
    return not file.startswith("<") and not real.startswith(_LIBRARIES) and _INSTALLED.isdisjoint(real.split(os.sep))


def line_of_script(frame: FrameType | None) -> str:
    """`train.py:12`, of the innermost line that is no library's; empty where there is none."""
    while frame is not None:
        if is_of_script(frame.f_code.co_filename):
            return f"{_shown(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def here() -> str:
    """The line of the script that is being run, ` (train.py:12)`, or nothing."""
    line = line_of_script(sys._getframe(1))
    return f" ({line})" if line else ""


def told(frame: FrameType | None) -> str:
    """A stack as Python prints it, what is called last standing last."""
    lines = [one for one in traceback.extract_stack(frame) if not one.filename.startswith("<frozen ")]
    return "".join(traceback.format_list(lines[-_MOST_LINES:]))


def told_of(error: BaseException) -> str:
    """`RuntimeError: out of memory (train.py:12)`: of the line that is being run."""
    said = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {said}{here()}"


def _shown(file: str) -> str:
    near = os.path.relpath(file)
    return file if near.startswith("..") else near
