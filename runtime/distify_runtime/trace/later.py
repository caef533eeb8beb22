"""Loops that train, and that had not begun when a run was ended after so many steps."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from traceback import walk_stack
from types import FrameType

from distify_runtime.watch import frames

_LOOPS = (ast.For, ast.While)
_is_of_script = functools.cache(frames.is_of_script)


class Begun:
    """The script's lines through which optimizers were stepped, and the names of the functions that those are in."""

    def __init__(self) -> None:
        self._lines: dict[str, set[int]] = {}
        self._names = {"backward"}

    def note(self, step: FrameType) -> None:
        for frame, line in walk_stack(step):
            file = frame.f_code.co_filename
            if _is_of_script(file):
                self._lines.setdefault(file, set()).add(line)
                self._names.add(frame.f_code.co_name)

    def later(self) -> list[str]:
        """`train.py:31`, of each loop that would train as well, and through which no step was taken.

        Of a loop the outermost one counts. What stands in the other arm of a branch, and functions that nobody names,
        are other ways to train, and not later ones.
        """
        parsed = [(file, self._reached(tree, lines)) for file, lines in self._lines.items() if (tree := _tree_of(file))]
        named = {name for _, nodes in parsed for node in nodes for name in _names_of(node)}
        return [
            f"{frames.shown(file)}:{loop.lineno}"
            for file, nodes in parsed
            for loop in self._loops(nodes, named)
            if not _holds(loop, self._lines[file])
        ]

    def _reached(self, tree: ast.Module, lines: set[int]) -> list[ast.AST]:
        """All nodes but those in arms whose other arm was taken."""
        nodes: list[ast.AST] = []
        left: list[ast.AST] = [tree]
        while left:
            node = left.pop()
            nodes.append(node)
            skipped = _other_arm(node, lines) if isinstance(node, ast.If) else ()
            left += [child for child in ast.iter_child_nodes(node) if child not in skipped]
        return nodes

    def _loops(self, nodes: Sequence[ast.AST], named: set[str]) -> Iterator[ast.For | ast.While]:
        kept = set(map(id, nodes))
        bodies = [one for one in nodes if isinstance(one, (ast.Module, ast.FunctionDef)) and _is_named(one, named)]
        for loop in sorted(_outermost(bodies), key=lambda one: one.lineno):
            calls = (one for one in ast.walk(loop) if isinstance(one, ast.Call))
            if id(loop) in kept and any(_called(call) in self._names for call in calls):
                yield loop


def _tree_of(file: str) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):  # what was never a file
        return None


def _holds(node: ast.stmt, lines: set[int]) -> bool:
    return any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines)


def _other_arm(branch: ast.If, lines: set[int]) -> list[ast.stmt]:
    for taken, other in ((branch.body, branch.orelse), (branch.orelse, branch.body)):
        if any(_holds(one, lines) for one in taken):
            return other
    return []


def _outermost(bodies: Sequence[ast.AST]) -> Iterator[ast.For | ast.While]:
    """The loops of each body that stand in no other loop of it."""
    left: list[ast.AST] = [child for body in bodies for child in ast.iter_child_nodes(body)]
    while left:
        node = left.pop()
        if isinstance(node, _LOOPS):
            yield node
        elif not isinstance(node, ast.FunctionDef):
            left += ast.iter_child_nodes(node)


def _is_named(body: ast.AST, named: set[str]) -> bool:
    return not isinstance(body, ast.FunctionDef) or body.name in named


def _names_of(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    return (node.attr,) if isinstance(node, ast.Attribute) else ()


def _called(call: ast.Call) -> str:
    return next(iter(_names_of(call.func)), "")
