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
            function = next(one for one in module.enclosing(outer) if isinstance(one, _FUNCTIONS))
            return module.statement(node) in _dead(outer, _read_after(module, outer, function))
    return False


def _read_after(module: Module, loop: cst.For, function: cst.CSTNode) -> set[str]:
    """Names that may be read once the loop has ended; in an outer loop, all that are read anywhere."""
    again = any(isinstance(one, (cst.For, cst.While)) for one in module.enclosing(loop))
    inside, end = set(tree.walk(loop)), module.positions[loop].end
    return {
        node.value
        for node in tree.walk(function)
        if isinstance(node, cst.Name) and node not in inside
        and (again or _place(module, node) >= (end.line, end.column))
    }  # fmt: skip


def _place(module: Module, node: cst.CSTNode) -> tuple[int, int]:
    start = module.positions[node].start
    return start.line, start.column


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
            live = live - targets | _names(small.value)
        else:
            live |= _names(statement)
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


def _names(node: cst.CSTNode) -> set[str]:
    return {one.value for one in tree.walk(node) if isinstance(one, cst.Name)}
