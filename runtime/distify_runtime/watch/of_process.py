"""Which lines of a script tell of the process that runs them, or of when it looks: clocks, memory, names of machines,
what files there are. Those differ between ranks by right.

Read from the script's own text, once something differs. Names stand for what they are bound to anywhere in a file, so
that too many lines are taken to tell of the process rather than too few.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from functools import cache

#: Modules and names that answer each process otherwise.
_MODULES = frozenset(
    """time datetime timeit psutil uuid resource tracemalloc socket platform getpass secrets tempfile threading
    multiprocessing pynvml gc cProfile""".split()
)
_NAMES = frozenset(
    """getpid getppid urandom cpu_count perf_counter monotonic process_time strftime elapsed_time elapsed timestamp
    current_device get_device_name mem_get_info memory_allocated memory_reserved max_memory_allocated
    max_memory_reserved max_memory_cached memory_summary memory_stats format_dict local_rank get_rank
    listdir glob iglob rglob scandir iterdir getsize getmtime getctime st_size st_mtime disk_usage""".split()
)
#: Names that all methods share.
_RECEIVERS = frozenset({"self", "cls"})


def tells_of_the_process(lines: Iterable[tuple[str, int]]) -> bool:
    """Whether one of the statements at these lines of files does."""
    return any(_tells(file, line) for file, line in lines)


def _tells(file: str, line: int) -> bool:
    tree = _parsed(file)
    statement = _statement(tree, line)
    return statement is not None and not _names(statement).isdisjoint(_of_process(file))


@cache
def _parsed(file: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:  # a file that has changed meanwhile
        return ast.Module([], [])


def _statement(tree: ast.Module, line: int) -> ast.stmt | None:
    """The innermost one there."""
    statements = (one for one in ast.walk(tree) if isinstance(one, ast.stmt))
    there = [one for one in statements if one.lineno <= line <= (one.end_lineno or line)]
    return max(there, key=lambda one: (one.lineno, -(one.end_lineno or line)), default=None)


@cache
def _of_process(file: str) -> frozenset[str]:
    """Names of variables, attributes and functions of the file that hold or give what is the process's own."""
    tree = _parsed(file)
    found = set(_MODULES | _NAMES).union(*map(_imported, ast.walk(tree)))
    bound = [(name, _names(value)) for target, value in _bindings(tree) for name in _bound(target)]
    while new := {name for name, values in bound if not values.isdisjoint(found)} - found - _RECEIVERS:
        found |= new
    return frozenset(found)


def _imported(node: ast.AST) -> set[str]:
    """Names that an import binds to what answers each process otherwise."""
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return set()
    of_those = isinstance(node, ast.ImportFrom) and node.module in _MODULES
    return {one.asname or one.name for one in node.names if of_those or one.name.partition(".")[0] in _MODULES}


def _bindings(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What gets its value from what: what is assigned to, what a method is called of, functions from what they give."""
    for one in ast.walk(tree):
        if isinstance(one, ast.Assign):
            yield from ((target, one.value) for target in one.targets)
        elif isinstance(one, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and one.value:
            yield one.target, one.value
        elif isinstance(one, ast.withitem) and one.optional_vars:
            yield one.optional_vars, one.context_expr
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
            yield from ((one.func.value, given) for given in (*one.args, *(word.value for word in one.keywords)))
        elif isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = (inner.value for inner in ast.walk(one) if isinstance(inner, ast.Return))
            yield from ((ast.Name(one.name), value) for value in given if value)


def _bound(target: ast.expr) -> list[str]:
    """`a, self.b, c[0]`: a, b, c"""
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for one in target.elts for name in _bound(one)]
    if isinstance(target, (ast.Subscript, ast.Starred)):
        return _bound(target.value)
    if isinstance(target, ast.Attribute):
        return [target.attr]
    return [target.id] if isinstance(target, ast.Name) else []


def _names(node: ast.AST) -> set[str]:
    """Of all variables and attributes in it."""
    variables = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return variables | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
