"""The commands that a project installs, and the functions of its files that they call: `[project.scripts]`, say."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence

from distify.toml import tables

_COMMAND = re.compile(r"^\s*[\w.-]+\s*=\s*([\w.]+)\s*:\s*(\w+)\s*$")
_CALLED = re.compile(r"^\s*([\w.]+)\s*:\s*(\w+)\s*(?:\[.*\])?$")


def commands_of(script: str, projects: Sequence[str]) -> tuple[str, ...]:
    """The functions of the script that commands of its project call, in order."""
    path = os.path.splitext(os.path.abspath(script))[0]
    found = [
        function
        for project in projects
        for called in _commands(project)
        for module, function in _spelled(project, *called)
        if f"{path}{os.sep}".endswith(os.sep + os.path.join(*module.split("."), ""))
    ]
    return tuple(dict.fromkeys(found))


def _commands(project: str) -> Iterator[tuple[str, str]]:
    for text in _of_pyproject(os.path.join(project, "pyproject.toml")):
        if (called := _CALLED.match(text)) is not None:
            yield called[1], called[2]
    setup = _texts(os.path.join(project, "setup.py"))
    for line in (*_lines(os.path.join(project, "setup.cfg")), *(line for text in setup for line in text.splitlines())):
        if (called := _COMMAND.match(line)) is not None:
            yield called[1], called[2]


def _spelled(project: str, module: str, function: str, further: int = 8) -> Iterator[tuple[str, str]]:
    """A function of a module, and of those that it is imported from: `from proj.train import main`."""
    yield module, function
    file = _file_of(project, module) if further else None
    if file is None or (parsed := _parsed(file)) is None:
        return
    inside = [*module.split("."), ""] if os.path.basename(file) == "__init__.py" else module.split(".")
    for node in parsed.body:
        if not isinstance(node, ast.ImportFrom):
            continue
        for name in node.names:
            if function == (name.asname or name.name):
                there = [*(inside[: -node.level] if node.level else ()), *filter(None, [node.module])]
                yield from _spelled(project, ".".join(there), name.name, further - 1)


def _file_of(project: str, module: str) -> str | None:
    paths = [os.path.join(project, part, *module.split(".")) for part in ("", "src")]
    files = [file for path in paths for file in (f"{path}.py", os.path.join(path, "__init__.py"))]
    return next(filter(os.path.isfile, files), None)


def _of_pyproject(path: str) -> Iterator[str]:
    known = tables(path) if os.path.isfile(path) else {}
    tool = known.get("tool", {})
    for table in (known.get("project"), tool.get("poetry") if isinstance(tool, dict) else None):
        for kind in ("scripts", "gui-scripts"):
            scripts = table.get(kind, {}) if isinstance(table, dict) else {}
            yield from (one for one in scripts.values() if isinstance(one, str)) if isinstance(scripts, dict) else ()


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _parsed(path: str) -> ast.Module | None:
    try:
        return ast.parse("\n".join(_lines(path)))
    except (SyntaxError, ValueError):
        return None


def _texts(path: str) -> Iterator[str]:
    """The strings of a `setup.py`, which is never run."""
    parsed = _parsed(path)
    for node in ast.walk(parsed) if parsed is not None else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
