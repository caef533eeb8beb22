"""What a rank tells `distify run` before it has joined the others. No torch here.

Who waits for a rank that never comes, waits in torch, and cannot say where that rank is. The launcher can: each rank
has a place of its own for signs, of which its supervisor tells it. A file there says that it has come and waits for
the others; into another one it writes its stack when it is sent `ASKS_FOR_STACK`. Once it has joined them, a third one
has what may become the run's end, which may come before anybody else can say why.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

#: The path that signs begin with, set by the supervisor.
SIGNS_VARIABLE = "DISTIFY_SIGNS"
#: How the run watches itself, and how many seconds it may stand still; 0: for ever.
WATCH_VARIABLE, PATIENCE_VARIABLE = "DISTIFY_WATCH", "DISTIFY_HANG_TIMEOUT"
USUAL_PATIENCE = 300.0
#: One that nobody else uses; 0 where there is none (macOS).
ASKS_FOR_STACK = int(signal.SIGRTMAX) - 4 if hasattr(signal, "SIGRTMAX") else 0
CAME, STACK, UNEVEN = ".came", ".stack", ".uneven"


def listen() -> None:
    """From now on this process writes its stack among its signs when it is asked: whatever it is at, as it is no
    handler of Python's."""
    signs = os.environ.get(SIGNS_VARIABLE)
    if signs and ASKS_FOR_STACK:
        with contextlib.suppress(OSError):  # the launcher has gone, or this is what a rank has left behind
            file = os.open(signs + STACK, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            faulthandler.register(ASKS_FOR_STACK, file=file, all_threads=True)


def come(watch: str) -> None:
    """This rank has come to where the others are waited for. watch: "on", "warn" or "off"."""
    if signs := os.environ.get(SIGNS_VARIABLE):
        with contextlib.suppress(OSError):
            Path(signs + CAME).write_text(watch, encoding="utf-8")


def leave_note(step: int, is_sure: bool, told: str) -> None:
    """That this rank may not be at the same step as the others any more. told: a sentence, and lines behind it."""
    if signs := os.environ.get(SIGNS_VARIABLE):
        with contextlib.suppress(OSError), open(signs + UNEVEN, "a", encoding="utf-8") as file:
            file.write(json.dumps([step, is_sure, told]) + "\n")


def has_all_here(environ: Mapping[str, str]) -> bool:
    """Whether a launcher sees to ranks that do not come: one that sees all of them."""
    return SIGNS_VARIABLE in environ and environ.get("LOCAL_WORLD_SIZE") == environ.get("WORLD_SIZE")
