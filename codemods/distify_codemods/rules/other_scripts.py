"""What is written where a script that is not converted comes by as well: files are changed in their place."""

from __future__ import annotations

import libcst as cst

from distify_codemods.plan import Rewrite
from distify_codemods.program import Module
from distify_codemods.rules.base import Context, attribute_of, call_of


def other_user(context: Context, module: Module, node: cst.CSTNode) -> str:
    """The path of a script that is not converted, and runs what is changed here in its place; else empty."""
    return "" if context.options.twins or not context.options.others else context.others.user_of(module, node)


def not_shared(context: Context, module: Module, node: cst.CSTNode, what: str) -> bool:
    """Whether an edit that is wrong for a script that is not converted can be made; says so where it cannot."""
    other = other_user(context, module, node)
    if other:
        context.needs_you(
            f"{what}, and {other}, which is not converted, uses it, too", module, node,
            "leave the files as they are: convert without --in-place, --diff or -o DIR/",
        )  # fmt: skip
    return not other


def inside_wrap(context: Context, module: Module, node: cst.CSTNode) -> Rewrite:
    """`model` becomes `model.module`; where a script that is not converted comes by, what is right for both."""
    if other_user(context, module, node):
        return call_of(f"{context.rt(module)}.unwrap({{}})")
    return attribute_of("module")
