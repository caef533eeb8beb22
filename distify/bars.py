"""The progress bars of a notebook, which draw widgets, as the bars of text that a script can show."""

from __future__ import annotations

import re

_IMPORT = re.compile(r"^(\s*)from tqdm(?:\.notebook)? import (.*)$")
_MODULE = re.compile(r"^(\s*)(?:import tqdm\.notebook|from tqdm import notebook)(?: as (\w+))?(?=\s*(?:[#;]|$))")
#: Names that are those of a bar of widgets wherever they come from, and what is drawn in text.
_NAMES = {"tqdm_notebook": "tqdm", "tnrange": "trange"}
_NAME = re.compile(r"\b(tqdm_notebook|tnrange)\b(?P<alias>\s+as\s+\w+)?")
_REACHED = re.compile(r"(?<![\w.])tqdm\.(?:notebook\.)?(tqdm_notebook|tnrange)\b|(?<![\w.])tqdm\.notebook(?=\.)")


def in_text(line: str) -> str:
    """A line of a cell, with bars of text in place of a notebook's; the line itself where it has none."""
    code, mark, comment = line.partition("#")
    if "tqdm" not in code or not ("notebook" in code or "tnrange" in code):
        return line
    if (module := _MODULE.match(code)) is not None:
        name = module.group(2) or ("notebook" if "import notebook" in module.group() else "")
        code = f"{module.group(1)}import tqdm{f' as {name}' if name else ''}{code[module.end() :]}"
    elif (imported := _IMPORT.match(code)) is not None:
        names = _NAME.sub(lambda found: _NAMES[found[1]] + (found["alias"] or f" as {found[1]}"), imported.group(2))
        code = f"{imported.group(1)}from tqdm import {names}"
    else:
        code = _REACHED.sub(lambda found: f"tqdm.{_NAMES[found[1]]}" if found[1] else "tqdm", code)
    return code + mark + comment
