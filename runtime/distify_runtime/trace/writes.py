"""Which files a process writes; and that none of them lies outside of its working copy, if it has one."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from distify_runtime.patching import wrap
from distify_runtime.saving import finished
from distify_runtime.trace.own_copies import make_own

#: Audit events that change what their arguments (by number) name.
_CHANGES = {
    "os.mkdir": 1,
    "os.remove": 1,
    "os.rmdir": 1,
    "os.rename": 2,
    "os.link": 2,
    "os.symlink": 2,
}
_CACHES = ("XDG_CACHE_HOME", "TORCH_HOME", "HF_HOME", "MPLCONFIGDIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")


def watch_writes(written: list[str], root: Path | None, spared: Path | None, refusal: Path) -> None:
    """Notes what is opened for writing below the working directory, or below `root`, once each, relative to it.

    With `root`, whatever would be changed elsewhere is not, and in the folder `spared` least of all: PermissionError,
    and `refusal` is a file that names it. What a link below `root` leads to is copied there first.
    """
    base = (root or Path.cwd()).resolve()
    allowed = _scratch()
    pid = os.getpid()
    busy = False

    def touch(path: Any, opened: bool, anew: bool = False) -> None:
        nonlocal busy
        if busy or os.getpid() != pid or not isinstance(path, (str, bytes, os.PathLike)):
            return
        busy = True
        try:
            place = os.path.abspath(os.fsdecode(path))
            if root:
                make_own(Path(place if opened else os.path.dirname(place)), base, anew)
            real = Path(finished(os.path.realpath(place) if opened else _named(place)))
            if real.is_relative_to(base):
                name = str(real.relative_to(base))
                if opened and name not in written and "__pycache__" not in name:
                    written.append(name)
            elif root and not _is_free(real, allowed, spared):
                refusal.write_text(str(real), encoding="utf-8")
                raise PermissionError(f"distify verify: {real} is not to be changed")
        finally:
            busy = False

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            if _writes(args[1], args[2]):
                touch(args[0], True, _empties(args[1], args[2]))
        elif event == "os.truncate":
            touch(args[0], True)
        elif event == "shutil.rmtree":
            touch(os.path.join(args[0], "all of it"), False)
        elif event in _CHANGES:
            for path in args[: _CHANGES[event]]:
                touch(path, False)

    def save(original: Any, obj: object, f: Any, *args: Any, **kwargs: Any) -> None:
        touch(f, True, True)  # torch opens the file below Python
        original(obj, f, *args, **kwargs)

    sys.addaudithook(audit)
    wrap(torch, "save", save)


def _named(path: str) -> str:
    """Where the name itself lies, and not what it may lead to: that is what is taken away, or renamed."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _is_free(path: Path, allowed: list[Path], spared: Path | None) -> bool:
    if "__pycache__" in path.parts:
        return True
    return any(path.is_relative_to(one) for one in allowed) and not (spared and path.is_relative_to(spared))


def _writes(mode: Any, flags: Any) -> bool:
    return any(letter in mode for letter in "wax+") if mode else bool((flags or 0) & (os.O_WRONLY | os.O_RDWR))


def _empties(mode: Any, flags: Any) -> bool:
    return any(letter in mode for letter in "wx") if mode else bool((flags or 0) & os.O_TRUNC)


def _scratch() -> list[Path]:
    """Where anybody may write: temporary folders, devices, caches."""
    home = Path.home()
    places: list[str | Path] = [
        tempfile.gettempdir(),
        "/dev",
        "/proc",
        home / ".cache",
        home / ".config" / "matplotlib",
    ]
    places += filter(None, map(os.environ.get, _CACHES))
    return [Path(os.path.realpath(one)) for one in places]
