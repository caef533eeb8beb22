"""Which files ranks have read with `torch.load` before they trained: why they part, where one has not found any."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from distify_runtime.environment import is_a_ranks_child
from distify_runtime.patching import wrap
from distify_runtime.watch.watching import Watching

#: So many are kept: samples may be files, too.
_MOST = 20
_loaded: list[str] = []
_watching: Watching | None = None


def watch(watching: Watching) -> None:
    global _watching
    _watching = watching
    watching.reasons.append(lambda: _reason(watching))
    _notice_loads()


@functools.cache
def _notice_loads() -> None:
    def load(original: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        path = args[0] if args else kwargs.get("f")
        in_main = threading.current_thread() is threading.main_thread() and not is_a_ranks_child()
        if _watching is not None and in_main and not _watching.steps and isinstance(path, (str, os.PathLike)):
            _note(_watching, os.path.basename(os.fspath(path)))
        return found

    wrap(torch, "load", load)


def _note(watching: Watching, name: str) -> None:
    if name not in _loaded and len(_loaded) < _MOST:
        _loaded.append(name)
        watching.board.post("loads", _loaded)


def _reason(watching: Watching) -> str:
    found = watching.board.present("loads")
    return reason([found.get(rank, []) for rank in range(watching.board.ranks)])


def reason(loaded: Sequence[Sequence[str]]) -> str:
    """Of what each rank has read: "" where all have read the same, or each something of its own."""
    most = max(loaded, key=len)
    less: Mapping[int, list[str]] = {
        rank: [name for name in most if name not in names]
        for rank, names in enumerate(loaded)
        if set(names) < set(most)
    }
    if not less or any(set(names) - set(most) for names in loaded):
        return ""
    rank, missed = next(iter(less.items()))
    return (
        f" (before that, rank {loaded.index(most)} has read {missed[0]}, and rank {rank} has not: is it on a disk that "
        "all machines see?)"
    )
