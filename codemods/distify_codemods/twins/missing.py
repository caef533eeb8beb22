"""Imports that lead nowhere: neither in the project nor, as far as the caller can tell, in a library that is there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import libcst as cst

from distify_codemods import libraries, tree
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.twins.graph import Graph, Import

#: By which a file gives itself names that no statement of it binds.
_BINDING = frozenset("globals vars locals setattr exec eval".split())
_BINDING_TOO = frozenset("__getattr__ __dict__ __path__ modules".split())
_CAUGHT = frozenset("ImportError ModuleNotFoundError Exception BaseException".split())


@dataclass(frozen=True)
class Missing:
    """A name that is imported, as `pkg.nets.Net`."""

    module: Module
    node: cst.Import | cst.ImportFrom
    name: str
    looked_in: Module | None = None  # a file that is there, and has no such name: the import fails for certain


def missing(graph: Graph) -> list[Missing]:
    """What the files of a program import and is not found, in order; not what they try, and can do without."""
    program = graph.program
    found: dict[str, Missing] = {}
    for module in graph.closure([program.entry]):
        for one in graph.imports(module):
            name = _missing(graph, one, program.options.installed)
            if name and name not in found and not _can_do_without(module, one.node):
                found[name] = Missing(module, one.node, name, one.source)
    return list(found.values())


def told(all_missing: list[Missing]) -> str:
    """One line about all of them."""
    names = [f"`{one.name}` ({one.module.place(one.node)})" for one in all_missing]
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"not found: {shown}; what comes from there is unknown here{_certain(all_missing)}"


def beyond(graph: Graph) -> dict[str, Missing]:
    """What the files import that Python finds outside of the project, in no library that is installed: by where."""
    program, found = graph.program, dict[str, Missing]()
    where = program.options.beyond
    for module in graph.closure([program.entry]) if where is not None else ():
        for one in graph.imports(module):
            is_foreign = one.source is None and not one.level and not libraries.knows(one.dotted.partition(".")[0])
            if is_foreign and where is not None and (path := where(one.dotted)) is not None:
                found.setdefault(path, Missing(module, one.node, one.dotted))
    return found


def told_beyond(found: dict[str, Missing]) -> str:
    names = [f"`{one.name}` ({one.module.place(one.node)}) at {path}" for path, one in found.items()]
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return (
        f"outside of the project, and not followed: {shown}; what comes from there is unknown here: "
        "with a copy or a link of it beside the script, it would be followed"
    )


def _certain(all_missing: list[Missing]) -> str:
    without: dict[str, list[str]] = {}
    for one in all_missing:
        if one.looked_in is not None:
            without.setdefault(one.looked_in.path, []).append(f"`{one.name.rpartition('.')[2]}`")
    told_of = [f"{path} has no {' or '.join(names)}" for path, names in list(without.items())[:3]]
    return f"; {', '.join(told_of)}: to import that fails, in the original as well" if told_of else ""


def _missing(graph: Graph, one: Import, installed: Callable[[str], bool] | None) -> str:
    """The name that an import asks for and nobody has; empty if it is found, or cannot be told."""
    if one.source is not None:
        known = not one.name or one.name in graph.exports(one.source) or _binds_more(graph, one.source)
        return "" if known or graph.submodule(one, one.name) is not None else f"{one.source_name}.{one.name}"
    if one.name and graph.submodule(one, one.name) is not None:
        return ""  # a file of a folder without `__init__`
    if graph.program.unreadable and graph.program.has_file(one.module, one.dotted, one.level):
        return ""  # it is there, and no Python
    if one.level:
        return one.source_name
    top = one.dotted.partition(".")[0]
    package = graph.program.local_module(one.module, top, 0)
    if package is not None:
        return "" if _gives_itself_names(package) else one.dotted  # no name of a package is a module to import from
    if installed is None or top in sys.stdlib_module_names or libraries.knows(top) or installed(one.dotted):
        return ""
    return one.dotted


def _binds_more(graph: Graph, module: Module) -> bool:
    """Whether a file may have names that its statements do not show."""
    if any(one.alias is None and one.source is None for one in graph.imports(module)):
        return True
    return _gives_itself_names(module)


def _gives_itself_names(module: Module) -> bool:
    return any(
        node.value in _BINDING_TOO or (node.value in _BINDING and not _is_an_attribute(module, node))
        for node in module.nodes if isinstance(node, cst.Name)
    )  # fmt: skip


def _is_an_attribute(module: Module, node: cst.Name) -> bool:
    """`model.eval()`"""
    parent = module.parents.get(node)
    return isinstance(parent, cst.Attribute) and parent.attr is node


def _can_do_without(module: Module, node: cst.CSTNode) -> bool:
    """In a `try` that catches what a missing module raises, in its handlers too; for type checkers; or where a file is
    started by itself, which is only imported.
    """
    return any(_catches(one) or _is_for_types(one) or _never_comes(module, one, node) for one in module.enclosing(node))


def _never_comes(module: Module, node: cst.CSTNode, within: cst.CSTNode) -> bool:
    """`if __name__ == "__main__":` in a file that is imported."""
    if module.name == "__main__" or not isinstance(node, cst.If) or not tree.is_main_test(node):
        return False
    alike = isinstance(node.test, cst.Comparison) and isinstance(node.test.comparisons[0].operator, cst.Equal)
    return alike and any(one is within for one in tree.walk(node.body))


def _catches(node: cst.CSTNode) -> bool:
    handlers = node.handlers if isinstance(node, cst.Try) else ()
    return any(one.type is None or not _CAUGHT.isdisjoint(_names(one.type)) for one in handlers)


def _is_for_types(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.If) and "TYPE_CHECKING" in _names(node.test)


def _names(node: cst.CSTNode) -> Iterator[str]:
    return (one.value for one in tree.walk(node) if isinstance(one, cst.Name))
