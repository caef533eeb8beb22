"""What training calls of trained models: the models themselves, methods of their own, parts of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeGuard

import libcst as cst

from distify_codemods.allocation import Const, Obj, Turn
from distify_codemods.decisions.doubts import may_be_trained
from distify_codemods.decisions.touching import parts_of
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core
from distify_codemods.objects import Bound, External, Setting
from distify_codemods.records import dataclass

#: Calls, and turns of loops that are followed, from the outermost on.
Chain = tuple[cst.CSTNode | Turn, ...]

#: What every module has, or sets something of: no forward passes.
_OF_ALL_MODULES = frozenset(
    "add_module append apply bfloat16 buffers children compile cpu cuda double eval extend extra_repr float forward "
    "freeze get_buffer get_input_embeddings get_output_embeddings get_parameter get_submodule "
    "gradient_checkpointing_disable gradient_checkpointing_enable half insert items keys load_state_dict modules "
    "named_buffers named_children named_modules named_parameters parameters print_trainable_parameters "
    "register_backward_hook register_buffer register_forward_hook register_forward_pre_hook "
    "register_full_backward_hook register_module register_parameter requires_grad_ reset_parameters "
    "resize_token_embeddings save_pretrained set_submodule share_memory state_dict step tie_weights to to_empty train "
    "type unfreeze update values xpu zero_grad".split()
)
#: Who is known not to call a model that it is given.
_KNOWN = ("torch.", "builtins.", "local.")


@dataclass(frozen=True)
class Called:
    """A trained model, or a part of one that is called by itself."""

    held: Obj
    model: Obj
    first: Event  # of its calls in training
    methods: tuple[str, ...] = ()  # beside `forward`


class Entry(NamedTuple):
    """Where training enters a module: by its forward, or by a method of its own."""

    obj: Obj
    event: Event
    method: str = ""

    @property
    def chain(self) -> Chain:
        """By which calls execution has come into it."""
        return (*self.event.here.frame.context, self.event.node)


def called_in_training(facts: Facts) -> list[Called]:
    """Each once, in the order of their models; what is called within another call of these is that call's part."""
    models = list(dict.fromkeys([*facts.models, *may_be_trained(facts)]))
    owners: dict[Obj, Obj] = {}
    for model in models:
        for part in parts_of(model):
            owners.setdefault(part, model)
    owners.update((model, model) for model in models)
    entries = entries_into(facts, owners, in_training)
    seen = {owners[one.obj] for one in entries}
    entries += _handed_over(facts, [model for model in models if model not in seen])
    found = each_called(entries, owners)
    return sorted(found, key=lambda one: (models.index(one.model), one.held is not one.model))


def entries_into(facts: Facts, owners: dict[Obj, Obj], when: Callable[[Facts, Event], bool]) -> list[Entry]:
    """The outermost calls of modules that are given something of a batch. `owners`: of each part, and of itself."""
    called = [*_forwards(facts, owners, when), *_own_methods(facts, owners, when), *_of_libraries(facts, owners, when)]
    called = called or list(_own_methods(facts, owners, when, with_parts=False))
    return _outermost(_without_steps(called))


def each_called(entries: Iterable[Entry], owners: dict[Obj, Obj]) -> list[Called]:
    """The modules that are entered, each once."""
    found: dict[Obj, Called] = {}
    for entry in sorted(entries, key=lambda one: one.event.number):
        known = found.get(entry.obj) or Called(entry.obj, owners[entry.obj], entry.event)
        methods = dict.fromkeys((*known.methods, entry.method)) if entry.method else known.methods
        found[entry.obj] = replace(known, methods=tuple(methods))
    return list(found.values())


def in_training(facts: Facts, event: Event) -> bool:
    return event.grad and (
        facts.in_training(event) or (not facts.training_loops and any(event.before(one) for one in facts.backwards))
    )


def _outermost(entries: list[Entry]) -> list[Entry]:
    chains = {one.chain for one in entries}
    return [one for one in entries if not any(one.chain[:depth] in chains for depth in range(1, len(one.chain)))]


