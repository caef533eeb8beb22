"""What the import of a file does besides defining names."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Ref
from distify_codemods.interpreter import Run
from distify_codemods.libraries import guarded
from distify_codemods.objects import Class, Function
from distify_codemods.ordered import EMPTY
from distify_codemods.program import Module


def effects(module: Module, run: Run) -> Iterator[cst.CSTNode]:
    """What the import of a module does besides defining names."""
    for statement in module.tree.body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            yield from (one for one in statement.decorators if not _only_decorates(one, run))
            if isinstance(statement, cst.ClassDef) and _makes_itself_known(statement, run):
                yield statement
        elif isinstance(statement, cst.SimpleStatementLine):
            yield from (small for small in statement.body if _does_more(small, run))
        elif isinstance(statement, (cst.For, cst.While, cst.With)):
            yield statement


def _only_decorates(decorator: cst.Decorator, run: Run) -> bool:
    target = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
    objs = run.values[target].objs if target in run.values else EMPTY
    return bool(objs) and all(getattr(obj, "name", "").startswith(guarded.DECORATE) for obj in objs)


def _does_more(small: cst.BaseSmallStatement, run: Run) -> bool:
    """Whether a statement does more than to bind names."""
    if isinstance(small, cst.Expr) and not _repeatable(run, small.value):
        return True
    targets = [one.target for one in small.targets] if isinstance(small, cst.Assign) else []
    sets = (one for one in targets if isinstance(one, (cst.Subscript, cst.Attribute)))
    return not all(_of_a_library(run, one.value) for one in sets) or any(
        _calls_own(run, one) for one in tree.walk(small)
    )


def _repeatable(run: Run, node: cst.BaseExpression) -> bool:
    """A docstring, or a setting of a library."""
    if not isinstance(node, cst.Call):
        return tree.string(node) is not None
    objs = run.values[node.func].objs if node.func in run.values else EMPTY
    return bool(objs) and all(isinstance(obj, Ref) and obj.name.startswith(guarded.SET) for obj in objs)


def _of_a_library(run: Run, node: cst.BaseExpression) -> bool:
    """`cudnn.benchmark = True` holds as well if it is said twice."""
    objs = run.values[node].objs if node in run.values else EMPTY
    return bool(objs) and all(isinstance(obj, Ref) for obj in objs)


def _makes_itself_known(node: cst.ClassDef, run: Run) -> bool:
    """Whether a base or a metaclass of the program hears of the class."""
    values = [run.values[arg.value] for arg in (*node.bases, *node.keywords) if arg.value in run.values]
    classes = [obj for value in values for obj in value.objs if isinstance(obj, Class)]
    own_metaclass = any(cls.derives_from(guarded.METACLASS) for cls in classes)
    return own_metaclass or any("__init_subclass__" in one.attributes for cls in classes for one in cls.ancestors())


def _calls_own(run: Run, node: cst.CSTNode) -> bool:
    """Whether a function of the program is called, which may do anything."""
    value = run.values.get(node.func) if isinstance(node, cst.Call) else None
    return value is not None and any(isinstance(obj, Function) for obj in value.objs)
