"""Which files get a twin: those that change, and those that import one that does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Ref
from distify_codemods.interpreter import Run
from distify_codemods.libraries import python
from distify_codemods.ordered import EMPTY
from distify_codemods.program import Module, Program
from distify_codemods.records import dataclass
from distify_codemods.results import SUFFIX
from distify_codemods.twins.effects import effects
from distify_codemods.twins.graph import Graph
from distify_codemods.twins.pointing import Pointer, Pointing, Problem

_IMPORTS = python.IMPORTS | {"__import__"}


@dataclass(frozen=True)
class Twins:
    """The files that get a twin, each with what becomes of its imports; and what stands in the way."""

    pointings: dict[Module, Pointing]
    problems: tuple[Problem, ...]


def twin_path(path: str) -> str:
    """`pkg/model.py` becomes `pkg/model_dist.py`."""
    old = PurePath(path)
    return str(old.with_name(f"{old.stem}{SUFFIX}{old.suffix}"))


def twins_of(program: Program, run: Run, changed: dict[Module, set[str]], output: str) -> Twins:
    """The twins of the files that change, given with the names that they newly import; the entry's is `output`."""
    entry = program.entry
    graph = Graph(program)
    reached = graph.closure([entry, *run.frames])
    twins = {module: PurePath(twin_path(module.path)).stem for module in changed}
    twins[entry] = PurePath(output).stem
    pointings: dict[Module, Pointing] = {}
    fresh = list(twins)
    while fresh:
        pointer = Pointer(graph, run, twins)
        concerned = dict.fromkeys([*fresh, *_importers(graph, reached, fresh)])
        pointings |= {module: pointer.point(module) for module in concerned}
        fresh = [
            module
            for module in concerned
            if pointings[module]
            and module not in twins
            and not (module.is_package and _only_passes_on(graph, module, twins, pointings[module]))
        ]
        twins |= {module: PurePath(twin_path(module.path)).stem for module in fresh}
    found = {module: pointing for module, pointing in pointings.items() if module in twins}
    problems = [problem for pointing in found.values() for problem in pointing.problems]
    problems += _loaded_by_name(graph, run, reached, twins)
    if len(twins) > 1:
        problems += _loaded_twice(graph, run, twins)
        problems += [problem for module in found for problem in _overshadowed(graph, module, changed)]
    problems += _moved_away(graph, reached, entry, output)
    return Twins(found, tuple(problems))


def _moved_away(graph: Graph, reached: list[Module], entry: Module, output: str) -> list[Problem]:
    """Imports of the entry, or in it, that another folder than its own does not bear."""
    if PurePath(output).parent == PurePath(entry.path).parent:
        return []
    return [
        Problem(module, one.node, f"{output} would stand in another folder")
        for module in reached for one in graph.imports(module)
        if one.source is entry or (one.level and module is entry)
    ]  # fmt: skip


def _importers(graph: Graph, reached: list[Module], changed: list[Module]) -> list[Module]:
    """The files that import one of some files, be it through packages that pass names on."""
    table: dict[Module, list[Module]] = {}
    for module in reached:
        for one in graph.imports(module):
            for target in graph.targets(one):
                table.setdefault(target, []).append(module)
    found, queue = {}, list(changed)
    while queue:
        for importer in table.get(queue.pop(), ()):
            if importer not in found:
                found[importer] = True
                queue += [importer] if importer.is_package else []
    return list(found)


def _only_passes_on(graph: Graph, package: Module, twins: dict[Module, str], pointing: Pointing) -> bool:
    """Whether an `__init__` makes no use itself of names that now have a twin; what its functions import, it uses."""
    inside = (one for node in pointing.statements for one in package.enclosing(node))
    if any(isinstance(one, cst.FunctionDef) for one in inside):
        return False
    concerned = {
        name
        for name, origins in graph.exports(package).items()
        if any(origin[0] in twins and origin[0] is not package for origin in origins)
    }
    return not any(name.value in concerned for name in graph.names(package))