def _without_steps(entries: list[Entry]) -> list[Entry]:
    """Without methods that only call the model itself, as `training_step` does: what they add sees the whole batch."""
    goes_on: dict[tuple[Obj, str], set[bool]] = {}
    for one in (each for each in entries if each.method):
        inner = [each for each in entries if each is not one and each.chain[: len(one.chain)] == one.chain]
        outer = _outermost(inner)
        if outer:
            by_itself = all(each.obj is one.obj and not each.method for each in outer)
            goes_on.setdefault((one.obj, one.method), set()).add(by_itself)
    return [one for one in entries if goes_on.get((one.obj, one.method)) != {True}]


def _takes_a_batch(facts: Facts, event: Event) -> bool:
    """Whether a call is given something that may be a batch, and does not itself go on to a backward pass."""
    chain = (*event.here.frame.context, event.node)
    given = event.arguments.all()
    unknown = any(value.open or not value.objs for value in given)
    held = unknown or any(not isinstance(obj, (Const, Setting)) for value in given for obj in value.objs)
    return held and not any(one.here.frame.context[: len(chain)] == chain for one in facts.backwards)


def _forwards(facts: Facts, owners: dict[Obj, Obj], when: Callable[[Facts, Event], bool]) -> Iterator[Entry]:
    for event in facts.of_kind(Kind.FORWARD):
        mine = [core(obj) for obj in event.receiver.objs if core(obj) in owners]
        mine = [obj for obj in mine if owners[obj] is obj or owners[obj] not in mine]
        if mine and when(facts, event) and _takes_a_batch(facts, event):
            yield from (Entry(obj, event) for obj in mine)


def _own_methods(
    facts: Facts, owners: dict[Obj, Obj], when: Callable[[Facts, Event], bool], with_parts: bool = True
) -> Iterator[Entry]:
    """`model.encode(x)`, where a part of the model is called in its course; or any, which may compute by parameters."""
    calling = {
        here.frame.node
        for event in facts.of_kind(Kind.FORWARD)
        if any(core(obj) in owners for obj in event.receiver.objs)
        for here in event.here.up()
    }
    for event in facts.of_kind(Kind.OWN):
        called = event.node.func if isinstance(event.node, cst.Call) else event.node
        functions = (obj.function.node for obj in facts.value(called).objs if isinstance(obj, Bound) and obj.function)
        if event.name in _OF_ALL_MODULES or (with_parts and not calling.intersection(functions)):
            continue
        for obj in event.receiver.objs:
            if obj in owners and when(facts, event) and _takes_a_batch(facts, event):
                yield Entry(obj, event, event.name)


def _of_libraries(facts: Facts, owners: dict[Obj, Obj], when: Callable[[Facts, Event], bool]) -> Iterator[Entry]:
    """`model.encode(x)` of a model whose class is not to be seen."""
    foreign = {model for model, owner in owners.items() if isinstance(model, External) and model is owner}
    for event in facts.of_kind(Kind.METHOD) if foreign else ():
        if event.name in _OF_ALL_MODULES or not when(facts, event) or not _takes_a_batch(facts, event):
            continue
        for obj in map(core, event.receiver.objs):
            if obj in foreign:
                yield Entry(obj, event, event.name)


def _handed_over(facts: Facts, models: list[Obj]) -> Iterator[Entry]:
    """Models that something of a library is given, in training or as it was made: `diffusion.loss(model, x)`."""
    wanted = set(models)
    for event in facts.of_kind(Kind.CALL, Kind.METHOD, Kind.FORWARD) if wanted else ():
        known = event.kind is Kind.CALL and event.name.startswith(_KNOWN)
        if known or not in_training(facts, event):
            continue
        made = (obj.arguments for obj in event.receiver.objs if _is_of_a_library(obj))
        for given in (event.arguments, *made):
            objs = (core(obj) for value in given.all() for obj in value.objs) if given is not None else ()
            yield from (Entry(obj, event) for obj in objs if obj in wanted)


def _is_of_a_library(obj: Obj) -> TypeGuard[External]:
    return isinstance(obj, External) and not obj.name.startswith(_KNOWN)
