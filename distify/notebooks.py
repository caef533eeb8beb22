"""Reads a Jupyter notebook as a script, and says where in the notebook a line of that script stands."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from distify_codemods import Belief, Conversion, Finding, Level, Options, Outcome, Reason, SourceError, SourceFile
from distify_codemods.results import Place

from distify.bars import in_text
from distify.cells import Line, plain_lines
from distify.displays import displayed, given_by
from distify.errors import DistifyError

CODE, TITLE = "BOOK01", "what only a notebook can do"
WHY = (
    "Ranks are started from a script, so that the code cells of a notebook become one. What a script can do without "
    "(%matplotlib inline, !pip install, model?) becomes a comment; what binds names (files = !ls, %run) needs a "
    "person. A cell's last expression is printed, as the notebook shows it; what a call returns, where that is seen to "
    "be anything."
)
ENDING = ".ipynb"
#: What a notebook's kernel defines, and a script does not have.
_DISPLAY = re.compile(r"(?<![\w.])display\s*\(")
_SHELL = re.compile(r"(?<![\w.])get_ipython\s*\(")
_BINDS_DISPLAY = re.compile(r"\bimport\b.*\bdisplay\b|^\s*display\s*=|^\s*def display\b", re.MULTILINE)
_WIDGETS = re.compile(r"\s*(?:import|from)\s+ipywidgets\b")
_FUTURE = re.compile(r"from __future__ import [\w, ]+(?:#.*)?")
_PRINTS = "display = print  # a notebook has this function without an import"


@dataclass(frozen=True)
class _Origin:
    """Where a line of the script comes from, and what is to be said about it."""

    cell: int = 0  # from 1, text cells counted; 0: of no cell
    line: int = 0
    level: Level | None = None
    message: str = ""


@dataclass(frozen=True)
class NotebookScript(SourceFile):
    """The code of a notebook. `origins`: one for each line of `data`."""

    origins: tuple[_Origin, ...] = ()

    def relocated(self, conversion: Conversion, options: Options) -> Conversion:
        """The conversion with places in the notebook's cells, and with what was set aside among its findings."""
        own = tuple(self._findings())
        findings = tuple(map(self._relocated, conversion.findings))
        conversion = replace(conversion, beliefs=tuple(map(self._belief, conversion.beliefs)))
        if conversion.outcome is not Outcome.CONVERTED:
            return replace(conversion, findings=(*findings, *own) if _is_about_steps(findings) else findings)
        blocked = any(one.level is Level.BLOCKING for one in own) and not options.partial
        outcome = Outcome.REFUSED if blocked else conversion.outcome
        files = () if blocked else conversion.files
        return replace(conversion, outcome=outcome, files=files, findings=(*findings, *own))

    def problem(self, error: SourceError) -> str:
        """A syntax error with its place in the notebook, or in the local module that it is in."""
        if error.path != self.path or not error.line:
            return str(error)
        return f"{self._place(Place(error.path, error.line, error.column))}: {error.message}"

    def _relocated(self, finding: Finding) -> Finding:
        if finding.place is None or finding.place.path != self.path:
            return finding
        message = self.text(finding.message)
        message = re.sub(r"\bline (\d+)", lambda found: str(self._at(found)).removeprefix(f"{self.path}, "), message)
        return replace(finding, message=message, place=self._place(finding.place))

    def text(self, text: str) -> str:
        """A text with the places that it names in the notebook."""
        return re.sub(rf"{re.escape(self.path)}:(\d+)", lambda found: str(self._at(found)), text)

    def _belief(self, belief: Belief) -> Belief:
        reasons = tuple(Reason(self.text(one.text), self._own(one.place)) for one in belief.because)
        return replace(belief, place=self._own(belief.place), because=reasons)

    def _own(self, place: Place) -> Place:
        return self._place(place) if place.path == self.path else place

    def _at(self, found: re.Match[str]) -> Place:
        return self._place(Place(self.path, int(found.group(1))))

    def _place(self, place: Place) -> Place:
        origin = self.origins[place.line - 1] if 0 < place.line <= len(self.origins) else _Origin()
        return replace(place, line=origin.line, cell=origin.cell)

    def _findings(self) -> Iterator[Finding]:
        for origin in self.origins:
            if origin.level is not None:
                fix = "write it in Python" if origin.level is Level.BLOCKING else ""
                place = Place(self.path, origin.line, 1, origin.cell)
                yield Finding(origin.level, CODE, TITLE, origin.message, place, fix)


def _is_about_steps(findings: tuple[Finding, ...]) -> bool:
    return not any(one.code.startswith("REFUSE") for one in findings)


def is_notebook(path: str) -> bool:
    return path.lower().endswith(ENDING)


def read_notebook(path: str, data: bytes) -> NotebookScript:
    """The code of the notebook at `path`, whose content is `data`. Raises DistifyError for what holds no Python."""
    cells = _cells(path, data)
    lines = _in_order(list(_script(path, cells)))
    text = "\n".join(line for line, _ in lines) + "\n"
    script = NotebookScript(path, text.encode("utf-8", "replace"), tuple(origin for _, origin in lines))
    _check_compiles(script, text)
    return script


