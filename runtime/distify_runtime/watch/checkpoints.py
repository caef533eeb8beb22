"""No checkpoint of ranks that have come apart: rank 0 hears from all of them before it writes one."""

from __future__ import annotations

import functools
import threading
from typing import Any

import torch

from distify_runtime import environment
from distify_runtime.patching import wrap
from distify_runtime.watch import files
from distify_runtime.watch.watching import Watching

#: Seconds that rank 0 waits for the others.
_PATIENCE = 2.0
_watching: Watching | None = None


def watch(watching: Watching) -> None:
    """Ranks ask who writes before one of them does: there all look, and rank 0 judges where it saves."""
    global _watching
    _watching = watching
    environment.when_asked(watching.before_checkpoint)
    _notice_saves()


@functools.cache
def _notice_saves() -> None:
    def save(original: Any, *args: Any, **kwargs: Any) -> None:
        in_main = threading.current_thread() is threading.main_thread() and not environment.is_a_ranks_child()
        if _watching is not None and in_main:
            _watching.judge_all(_PATIENCE)
        files.opens(args[1] if len(args) > 1 else kwargs.get("f"))
        original(*args, **kwargs)

    wrap(torch, "save", save)
