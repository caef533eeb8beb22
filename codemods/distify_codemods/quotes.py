"""Strings in the expressions of f-strings: Python before 3.12 cannot read them in the quotes of the f-string itself."""

from __future__ import annotations

import libcst as cst


def apart(outer: cst.FormattedString) -> cst.FormattedString:
    """The f-string, the strings in whose expressions have other quotes than it has, wherever they can."""
    if len(outer.quote) > 1:
        return outer  # within three of a kind, one of them ends nothing
    other = "'" if outer.quote == '"' else '"'
    parts = [
        part.visit(_Requoting(outer.quote, other)) if isinstance(part, cst.FormattedStringExpression) else part
        for part in outer.parts
    ]
    return outer.with_changes(parts=parts)


class _Requoting(cst.CSTTransformer):
    def __init__(self, quote: str, other: str) -> None:
        self.quote = quote
        self.other = other

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        """A backslash says nothing of the quotes that it is in, but may stand in no f-string's expression either."""
        raw = updated_node.raw_value
        if updated_node.quote != self.quote or self.other in raw or "\\" in raw:
            return updated_node
        return updated_node.with_changes(value=f"{updated_node.prefix}{self.other}{raw}{self.other}")
