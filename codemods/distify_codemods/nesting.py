"""How deep the expressions of a file are, read off its text: libcst's parser is no Python, and what is too deep for it
ends the process without a word."""

from __future__ import annotations

import re

#: Brackets in brackets: as many as Python itself takes.
MOST_BRACKETS = 200
#: Operators, attributes, calls, keywords and strings in one expression, with those that it stands in.
LONGEST = 3_000

_STRING = (
    r'"""[^\\]*?(?:\\.[^\\]*?)*?"""' r"|'''[^\\]*?(?:\\.[^\\]*?)*?'''" r'|"(?:[^"\\\n]|\\.)*"' r"|'(?:[^'\\\n]|\\.)*'"
)
_TOKEN = re.compile(
    rf"(?P<aside>\#[^\n]*|\\\r?\n|\b\d[\w.]*)|(?P<next>[,;\n])|(?P<open>[(\[{{])|(?P<close>[)\]}}])"
    rf"|(?P<link>(?P<filled>\b(?:[rR]?[fFtT][rR]?)(?=[\"']))?(?P<string>{_STRING})"
    r"|\*\*|//|<<|>>|[<>=!]=|[-+*/%@&|^~.<>]|\b(?:and|or|not|if|else|lambda|await|yield|in|is|for)\b)",
    re.DOTALL,
)


#: What is no part of an expression's shape, but for what is computed within a string.
_ASIDE = re.compile(rf"(\b(?:[rR]?[fFtT][rR]?)(?:{_STRING}))|{_STRING}|\#[^\n]*", re.DOTALL)


def too_deep(text: str) -> tuple[int, str] | None:
    """Where an expression is too deep for the parser, as a line from 1, and in which way; None where none is."""
    return _deep_in(text) if _is_long(text) else None


def _is_long(text: str) -> bool:
    """Whether there is a statement of so many brackets or characters that its expressions may be too deep: told in a
    twentieth of the time that it takes to look at each operator."""
    depth = length = 0
    for line in _ASIDE.sub(r"\1'", text).split("\n"):
        length += len(line)
        opened = line.count("(") + line.count("[") + line.count("{")
        if length > LONGEST or depth + opened > MOST_BRACKETS:
            return True
        depth = max(0, depth + opened - line.count(")") - line.count("]") - line.count("}"))
        if not depth and not line.endswith("\\"):
            length = 0
    return False


def _deep_in(text: str) -> tuple[int, str] | None:
    links = [0]  # of each bracket that is open, since its last comma; the first: of none
    total = 0
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        if kind == "next":
            if len(links) == 1 or found.group() != "\n":
                total -= links[-1]
                links[-1] = 0
        elif kind == "close":
            if len(links) > 1:
                total -= links.pop()
        elif kind != "aside":
            links[-1] += 1
            total += 1
            if kind == "open":
                links.append(0)
            elif found.group("filled") and (inside := _deep_in(found.group("string").strip("\"'"))) is not None:
                return text.count("\n", 0, found.start()) + inside[0], inside[1]
            if len(links) > MOST_BRACKETS + 1 or total > LONGEST:
                what = "brackets" if len(links) > MOST_BRACKETS + 1 else "operators"
                return text.count("\n", 0, found.start()) + 1, what
    return None
