"""Which folders of a project are its own: no caches, hidden folders or environments."""

from __future__ import annotations

import os
from collections.abc import Iterator

from distify.errors import DistifyError


def files_below(folder: str) -> Iterator[str]:
    """The files of a project, folder by folder, in order; links among them, links to folders too."""
    for root, files in _walk(folder):
        yield from (os.path.join(root, name) for name in files)


def folders_below(folder: str) -> Iterator[str]:
    """Those that its files are in, or could be."""
    yield from (root for root, _ in _walk(folder) if root != folder)


def _walk(folder: str) -> Iterator[tuple[str, list[str]]]:
    def unreadable(error: OSError) -> None:
        raise DistifyError(f"{error.filename}: cannot be read: {error.strerror}")

    for root, folders, files in os.walk(folder, onerror=unreadable):
        links = [name for name in folders if os.path.islink(os.path.join(root, name))]
        folders[:] = sorted(name for name in folders if name not in links and not is_left_out(os.path.join(root, name)))
        yield root, sorted([*files, *links])


def is_left_out(folder: str) -> bool:
    """Hidden folders, caches, and environments (venv leaves pyvenv.cfg in its root, conda conda-meta)."""
    name = os.path.basename(folder)
    marks = ("pyvenv.cfg", "conda-meta")
    return (
        name.startswith(".")
        or name in ("__pycache__", "node_modules", "site-packages")
        or any(os.path.exists(os.path.join(folder, mark)) for mark in marks)
    )
