"""Calls that a run has not seen, since libraries make them: in what a loader asks of data sets, in transforms, hooks.

These functions of the script are reached by being handed to a library, or as methods of objects that are. What they
call is looked up by its name alone, so that the checklist does not say of it what it does not know.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from dataclasses import field, replace

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.answers import answered_once
from distify_codemods.callables import functions, methods
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, given_to
from distify_codemods.libraries import downloads, effects, outside
from distify_codemods.libraries.checkpoints import LOAD
from distify_codemods.libraries.quiet import is_quiet
from distify_codemods.objects import Bound, Class, Function, Instance, Local, Mapping, Partial, Sequence
from distify_codemods.program import Module
from distify_codemods.records import dataclass

#: What a library calls of an object that it was handed, beside its special methods.
_ASKED_FOR = frozenset({"forward", "get", "process", "transform", "collate"})
_MADE = ("__init__", "__new__", "__post_init__", "__repr__", "__str__", "__del__")


@dataclass(frozen=True)
class Unfollowed:
    """A call in such a function: by its full name, or that of the method alone."""

    module: Module
    node: cst.Call
    name: str
    by: Event | None = None  # what its function was handed to

    @property
    def code(self) -> str:
        return tree.dotted(self.node.func) or self.name

    @property
    def answers(self) -> bool:
        """Whether it runs a command whose output is used: to answer is what that is for."""
        options = {name: tree.code_of(value) for name, value in tree.keywords(self.node).items()}
        used = not isinstance(self.module.parents.get(self.node), cst.Expr)
        return used and outside.hands_back_its_output(self.name, options)

    @property
    def writes(self) -> bool:
        if self.answers:
            return False
        if self.name in effects.STORES or self.name in effects.HANDLES or self.name in effects.MAPPED:
            return any(set(text) & set("wax+") for text in self._modes())
        if self.name.startswith("."):
            return bool(self.node.args) and effects.is_writing_method(self.name[1:], len(self.node.args))
        return self.name in effects.WRITES or self.name in effects.ALWAYS_WRITE

    @property
    def reads(self) -> bool:
        if self.name in effects.STORES or self.name in effects.HANDLES or self.name in effects.MAPPED:
            return not self.writes
        known = effects.reading(self.name) is not None or self.name == LOAD
        return self.name[1:] in effects.READING_METHODS or known

    @property
    def path(self) -> str:
        """How the path is spelled of the file that it writes or reads; empty where that is not seen."""
        name = self.name.removeprefix(".")
        if name != self.name:
            known = effects.WRITING_METHODS.get(name) or effects.READING_METHODS.get(name)
        else:
            known = effects.WRITES.get(name) or effects.reading(name)
        place, func = known.path if known is not None else 0, self.node.func
        if place == effects.ITSELF:
            return tree.code_of(func.value) if isinstance(func, cst.Attribute) else ""
        given = [one.value for one in self.node.args if one.keyword is None and not one.star]
        return tree.code_of(given[place]) if 0 <= place < len(given) else ""

    @property
    def asks(self) -> bool:
        if self.answers:
            return False
        if self.name in outside.OPENS_FILES:
            return self._names_a_device()
        by_each = outside.is_asked_by_each(self.name) or outside.connects(self.name) or outside.asks(self.name)
        return by_each or (self.name.startswith(outside.ASYNCHRONOUS)) or downloads.fetches(self.name)

    @property
    def is_unknown(self) -> bool:
        if self.name in outside.OPENS_FILES:
            return not self._names_a_device()
        return not self.name.startswith(".") and not is_quiet(self.name)

    def _names_a_device(self) -> bool:
        """`cv2.VideoCapture(0)`, or that of an address."""
        first = self.node.args[0].value if self.node.args else None
        return first is None or isinstance(first, cst.Integer) or "://" in (tree.string(first) or "")

    def _modes(self) -> list[str]:
        """What it is opened for: "w" where that is not to be seen."""
        place = effects.place_of_mode(self.name)
        named = tree.keywords(self.node).get(effects.told_by(self.name))
        given = [one.value for one in self.node.args if one.keyword is None]
        told = [named] if named is not None else given[place : place + 1]
        told = [one for one in told if not (isinstance(one, cst.Name) and one.value in ("None", "False"))]
        unseen = "r" if self.name in effects.MAPPED and effects.default_mode(self.name) == "r" else "w"
        return [text if (text := tree.string(one)) is not None else unseen for one in told]


@answered_once
def unfollowed(facts: Facts) -> list[Unfollowed]:
    return list(_Search(facts).calls())


def called_for(facts: Facts, event: Event) -> Iterator[Unfollowed]:
    """Those that a library makes in what one event hands to it."""
    search = _Search(facts)
    for obj in given_to(event.arguments):
        for function in called_by_libraries(obj):
            yield from (replace(call, by=event) for call in search.calls_in(function))


@dataclass(eq=False)
class _Search:
    facts: Facts
    seen: set[cst.CSTNode] = field(default_factory=set)

    def calls(self) -> Iterator[Unfollowed]:
        handed: dict[Obj, Event] = {}
        for event in self.facts.of_kind(Kind.CALL, Kind.METHOD):
            if not event.name.startswith("local."):
                handed.update(dict.fromkeys(given_to(event.arguments), event))
        for event in self.facts.of_kind(Kind.STORE):  # `sys.excepthook = report`
            if not any(isinstance(obj, (Instance, Class, Mapping, Sequence)) for obj in event.receiver.objs):
                handed.update(dict.fromkeys(event.value.objs, event))
        for obj, event in handed.items():
            for function in called_by_libraries(obj):
                yield from (replace(call, by=event) for call in self.calls_in(function))
        for cls in self.facts.run.machine.classes:  # Python itself calls it
            for function in methods(cls, "__del__") if "__del__" in cls.attributes else ():
                yield from self.calls_in(function)

    def calls_in(self, function: Function) -> Iterator[Unfollowed]:
        """The calls of a function that was not followed, and of those that it calls."""
        node, closure = function.node, function.closure
        if node is None or closure is None or node in self.seen:
            return
        self.seen.add(node)
        if any(part in self.facts.run.values for part in tree.walk(node.body)):
            return
        for call in tree.walk(node.body):
            if isinstance(call, cst.Call) and not self._is_given_a_buffer(call, function):
                for found in self._of(call, function):
                    if isinstance(found, Function):
                        yield from self.calls_in(found)
                    else:
                        yield Unfollowed(closure.module, call, found)

    def _is_given_a_buffer(self, call: cst.Call, function: Function) -> bool:
        """`img.save(buffer)`, of one that the function has made: what is written there is no file."""
        known = [effects.writing(name) for name in self._of(call, function) if isinstance(name, str)]
        places = {api.path for api in known if api is not None and 0 <= api.path < len(call.args)}
        return any(
            any(name in effects.IN_MEMORY for name in self._of(made, function) if isinstance(name, str))
            for one in ([call.args[place] for place in places] or call.args) if isinstance(one.value, cst.Name)
            for made in _made_for(function, one.value)
        )  # fmt: skip

    def _of(self, call: cst.Call, function: Function) -> Iterator[Function | str]:
        """What a call is of: functions of the script, or a name."""
        dotted = tree.dotted(call.func)
        if dotted is None:
            if isinstance(call.func, cst.Attribute):
                yield f".{call.func.attr.value}"
            return
        first, *rest = dotted.split(".")
        if function.owner is not None and first in ("self", "cls") and len(rest) == 1:
            yield from self._methods(function.owner, rest[0])
            return
        objs = self._bound(first, function)
        for obj in objs:
            yield from self._reached(obj, rest)
        if not objs and rest:
            yield f".{rest[-1]}"
        elif not objs and hasattr(builtins, first):
            yield f"builtins.{first}"

    def _bound(self, name: str, function: Function) -> list[Obj]:
        """What a name is outside of the function; nothing for its own."""
        assert function.node is not None
        if any(isinstance(one, cst.Param) and one.name.value == name for one in tree.walk(function.node.params)):
            return []
        frame = function.closure
        while frame is not None:
            if name in frame.env:
                return list(frame.env[name].objs)
            frame = frame.parent
        return []

    def _methods(self, owner: Class, name: str) -> Iterator[Function | str]:
        found = owner.member(name)
        yield from (obj for obj in (found.objs if found is not None else ()) if isinstance(obj, Function))
        if found is None:
            yield f".{name}"

    def _reached(self, obj: Obj, rest: list[str]) -> Iterator[Function | str]:
        if isinstance(obj, Ref):
            yield ".".join([obj.name, *rest])
        elif isinstance(obj, Local) and obj.target is not None and rest:
            frame = self.facts.run.frames.get(obj.target)
            value = frame.env.get(rest[0]) if frame is not None else None
            for inner in value.objs if value is not None else ():
                yield from self._reached(inner, rest[1:])
        elif isinstance(obj, Function) and not rest:
            yield obj
        elif isinstance(obj, Class) and not rest:
            yield from self._methods(obj, "__init__")
        elif isinstance(obj, (Bound, Partial)) and not rest:
            yield from called_by_libraries(obj)
        elif rest:
            yield f".{rest[-1]}"


def _made_for(function: Function, name: cst.Name) -> Iterator[cst.Call]:
    """The calls whose results a name stands for."""
    assert function.closure is not None
    module = function.closure.module
    for bound in module.flow(name).reaching(name):
        holder = module.parents.get(bound)
        statement = module.parents.get(holder) if isinstance(holder, cst.AssignTarget) else None
        if isinstance(statement, cst.Assign) and isinstance(statement.value, cst.Call):
            yield statement.value


def called_by_libraries(obj: Obj) -> Iterator[Function]:
    """What a library may call of something."""
    yield from (function for function, _ in functions(obj))
    if isinstance(obj, Instance) and obj.of is not None:
        for owner in obj.of.order:
            for name, value in owner.attributes.items():
                special = name.startswith("__") and name.endswith("__") and name not in _MADE
                if isinstance(name, str) and (special or name in _ASKED_FOR):
                    yield from (one for one in value.objs if isinstance(one, Function))
