"""Small helpers over libcst trees: children, parents, statements, blocks."""

from __future__ import annotations

import ast
import dataclasses
import re
from abc import ABCMeta
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import libcst as cst

_SKIPPED = {cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.EmptyLine, cst.Newline, cst.Comment}
_fields: dict[type[cst.CSTNode], tuple[str, ...]] = {}
_holding: dict[type, bool] = {}
#: What a backslash stands before, and is then no backslash.
_ESCAPED = re.compile(
    r"""\\(?:[abfnrtv'"\\\n]|[0-3]?[0-7]{1,2}|x[\da-fA-F]{2}|u[\da-fA-F]{4}|U000[\da-fA-F]{5}|N\{[A-Z][-A-Z0-9 ]*\})"""
)

#: Expressions that may leave out a part of themselves, or take it at another time.
PERHAPS = (cst.IfExp, cst.BooleanOperation, cst.BaseComp, cst.Lambda)
#: What a block holds: a whole line of small statements, or a compound statement.
Statement: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement
Block: TypeAlias = cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite


def _told_apart_in_c(kind: type[object]) -> None:
    """libcst tells nodes apart by identity, in functions written in Python that it puts into the class of each kind.

    What `object` has is the same, in C. Nodes are looked up millions of times in a conversion.
    """
    for name in ("__eq__", "__hash__"):
        setattr(kind, name, getattr(object, name))
    for below in kind.__subclasses__():
        _told_apart_in_c(below)


_told_apart_in_c(cst.CSTNode)


#: The class of libcst's classes, which nothing but their own kinds is registered with.
_ASKED = type("_Asked", (ABCMeta,), {"__instancecheck__": type.__instancecheck__})


def _asked_in_c(kind: type[object]) -> None:
    """Abstract classes answer `isinstance(node, cst.Call)`, where it is no call, by a function written in Python."""
    if type(kind) is ABCMeta:
        type.__setattr__(kind, "__class__", _ASKED)
    for below in kind.__subclasses__():
        _asked_in_c(below)


_asked_in_c(cst.CSTNode)


def fields_of(node: cst.CSTNode) -> tuple[str, ...]:
    """The names of the fields that hold code; where whitespace and comments stand is not looked at."""
    kind = type(node)
    names = _fields.get(kind)
    if names is None:
        names = tuple(
            field.name
            for field in dataclasses.fields(kind)
            if not field.name.startswith(("whitespace", "leading_lines", "lines_", "header", "footer", "trailing_"))
        )
        _fields[kind] = names
    return names


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    found: list[cst.CSTNode] = []
    for name in _fields.get(type(node)) or fields_of(node):
        value = getattr(node, name)
        kind = type(value)
        if kind is tuple or kind is list:
            found += [item for item in value if _holding.get(type(item)) or _holds_code(type(item))]
        elif _holding.get(kind) or (_holding.get(kind) is None and _holds_code(kind)):
            found.append(value)
    return found


def _holds_code(kind: type) -> bool:
    """Found out once for each kind: libcst's are abstract classes, of which to be an instance is dear to ask."""
    known = _holding.get(kind)
    if known is None:
        known = _holding[kind] = cst.CSTNode in kind.__mro__ and _SKIPPED.isdisjoint(kind.__mro__)
    return known


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The node and everything below it, in the order of the source."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        below = children(current)
        below.reverse()
        stack += below


def is_elif(parents: Mapping[cst.CSTNode, cst.CSTNode], node: cst.CSTNode) -> bool:
    """Whether it is an arm of the statement that it stands in: nothing can be put before it, or around it."""
    return isinstance(node, cst.If) and isinstance(parents.get(node), cst.If)


def parents_of(module: cst.Module) -> dict[cst.CSTNode, cst.CSTNode]:
    parents: dict[cst.CSTNode, cst.CSTNode] = {}
    stack: list[cst.CSTNode] = [module]
    while stack:
        node = stack.pop()
        for child in children(node):
            parents[child] = node
            stack.append(child)
    return parents


