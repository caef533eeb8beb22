"""White space that Python can do with and libcst cannot: blocks indented by tabs and spaces, keywords right behind."""

from __future__ import annotations

import io
import itertools
import keyword
import tokenize

#: The column after a tab, as Python counts it.
_TAB = 8
_ENDING = (tokenize.STRING, tokenize.NUMBER)


def expanded(text: str) -> str | None:
    """The same program with spaces for the tabs that lines begin with; None where each block begins as the one around.

    Lines that begin inside of a string stay as they are. The text is one that Python compiles.
    """
    lines = io.StringIO(text, newline="").readlines()
    tokens = list(tokenize.generate_tokens(iter(lines).__next__))
    if not _is_mixed(tokens):
        return None
    inside = _begun_in_strings(tokens)
    return "".join(line if number in inside else _with_spaces(line) for number, line in enumerate(lines, 1))


def spaced(text: str) -> str:
    """The same program with a space before each keyword that follows a bracket, a text or a number without one.

    The text is one that Python compiles.
    """
    lines = io.StringIO(text, newline="").readlines()
    tokens = list(tokenize.generate_tokens(iter(lines).__next__))
    for before, token in reversed(list(itertools.pairwise(tokens))):
        touches = before.end == token.start and (before.string[-1:] in ")]}" or before.type in _ENDING)
        if touches and keyword.iskeyword(token.string):
            row, column = token.start
            lines[row - 1] = f"{lines[row - 1][:column]} {lines[row - 1][column:]}"
    return "".join(lines)


def _with_spaces(line: str) -> str:
    rest = line.lstrip(" \t")
    return line[: len(line) - len(rest)].expandtabs(_TAB) + rest


def _begun_in_strings(tokens: list[tokenize.TokenInfo]) -> set[int]:
    """The lines, from 1, whose first character belongs to a string."""
    inside: set[int] = set()
    opened: list[int] = []  # from 3.12 on, an f-string is many tokens
    for token in tokens:
        kind = tokenize.tok_name[token.type]
        if kind == "STRING":
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
        elif kind.endswith("STRING_START"):
            opened.append(token.start[0])
        elif kind.endswith("STRING_END"):
            inside.update(range(opened.pop() + 1, token.end[0] + 1))
    return inside


def _is_mixed(tokens: list[tokenize.TokenInfo]) -> bool:
    around = [""]
    for token in tokens:
        if token.type == tokenize.INDENT:
            if not token.string.startswith(around[-1]):
                return True
            around.append(token.string)
        elif token.type == tokenize.DEDENT:
            around.pop()
    return False
