"""Runs somebody's script in this process, as if it had been started itself."""

from __future__ import annotations

import os
import runpy
import sys
import time
from functools import partial
from pathlib import Path

#: The script's variables, which live until the interpreter ends, as in life. A model in DistributedDataParallel that
#: goes as the script ends takes its process group along, and waits for ever if a thread of that wants the interpreter.
_kept: list[object] = []
#: Seconds in which those threads finish what they are at.
_LAST_WORDS = 0.05


def run(module: bool, script: str, arguments: list[str]) -> None:
    """`script`: its path, or with `module` a name as for `python -m`. It sees `sys.argv`, `sys.path[0]`, `__name__`."""
    sys.argv = [script, *arguments]
    sys.path[0] = os.getcwd() if module else str(Path(script).resolve().parent)
    try:
        start = partial(runpy.run_module, alter_sys=True) if module else runpy.run_path
        _kept.append(start(script, run_name="__main__"))
    except BaseException as error:
        _kept.append(error)
        raise
    finally:
        time.sleep(_LAST_WORDS)
