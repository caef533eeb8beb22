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
    for part in lexical.relative_to(root).parts:
        here /= part
        if _leads_out(here, root):
            with _alone(root):
                if _leads_out(here, root):  # no other rank was at it
                    _replace(here, Path(os.path.realpath(here)), anew and here == lexical)


def _leads_out(path: Path, root: Path) -> bool:
    return path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root)


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    with root.with_name(f"{root.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
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
