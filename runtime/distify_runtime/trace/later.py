"""What a script's text has to train behind what it was at when its run was ended."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from traceback import walk_stack
from types import FrameType

from distify_runtime.watch import frames

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.While)
_BACKWARD = "backward"
_is_of_script = functools.cache(frames.is_of_script)


class Begun:
    """The script's lines through which optimizers were stepped, and the names of the functions that those are in."""

    def __init__(self) -> None:
        self._lines: dict[str, set[int]] = {}
        self._names: set[str] = set()

    def note(self, step: FrameType) -> None:
        for frame, line in walk_stack(step):
            file = frame.f_code.co_filename
            if _is_of_script(file):
                self._lines.setdefault(file, set()).add(line)
                self._names.add(frame.f_code.co_name)

    def later(self) -> list[str]:
        """`train.py:31`, of each outermost loop, and of each call outside of loops, by which more may be trained.

        It stands behind the steps that were taken in its function, or in a function that is named somewhere and has
        taken none. What is in the other arm of a branch is another way to train, and not a later one.
        """
        reached = {file: list(_reached(tree, lines)) for file, lines in self._lines.items() if (tree := _tree_of(file))}
        named = {_name_of(node) for nodes in reached.values() for node in nodes}
        return [
            f"{frames.shown(file)}:{line}"
            for file, nodes in reached.items()
            for line in sorted({one for body in _bodies(nodes, named) for one in self._behind(body, file)})
        ]

    def _behind(self, body: ast.AST, file: str) -> Iterator[int]:
        lines = self._lines[file]
        statements = list(_statements(body, lines))
        last = max((one.lineno for one in statements if _holds(one, lines)), default=0)
        for one in statements:
            is_loop = isinstance(one, _LOOPS)
            names = self._names | {_BACKWARD} if is_loop else self._names
            if one.lineno > last and (last or is_loop) and _calls(one, names):
                yield one.lineno


def _tree_of(file: str) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):  # what was never a file
        return None


def _reached(node: ast.AST, lines: set[int]) -> Iterator[ast.AST]:
    """All nodes but those in arms whose other arm was taken."""
    yield node
    for child in _children(node, lines):
        yield from _reached(child, lines)


def _children(node: ast.AST, lines: set[int]) -> Iterator[ast.AST]:
    skipped = _other_arm(node, lines) if isinstance(node, ast.If) else ()
    return (child for child in ast.iter_child_nodes(node) if child not in skipped)


def _other_arm(branch: ast.If, lines: set[int]) -> Sequence[ast.stmt]:
    for taken, other in ((branch.body, branch.orelse), (branch.orelse, branch.body)):
        if any(_holds(one, lines) for one in taken):
            return other
    return ()


def _holds(node: ast.stmt, lines: set[int]) -> bool:
    return any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines)


def _bodies(nodes: Sequence[ast.AST], named: set[str]) -> Iterator[ast.AST]:
    for node in nodes:
        if isinstance(node, ast.Module) or (isinstance(node, _FUNCTIONS) and node.name in named):
            yield node


def _statements(body: ast.AST, lines: set[int]) -> Iterator[ast.stmt]:
    """The loops of a body that stand in no other loop of it, and what else is done outside of loops."""
    for child in _children(body, lines):
        if isinstance(child, _LOOPS) or (isinstance(child, ast.stmt) and not hasattr(child, "body")):
            yield child
        elif not isinstance(child, _FUNCTIONS):
            yield from _statements(child, lines)


def _calls(statement: ast.stmt, names: set[str]) -> bool:
    return any(isinstance(one, ast.Call) and _name_of(one.func) in names for one in ast.walk(statement))


def _name_of(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