def dotted(node: cst.BaseExpression) -> str | None:
    """`a.b.c` as text, or None for any other expression."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return None
    return ".".join([node.value, *reversed(parts)])


def is_plain(node: cst.BaseExpression) -> bool:
    """Names, attributes, and items under plain keys: the same each time they are read."""
    if isinstance(node, cst.Attribute):
        return is_plain(node.value)
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        keys = (cst.Name, cst.Integer, cst.SimpleString)
        return isinstance(index, cst.Index) and is_plain(node.value) and isinstance(index.value, keys)
    return isinstance(node, cst.Name)


def keywords(call: cst.CSTNode) -> dict[str, cst.BaseExpression]:
    """What a call is given by name; nothing of what is no call."""
    given = call.args if isinstance(call, cst.Call) else ()
    return {one.keyword.value: one.value for one in given if one.keyword is not None}


def caught(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> set[str]:
    """The names of the errors that a handler is for, without their modules; "?" for what has no name, or is any."""
    named = [handler.type]
    if isinstance(handler.type, cst.Tuple):
        named = [element.value for element in handler.type.elements]
    return {(dotted(one) or "?").rsplit(".", 1)[-1] if one is not None else "?" for one in named}


def raises_again(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> bool:
    """Whether a handler ends with an error."""
    last = small_statements(handler.body)[-1:]
    return bool(last) and isinstance(last[0], cst.Raise)


def targets(assigned: cst.Assign | cst.AnnAssign | cst.AugAssign) -> list[cst.BaseExpression]:
    """What a statement assigns to: several of `a = b = 1`."""
    return [one.target for one in assigned.targets] if isinstance(assigned, cst.Assign) else [assigned.target]


def assigned(node: cst.CSTNode | None) -> list[cst.BaseExpression]:
    """What a node assigns to, or adds to; nothing, where it is no such statement."""
    return targets(node) if isinstance(node, (cst.Assign, cst.AugAssign)) else []


def inwards(node: cst.BaseExpression | None) -> Iterator[cst.BaseExpression]:
    """An expression, and what it is an attribute, an item or a result of: `a.b(x).c`, `a.b(x)`, `a.b`, `a`."""
    while node is not None:
        yield node
        if isinstance(node, (cst.Attribute, cst.Subscript)):
            node = node.value
        else:
            node = node.func if isinstance(node, cst.Call) else None


def target_names(node: cst.CSTNode) -> Iterator[str]:
    """The plain names that an assignment to `node` binds."""
    if isinstance(node, cst.Name):
        yield node.value
    elif isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from target_names(element.value)
    elif isinstance(node, cst.StarredElement):
        yield from target_names(node.value)


def leaves(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What an assignment binds one by one: `a`, `b.c` and `d[0]` of `a, (b.c, d[0])`."""
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from leaves(element.value)
    else:
        yield target


def bound_names(node: cst.CSTNode) -> Iterator[str]:
    """The names that a node binds in the scope around it: an assignment, a loop, an import, `as`."""
    if isinstance(node, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For, cst.NamedExpr)):
        yield from target_names(node.target)
    elif isinstance(node, cst.AsName):
        yield from target_names(node.name)
    elif isinstance(node, cst.ImportAlias) and node.asname is None:
        yield code_of(node.name).split(".")[0]


def names(node: cst.CSTNode) -> set[str]:
    return {one.value for one in walk(node) if isinstance(one, cst.Name)}


def is_import(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and any(
        isinstance(one, (cst.Import, cst.ImportFrom)) for one in node.body
    )


def imports(node: cst.CSTNode) -> bool:
    """Whether there is an import in it: one that is tried, too."""
    return any(isinstance(one, (cst.Import, cst.ImportFrom)) for one in walk(node))


def is_main_test(node: cst.CSTNode) -> bool:
    """`if __name__ == "__main__":`"""
    return isinstance(node, cst.If) and "__name__" in names(node.test)


def small_statements(body: cst.BaseSuite) -> list[cst.CSTNode]:
    """What a block holds, line by line or several to a line."""
    return [one for line in body.body for one in (line.body if isinstance(line, cst.SimpleStatementLine) else [line])]


def bracketed(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


_EMPTY = cst.Module(body=())


def code_of(node: cst.CSTNode) -> str:
    return _EMPTY.code_for_node(node)


def integer(node: cst.BaseExpression | None) -> int | None:
    """The value of an integer literal, also a negative one."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = integer(node.expression)
        return None if inner is None else -inner
    return int(node.value.replace("_", ""), 0) if isinstance(node, cst.Integer) else None


def string(node: cst.BaseExpression | None) -> str | None:
    """The value of a plain string literal."""
    if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        value = node.evaluated_value
        return value if isinstance(value, str) else None
    return None


def is_docstring(line: cst.CSTNode) -> bool:
    """Whether a line is nothing but a text."""
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    return isinstance(small, cst.Expr) and string(small.value) is not None


def filled_in(node: cst.FormattedString, by: str) -> str:
    """The text that an f-string is, with `by` wherever something is filled in."""
    text = "".join(one.value if isinstance(one, cst.FormattedStringText) else by for one in node.parts)
    text = text.replace("{{", "{").replace("}}", "}")
    if "r" in node.prefix.lower():
        return text
    return _ESCAPED.sub(lambda found: str(ast.literal_eval(f'"""{found[0]}"""')), text)
