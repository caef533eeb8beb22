"""The functions of a project by their names: what may be called where it is not seen what is."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.answers import answered_once
from distify_codemods.facts import Facts


def functions_named(facts: Facts, name: str) -> list[cst.FunctionDef]:
    return _by_name(facts).get(name, [])


@answered_once
def _by_name(facts: Facts) -> dict[str, list[cst.FunctionDef]]:
    found: dict[str, list[cst.FunctionDef]] = {}
    for module in facts.program.modules.values():
        for node in tree.walk(module.tree):
            if isinstance(node, cst.FunctionDef):
                found.setdefault(node.name.value, []).append(node)
    return found
