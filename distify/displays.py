"""The last expression of a notebook's cell, whose value the notebook shows by itself: in a script it is printed."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from distify.cells import Line

#: Expressions that do nothing but tell; whatever they have calls in, they are of something that it gave.
_PLAIN = (
    ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.JoinedStr,
    ast.Tuple, ast.List, ast.Dict, ast.Set,
)  # fmt: skip
#: Functions and methods that are called for what they return: of Python, torch, NumPy and pandas.
_TELL = frozenset(
    "abs bool dict float int len list max min repr round set sorted str sum tuple type "
    "all any argmax argmin bincount corr count describe dtypes head item isna isnull items keys mean median "
    "most_common nunique numel numpy quantile reset_index sample set_index size squeeze std tail tolist "
    "unique value_counts values var classification_report confusion_matrix accuracy_score f1_score".split()
)
#: Those whose value nobody looks for: they draw, or change what they are called of, and may return just that.
_DO = frozenset(
    "print display show close savefig tight_layout plot hist bar scatter imshow legend title suptitle xlabel ylabel "
    "axis grid colorbar subplot subplots_adjust eval train to cuda cpu requires_grad_ load_state_dict manual_seed seed "
    "backward step zero_grad append extend update add clear sort reverse shuffle makedirs mkdir "
    "save dump write savetxt savez save_pretrained to_csv to_excel to_json to_parquet to_pickle help info".split()
)
#: Their functions draw, which a script does not show either way.
_DRAWING = ("matplotlib", "seaborn", "pylab", "plotly")
#: Cells whose value goes elsewhere.
_SILENT = re.compile(r"%%(?:capture|prun|mprun|memit)\b")


def given_by(cells: Iterable[Sequence[Line]]) -> dict[str, bool]:
    """By the names of functions that a notebook has: whether they return anything. Of what it imports to draw: not."""
    given: dict[str, bool] = {}
    for node in (node for lines in cells for node in _parsed(_text(lines))):
        if isinstance(node, ast.FunctionDef):
            given[node.name] = any(isinstance(one, ast.Return) and one.value is not None for one in _own(node))
        elif isinstance(node, ast.Import):
            drawing = (one for one in node.names if one.name.startswith(_DRAWING))
            given.update({(one.asname or one.name.partition(".")[0]): False for one in drawing})
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_DRAWING):
            given.update({one.asname or one.name: False for one in node.names})
    return given


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """What is inside of a function, without what is inside of those that it makes."""
    left: list[ast.AST] = [*function.body]
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            left += ast.iter_child_nodes(node)


def displayed(lines: Sequence[Line], given: Mapping[str, bool]) -> list[Line]:
    """The lines of a cell, which prints what the notebook would show, if that can be seen to be more than None."""
    body = _parsed(_text(lines))
    last = body[-1] if body else None
    if not isinstance(last, ast.Expr) or last.end_lineno is None or last.end_col_offset is None:
        return list(lines)
    first, end = last.lineno - 1, last.end_lineno - 1
    behind = [lines[end].text.encode()[last.end_col_offset :].decode(), *(one.text for one in lines[end + 1 :])]
    quiet = any(";" in text.partition("#")[0] for text in behind) or any(one.aside for one in lines[end + 1 :])
    gives = _gives(last.value, given)
    if quiet or gives is False or any(_SILENT.match(one.aside) for one in lines):
        return list(lines)
    found = list(lines)
    value = " ".join(ast.unparse(last).split())
    if gives:
        found[end] = _with(found[end], last.end_col_offset, ")")
        found[first] = _with(found[first], last.col_offset, "print(")
        said = f"`{value}`, the last of its cell, is printed: a notebook shows it by itself"
    else:
        said = f"what `{value}` gives is shown in a notebook, and not in a script: print it, if you need it"
    found[first] = replace(found[first], shows=said)
    return found


def _gives(value: ast.expr, given: Mapping[str, bool]) -> bool | None:
    """Whether it is to be printed; None: who knows."""
    if isinstance(value, ast.Constant):
        return not isinstance(value.value, str) and value.value not in (None, ...)  # a text is a comment as a rule
    if isinstance(value, ast.Call):
        root, name = _root(value.func), _name(value.func)
        if root in given:
            return given[root] if isinstance(value.func, ast.Name) or not given[root] else None
        return True if name in _TELL else False if name in _DO or name.startswith("set_") else None
    if isinstance(value, ast.IfExp):
        ways = {_gives(value.body, given), _gives(value.orelse, given)}
        return True if ways == {True} else None
    return True if isinstance(value, _PLAIN) else None


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _with(line: Line, at: int, text: str) -> Line:
    """With a text at this byte, as Python counts."""
    whole = line.text.encode()
    return replace(line, text=(whole[:at] + text.encode() + whole[at:]).decode())


def _text(lines: Sequence[Line]) -> str:
    return "\n".join(line.text for line in lines)


def _parsed(text: str) -> list[ast.stmt]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return []  # it is said of the whole script
