"""Bytes to a syntax tree and back. Encoding, BOM, newlines and the last line survive byte for byte."""

from __future__ import annotations

import codecs
import io
import re
import tokenize

import libcst as cst

from distify_codemods.nesting import too_deep
from distify_codemods.results import SourceError, SourceFile

#: Statements that only Python 2 has; looked for only after Python 3 has failed to parse the file.
_PYTHON_2 = re.compile(
    r"""^\s*(?:print\s+[^\s(=.,\[]|print\s*>>|exec\s+["'\w]|raise\s+\w+\s*,)|except\s+[\w.]+\s*,\s*\w+\s*:|\basync\s*=|\d+L\b|<>""",
    re.MULTILINE,
)


def parse(file: SourceFile) -> cst.Module:
    """The file's tree. Raises SourceError for everything that is not Python 3 source."""
    data = file.data
    if b"\0" in data:
        raise SourceError(file.path, "is binary, not Python source")
    encoding = _encoding(file)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise SourceError(
            file.path, f"is not {encoding} and names no other encoding (a line like '# coding: latin-1')", line, 1
        ) from None
    if (deep := too_deep(text)) is not None:
        line, what = deep
        raise SourceError(file.path, f"nests {what} too deeply to be parsed", line, 1)
    try:
        module = cst.parse_module(data)
        return module if b"\r" not in data else _with_last_newline(file, module)
    except cst.ParserSyntaxError as problem:
        raise _syntax_error(file.path, text, problem) from None
    except RecursionError:
        raise SourceError(file.path, "is nested too deeply to be parsed") from None


def _with_last_newline(file: SourceFile, module: cst.Module) -> cst.Module:
    """libcst overlooks a last newline that is a carriage return alone."""
    if module.bytes != file.data:
        module = module.with_changes(has_trailing_newline=True)
    if module.bytes != file.data:
        raise SourceError(file.path, "mixes line endings in a way that cannot be kept; convert them to one kind first")
    return module


def _encoding(file: SourceFile) -> str:
    try:
        return tokenize.detect_encoding(io.BytesIO(file.data).readline)[0]
    except SyntaxError as problem:
        if file.data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise SourceError(file.path, "is UTF-16; Python source must be UTF-8 or name its encoding") from None
        if "unknown encoding" in str(problem):
            raise SourceError(file.path, str(problem), 1, 1) from None
        return "utf-8"  # fails to decode below, with the place


def _syntax_error(path: str, text: str, problem: cst.ParserSyntaxError) -> SourceError:
    line, column = problem.raw_line, problem.raw_column + 1
    message = "does not parse as Python 3"
    try:
        compile(text, path, "exec", dont_inherit=True)
        return _only_libcst(path, text, line, column, problem)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as own:  # CPython's place and words are better
        if isinstance(own, SyntaxError) and own.lineno:
            line, column = own.lineno, own.offset or column
            message += f": {own.msg}"
    if _PYTHON_2.search(text):
        message = "is Python 2 (or uses names that are keywords in Python 3); convert it with 2to3 first" + message[26:]
    return SourceError(path, message, line, column)


def _only_libcst(path: str, text: str, line: int, column: int, problem: cst.ParserSyntaxError) -> SourceError:
    """Python takes it."""
    other = _otherwise_indented(text)
    if other is not None:
        message = "is indented by other tabs and spaces than the block around it: Python reads that, distify does not"
        return SourceError(path, f"{message}; replace its tabs by spaces first (expand -i)", other, 1)
    return SourceError(path, f"is Python 3 that libcst does not read: {problem.message}", line, column)


def _otherwise_indented(text: str) -> int | None:
    """The first line of a block that does not begin with what the block around it begins with, as libcst has it."""
    around = [""]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.INDENT:
            if not token.string.startswith(around[-1]):
                return token.start[0]
            around.append(token.string)
        elif token.type == tokenize.DEDENT:
            around.pop()
    return None
