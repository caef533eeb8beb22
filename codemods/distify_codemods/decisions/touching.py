"""What is done with each trained model, or to it, before it is first trained: the wrap comes behind all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TypeVar

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.answers import answered_once
from distify_codemods.decisions.branches import branches_of
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import contained, core
from distify_codemods.libraries import computing, in_place, torch_nn
from distify_codemods.objects import External, Instance, Parameters
from distify_codemods.ordered import EMPTY, Ordered

Key = TypeVar("Key")
#: Methods that neither change a model nor keep it.
HARMLESS = frozenset(
    "parameters named_parameters state_dict train eval modules named_modules children named_children zero_grad "
    "buffers".split()
)
#: What is done to parameters that a wrap looks at once, or sends to all ranks.
_SETS = in_place.METHODS | in_place.OVERWRITING | {torch_nn.FREEZES}


@answered_once
def touching_of(facts: Facts) -> Touching:
    return Touching(facts)


class Touching:
    """Looks through all events once, for all models: a program that chooses among many has many of both."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._models = Ordered(facts.models)
        self._reached: dict[cst.CSTNode, Ordered[Obj]] = {}

    def before(self, model: Obj, forward: Event) -> list[Event]:
        """The events that touch a model, up to one of its forward passes, in a run that comes to it."""
        found = [*self._by_model.get(model, ()), *self._by_site.get(model.site, ())]
        if self._by_part:
            found += [event for part in parts_of(model) for event in self._by_part.get(part, ())]
        excludes = branches_of(self._facts).excludes
        before = (event for event in found if event.number < forward.number and not excludes(event, forward))
        numbers = sorted({event.number for event in before})
        return [self._facts.run.events[number] for number in numbers]

    @cached_property
    def _events(self) -> list[Event]:
        return self._facts.of_kind(Kind.STORE, Kind.METHOD, Kind.CALL)

    @cached_property
    def _by_model(self) -> dict[Obj, list[Event]]:
        return _indexed(self._events, self._handled)

    @cached_property
    def _by_site(self) -> dict[cst.CSTNode | None, list[Event]]:
        made = [event for event in self._events if event.kind is Kind.CALL and not event.name.startswith("builtins.")]
        return _indexed(made, lambda event: [event.node])

    @cached_property
    def _by_part(self) -> dict[Obj, list[Event]]:
        sets = [event for event in self._events if event.kind is Kind.STORE or event.name in _SETS]
        return _indexed(sets, _parameters_set)

    def _handled(self, event: Event) -> Ordered[Obj]:
        """The models that an event is about, or that it is given."""
        found = self._given(event)
        for node in _operands(event):
            found |= self._inside(node)
        return found

    def _given(self, event: Event) -> Ordered[Obj]:
        if event.kind is Kind.CALL:
            return EMPTY.union(*(self._held(value.objs) for value in event.arguments.all()))
        if event.kind is Kind.STORE:
            return self._held(event.value.objs) | self._held(event.receiver.objs)
        return self._held(event.receiver.objs) if event.name not in HARMLESS else EMPTY

    def _held(self, objs: Ordered[Obj]) -> Ordered[Obj]:
        cores = set(map(core, objs))
        return self._models & cores if any(one in self._models for one in cores) else EMPTY

    def _inside(self, target: cst.BaseExpression) -> Ordered[Obj]:
        """`model.layer.weight.requires_grad = ...`: the models of which something inside is set."""
        found = self._reached.get(target)
        if found is not None:
            return found
        node, found = target, EMPTY
        while isinstance(node, (cst.Attribute, cst.Subscript, cst.Call)):
            if isinstance(node, cst.Attribute) and node.attr.value in HARMLESS:
                break
            node = node.func if isinstance(node, cst.Call) else node.value
            found |= self._held(self._facts.value(node).objs)
        self._reached[target] = found
        return found


def _indexed(events: Iterable[Event], about: Callable[[Event], Iterable[Key]]) -> dict[Key, list[Event]]:
    found: dict[Key, list[Event]] = {}
    for event in events:
        for one in about(event):
            found.setdefault(one, []).append(event)
    return found


def _parameters_set(event: Event) -> set[Obj]:
    """The modules whose parameters are set something of."""
    return {_outermost(core(obj.of or obj)) for obj in event.receiver.objs if isinstance(obj, Parameters)}


def _outermost(part: Obj) -> Obj:
    while isinstance(part, External) and part.whole is not None:
        part = part.whole
    return part


def _operands(event: Event) -> list[cst.BaseExpression]:
    """What an event is done to: the target of an assignment, the receiver of a method, the arguments of a call."""
    node = event.node
    if event.kind is Kind.STORE and isinstance(node, (cst.Attribute, cst.Subscript)):
        return [node]
    if event.kind is Kind.CALL and _only_reads(event):
        return []
    if event.kind in (Kind.METHOD, Kind.CALL) and isinstance(node, cst.Call):
        receiver = [node.func.value] if isinstance(node.func, cst.Attribute) and event.name not in HARMLESS else []
        return [*receiver, *(argument.value for argument in node.args)]
    return []


def _only_reads(event: Event) -> bool:
    """Whether a function computes something new: `torch.randint_like(x, model.config.vocab_size)`."""
    return computing.only_reads(event.name) and "out" not in event.arguments.keywords


def _copied(obj: Obj) -> list[Obj]:
    if not isinstance(obj, External) or obj.name not in torch_nn.STACKS or obj.arguments is None:
        return []
    layer = obj.arguments.get(torch_nn.STACKS[obj.name], 0)
    return [part for part in (layer.objs if layer is not None else ()) if isinstance(part, External)]


def parts_of(model: Obj, without_copied: bool = False) -> list[Obj]:
    """The model and what it is made of: attributes of local modules, arguments of the library's.

    `without_copied`: but for layers of the library's that are no part of the model, only their copies are.
    """
    found, queue = dict.fromkeys([model]), [model]
    while queue:
        obj = queue.pop()
        values = list(obj.attributes.values())
        if isinstance(obj, External) and obj.arguments is not None and obj.name.startswith(torch_nn.OWN):
            values += obj.arguments.all()
        copied = _copied(obj) if without_copied else []
        for value in values:
            for part in contained(value):
                if isinstance(part, (Instance, External)) and part not in found and part not in copied:
                    found[part] = None
                    queue.append(part)
    return list(found)
