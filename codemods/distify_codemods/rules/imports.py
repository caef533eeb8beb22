"""IMPORT01: the converted files import each other, not their originals."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import PurePath

import libcst as cst

from distify_codemods import tree
from distify_codemods.inside import contained, core
from distify_codemods.libraries import checkpoints
from distify_codemods.libraries.python import LOGGER
from distify_codemods.objects import Instance, Local
from distify_codemods.plan import Plan, Rewrite
from distify_codemods.program import Module
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.twins import Twins, twin_path, twins_of
from distify_codemods.twins.graph import Graph
from distify_codemods.twins.missing import beyond, missing, told, told_beyond
from distify_codemods.twins.project import chosen_later, loads_by_name
from distify_codemods.twins.statements import renaming

CODE = "IMPORT01"
_REASON = "the converted files import each other"
_NAMED = "the logger is called as in the original"


def run(context: Context) -> None:
    graph = Graph(context.facts.program)
    if not_found := missing(graph):
        context.advice(told(not_found), not_found[0].module, not_found[0].node)
    if outside := beyond(graph):
        first = next(iter(outside.values()))
        context.advice(told_beyond(outside), first.module, first.node)
    later = chosen_later(graph, context.facts.run)
    _tell_what_is_chosen(context, later)
    if not context.options.twins:
        context.not_needed("the files keep their names")
        return
    changed = {module: _newly_imported(plan) for module, plan in context.plans.items() if plan}
    twins = twins_of(context.facts.program, context.facts.run, changed, context.output)
    _tell_who_finds_twins(context, later, list(changed))
    if twins.problems:
        _under_their_names(context, twins)
        _entries(context, [module for module, plan in context.plans.items() if plan])
        return
    for module, pointing in twins.pointings.items():
        plan = context.plan(module)
        for node, parts in pointing.statements.items():
            plan.point(node, parts, CODE)
        for attribute, name in pointing.renamed.items():
            plan.replace(attribute, renaming(name), CODE, _REASON)
        _call_loggers_as_before(context, module)
        touched = [*pointing.statements, *pointing.renamed]
        if touched:
            context.applied("it imports the converted files", module, touched[0])
    _saved_whole(context, twins)
    _entries(context, twins.pointings)
    if len(twins.pointings) == 1:
        context.not_needed("no other file changes")


def _call_loggers_as_before(context: Context, module: Module) -> None:
    """`logging.getLogger(__name__)`: a logger's name stands in what it writes, and others may ask for it by that."""
    for event in context.facts.calls(LOGGER) if module is not context.entry else ():
        given = event.node.args[:1] if event.module is module and isinstance(event.node, cst.Call) else ()
        for one in given:
            if isinstance(one.value, cst.Name) and one.value.value == "__name__":
                context.plan(module).replace(one.value, _text(module.name), CODE, _NAMED)


def _text(text: str) -> Rewrite:
    written = cst.SimpleString(f'"{text}"')
    return lambda _: written


def _tell_what_is_chosen(context: Context, later: list[tuple[Module, cst.Call]]) -> None:
    for followed, what in (
        (True, "all that the folder has now were followed; convert again when there are others"),
        (False, "what it does is unknown"),
    ):
        ones = [one for one in later if _is_followed(context, one[1]) is followed]
        if ones:
            places = ", ".join(dict.fromkeys(str(module.place(node)) for module, node in ones))
            context.advice(f"what is imported here shows when it runs ({places}); {what}", *ones[0])


def _tell_who_finds_twins(context: Context, later: list[tuple[Module, cst.Call]], twins: list[Module]) -> None:
    """A file that imports whatever its folder holds does so in each run of the original, too."""
    for module, node in later:
        if not any(isinstance(one, (cst.For, cst.CompFor, cst.BaseComp)) for one in module.enclosing(node)):
            continue
        locals_ = [obj.target for obj in context.facts.value(node).objs if isinstance(obj, Local)]
        found = [twin_path(one.path) for one in locals_ if one in twins and one is not context.entry]
        if found:
            text = f"if this imports each file that there is, it finds {found[0]} as well when the original is started"
            context.advice(f"{text}; -o DIR/ leaves the folder as it is", module, node)


def _is_followed(context: Context, node: cst.Call) -> bool:
    return any(isinstance(obj, Local) for obj in context.facts.value(node).objs)


