"""The other scripts of a project: what they import has to go on working where it is changed in its place."""

from __future__ import annotations

import os
from collections.abc import Iterator

from distify_codemods import SourceFile

from distify.folders import is_left_out

#: So many files are looked through, none of which is larger: a project's own scripts, and not all of a home folder.
MOST_FILES = 2000
MOST_BYTES = 2**20


def others_of(script: str, root: str) -> tuple[SourceFile, ...]:
    """The Python files below a folder, with paths that are spelled like the script's; unreadable ones are left out."""
    absolute = os.path.isabs(script)
    found: list[SourceFile] = []
    for path in _python_files(root):
        if len(found) == MOST_FILES:
            break
        try:
            if os.path.isfile(path) and os.path.getsize(path) <= MOST_BYTES:
                with open(path, "rb") as file:
                    found.append(SourceFile(path if absolute else os.path.relpath(path), file.read()))
        except OSError:
            continue
    return tuple(found)


def _python_files(root: str) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not is_left_out(os.path.join(folder, name)))
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(".py"))
