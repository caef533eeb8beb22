"""Import statements as syntax: how names are spelled, and statements with other sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import libcst as cst

from distify_codemods import tree
from distify_codemods.plan import Rewrite


def parts_below(folder: PurePath, file: PurePath) -> list[str] | None:
    """The parts of a module's name within a package's folder."""
    try:
        parts = list(file.relative_to(folder).with_suffix("").parts)
    except ValueError:
        return None
    if parts[-1] == "__init__":
        parts.pop()
    return parts or None


def source_text(node: cst.ImportFrom) -> str:
    return "." * len(node.relative) + (tree.dotted(node.module) or "" if node.module else "")


def dotted_name(name: str) -> cst.Name | cst.Attribute:
    first, *rest = name.split(".")
    result: cst.Name | cst.Attribute = cst.Name(first)
    for part in rest:
        result = cst.Attribute(result, cst.Name(part))
    return result


def alias_of(name: str, bound: str) -> cst.ImportAlias:
    return cst.ImportAlias(cst.Name(name), asname=None if name == bound else cst.AsName(cst.Name(bound)))


def with_source(
    node: cst.ImportFrom, source: str, aliases: Sequence[cst.ImportAlias] | None, layout: cst.ImportFrom | None
) -> cst.ImportFrom:
    """The statement with another source and some of its names; in the layout of the original, or on one line."""
    level = len(source) - len(source.lstrip("."))
    changes: dict[str, object] = {
        "relative": [cst.Dot()] * level,
        "module": dotted_name(source[level:]) if source[level:] else None,
        "whitespace_after_from": cst.SimpleWhitespace(" "),
    }
    if aliases is not None:
        names = layout.names if layout is not None and not isinstance(layout.names, cst.ImportStar) else ()
        whole = len(aliases) == len(names)
        changes["names"] = aliases if whole else _closed(aliases, layout)
        if layout is None:
            changes |= {"lpar": None, "rpar": None}
    return node.with_changes(**changes)


def _closed(aliases: Sequence[cst.ImportAlias], layout: cst.ImportFrom | None) -> list[cst.ImportAlias]:
    """The last name of a list has no comma, or that of the last one before."""
    if layout is None:
        aliases = [alias.with_changes(comma=cst.MaybeSentinel.DEFAULT) for alias in aliases]
        return list(aliases)
    before = layout.names
    assert not isinstance(before, cst.ImportStar)
    return [*aliases[:-1], aliases[-1].with_changes(comma=before[-1].comma)]


def renaming(name: str) -> Rewrite:
    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        assert isinstance(updated, cst.Attribute)
        return updated.with_changes(attr=cst.Name(name))

    return rewrite
