"""Conversions whose originals are newer, and so perhaps changed: a script's own, and its modules'."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from distify_codemods.results import SUFFIX

from distify.resolver import LocalModules

_TWIN = f"{SUFFIX}.py"
_ENDINGS = (".py", ".ipynb")


def original_of(path: str) -> str:
    """What lies beside a conversion that carries the name of its original; empty where nothing does."""
    beside = (path.removesuffix(_TWIN) + ending for ending in _ENDINGS if path.endswith(_TWIN))
    return next((one for one in beside if os.path.isfile(one)), "")


def is_stale(path: str) -> bool:
    """Whether a conversion's original, beside it, is newer, perhaps as it is; of other files, False."""
    original = original_of(path)
    return bool(original) and os.path.getmtime(original) > os.path.getmtime(path)


def said_if_stale(script: str) -> str:
    """What to say of a converted script, or of a module that it imports, where the original is newer."""
    old = next((one for one in (script, *_imported_twins(script)) if is_stale(one)), "")
    if not old:
        return ""
    shown, made, entry = os.path.relpath(original_of(old)), os.path.relpath(old), original_of(script)
    command = f"`distify convert {os.path.relpath(entry)} --force`" if entry else "a new conversion"
    return f"{shown} is newer than {made}: if it has changed, {command} makes that anew"


def _imported_twins(script: str) -> Iterator[str]:
    """The conversions that a converted script imports, and those that these do."""
    modules, left, seen = LocalModules(script), [script], {os.path.abspath(script)}
    while left:
        importing = left.pop(0)
        for name, level in _imports(importing):
            found = modules(importing, name, level)
            if found is not None and found.path.endswith(_TWIN) and os.path.abspath(found.path) not in seen:
                seen.add(os.path.abspath(found.path))
                left.append(found.path)
                yield found.path


def _imports(path: str) -> Iterator[tuple[str, int]]:
    """The modules that a file names as imported, with how many dots; a name of one may be a module itself."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return  # a notebook, or what the run will complain of
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((one.name, 0) for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.level
            for one in node.names:
                yield ".".join(filter(None, (node.module, one.name))), node.level
