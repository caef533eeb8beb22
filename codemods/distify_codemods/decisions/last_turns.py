"""What the last turn of a loop computes for a next turn that never comes."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.program import Module

_FUNCTIONS = (cst.FunctionDef, cst.Lambda, cst.Module)


def goes_nowhere(module: Module, node: cst.CSTNode) -> bool:
    """Whether an expression in a loop is only of use to the loop's next turn: `x = layer(x)`, where x is no output."""
    for outer in module.enclosing(node):
        if isinstance(outer, _FUNCTIONS):
            return False
        if isinstance(outer, cst.For) and isinstance(outer.body, cst.IndentedBlock):
            return node in _dead(module, outer)
    return False


def _dead(module: Module, loop: cst.For) -> set[cst.CSTNode]:
    """What is in assignments of the body whose names nothing reads any more when the turn is the last one."""
    found: set[cst.CSTNode] = set()
    for statement in reversed(loop.body.body):
        names = _targets(statement)
        if names and all(found.issuperset(module.flow(loop).reads_after(statement, name, loop)) for name in names):
            found.update(tree.walk(statement))
    return found


def _targets(statement: cst.CSTNode) -> set[str]:
    """The names that a plain assignment sets; none of anything else."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    targets = tree.assigned(small)
    plain = all(isinstance(node, (cst.Name, cst.Tuple, cst.Element)) for one in targets for node in tree.walk(one))
    return {name for one in targets for name in tree.target_names(one)} if plain else set()
