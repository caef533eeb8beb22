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
        for module, function in _commands(project)
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


def _texts(path: str) -> Iterator[str]:
    """The strings of a `setup.py`, which is never run."""
    try:
        parsed = ast.parse("\n".join(_lines(path)))
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(parsed):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
