"""What draws random numbers as a loader makes its samples: from the script's streams, or from generators of its own.

Libraries call what makes samples, so that no run has seen it: its text is looked at, with all that it names.
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.answers import answered_once
from distify_codemods.decisions import entropy
from distify_codemods.facts import Facts
from distify_codemods.inside import made_of, root
from distify_codemods.libraries import drawing
from distify_codemods.libraries.quiet import is_quiet
from distify_codemods.objects import Class, External, Function, Local
from distify_codemods.unfollowed import called_by_libraries
from distify_codemods.values import NOTHING, Value


class Drawn:
    """Of the samples of some loaders."""

    def __init__(self, facts: Facts, loaders: Iterable[External]) -> None:
        self._facts = facts
        self._told, self._seeded = entropy.seeded_libraries(facts), _seeded(facts)
        self._seen: set[Obj] = set()
        self._functions: set[cst.CSTNode] = set()
        self.from_streams = False  # or it is not known that nothing is
        self.library = ""  # that draws from generators of its own
        for loader in loaders:
            self._look_at_loader(loader)

    def _look_at_loader(self, loader: External) -> None:
        given = loader.arguments
        dataset = given.get("dataset", 0) if given is not None else None
        if given is None or dataset is None or not dataset.objs or dataset.open:
            self.from_streams = True
        for obj in dataset.objs if dataset is not None else ():
            whose = root(obj)
            self.from_streams |= isinstance(whose, External) and not is_quiet(whose.name)
        self._look_at(given.all() if given is not None else ())

    def _look_at(self, values: Iterable[Value]) -> None:
        for value in made_of(values):
            for obj in value.objs:
                if obj not in self._seen:
                    self._seen.add(obj)
                    self._look_at_object(obj)

    def _look_at_object(self, obj: Obj) -> None:
        if isinstance(obj, (External, Ref)):
            if obj not in self._seeded:
                self._look_at_name(obj.name)
        else:
            for function in called_by_libraries(obj):
                self._look_into(function)

    def _look_at_name(self, name: str) -> None:
        if drawing.augments(name) and not name.startswith(self._told):
            self.library = self.library or name.split(".")[0]
        self.from_streams |= drawing.augments(name) or drawing.draws_for_samples(name)

    def _look_into(self, function: Function) -> None:
        """What its text names: functions, which are looked into, too, objects, and what libraries have."""
        node = function.node
        if node is None or node in self._functions:
            return
        self._functions.add(node)
        own = {name.value for one in tree.walk(node.params) if isinstance(one, cst.Param) for name in [one.name]}
        for part in tree.walk(node.body):
            if isinstance(part, cst.Call):
                self._look_at_call(part)
            dotted = tree.dotted(part) if isinstance(part, (cst.Name, cst.Attribute)) else None
            first, *rest = (dotted or "").split(".")
            if function.owner is not None and first in ("self", "cls") and rest:
                self._look_at([function.owner.member(rest[0]) or NOTHING])
            elif first and first not in own:
                for obj in _bound(first, function).objs:
                    self._reach(obj, rest)

    def _look_at_call(self, call: cst.Call) -> None:
        if isinstance(call.func, cst.Attribute) and drawing.is_drawing_method(call.func.attr.value):
            self.from_streams = True

    def _reach(self, obj: Obj, rest: list[str]) -> None:
        if isinstance(obj, Ref):
            self._look_at_name(".".join([obj.name, *rest]))
        elif isinstance(obj, Local) and obj.target is not None and rest:
            frame = self._facts.run.frames.get(obj.target)
            for inner in frame.env.get(rest[0], NOTHING).objs if frame is not None else ():
                self._reach(inner, rest[1:])
        elif isinstance(obj, Class):
            for name in ("__init__", *rest[:1]):
                self._look_at([obj.member(name) or NOTHING])
        else:
            self._look_at([Value(obj.alone)])


def _bound(name: str, function: Function) -> Value:
    """What a name is outside of the function; nothing for its own."""
    frame = function.closure
    while frame is not None:
        if name in frame.env:
            return frame.env[name]
        frame = frame.parent
    return NOTHING


@answered_once
def _seeded(facts: Facts) -> set[Obj]:
    """Transforms that are told a seed of their own, and what they are made of: they draw alike wherever they are."""
    made = (event.value for event in entropy.seeded_transforms(facts))
    return {obj for value in made_of(made) for obj in value.objs}
