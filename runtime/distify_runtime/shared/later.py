"""Lines of the script that share further models, which execution has not come to yet."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path

from distify_runtime.watch.frames import is_of_script

_met: dict[str, set[int]] = {}


def is_met() -> None:
    """To be called where models are shared: by which line of the script, is noted."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_of_script(frame.f_code.co_filename):
            _met.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
            return
        frame = frame.f_back  # type: ignore[assignment]


def are_expected() -> bool:
    """Whether the script has another such line; of its modules the functions are asked that have one already."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    for file, lines in _met.items():
        for function in _sharing(file):
            met = any(not lines.isdisjoint(each) for each in function)
            if (met or file == script) and any(lines.isdisjoint(each) for each in function):
                return True
    return False


@functools.cache
def _sharing(file: str) -> list[list[range]]:
    """The lines of the calls that share models, by function."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    found: dict[ast.AST, list[range]] = {}
    left: list[tuple[ast.AST, ast.AST]] = [(tree, tree)]
    while left:
        node, scope = left.pop()
        inner = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else scope
        left += [(child, inner) for child in ast.iter_child_nodes(node)]
        if isinstance(node, ast.Call) and _name(node.func) == "data_parallel":
            found.setdefault(scope, []).append(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return list(found.values())


def _name(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""
