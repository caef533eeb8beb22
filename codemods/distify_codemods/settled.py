"""What the user has settled: names on the command line, in a configuration, or comments in the script."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import TypeAlias

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.directives import DRAW_ALIKE, RATES, SKIP, TRAIN_LOADER
from distify_codemods.events import Kind
from distify_codemods.inside import contained, core
from distify_codemods.interpreter import Run
from distify_codemods.libraries import torch_nn
from distify_codemods.libraries.torch_data import LOADERS
from distify_codemods.naming import Names
from distify_codemods.objects import External, Instance
from distify_codemods.parameters import may_be_a_module
from distify_codemods.program import Module, Program
from distify_codemods.records import dataclass
from distify_codemods.results import OptionError, Said
from distify_codemods.values import NOTHING, Value, join


@dataclass(frozen=True)
class Settled:
    """Roles that the user gives; each with who says so: `--model net`."""

    models: dict[Obj, str] = field(default_factory=dict)
    not_models: dict[Obj, str] = field(default_factory=dict)  # models, or optimizers of what is none
    train_loaders: dict[External, str] = field(default_factory=dict)
    rates: dict[Obj, str] = field(default_factory=dict)  # optimizers, and the word for how theirs grow with the batch
    unused: list[str] = field(default_factory=list)  # names of a configuration that this script does not have


def settle(program: Program, run: Run) -> Settled:
    """Raises OptionError where a name means nothing, SourceError for a comment that cannot be read."""
    settled = Settled()
    modules = list(program.modules.values())
    directed = [module for module in modules if module.directives]
    options = program.options
    if not (directed or options.models or options.train_loaders):
        return settled
    for said in options.models:
        for obj in _named(program, run, said, _models_in, _seen_models, settled):
            settled.models.setdefault(obj, f"{said.by} {said.name}")
    for said in options.train_loaders:
        for obj in _named(program, run, said, _loaders_in, _seen_loaders, settled):
            assert isinstance(obj, External)
            settled.train_loaders.setdefault(obj, f"{said.by} {said.name}")
    if directed:
        _from_comments(directed, run, settled)
    return settled


def _from_comments(modules: list[Module], run: Run, settled: Settled) -> None:
    made: dict[tuple[Module, cst.CSTNode], list[Obj]] = {}
    for event in run.events:
        if event.kind is Kind.CALL and event.module in modules:
            made.setdefault((event.module, event.module.statement(event.node)), []).extend(event.value.objs)
    for module in modules:
        for directive in module.directives:
            objs = made.get((module, directive.about))
            if directive.word in (SKIP, DRAW_ALIKE) or objs is None:  # what never runs is not made
                continue
            place, comment = f"{module.path}:{directive.line}", f"# distify: {directive.word}"
            if directive.word == TRAIN_LOADER:
                loaders = [obj for obj in objs if isinstance(obj, External) and obj.name in LOADERS]
                if not loaders:
                    raise OptionError(f"{place}: `{comment}` is about a line that makes no DataLoader")
                settled.train_loaders.update(dict.fromkeys(loaders, comment))
            elif directive.word in RATES:
                made_here: dict[Obj, str] = {
                    obj: directive.word for obj in objs if isinstance(obj, (Instance, External))
                }
                if not made_here:
                    raise OptionError(f"{place}: `{comment}` is about a line that makes no optimizer")
                settled.rates.update(made_here)
            else:
                models = [obj for obj in objs if isinstance(obj, (Instance, External))]
                if not models:
                    raise OptionError(f"{place}: `{comment}` is about a line that makes neither model nor optimizer")
                settled.not_models.update(dict.fromkeys(models, comment))


# ---- names

Kind_: TypeAlias = Callable[[Value], Iterable[Obj]]


def _named(
    program: Program, run: Run, said: Said, kind: Kind_, seen: Callable[[Program, Run], str], settled: Settled
) -> list[Obj]:
    """All that a name holds in the script, at a line if one is given."""
    file, name, line = _split(said)
    modules = [module for module in program.modules.values() if not file or _is_file(module, file)]
    if file and not modules and said.everywhere:
        return []
    wanted = _plain(name)
    if wanted is None:
        raise OptionError(f"{said.by} {said.name}: is neither a variable nor an attribute, as in `net` or `self.net`")
    if not file:
        modules.sort(key=lambda module: module is not program.entry)
    for module in modules:
        found = [obj for value in _values(run, module, wanted, line) for obj in kind(value)]
        if found:
            return list(dict.fromkeys(found))
    where = (file or program.entry.path) + (f", line {line}" if line else "")
    problem = f"{said.by} {said.name}: {seen(program, run)} is called `{name}` in {where}"
    if not said.everywhere or file:
        raise OptionError(problem)
    settled.unused.append(problem)
    return []


def _split(said: Said) -> tuple[str, str, int]:
    """`file.py:name@line`: the parts, empty and 0 where they are missing."""
    rest, at, line = said.name.rpartition("@")
    rest, number = (rest, int(line)) if at and line.isdecimal() else (said.name, 0)
    file, colon, name = rest.partition(".py:")
    return (f"{file}.py", name, number) if colon else ("", rest, number)


def _is_file(module: Module, file: str) -> bool:
    return f"/{module.path}".replace(os.sep, "/").endswith(f"/{file.replace(os.sep, '/').removeprefix('./')}")


def _plain(name: str) -> cst.BaseExpression | None:
    try:
        node = cst.parse_expression(name)
    except cst.ParserSyntaxError:
        return None
    return node if tree.is_plain(node) else None


def _values(run: Run, module: Module, wanted: cst.BaseExpression, line: int) -> Iterator[Value]:
    """What an expression evaluates to, wherever it stands in a file."""
    text = _normal(wanted)
    stored = {event.node: event.value for event in run.events if event.kind is Kind.STORE}
    for node in module.nodes:
        if isinstance(node, type(wanted)) and _normal(node) == text and line in (0, module.place(node).line):
            yield join(stored.get(node, NOTHING), run.values.get(node, NOTHING))


def _normal(node: cst.CSTNode) -> str:
    return "".join(tree.code_of(node).split()).replace("'", '"')


# ---- kinds of things


def _models_in(value: Value) -> Iterator[Obj]:
    """What may be a model: any object that is nothing else."""
    for obj in value.objs:
        inner = core(obj)
        if (isinstance(inner, Instance) and may_be_a_module(inner)) or (
            isinstance(inner, External)
            and inner.name not in LOADERS
            and not inner.name.startswith((*torch_nn.NO_MODULES, "local."))
        ):
            yield inner


def _loaders_in(value: Value) -> Iterator[Obj]:
    return (obj for obj in contained(value) if isinstance(obj, External) and obj.name in LOADERS)


def called(run: Run) -> list[Obj]:
    """What the script itself calls as models are called: no part of another, no loss of torch's."""
    forwards = {
        event.node
        for event in run.events
        if event.kind is Kind.FORWARD and any(may_be_a_module(core(obj)) for obj in event.receiver.objs)
    }
    found = [
        core(obj)
        for event in run.events
        if event.kind is Kind.FORWARD and not forwards & set(event.here.frame.context)
        for obj in event.receiver.objs
        if is_module(core(obj))
    ]
    return list(dict.fromkeys(found))


def is_module(obj: Obj) -> bool:
    """Whether an object is seen to be a module that may have parameters."""
    if isinstance(obj, Instance):
        return obj.of is not None and any(
            isinstance(base, Ref) and base.name.startswith(torch_nn.OWN)
            for one in obj.of.ancestors()
            for value in one.bases
            for base in value.objs
        )
    return isinstance(obj, External) and obj.name.startswith(torch_nn.OWN) and not torch_nn.is_loss(obj.name)


def _seen_models(program: Program, run: Run) -> str:
    names = Names(program, run)
    listed = ", ".join(names.with_place(obj) for obj in names.in_order(called(run)))
    return f"no model (those that are seen: {listed or 'none'})"


def _seen_loaders(program: Program, run: Run) -> str:
    names = Names(program, run)
    made = [obj for event in run.events if event.name in LOADERS for obj in _loaders_in(event.value)]
    listed = ", ".join(names.with_place(obj) for obj in names.in_order(set(made)))
    return f"no DataLoader (those that are seen: {listed or 'none'})"
