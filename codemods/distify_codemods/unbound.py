"""Names that nothing gives a value to: a run of the script ends there, whatever else is to be said about it."""

from __future__ import annotations

import builtins
import symtable
from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.facts import Facts
from distify_codemods.libraries import python
from distify_codemods.program import Module
from distify_codemods.results import Finding, Level

_GIVEN = frozenset([*dir(builtins), "__file__", "__builtins__", "__annotations__", "__path__", *python.OF_NOTEBOOKS])
#: What gives names values in ways of its own; the last one, where it is not told whose names are meant.
_OF_ANYTHING = "vars"
_BY_NAME = frozenset({"exec", "eval", "globals", "locals", _OF_ANYTHING})


def unbound_names(facts: Facts) -> tuple[Finding, ...]:
    """Those that the run came by, each where it is first read."""
    return tuple(_finding(module, node) for module in facts.run.frames for node in _first_reads(facts, module))


def is_unbound(facts: Facts, module: Module, node: cst.CSTNode) -> bool:
    """Whether it is a name that nothing gives a value to: what is called by it is never run."""
    known = isinstance(node, cst.Name) and node.value in facts.run.machine.unbound
    return known and isinstance(node, cst.Name) and node.value in _without_value(module)


def _finding(module: Module, node: cst.Name) -> Finding:
    return Finding(
        Level.BLOCKING, "OTHER01", "everything else",
        f"nothing gives `{node.value}` a value: a run of the script ends here", module.place(node),
        "mend that first: the rest was found out without it",
    )  # fmt: skip


def _first_reads(facts: Facts, module: Module) -> Iterator[cst.Name]:
    left = facts.run.machine.unbound.keys() & _without_value(module)
    for node in facts.run.values if left else ():
        if isinstance(node, cst.Name) and node.value in left and node in module.parents and not _is_tried(module, node):
            left.remove(node.value)
            yield node


def _is_tried(module: Module, node: cst.CSTNode) -> bool:
    """Whether it is read to find out if there is such a name: `try: unicode` with `except NameError:`, or with any."""
    within: cst.CSTNode = node
    for one in module.enclosing(node):
        if isinstance(one, cst.Try) and within is one.body:
            errors = set().union(*map(tree.caught, one.handlers))
            alone = len(tree.small_statements(one.body)) == 1
            if "NameError" in errors or (alone and not errors.isdisjoint({"?", "Exception", "BaseException"})):
                return True
        within = one
    return False


def _without_value(module: Module) -> set[str]:
    try:
        whole = symtable.symtable(module.tree.code, module.path, "exec")
    except SyntaxError:  # of another version of Python
        return set()
    scopes = list(_scopes(whole))
    symbols = [(scope is whole, symbol) for scope in scopes for symbol in scope.get_symbols()]
    read = {one.get_name() for top, one in symbols if one.is_referenced() and (top or one.is_global())}
    bound = {one.get_name() for top, one in symbols if _is_bound(one) and (top or one.is_declared_global())}
    by_name = read & (_BY_NAME if _may_be_of_the_module(module) else _BY_NAME - {_OF_ANYTHING})
    return set() if by_name or _takes_all(module) else read - bound - _GIVEN


def _may_be_of_the_module(module: Module) -> bool:
    """`vars()`, `make = vars`, `vars(sys.modules[__name__])`; not `vars(args)`, which has names of its own."""
    for node in module.parents:
        if isinstance(node, cst.Name) and node.value == _OF_ANYTHING:
            call = module.parents[node]
            if not isinstance(call, cst.Call) or call.func is not node or not call.args:
                return True
    return any(
        isinstance(node, (cst.Name, cst.Attribute)) and tree.dotted(node) in python.ITSELF for node in module.parents
    )


def _scopes(scope: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield scope
    for inner in scope.get_children():
        yield from _scopes(inner)


def _is_bound(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _takes_all(module: Module) -> bool:
    """`from somewhere import *`."""
    return any(isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar) for node in module.parents)
