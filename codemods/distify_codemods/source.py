"""Bytes to a syntax tree and back. Encoding, BOM, newlines and the last line survive byte for byte."""

from __future__ import annotations

import codecs
import io
import re
import tokenize
import warnings

import libcst as cst

from distify_codemods.indentation import expanded, spaced
from distify_codemods.nesting import too_deep
from distify_codemods.results import SourceError, SourceFile

#: Statements that only Python 2 has; looked for only after Python 3 has failed to parse the file.
_PYTHON_2 = re.compile(
    r"""^\s*(?:print\s+[^\s(=.,\[]|print\s*>>|exec\s+["'\w]|raise\s+\w+\s*,)|except\s+[\w.]+\s*,\s*\w+\s*:|\basync\s*=|\d+L\b|<>""",
    re.MULTILINE,
)

#: Texts that libcst reads and Python may not: escapes that name a character, bytes that are no ASCII.
_LITERALS = re.compile(r"""\\[NUux]|\b[rR]?[bB][rR]?["'].*[^\x00-\x7f]""")
#: Empty lines at the end, and the end of the line before them.
_BLANK_END = re.compile(rb"(\r\n|\r|\n)[ \t\f\r\n]*\Z")
_NO_LITERAL = ("(unicode error)", "(value error)", "bytes can only contain ASCII")


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
    if _LITERALS.search(text) and (wrong := _wrong_literal(text, file.path)) is not None:
        raise wrong
    try:
        return _parsed(file)
    except cst.CSTValidationError:
        return _parsed(SourceFile(file.path, spaced(text).encode(encoding)))
    except cst.ParserSyntaxError as problem:
        pythons = _pythons_error(text, file.path)
        if pythons is None and (spaces := expanded(text)) is not None:
            return _parsed(SourceFile(file.path, spaces.encode(encoding)))
        raise _syntax_error(file.path, text, problem, pythons) from None
    except RecursionError:
        raise SourceError(file.path, "is nested too deeply to be parsed") from None


def _parsed(file: SourceFile) -> cst.Module:
    module = cst.parse_module(file.data)
    if b"\r" not in file.data or module.bytes == file.data:
        return module
    ends = _BLANK_END.search(file.data)
    if ends is not None:  # libcst drops spaces behind the last line, and empty lines before them
        file = SourceFile(file.path, file.data[: ends.start()] + ends[1])
        module = cst.parse_module(file.data)
    return _with_last_newline(file, module)


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


def _pythons_error(text: str, path: str) -> Exception | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python minds of a script, it says to who runs it
            compile(text, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as own:
        return own
    return None


def _wrong_literal(text: str, path: str) -> SourceError | None:
    """A text that no character is found for, where the file is else as Python wants it."""
    own = _pythons_error(text, path)
    if not isinstance(own, SyntaxError) or not own.msg.startswith(_NO_LITERAL):
        return None
    return SourceError(path, f"does not parse as Python 3: {own.msg}", own.lineno or 0, own.offset or 0)


def _syntax_error(path: str, text: str, problem: cst.ParserSyntaxError, pythons: Exception | None) -> SourceError:
    line, column = problem.raw_line, problem.raw_column + 1
    if pythons is None:
        return SourceError(path, f"is Python 3 that libcst does not read: {problem.message}", line, column)
    message = "does not parse as Python 3"
    if isinstance(pythons, SyntaxError) and pythons.lineno:  # Python's place and words are better
        line, column = pythons.lineno, pythons.offset or column
        message += f": {pythons.msg}"
    if _PYTHON_2.search(text):
        message = "is Python 2 (or uses names that are keywords in Python 3); convert it with 2to3 first" + message[26:]
    return SourceError(path, message, line, column)
