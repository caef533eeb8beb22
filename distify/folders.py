"""Which folders of a project are its own, and what of it goes along with a copy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from distify.errors import DistifyError

#: How hidden files and folders begin that are no part of any data, wherever they lie: version control, environments,
#: secrets, caches, editors. And how they end.
_OF_TOOLS = tuple(
    ".git .hg .svn .bzr .env .venv .virtualenv .conda .direnv .tox .nox .cache .ssh .aws .netrc .pypirc .npmrc .docker "
    ".kube .DS_Store ._ .ipynb_checkpoints .idea .vscode .nfs .~lock .Trash".split()
)
_OF_TOOLS_AT_THE_END = ("_cache", ".swp", ".swo", "_history")


def files_below(folder: str) -> Iterator[str]:
    """The files of a project, folder by folder, in order; links among them, links to folders too."""
    yield from _files(_walk(folder, is_left_out))


def files_to_copy(folder: str) -> Iterator[str]:
    """Those that go along with a copy of it."""
    found = _files(_walk(folder, lambda inner: not goes_along(inner, folder)))
    yield from (path for path in found if goes_along(path, folder))


def folders_to_copy(folder: str) -> Iterator[str]:
    """Those that its files are in, or could be."""
    walked = _walk(folder, lambda inner: not goes_along(inner, folder))
    yield from (root for root, _ in walked if root != folder)


def _files(walked: Iterator[tuple[str, list[str]]]) -> Iterator[str]:
    yield from (os.path.join(root, name) for root, files in walked for name in files)


def _walk(folder: str, leaves_out: Callable[[str], bool]) -> Iterator[tuple[str, list[str]]]:
    def unreadable(error: OSError) -> None:
        raise DistifyError(f"{error.filename}: cannot be read: {error.strerror}")

    for root, folders, files in os.walk(folder, onerror=unreadable):
        links = [name for name in folders if os.path.islink(os.path.join(root, name))]
        folders[:] = sorted(name for name in folders if name not in links and not leaves_out(os.path.join(root, name)))
        yield root, sorted([*files, *links])


def is_left_out(folder: str) -> bool:
    """Hidden folders, caches, and environments."""
    return os.path.basename(folder).startswith(".") or _is_made_anew(folder)


def _is_made_anew(folder: str) -> bool:
    """Caches, logs of launches, and environments (venv leaves pyvenv.cfg in its root, conda conda-meta)."""
    marks = ("pyvenv.cfg", "conda-meta")
    return os.path.basename(folder) in ("__pycache__", "node_modules", "site-packages", "distify_logs") or any(
        os.path.exists(os.path.join(folder, mark)) for mark in marks
    )


def goes_along(path: str, project: str) -> bool:
    """Whether a file or folder of a project is brought into a copy: a folder of data as a whole, with what is hidden in
    it (`x.zarr/.zarray`, `checkpoint/.metadata`); else nothing hidden."""
    name = os.path.basename(path)
    if name.startswith("."):
        of_a_tool = name.startswith(_OF_TOOLS) or name.endswith(_OF_TOOLS_AT_THE_END)
        if of_a_tool or not _is_data(os.path.dirname(path), project):
            return False
    return os.path.islink(path) or not os.path.isdir(path) or not _is_made_anew(path)


def _is_data(folder: str, project: str) -> bool:
    """Whether it is below the project's own folder, and no code is in it."""
    if os.path.abspath(folder) == os.path.abspath(project):
        return False
    return not any(name.endswith((".py", ".ipynb")) for name in os.listdir(folder))
