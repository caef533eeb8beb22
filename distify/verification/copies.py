"""Copies of a project, so that nothing of the user's is written: one for the original, one for the converted script."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from distify.errors import DistifyError
from distify.folders import goes_along
from distify.layout import MOST_COPIED
from distify.notebooks import is_notebook
from distify.verification.pairs import Pair

#: A folder with more files than that is linked, too.
MOST_FILES = 2000


@dataclass(frozen=True)
class Copy:
    """A copy of the project in `folder`, and what is run in it from `workdir`: a script's path, or -m and a module."""

    folder: Path
    workdir: Path
    script: Path
    words: tuple[str, ...]
    python_path: tuple[str, ...]


def project_of(pair: Pair) -> str:
    """The folder that is copied: the working directory where it holds the scripts, or else their own."""
    here = os.getcwd()
    folders = [pair.modules.root, *map(os.path.dirname, pair.scripts)]
    if here not in (os.path.expanduser("~"), os.sep) and all(_is_below(one, here) for one in folders):
        return here
    return os.path.commonpath(folders)


def make_copies(pair: Pair, folder: Path) -> tuple[Copy, Copy]:
    """The project twice, in new folders below `folder`: for the original, and for the converted script."""
    original = pair.scripts[0]
    before = {original: pair.original.data} if is_notebook(original) else {}
    return _copied(pair, folder / "original", original, before), copy_converted(pair, folder / "converted")


def copy_converted(pair: Pair, folder: Path) -> Copy:
    """The project once, in a new folder, for the converted script."""
    original, *there = pair.scripts
    after = {os.path.abspath(one.path): one.after for one in pair.conversion.files} if pair.conversion else {}
    return _copied(pair, folder, there[0] if there else original, after)


def _copied(pair: Pair, folder: Path, script: str, texts: dict[str, bytes]) -> Copy:
    """texts: what some files have instead of what they are."""
    project = project_of(pair)
    reached = {*pair.scripts, *pair.modules.found}
    target = _place(script, project, folder)
    try:
        for path in sorted(reached):
            _write(path, target if path == script else _place(path, project, folder), texts.get(path))
        _bring(project, folder, reached, project)
    except OSError as error:
        raise DistifyError(f"{project}: cannot be copied for the runs: {error.strerror} ({error.filename})") from None
    here = os.getcwd()
    workdir = folder / os.path.relpath(here, project) if _is_below(here, project) else target.parent
    mapped = [
        str(folder / os.path.relpath(one, project)) if _is_below(one, project) else one
        for one in map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    ]
    root = folder / os.path.relpath(pair.modules.root, project)
    if pair.modules.above:
        root = Path(pair.modules.start_of(str(target)))
    if not pair.modules.as_module:
        above = [str(root)] * pair.modules.needs_root
        return Copy(folder, workdir, target, (str(target),), (*above, *mapped))
    module = os.path.splitext(os.path.relpath(target, root))[0].replace(os.sep, ".")
    return Copy(folder, workdir, target, ("-m", module), (str(root), *mapped))


def _bring(source: str, target: Path, reached: set[str], project: str) -> None:
    """What else is in a folder of the project, the twins of a conversion that is there among it.

    What is large is linked, and guarded while the scripts run.
    """
    target.mkdir(parents=True, exist_ok=True)
    for entry in sorted(os.scandir(source), key=lambda one: one.name):
        to = target / entry.name
        there = os.path.lexists(to) and not (to.is_dir() and entry.is_dir())  # with what is reached in it
        if entry.path in reached or there:
            continue
        leads_there = any(_is_below(one, entry.path) for one in reached)  # by a link, too: to its own folder, maybe
        if not goes_along(entry.path, project) and (entry.name.startswith(".") or not leads_there):
            continue
        if entry.is_symlink() and not leads_there:
            os.symlink(os.path.realpath(entry.path), to)
        elif entry.is_dir():
            if leads_there:
                _bring(entry.path, to, reached, project)
            elif _is_large(entry.path):
                os.symlink(entry.path, to)
            else:
                _bring(entry.path, to, reached, project)
        elif entry.is_file():
            os.symlink(entry.path, to) if entry.stat().st_size > MOST_COPIED else shutil.copyfile(entry.path, to)


def _is_large(folder: str) -> bool:
    """Data, as a rule. Looks no further than it takes to know."""
    size = files = 0
    for root, _, names in os.walk(folder):
        for name in names:
            files += 1
            size += os.lstat(os.path.join(root, name)).st_size
            if size > MOST_COPIED or files > MOST_FILES:
                return True
    return False


def _place(path: str, project: str, folder: Path) -> Path:
    place = folder / os.path.relpath(path, project)
    if not is_notebook(path):
        return place
    script = place.with_suffix(".py")
    taken = os.path.exists(os.path.splitext(path)[0] + ".py")
    return script.with_stem(f"{script.stem}_notebook") if taken else script


def _write(path: str, target: Path, text: bytes | None) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if text is None:
        shutil.copyfile(path, target)
    else:
        target.write_bytes(text)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))
