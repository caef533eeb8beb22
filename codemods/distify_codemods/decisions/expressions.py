"""How a line that is put somewhere can refer to an object: by a variable, or by an attribute or item of one."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj
from distify_codemods.decisions.alternatives import made_instead
from distify_codemods.decisions.names import bound_by
from distify_codemods.decisions.several import reaches_all
from distify_codemods.events import Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import contained, core
from distify_codemods.interpreter.frames import Frame
from distify_codemods.interpreter.modules import by_place
from distify_codemods.objects import External, Instance, Parameters, Wrapped
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.program import Module
from distify_codemods.values import Value


def held_in(facts: Facts, frame: Frame, statement: cst.CSTNode, wanted: Obj) -> str:
    """An expression that holds the object, or a list or dictionary with it, right before a statement; or none."""
    instead = made_instead(facts, wanted)
    found: set[tuple[int, str]] = set()
    scope: Frame | None = frame
    while scope is not None and not found:
        for name, value in _held_by_names(facts, scope, frame, statement):
            if is_bound_before(frame.module, statement, name):
                texts = texts_of(name, value, wanted, 2, instead)
                found.update(_reaching(facts, wanted, frame, statement, name, texts))
        scope = scope.parent
    if not found and (globals_ := facts.run.frames.get(frame.module)) is not None and globals_ is not frame:
        for name, value in _held_by_names(facts, globals_, frame, statement):
            if name not in frame.env:
                texts = texts_of(name, value, wanted, 2, instead)
                found.update(_reaching(facts, wanted, globals_, statement, name, texts))
    return min(found, key=lambda one: (one[0], len(one[1]), one[1]), default=(0, ""))[1]


def _reaching(
    facts: Facts, wanted: Obj, frame: Frame, statement: cst.CSTNode, name: str, texts: Iterator[tuple[int, str, Value]]
) -> Iterator[tuple[int, str]]:
    return ((rank, text) for rank, text, held in texts if reaches_all(facts, wanted, frame, statement, name, held))


def _held_by_names(facts: Facts, scope: Frame, frame: Frame, statement: cst.CSTNode) -> Iterator[tuple[str, Value]]:
    """What a scope's names hold when it ends, and when the loops begin in which the statement is reached."""
    tables = [scope.env]
    way = statement if scope is frame else next(iter(frame.context[len(scope.context) :]), None)
    if isinstance(way, cst.CSTNode) and way in scope.module.parents:
        around = set(scope.module.enclosing(way))
        tables += [one.names for one in facts.of_kind(Kind.LOOP) if one.here.frame is scope and one.node in around]
    return ((name, value) for table in tables for name, value in table.items() if name.isidentifier())


def texts_of(
    name: str, value: Value, wanted: Obj, depth: int, instead: Ordered[Obj] = EMPTY
) -> Iterator[tuple[int, str, Value]]:
    """Expressions that begin with a name, each with how far it is from being the object itself, and what it is.

    instead: what is not there in a run in which the object is. A name for one of these is a name for the object.
    """
    objs = {core(obj) for obj in value.objs if not (isinstance(obj, Const) and obj.value is None)} - instead
    if wanted in objs:
        if len(objs) == 1 or all(map(_is_read, objs - {wanted})) or _is_read(wanted):
            yield 0, name, value  # of one that was read in place of another, the name is the same
        return
    if any(core(obj) is wanted for obj in contained(value)) and not any(isinstance(obj, Parameters) for obj in objs):
        yield 2, name, value
    only = value.single()
    if depth and isinstance(only, (Instance, External, Wrapped)):
        for attribute, held in core(only).attributes.items():
            if attribute.isidentifier():
                deeper = texts_of(f"{name}.{attribute}", held, wanted, depth - 1, instead)
                yield from ((rank + 1, text, what) for rank, text, what in deeper)
        for place, held in enumerate(by_place(core(only))):
            deeper = texts_of(f"{name}[{place}]", held, wanted, depth - 1, instead)
            yield from ((rank + 1, text, what) for rank, text, what in deeper)


def _is_read(obj: Obj) -> bool:
    return isinstance(obj, (External, Instance)) and obj.read


def is_bound_before(module: Module, statement: cst.CSTNode, name: str) -> bool:
    """Whether a name that is read in a statement's function has its value before the statement, and keeps it."""
    if name in bound_by(statement):
        return False
    if module.flow(statement).is_bound_before(statement, name):
        return True
    scope, own = module.scope(statement), module.flow(statement).own
    while name not in own and scope is not module.tree:
        outer = module.scope(scope)
        own = module.flow(scope).own if not isinstance(outer, cst.ClassDef) else set()
        scope = outer
    return name in own and scope is not module.scope(statement)


def is_set_between(module: Module, statement: cst.CSTNode, wanted: cst.BaseExpression, read: cst.CSTNode) -> bool:
    """Whether an attribute is set from a statement on to where it is read, so that it is something else before."""
    code = f"{tree.code_of(wanted)}."
    around = (read, *module.enclosing(read))  # the body of `def step(self): self.inner.step()` has no line of its own
    reads = next(one for one in around if isinstance(one, (cst.BaseStatement, cst.BaseSmallStatement)))
    between = module.flow(statement).set_between(statement, reads)
    return any("." in name and code.startswith(f"{name}.") for name in between)