def _overshadowed(graph: Graph, module: Module, changed: dict[Module, set[str]]) -> Iterator[Problem]:
    """`from x import *` brings along what x newly imports, too."""
    for one in graph.imports(module):
        if one.alias is None and one.source in changed:
            used = {name.value for name in graph.names(module)} & changed[one.source]
            for name in sorted(used - graph.exports(one.source).keys()):
                why = f"`{name}` of this file would become what {one.source.path} imports under that name"
                yield Problem(module, one.node, why, lasts=True)


def _loaded_by_name(graph: Graph, run: Run, reached: list[Module], twins: dict[Module, str]) -> Iterator[Problem]:
    """`importlib.import_module(text)`, where the text may name a file that has a twin; the script, where it does."""
    entry = graph.program.entry
    for module in reached:
        for node in module.nodes:
            if isinstance(node, cst.Call) and loads_by_name(run, node):
                texts = _texts(run, node.args[0].value)
                if any(_may_name(twin, *text) for text in texts for twin in twins if twin is not entry or text[0]):
                    yield Problem(module, node, "a file is imported by a name in a text, and it may be one with a twin")


def loads_by_name(run: Run, node: cst.CSTNode) -> bool:
    """Whether this imports what a text names."""
    return isinstance(node, cst.Call) and bool(node.args) and not _IMPORTS.isdisjoint(_called(run, node))


def chosen_later(graph: Graph, run: Run) -> list[tuple[Module, cst.Call]]:
    """The imports of which file it is shows when the program runs."""
    return [
        (module, node)
        for module in graph.closure([graph.program.entry, *run.frames])
        for node in module.nodes
        if isinstance(node, cst.Call) and node.func in run.values and loads_by_name(run, node)
        if not all(whole for whole, _ in _texts(run, node.args[0].value))
    ]


def _called(run: Run, node: cst.Call) -> set[str]:
    """The library's functions that a call may mean; in code that is not run, what it is called there."""
    objs = run.values[node.func].objs if node.func in run.values else EMPTY
    return {obj.name for obj in objs if isinstance(obj, Ref)} or {tree.dotted(node.func) or ""}


def _texts(run: Run, node: cst.BaseExpression) -> list[tuple[bool, str]]:
    """What a text may be: each as far as it is known, and whether that is all of it."""
    objs = run.values[node].objs if node in run.values else EMPTY
    known = [obj.value for obj in objs if isinstance(obj, Const) and isinstance(obj.value, str)]
    return [(True, text) for text in known] if known and len(known) == len(objs) else [_beginning(node)]


def _beginning(node: cst.BaseExpression) -> tuple[bool, str]:
    """A text as far as it is known; whether that is all of it."""
    text = tree.string(node)
    if text is not None:
        return True, text
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        return False, _beginning(node.left)[1]
    if isinstance(node, cst.FormattedString) and node.parts and isinstance(node.parts[0], cst.FormattedStringText):
        return False, node.parts[0].value
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "format":
        return False, (tree.string(node.func.value) or "").split("{")[0]
    return False, ""


def _may_name(module: Module, whole: bool, text: str) -> bool:
    path = PurePath(module.path)
    parts = (path.parent if module.is_package else path.with_suffix("")).parts
    names = [".".join(parts[start:]) for start in range(len(parts))]
    return any(name == text.lstrip(".") if whole else name.startswith(text.lstrip(".")) for name in names)


def _loaded_twice(graph: Graph, run: Run, twins: dict[Module, str]) -> Iterator[Problem]:
    """A package's `__init__` runs as it is when one of its files is imported, and loads originals beside twins."""
    entry = graph.program.entry  # what its package does depends on how it is started, and is none of ours
    packages = [package for module in twins if module is not entry for package in _packages_around(graph, module)]
    for module in graph.closure(list(dict.fromkeys(packages)), at_import=True):
        if module in twins and module is not entry:
            loud = next(effects(module, run), None)
            if loud is not None:
                yield Problem(module, loud, "this would run twice: its package imports the original, too")


def _packages_around(graph: Graph, module: Module) -> Iterator[Module]:
    """The packages that a file lies in, innermost first; a package itself among them."""
    level = 1
    while (package := graph.program.local_module(module, "", level)) is not None:
        yield package
        level += 1
