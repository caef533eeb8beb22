"""What the last turn of a loop computes for a next turn that never comes."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.names import bound_by
from distify_codemods.program import Module

_FUNCTIONS = (cst.FunctionDef, cst.Lambda, cst.Module)


def goes_nowhere(module: Module, node: cst.CSTNode) -> bool:
    """Whether an expression in a loop is only of use to the loop's next turn: `x = layer(x)`, where x is no output."""
    for outer in module.enclosing(node):
        if isinstance(outer, _FUNCTIONS):
            return False
        if isinstance(outer, cst.For) and isinstance(outer.body, cst.IndentedBlock):
            flow = module.flow(outer)
            live = {name for name in bound_by(outer.body) if flow.reads_after(outer, name)}
            return module.statement(node) in _dead(outer, live)
    return False


def _dead(loop: cst.For, live: set[str]) -> set[cst.CSTNode]:
    """The statements of the body whose names nothing reads any more when the turn is the last one."""
    found: set[cst.CSTNode] = set()
    live = set(live)
    for statement in reversed(loop.body.body):
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else statement
        targets = _targets(statement)
        if targets and not targets & live:
            found.add(statement)
        elif targets and isinstance(small, cst.Assign):
            live = live - targets | tree.names(small.value)
        else:
            live |= tree.names(statement)
    return found


def _targets(statement: cst.CSTNode) -> set[str]:
    """The names that a plain assignment sets; none of anything else."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    if isinstance(small, cst.AugAssign):
        targets = [small.target]
    else:
        targets = [one.target for one in small.targets] if isinstance(small, cst.Assign) else []
    plain = all(isinstance(node, (cst.Name, cst.Tuple, cst.Element)) for one in targets for node in tree.walk(one))
    return {name for one in targets for name in tree.target_names(one)} if plain else set()
