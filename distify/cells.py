"""The code of a notebook's cells as plain Python: what only a notebook can do becomes a comment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: `%%time` and its like run the rest of the cell as Python here and now; below other cell magics stands something
#: else: a shell script, a file's contents, HTML, or code for a process of its own.
_PYTHON_CELLS = frozenset({"time", "capture", "prun", "matplotlib", "python", "python3", "py", "mprun", "memit"})
#: `%time loss = train()`: the statement is run as it stands.
_STATEMENTS = re.compile(r"%(?:time|prun)(?:[ \t]+-(?:[lsTD][ \t]+\S+|\w+))*[ \t]+(?=[^\s-])")
_TARGET = r"[A-Za-z_]\w*(?:\.\w+|\[[^\]=]*\])*"
_ASSIGNED = re.compile(rf"{_TARGET}(?:[ \t]*,[ \t]*{_TARGET})*[ \t]*=[ \t]*[!%]")
_HELP = re.compile(r"\?{1,2}[ \t]*[\w.*]+|[\w.*%]+\?{1,2}")
_INSTALLS = re.compile(r"(?:pip3?|conda|mamba) (?:un)?install\b")  # needs no `%` in a notebook
_SHELL_OBJECT = re.compile(r"get_ipython\(\)\s*\.")
#: Line magics after which names exist that no line of the notebook binds.
_BINDS_NAMES = frozenset({"run", "pylab", "load", "loadpy", "store"})


@dataclass(frozen=True)
class Line:
    """A line of the script and the line (from 1) of its cell that it comes from. `aside`: it is no Python, and only a
    comment is left; `binds`: names that the script may need came from it; `shows`: what is to be said of a value that
    the notebook shows."""

    text: str
    number: int
    aside: str = ""
    binds: bool = False
    shows: str = ""


def plain_lines(source: str) -> Iterator[Line]:
    """A code cell, line for line."""
    lines = source.split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        name = (lines[first][2:].split() or [""])[0]
        whole = name not in _PYTHON_CELLS
        yield from (_aside(line, number) for number, line in enumerate(lines[: first + 1], 1) if line.strip())
        if whole:
            yield from (Line(f"# {line}".rstrip(), n) for n, line in enumerate(lines[first + 1 :], first + 2))
            return
        first += 1
    else:
        first = 0
    yield from _python(lines[first:], first + 1)


def _python(lines: list[str], number: int) -> Iterator[Line]:
    state = _Scanner()
    at = 0
    while at < len(lines):
        line = lines[at]
        if not state.begins_statement() or not _is_magic(line):
            state.read(line)
            yield Line(line, number + at)
            at += 1
            continue
        statement = _STATEMENTS.match(line.lstrip())
        if statement is not None:
            indent = line[: len(line) - len(line.lstrip())]
            plain = indent + line.lstrip()[statement.end() :]
            state.read(plain)
            yield Line(plain, number + at, aside=statement.group().strip())
            at += 1
            continue
        yield _aside(line, number + at)
        while lines[at].endswith("\\") and at + 1 < len(lines):  # a shell command goes on
            at += 1
            yield Line(f"# {lines[at].strip()}", number + at)
        at += 1


def _is_magic(line: str) -> bool:
    text = line.strip()
    if text.startswith(("%", "!")) or _INSTALLS.match(text) or (_SHELL_OBJECT.match(text) and _is_whole(line)):
        return True
    if "?" in text and _HELP.fullmatch(text.split("#")[0].strip().rstrip(";")):
        return True
    return _ASSIGNED.match(text) is not None


def _is_whole(line: str) -> bool:
    scanner = _Scanner()
    scanner.read(line)
    return scanner.begins_statement()


def _aside(line: str, number: int) -> Line:
    text = line.strip()
    magic = re.match(r"%(\w+)", text)
    binds = _ASSIGNED.match(text) is not None or (magic is not None and magic.group(1) in _BINDS_NAMES)
    return Line(_indented_comment(line), number, aside=text, binds=binds)


def _indented_comment(line: str) -> str:
    """A comment; in a block a statement with it, because the block may have no other."""
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}pass  # {line.strip()}" if indent else f"# {line.strip()}"


class _Scanner:
    """Whether a line begins a statement, or goes on with a bracket, a string or a line before it."""

    def __init__(self) -> None:
        self.depth = 0
        self.quote = ""  # of the string that is open at the end of the line
        self.continued = False

    def begins_statement(self) -> bool:
        return self.depth == 0 and not self.quote and not self.continued

    def read(self, line: str) -> None:
        at = 0
        self.continued = line.endswith("\\")
        while at < len(line):
            if self.quote:
                at = self._in_string(line, at)
            elif line[at] == "#":
                self.continued = False
                break
            elif line[at] in "\"'":
                self.quote = line[at] * 3 if line.startswith(line[at] * 3, at) else line[at]
                at += len(self.quote)
            else:
                self.depth += (line[at] in "([{") - (line[at] in ")]}")
                at += 1
        if len(self.quote) == 1 and not line.endswith("\\"):
            self.quote = ""  # an open string: Python will say so
        self.depth = max(0, self.depth)

    def _in_string(self, line: str, at: int) -> int:
        if line[at] == "\\":
            return at + 2
        if line.startswith(self.quote, at):
            at += len(self.quote)
            self.quote = ""
            return at
        return at + 1
