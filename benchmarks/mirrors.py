"""Finds the repositories below a folder, and puts the Python files of bare ones on disk."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path


def python_files(folders: list[Path], scratch: Path) -> list[tuple[str, Path]]:
    """The name of its repository and the path of each Python file below the folders.

    A folder may be a work tree, a bare git directory, or hold any number of either; what bare ones have at
    HEAD is written below `scratch`.
    """
    found: list[tuple[str, Path]] = []
    for folder in folders:
        for name, root in _roots(folder, scratch):
            found += [(name, path) for path in sorted(root.rglob("*.py")) if path.is_file()]
    return found


def _roots(folder: Path, scratch: Path) -> Iterator[tuple[str, Path]]:
    if _is_bare(folder):
        name = folder.parent.name if folder.name == "repo" else folder.name
        yield name, _unpacked(folder, scratch / name)
        return
    inner = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    if any(_holds_bare(path) for path in inner):
        for path in inner:
            yield from _roots(path, scratch)
    else:
        yield folder.name, folder


def _is_bare(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def _holds_bare(folder: Path) -> bool:
    return _is_bare(folder) or any(_is_bare(path) for path in folder.iterdir() if path.is_dir())


def _unpacked(bare: Path, into: Path) -> Path:
    into.mkdir(parents=True, exist_ok=True)
    command = ["git", "--git-dir", str(bare), "archive", "--format=tar", "HEAD", "--", ":(glob)**/*.py"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode == 0:  # else: nothing in it is Python
        with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
            archive.extractall(into, filter="data")
    return into
