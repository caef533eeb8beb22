"""What a process looks for beside its working copy, and finds only beside the folder that was copied."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from distify_runtime.patching import wrap

#: Audit events of what fails, or goes on quietly, where there is no such file or folder.
_ASKS = frozenset({"open", "os.listdir", "os.scandir"})


def watch_looks(root: Path | None, spared: Path | None, missed: Path) -> None:
    """Notes in the file `missed`, a line each, the paths that lead out of `root` to nothing, but out of `spared` to
    something: a script that only asks whether they are there goes on without them, and says nothing.
    """
    if root is None or spared is None:
        return
    base, source, pid = root.resolve(), spared.resolve(), os.getpid()
    known: set[str] = set()
    busy = False

    def look(path: Any) -> None:
        nonlocal busy
        if busy or os.getpid() != pid or not isinstance(path, (str, bytes, os.PathLike)):
            return
        busy = True
        try:
            meant = _meant(os.fsdecode(path), base, source)
            if meant is not None and meant not in known:
                known.add(meant)
                missed.write_text("".join(f"{one}\n" for one in sorted(known)), encoding="utf-8")
        finally:
            busy = False

    def asked(original: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(path, *args, **kwargs)
        except OSError:
            look(path)
            raise

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event in _ASKS and args:
            look(args[0])

    sys.addaudithook(audit)
    _wrap_questions(asked)


def _wrap_questions(asked: Callable[..., Any]) -> None:
    for name in ("stat", "lstat"):
        before = getattr(os, name)
        wrap(os, name, asked)
        for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if before in able:
                able.add(getattr(os, name))  # what `shutil` asks before it copies links
    accessor = getattr(pathlib, "_NormalAccessor", None)
    if accessor is not None:  # in Python 3.10 it holds on to the function as it was
        accessor.stat = staticmethod(os.stat)


def _meant(path: str, root: Path, spared: Path) -> str | None:
    """The path beside the user's project that one beside its copy stands for, if only the former is there."""
    here = Path.cwd()
    if not os.path.isabs(path) and not here.is_relative_to(root):
        return None
    whole = Path(os.path.normpath(here / path))
    beside = not os.path.isabs(path) or whole.is_relative_to(root.parent)
    if not beside or whole.is_relative_to(root) or os.path.lexists(whole):
        return None
    meant = os.path.normpath(spared / os.path.relpath(whole, root))
    return meant if os.path.exists(meant) else None
