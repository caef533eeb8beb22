"""A checkpoint is whole or not there: one that is being written takes its place when it is complete.

A process that is killed as it saves, or finds the disk full, would leave a part of a file where the last checkpoint
was. So `torch.save` and `torch.jit.save` write beside it, and rename. What a rename would change is written as ever:
pipes and devices, files with other names (hard links) or attributes of their own, in folders that nobody may write to.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import stat
from collections.abc import Iterator
from typing import Any

import torch

from distify_runtime.patching import wrap

#: Behind a file's name as long as it is written. torch names what is in the file by the text before the last dot.
_UNFINISHED, _WITHOUT_DOT = "-unfinished", ".unfinished"
#: What file systems say that know of no such thing.
_NEVER_SYNCED = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
#: Set to "plain" for files that are written where they are, which takes less room.
_VARIABLE = "DISTIFY_SAVE"
#: An attribute that a new file has by itself.
_OF_EVERY_FILE = "security.selinux"


@functools.cache
def save_whole() -> None:
    """From here on, in this process."""
    if os.environ.get(_VARIABLE) == "plain":
        return
    # Within `torch.save`: it may have been imported by its name, and others look at what it is given.
    if hasattr(torch.serialization, "_open_zipfile_writer"):
        wrap(torch.serialization, "_open_zipfile_writer", _written_whole)
    wrap(torch.jit, "save", _save_module)


def finished(path: str) -> str:
    """The name that a file will have, if it is one that is being written."""
    return path.removesuffix(_UNFINISHED).removesuffix(_WITHOUT_DOT)


@contextlib.contextmanager
def _written_whole(original: Any, name_or_buffer: Any) -> Iterator[Any]:
    with whole(name_or_buffer) as where, original(where) as file:
        yield file


def _save_module(original: Any, m: Any, f: Any, *args: Any, **kwargs: Any) -> None:
    with whole(f) as where:
        original(m, where, *args, **kwargs)


@contextlib.contextmanager
def whole(path: Any) -> Iterator[Any]:
    """Where to write what is to be at `path`, which it is at the end; anything but a path is given back.

    After an exception what was there is there.
    """
    place = os.path.realpath(path) if isinstance(path, (str, os.PathLike)) else None
    unfinished = _named(place) if isinstance(place, str) else ""
    lock = _taken(str(place), unfinished) if unfinished else -1
    if lock < 0:
        yield path
        return
    try:
        try:
            yield unfinished
            _sync(lock)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            raise
        _put(unfinished, str(place))
    finally:
        os.close(lock)


def _named(place: str) -> str:
    return place + (_UNFINISHED if "." in os.path.basename(place) else _WITHOUT_DOT)


def _taken(place: str, unfinished: str) -> int:
    """A descriptor of the file that is going to be at `place`; -1 where it is better written as ever."""
    try:
        before = os.stat(place)
    except FileNotFoundError:
        before = None
    except OSError:
        return -1
    if before is not None and not _is_ordinary(place, before):
        return -1
    try:
        # Not for writing: it is torch that opens it to write, and what it writes is counted as such.
        found = os.open(unfinished, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError:
        return -1
    try:
        _lock(found, unfinished)
        if before is not None:
            _make_alike(found, before)
    except (OSError, ImportError):
        os.close(found)
        return -1
    return found


def _is_ordinary(place: str, before: os.stat_result) -> bool:
    """A file that another one may take the place of."""
    if not stat.S_ISREG(before.st_mode) or before.st_nlink != 1 or not os.access(place, os.W_OK):
        return False
    listed = os.listxattr(place) if hasattr(os, "listxattr") else []
    return not set(listed) - {_OF_EVERY_FILE}


def _lock(found: int, unfinished: str) -> None:
    """Raises OSError where another process, or thread, is writing it; or has just put it in its place."""
    import fcntl

    fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
    ours, there = os.fstat(found), os.stat(unfinished)
    if (ours.st_dev, ours.st_ino) != (there.st_dev, there.st_ino) or not stat.S_ISREG(ours.st_mode):
        raise FileExistsError


def _make_alike(found: int, before: os.stat_result) -> None:
    ours = os.fstat(found)
    if (ours.st_uid, ours.st_gid) != (before.st_uid, before.st_gid):
        os.fchown(found, before.st_uid, before.st_gid)
    os.fchmod(found, stat.S_IMODE(before.st_mode))


def _sync(found: int) -> None:
    """The name must not come to the disk before what it names."""
    try:
        os.fsync(found)
    except OSError as error:
        if error.errno not in _NEVER_SYNCED:
            raise


def _put(unfinished: str, place: str) -> None:
    try:
        os.replace(unfinished, place)
    except OSError:  # a file that is mounted by itself
        shutil.copyfile(unfinished, place)
        os.unlink(unfinished)
