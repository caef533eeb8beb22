"""Scripts that train only in a function which a command of their project calls: `proj-train = "proj.train:main"`.

It is the script's own, or one that it only imports.

Ranks are started from a file. So the file that is written calls the function itself where it is the one that is
started, as a person would have it do; the rest of the conversion is of a file that has these lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import libcst as cst

from distify_codemods import source
from distify_codemods.refusals import REFUSALS
from distify_codemods.results import Conversion, Finding, Level, Options, Outcome, Place, SourceFile

_CODE, _TITLE = "GROUP01", "process group"
_UNSEEN = next(code for code, (title, _) in REFUSALS.items() if title == "no training loop")


def started(
    script: SourceFile, options: Options, convert: Callable[[SourceFile, Options], Conversion]
) -> Conversion | None:
    """The conversion with a call of the first of the project's commands that trains; None if none does."""
    defined = _functions(script)
    for name in options.commands() if options.commands is not None else ():
        if name in defined:
            made = convert(_calling(script, name), replace(options, commands=None))
            if not any(finding.code == _UNSEEN for finding in made.findings):
                return _as_of(script, made, name, defined[name])
    return None


def _functions(script: SourceFile) -> dict[str, int]:
    """The functions at the top level, and what is imported there, each with its line."""
    found: dict[str, int] = {}
    lines = script.data.decode("latin-1").splitlines()
    for statement in source.parse(script).body:
        if isinstance(statement, cst.FunctionDef):
            name = statement.name.value
            found[name] = next((n for n, line in enumerate(lines, 1) if line.startswith(f"def {name}")), 0)
        for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            for name in _imported(small):
                found[name] = next((n for n, line in enumerate(lines, 1) if _imports(line, name)), 0)
    return found


def _imported(statement: cst.BaseSmallStatement) -> Iterator[str]:
    if isinstance(statement, cst.ImportFrom) and not isinstance(statement.names, cst.ImportStar):
        yield from (one.evaluated_alias or one.evaluated_name for one in statement.names)


def _imports(line: str, name: str) -> bool:
    return re.match(rf"(from\s.*\bimport\b|\s).*\b{name}\b", line) is not None


def _calling(script: SourceFile, name: str) -> SourceFile:
    end = "\r\n" if b"\r\n" in script.data else "\n"
    lines = ["", "", 'if __name__ == "__main__":', f"    raise SystemExit({name}())", ""]
    before = b"" if script.data.endswith(b"\n") else end.encode()
    return replace(script, data=script.data + before + end.join(lines).encode())


def _as_of(script: SourceFile, made: Conversion, name: str, line: int) -> Conversion:
    """The conversion as one of the script as it is."""
    files = tuple(replace(file, before=script.data) if file.path == script.path else file for file in made.files)
    if made.outcome is not Outcome.CONVERTED:
        return replace(made, files=files)
    text = f"`{name}` is a command of the project, and nothing here calls it: the converted file does if it is started"
    said = Finding(Level.APPLIED, _CODE, _TITLE, text, Place(script.path, line))
    return replace(made, files=files, findings=(said, *made.findings))