def _under_their_names(context: Context, twins: Twins) -> None:
    """Imports stay what they are, and find the converted files: nothing of a project is then there in two forms."""
    entry, output = context.entry, PurePath(context.output)
    for problem in twins.problems:
        if problem.lasts or output.parent != PurePath(entry.path).parent:
            context.needs_you(
                f"{problem.why}, so that converted files beside their originals would mix with them",
                problem.module, problem.node, "convert with --in-place, or into a folder of its own: -o DIR/",
            )  # fmt: skip
    files = [twin_path(module.path) for module, plan in context.plans.items() if plan and module is not entry]
    given = [f'"{_relative(path, entry.path)}"' for path in sorted(files)]
    if output.name != PurePath(twin_path(entry.path)).name:
        given.append(f'original="{PurePath(entry.path).name}"')
    first = next((line for line in entry.tree.body if _imports_files(context, line)), None) or _beginning(entry)
    text = f"{context.rt(entry)}.import_twins({', '.join(given)})"
    context.plan(entry).insert_before(first, text, CODE, "wherever an original is imported, its twin is")
    context.applied("the converted files are imported under the names of their originals", entry, first)


def _relative(path: str, entry: str) -> str:
    return PurePath(os.path.relpath(path, os.path.dirname(entry) or ".")).as_posix()


def _imports_files(context: Context, line: cst.CSTNode) -> bool:
    """By a statement, or by a name in a text."""
    graph = Graph(context.facts.program)
    own = {one.node for one in graph.imports(context.entry) if graph.targets(one)}
    return any(node in own or loads_by_name(context.facts.run, node) for node in tree.walk(line))


def _beginning(module: Module) -> cst.CSTNode:
    """The first statement behind the docstring and what a file imports from the future."""
    for line in module.tree.body:
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
        future = isinstance(small, cst.ImportFrom) and tree.dotted(small.module or cst.Name("_")) == "__future__"
        if not future and not tree.is_docstring(line):
            return line
    return module.tree.body[-1]


def _entries(context: Context, files: Iterable[Module]) -> None:
    """Says of files that train by themselves, too, that they are converted for this script alone."""
    for module in files:
        main = next((line for line in module.tree.body if tree.is_main_test(line)), None)
        if module is context.entry or main is None or not any(map(_is_backward, module.nodes)):
            continue
        name, script = PurePath(twin_path(module.path)).name, PurePath(module.path).name
        first = module.place(module.tree.body[0]).line
        said = f"# Converted for {PurePath(context.entry.path).name}, which imports it; started by itself, it is not."
        context.plan(module).comment(first, said, CODE)
        context.advice(
            f"{name} is converted for this script alone, which imports it: started by itself, it would train the same "
            f"on every rank; convert {script} by itself for that", module, main,
        )  # fmt: skip


def _is_backward(node: cst.CSTNode) -> bool:
    called = node.func if isinstance(node, cst.Call) else None
    return isinstance(called, cst.Attribute) and called.attr.value == "backward"


def _saved_whole(context: Context, twins: Twins) -> None:
    """A pickle names the file that its object's class comes from."""
    for event in context.facts.calls(*checkpoints.PICKLES):
        for obj in contained(event.arguments.positional[0]) if event.arguments.positional else ():
            saved = core(obj)
            module = saved.of.module if isinstance(saved, Instance) and saved.of is not None else None
            if module is not None and module in twins.pointings and module is not context.entry:
                context.advice(
                    f"what is saved whole here names {twin_path(module.path)} as the file of its class; "
                    "`state_dict()` names none", event.module, event.node,
                )  # fmt: skip
                break


def _newly_imported(plan: Plan) -> set[str]:
    """The names that a file imports from now on. `print` does what it did, on one rank."""
    return {statement.split()[-1] for statement in plan.imports} - {"print"}


RULE = Rule(
    code=CODE,
    name="imports",
    why="A converted script that imports the original of a file runs that file as it was: unsharded, on every rank.",
    safety="Each file that changes, and each that imports one, gets a twin beside it, and all imports of it go to the "
    "twin. What a package's `__init__` passes on is imported from the file that defines it. Where a file would run in "
    "both forms with consequences, or is imported by a computed name, `rt.import_twins` has the twins imported under "
    "the names of their originals, the script's own among them.",
    run=run,
    examples=(
        Example(
            torch="""
              {torch}

            - from helper import train
            + from helper_dist import train
            """,
            apart="",
            loop="train(model, loader, optimizer)",
            helper="""\
from torch import nn


def train(model, loader, optimizer):
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
""",
        ),
        LeftAlone(),
    ),
)
