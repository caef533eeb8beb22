"""Comments that settle something: `# distify: skip`, `# distify: train-loader` and the other words below.

A comment is about the statement that it stands in, behind or above; behind the header of a compound statement, about
all of that. Above everything else of a file, `skip` is about the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import libcst as cst
from libcst.metadata import CodeRange

from distify_codemods import tree
from distify_codemods.records import dataclass
from distify_codemods.results import SourceError

SKIP = "skip"  # nothing is edited there
TRAIN_LOADER = "train-loader"  # the loader that is made there feeds the training
NOT_A_MODEL = "not-a-model"  # what is made there is not wrapped
RATE_LINEAR = "rate-linear"  # the rate of the optimizer that is made there grows with the batch
RATE_SQUARE_ROOT = "rate-square-root"  # or with its square root
RATES = (RATE_LINEAR, RATE_SQUARE_ROOT)
DRAW_ALIKE = "draw-alike"  # what is drawn there is one draw for the whole batch: forward passes are shared
WORDS = (SKIP, TRAIN_LOADER, NOT_A_MODEL, *RATES, DRAW_ALIKE)

#: What `--partial` leaves behind, and what a person may leave standing.
NEEDS_YOU = "needs you"
_COMMENT = re.compile(r"#\s*distify:\s*(needs you\b|[\w-]*)\s*(.*)")


@dataclass(frozen=True)
class Directive:
    word: str
    line: int
    about: cst.CSTNode  # a statement, or the module's tree


Positions: TypeAlias = Mapping[cst.CSTNode, CodeRange]


def read(path: str, module: cst.Module, data: bytes, positions: Callable[[], Positions]) -> tuple[Directive, ...]:
    """The comments of a file, in its order. Raises SourceError where one says nothing known, or of nothing."""
    if b"distify:" not in data:
        return ()
    where, lines = positions(), re.split(r"\r\n|\r|\n", module.code)
    found = []
    for comment, word in _comments(module):
        start = where[comment].start
        if word == NEEDS_YOU:
            continue
        if word not in WORDS:
            message = f"`{comment.value}` is not known; after `# distify:` comes one of {', '.join(WORDS)}"
            raise SourceError(path, message, start.line, start.column + 1)
        own_line = not lines[start.line - 1][: start.column].strip()
        about = _about(module, where, start.line, own_line, word)
        if about is None:
            raise SourceError(path, f"`{comment.value}` is not about a statement", start.line, start.column + 1)
        found.append(Directive(word, start.line, about))
    return tuple(found)


def _comments(module: cst.Module) -> Iterator[tuple[cst.Comment, str]]:
    stack: list[cst.CSTNode] = [module]
    while stack:
        node = stack.pop()
        if isinstance(node, cst.Comment):
            match = _COMMENT.search(node.value)
            if match is not None:
                word, rest = match.groups()
                # What follows in words of its own is not ours, but two words that run on are a mistake.
                yield node, word if not rest or word == NEEDS_YOU or not rest[0].isalnum() else ""
        else:
            stack.extend(reversed(node.children))


def _about(module: cst.Module, where: Positions, line: int, own_line: bool, word: str) -> cst.CSTNode | None:
    """The statement that a comment is about: the one around it, else, on a line of its own, the one below it."""
    reaches = [
        (node, *_reach(node, where))
        for node in tree.walk(module)
        if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
    ]
    around = [
        (first, node)
        for node, first, last in reaches
        if first <= line <= last and (isinstance(node, cst.SimpleStatementLine) or not own_line)
    ]
    if around:
        return max(around, key=lambda one: one[0])[1]
    if not own_line:
        return None  # behind an `else:`
    if word == SKIP and all(first > line for _, first, _ in reaches):
        return module
    below = [(first, node) for node, first, _ in reaches if first > line]
    return min(below, key=lambda one: one[0])[1] if below else None


def _reach(node: cst.CSTNode, where: Positions) -> tuple[int, int]:
    """The lines of a statement; of a compound one, those of its decorators and its header."""
    first, last = where[node].start.line, where[node].end.line
    if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and node.decorators:
        first = where[node.decorators[0]].start.line
    body = getattr(node, "body", None)
    if isinstance(body, cst.IndentedBlock):
        last = max(first, where[body.body[0]].start.line - 1)
    return first, last