def _check_compiles(script: NotebookScript, text: str) -> None:
    """A notebook may do what a script cannot: await outside of functions, import from the future late."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return  # no Python anywhere: the engine says so better
    try:
        compile(tree, script.path, "exec", dont_inherit=True)
    except SyntaxError as error:
        reason = SourceError(script.path, f"works in a notebook only: {error.msg}", error.lineno or 0, 1)
        raise DistifyError(script.problem(reason)) from None


# ---- the cells


def _cells(path: str, data: bytes) -> list[Any]:
    raw = _json(path, data)
    version = raw.get("nbformat")
    if not isinstance(version, int):
        raise DistifyError(f"{path}: is no notebook (it has no nbformat)")
    if version != 4:
        raise DistifyError(f"{path}: is a notebook of format {version}; save it in Jupyter, which makes it format 4")
    language = _language(raw.get("metadata"))
    if language not in ("", "python", "ipython"):
        raise DistifyError(f"{path}: is a notebook in {language}, not in Python")
    cells = _parsed(path, data)
    if not cells:
        raise DistifyError(f"{path}: is an empty notebook")
    if not any(cell.cell_type == "code" and cell.source.strip() for cell in cells):
        raise DistifyError(f"{path}: is a notebook without code")
    return cells


def _json(path: str, data: bytes) -> dict[str, Any]:
    import json  # only here: 4 ms

    try:
        raw = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise DistifyError(f"{path}: is no notebook (not UTF-8)") from None
    except (json.JSONDecodeError, RecursionError) as error:
        line = f" (line {error.lineno}: {error.msg})" if isinstance(error, json.JSONDecodeError) else ""
        raise DistifyError(f"{path}: is no notebook: not JSON{line}") from None
    if not isinstance(raw, dict):
        raise DistifyError(f"{path}: is no notebook (its JSON is no object)")
    return raw


def _language(metadata: Any) -> str:
    for key, field in (("language_info", "name"), ("kernelspec", "language")) if isinstance(metadata, dict) else ():
        part = metadata.get(key)
        if isinstance(part, dict) and isinstance(part.get(field), str):
            return str(part[field]).lower()
    return ""


def _parsed(path: str, data: bytes) -> list[Any]:
    try:
        import nbformat  # only here: it is optional, and slow to import
    except ImportError:
        raise DistifyError(f"{path}: reading notebooks needs nbformat: pip install nbformat") from None
    import logging  # only here: 2 ms

    log = logging.getLogger("traitlets")
    level = log.level
    log.setLevel(logging.CRITICAL)  # it would print the whole schema's complaint
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book: Any = nbformat.reads(data.decode("utf-8-sig"), as_version=4)  # type: ignore[no-untyped-call]
        return [cell for cell in book.cells if isinstance(cell.source, str) and isinstance(cell.cell_type, str)]
    except (nbformat.ValidationError, AttributeError, KeyError, TypeError, ValueError) as error:
        reason = str(error).split("\n", 1)[0]
        raise DistifyError(f"{path}: is no valid notebook: {reason}") from None
    finally:
        log.setLevel(level)


# ---- the script


def _script(path: str, cells: list[Any]) -> Iterator[tuple[str, _Origin]]:
    yield f"# The code of {os.path.basename(path)}. What only a notebook can do is a comment.", _Origin()
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    prints = any(map(_DISPLAY.search, code)) and not any(map(_BINDS_DISPLAY.search, code))
    sources = [cell.source.replace("\r\n", "\n").rstrip() for cell in cells]
    plain = {n: [*plain_lines(source)] for n, source in enumerate(sources, 1) if cells[n - 1].cell_type == "code"}
    given = given_by(plain.values())
    for number, (cell, source) in enumerate(zip(cells, sources, strict=True), 1):
        if cell.cell_type not in ("code", "markdown") or not source.strip():
            continue
        yield "", _Origin()
        if cell.cell_type == "markdown":
            yield f"# %% cell {number} [markdown]", _Origin(number)
            for at, line in enumerate(source.split("\n"), 1):
                yield f"# {line}".rstrip(), _Origin(number, at)
            continue
        yield f"# %% cell {number}", _Origin(number)
        if prints and _DISPLAY.search(source):
            yield _PRINTS, _Origin(number)
            prints = False
        yield from _code(displayed(plain[number], given), number)


def _in_order(lines: list[tuple[str, _Origin]]) -> list[tuple[str, _Origin]]:
    """Imports from the future go below the first line: any cell may have them, but no later line of a script."""
    early = [line for line in lines[1:] if _FUTURE.fullmatch(line[0])]
    return [lines[0], *early, *(line for line in lines[1:] if line not in early)]


def _code(lines: Sequence[Line], cell: int) -> Iterator[tuple[str, _Origin]]:
    for line in lines:
        level, message, text = None, "", line.text
        code = text.split("#")[0]
        bar = in_text(text)
        if line.binds:
            level, message = Level.BLOCKING, f"`{line.aside}` binds what the script may need, and is no Python"
            text = text.replace("# ", f"# distify: needs you {CODE}: ", 1)
        elif line.aside:
            level, message = Level.ADVICE, "; ".join(filter(None, (f"set aside: `{line.aside}`", line.shows)))
        elif _SHELL.search(code):
            level, message = Level.BLOCKING, f"`{text.strip()}`: a script has no get_ipython()"
        elif bar != text:
            level, message = Level.ADVICE, f"`{text.strip()}`: a notebook's progress bar becomes one of text"
            text = bar
        elif _WIDGETS.match(code):
            level = Level.ADVICE
            message = "widgets keep the values that they are made with: in a script, nobody moves or presses them"
        elif _DISPLAY.search(code):
            level, message = Level.ADVICE, f"`{text.strip()}` shows rich output in a notebook; a script prints text"
        elif line.shows:
            level, message = Level.ADVICE, line.shows
        yield text, _Origin(cell, line.number, level, message)
