"""What a working copy only links to, large files and folders of data, becomes its own before a run changes it."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def make_own(path: Path, root: Path, anew: bool) -> None:
    """Takes away the links out of `root` on the way to a file below it: a folder's gives way to a folder of links.

    A file is copied, unless it is to be written `anew`. One process at a time does so.
    """
    lexical = Path(os.path.abspath(path))
    if not lexical.is_relative_to(root):
        return
    here = root
    with _alone(root):
        for part in lexical.relative_to(root).parts:
            here /= part
            target = Path(os.path.realpath(here))
            if here.is_symlink() and not target.is_relative_to(root):
                _replace(here, target, anew and here == lexical)


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    with root.with_name(f"{root.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed: between two names a folder is not there for a moment
        yield


def _replace(link: Path, target: Path, anew: bool) -> None:
    with tempfile.TemporaryDirectory(dir=link.parent, prefix=".own-") as folder:
        own = Path(folder) / link.name
        if target.is_dir():
            own.mkdir()
            for entry in os.scandir(target):
                (own / entry.name).symlink_to(entry.path)
            link.unlink()
            own.rename(link)
        elif anew or not target.exists():
            link.unlink()
        else:
            shutil.copyfile(target, own)
            own.replace(link)
