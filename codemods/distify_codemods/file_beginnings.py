"""With which text a path begins: enough to tell that two files lie in different folders."""

from __future__ import annotations

import re

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj
from distify_codemods.facts import Facts
from distify_codemods.libraries import paths
from distify_codemods.objects import External, Setting
from distify_codemods.values import Value

_DEEPEST = 5
_DRIVE = re.compile(r"[A-Za-z]:")
_LEADS_AWAY = re.compile(r"/|\\|\.\.|~|[A-Za-z]:")


def lie_apart(written: frozenset[str], wanted: frozenset[str]) -> bool:
    """Whether no path that begins as the one does can be one that begins as the other."""
    return bool(written) and bool(wanted) and all(_apart(one, other) for one in written for other in wanted)


def _apart(one: str, other: str) -> bool:
    if _root(one) != _root(other):
        return False  # it hangs on where the script is started
    one, other = one.casefold(), other.casefold()  # many systems do not tell these apart
    return not one.startswith(other) and not other.startswith(one)


def _root(path: str) -> str:
    """How a path is told from where all begin: by its drive, by the root, or not at all."""
    return ":" if _DRIVE.match(path) else path[:1] if path.startswith("/") else ""


def beginnings(facts: Facts, value: Value, node: cst.BaseExpression | None) -> frozenset[str]:
    """The texts, with one of which a path begins; empty: that is not seen."""
    return _of_value(value, 0) or (_of_node(facts, node, 0) if node is not None else frozenset())


def _of_value(value: Value, depth: int) -> frozenset[str]:
    found = [_of_obj(obj, depth) for obj in value.objs]
    return frozenset().union(*found) if found and all(found) and not value.open else frozenset()


def _of_obj(obj: Obj, depth: int) -> frozenset[str]:
    if isinstance(obj, Const):
        return _plain(obj.value)
    if not isinstance(obj, External) or obj.arguments is None or depth > _DEEPEST:
        return frozenset()
    given = obj.arguments.positional
    if not given or obj.arguments.star is not None:
        return frozenset()
    first = _of_value(given[0], depth + 1)
    if obj.name in paths.KEEPS:
        return first
    if obj.name in paths.GLOBS:
        return frozenset(map(paths.before_patterns, first))
    if obj.name not in paths.JOINS or any(map(_may_lead_away, given[1:])) or _names_a_parent(obj.site):
        return frozenset()
    return frozenset(_folder(one) for one in first) if len(given) > 1 else first


def _of_node(facts: Facts, node: cst.BaseExpression, depth: int) -> frozenset[str]:
    """`folder + "/" + name`, `f"{folder}/{name}"`, `folder / name`, `"run-{}".format(name)`."""
    if depth > _DEEPEST:
        return frozenset()
    if isinstance(node, cst.FormattedString):
        return _of_formatted(facts, node)
    if isinstance(node, cst.ConcatenatedString):
        return _either(facts, node.left, depth + 1) if not _names_a_parent(node.right) else frozenset()
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Modulo):
            return _plain((tree.string(node.left) or "").split("%")[0])
        left = _either(facts, node.left, depth + 1)
        if isinstance(node.operator, cst.Divide):
            away = _may_lead_away(facts.value(node.right)) or _names_a_parent(node.right)
            return frozenset() if away else frozenset(map(_folder, left))
        right = facts.value(node.right).constant()
        if not isinstance(node.operator, cst.Add) or ".." in str(right or "") or _names_a_parent(node.right):
            return frozenset()
        whole = facts.value(node.left).constant()
        return _plain(f"{whole}{right}") if isinstance(whole, str) and isinstance(right, str) else left
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "format":
        return _plain((tree.string(node.func.value) or "").split("{")[0])
    return frozenset()


def _either(facts: Facts, node: cst.BaseExpression, depth: int) -> frozenset[str]:
    return _of_value(facts.value(node), 0) or _of_node(facts, node, depth)


def _of_formatted(facts: Facts, node: cst.FormattedString) -> frozenset[str]:
    begun, texts = "", [one.value for one in node.parts if isinstance(one, cst.FormattedStringText)]
    if any(".." in one or set(one) & set("{}\\") for one in texts):
        return frozenset()
    for part in node.parts:
        if isinstance(part, cst.FormattedStringText):
            begun += part.value
        elif isinstance(part, cst.FormattedStringExpression):
            value = facts.value(part.expression)
            if not isinstance(value.constant(), str):
                return _plain(begun) if begun else _of_value(value, 0)
            begun += str(value.constant())
    return _plain(begun)


def _plain(text: object) -> frozenset[str]:
    """What is left of a text that says where the path begins; nothing of one that may lead anywhere."""
    if not isinstance(text, str) or ".." in text or "~" in text:
        return frozenset()
    parts = re.sub(r"/(\./)+|//+", "/", text.replace("\\", "/"))
    if _DRIVE.match(parts) and not parts[2:].startswith("/"):
        return frozenset()  # wherever the process is on that drive
    while parts.startswith("./"):
        parts = parts.removeprefix("./")
    return frozenset([parts]) if parts.strip("./") else frozenset()


def _folder(text: str) -> str:
    return text if text.endswith("/") else text + "/"


def _may_lead_away(value: Value) -> bool:
    """Whether what is joined to a folder may lead out of it: a person may give the path of any other."""
    return any(
        isinstance(obj, Setting) or (isinstance(obj, Const) and _LEADS_AWAY.match(str(obj.value))) for obj in value.objs
    )


def _names_a_parent(node: cst.CSTNode | None) -> bool:
    return node is not None and any(
        ".." in one.value for one in tree.walk(node) if isinstance(one, (cst.SimpleString, cst.FormattedStringText))
    )
