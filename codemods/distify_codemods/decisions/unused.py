"""Parts of a model that a training step may leave without gradients, for which DistributedDataParallel would wait."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.answers import answered_once
from distify_codemods.decisions.backward_passes import Session
from distify_codemods.decisions.foreign_parts import ABOUT, not_seen_to_be_used
from distify_codemods.decisions.last_turns import goes_nowhere
from distify_codemods.decisions.touching import parts_of
from distify_codemods.decisions.writing_passes import takes_of_before
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, loaders_of
from distify_codemods.inside import core
from distify_codemods.interpreter.graph import modules_behind
from distify_codemods.interpreter.modules import is_a_container
from distify_codemods.libraries import torch_nn
from distify_codemods.objects import External, Instance, Parameters, Setting
from distify_codemods.origins import CHANCE, Counter
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.values import Value


@dataclass(frozen=True)
class Unused:
    """A part that some training step does not use: never, or only sometimes."""

    part: Obj
    sometimes: bool
    last: bool = False  # one of several, in the last turn of a loop over them
    foreign: bool = False  # a library's model, of which the step may need all or not
    parameter: str = ""  # not all of it, but this attribute of it


@answered_once
def _known(facts: Facts) -> dict[Obj, list[Unused]]:
    return {}


def unused_parts(facts: Facts, model: Obj, found: Iterable[Session]) -> list[Unused]:
    """What the forward passes before a backward pass leave out of their results. `found`: all of that model."""
    known = _known(facts)
    if model not in known:
        known[model] = list(_unused_parts(facts, model, found))
    return known[model]


def _unused_parts(facts: Facts, model: Obj, found: Iterable[Session]) -> Iterator[Unused]:
    layers, frozen = _layers(facts, model), _frozen(facts, model)
    yield from (Unused(owner, False, parameter=name) for owner, name in _parameters_not_read(facts, model))
    unseen = (part for part in parts_of(model) if _calls_its_parts(part))
    containers: dict[Obj, set[Obj]] = {part: set(parts_of(part)) for part in unseen}
    for forward in dict.fromkeys(forward for one in found for forward in one.forwards):
        yield from _unused_in(facts, forward, layers, containers)
        for part in not_seen_to_be_used(facts, model, forward, _inside(facts, forward)):
            if part not in frozen:
                yield Unused(part, False, foreign=True)


def _calls_its_parts(part: Obj) -> bool:
    """Whether what it holds is called where that is not seen: a container of layers, a model of another library.

    Also an object of a class that is derived from a container, and says nothing else of its forward pass.

    `backbone.conv1 = nn.Conv2d(3, 64, 3)`: what a model is given to hold takes the place of what it has.
    """
    if isinstance(part, Instance):
        return is_a_container(part) and part.of is not None and part.of.member("forward") is None
    if not isinstance(part, External):
        return False
    return part.name in torch_nn.CONTAINERS or (not part.name.startswith(torch_nn.OWN) and bool(part.attributes))


def _unused_in(
    facts: Facts, forward: Event, layers: Iterable[Obj], containers: dict[Obj, set[Obj]]
) -> Iterator[Unused]:
    """`containers`: what each of them holds. Nothing of a forward pass that cannot be followed."""
    result, inside = facts.value(forward.node), _inside(facts, forward)
    given_back, opaque = modules_behind(result), any(isinstance(obj, (Instance, External)) for obj in result.objs)
    if len(given_back) < 2 or not inside or opaque:
        return
    called, reached = _called(inside), {one for obj in given_back for one in _outwards(obj)}
    otherwise = _otherwise(inside)
    for layer in layers:
        holders = [layer, *(one for one, held in containers.items() if one is not layer and layer in held)]
        uses = list(dict.fromkeys(event for one in holders for event in called.get(one, ())))
        if reached.isdisjoint(holders) and not _is_used(otherwise, holders):
            yield Unused(layer, False)
        elif uses and _is_conditional(facts, uses, inside, forward):
            yield Unused(layer, True)
        elif uses and all(goes_nowhere(event.module, event.node) for event in uses):
            yield Unused(layer, False, last=True)


def _parameters_not_read(facts: Facts, model: Obj) -> Iterator[tuple[Obj, str]]:
    """`self.scale = nn.Parameter(...)`, which nothing in the program asks for, with what it is an attribute of."""
    made = own_parameters(facts)
    for owner in parts_of(model) if made else ():
        for name in made.get(owner, ()):
            if not any(owner in map(core, facts.value(one.value).objs) for one in _asked(facts).get(name, ())):
                yield owner, name


@answered_once
def own_parameters(facts: Facts) -> dict[Obj, list[str]]:
    """By what they are an attribute of, where gradients are asked for."""
    found: dict[Obj, list[str]] = {}
    for event in facts.of_kind(Kind.STORE):
        made = event.module.parents.get(event.module.parents.get(event.node, event.node))
        call = made.value if isinstance(made, cst.Assign) else None
        if not isinstance(call, cst.Call) or not isinstance(event.node, cst.Attribute):
            continue
        wants = tree.keywords(call).get("requires_grad")
        asks = wants is None or facts.value(wants).constant() is not False
        if asks and any(isinstance(one, Ref) and one.name == torch_nn.PARAMETER for one in facts.value(call.func).objs):
            for owner in map(core, event.receiver.objs):
                found.setdefault(owner, []).append(event.name)
    return found


@answered_once
def _asked(facts: Facts) -> dict[str, list[cst.Attribute]]:
    """Where attributes are read, by their names."""
    found: dict[str, list[cst.Attribute]] = {}
    for node in facts.run.values:
        if isinstance(node, cst.Attribute):
            found.setdefault(node.attr.value, []).append(node)
    return found


def left_over(facts: Facts, model: Obj, found: Iterable[Session]) -> Event | None:
    """A backward pass that does not begin at all that a forward pass has computed."""
    layers = _layers(facts, model)
    for session in found:
        reached = modules_behind(session.backward.receiver)
        computed = {obj for forward in session.forwards for obj in modules_behind(facts.value(forward.node))}
        if model in reached and any(layer in computed and layer not in reached for layer in layers):
            return session.backward
    return None


def _layers(facts: Facts, model: Obj) -> list[Obj]:
    """Its layers with parameters that get gradients."""
    frozen = _frozen(facts, model)
    parts = parts_of(model, without_copied=True)
    layers = (part for part in parts if isinstance(part, External) and torch_nn.has_parameters(part.name))
    return [part for part in layers if part not in frozen]


def _frozen(facts: Facts, model: Obj) -> set[Obj]:
    """Parts that get no gradients: the script says so of them, or of what they are in."""
    found: set[Obj] = set()
    for event in facts.of_kind(Kind.STORE, Kind.METHOD):
        owners: list[Obj | None] = []
        if event.name == "requires_grad" and event.value.constant() is False:
            owners = [obj.of for obj in event.receiver.objs if isinstance(obj, Parameters)]
        elif event.name == "requires_grad_" and event.arguments.positional:
            frozen = event.arguments.positional[0].constant() is False
            owners = [core(obj) for obj in event.receiver.objs] if frozen else []
        for owner in owners:
            if owner is not None and owner is not model and owner not in found:
                found.update((owner, *whole(owner)))
    return found


def whole(owner: Obj | None) -> list[Obj]:
    return parts_of(owner) if isinstance(owner, (External, Instance)) else []


def _inside(facts: Facts, forward: Event) -> list[Event]:
    chain = (*forward.here.frame.context, forward.node)
    return [event for event in facts.run.events if event.here.frame.context[: len(chain)] == chain]


def _called(inside: list[Event]) -> dict[Obj, list[Event]]:
    """The calls of each thing, and of its parts."""
    found: dict[Obj, list[Event]] = {}
    for event in inside:
        if event.kind is Kind.FORWARD:
            for one in dict.fromkeys(one for obj in event.receiver.objs for one in _outwards(core(obj))):
                found.setdefault(one, []).append(event)
    return found


def _outwards(obj: Obj | None) -> Iterator[Obj]:
    """`layers[number]` is one of its layers."""
    while obj is not None:
        yield obj
        obj = obj.whole if isinstance(obj, External) else None


def _otherwise(inside: list[Event]) -> dict[Obj, tuple[int, bool]]:
    """`self.out.weight`, `self.cell.step(x)`, `run(self.layer, x)`: what becomes of it is not followed.

    The first event of that kind about each thing, and whether it is used there.
    """
    found: dict[Obj, tuple[int, bool]] = {}
    for number, event in enumerate(inside):
        if event.kind in (Kind.ATTRIBUTE, Kind.METHOD) and event.name not in ABOUT:
            for obj in event.receiver.objs:
                found.setdefault(obj, (number, True))
        elif event.kind is Kind.CALL:
            for obj in (obj for value in event.arguments.all() for obj in value.objs):
                found.setdefault(obj, (number, not event.name.startswith("builtins.")))
    return found


def _is_used(otherwise: dict[Obj, tuple[int, bool]], holders: list[Obj]) -> bool:
    return min((otherwise[one] for one in holders if one in otherwise), default=(0, False))[1]


# ---- conditions


def _is_conditional(facts: Facts, uses: list[Event], inside: list[Event], forward: Event) -> bool:
    """Whether there is a way through the forward pass past all uses of a part."""
    ways = [_conditions(facts, use, inside, forward) for use in uses]
    if any(not way for way in ways):
        return False
    arms = {arm for way in ways if len(way) == 1 for arm in way}
    return not any((node, other) in arms for node, arm in arms for other in ("body", "orelse") if other != arm)


def _conditions(facts: Facts, use: Event, inside: list[Event], forward: Event) -> frozenset[tuple[cst.CSTNode, str]]:
    """The arms that a use stands in of branches that may go another way in another step."""
    depth = len(forward.here.frame.context)
    found: set[tuple[cst.CSTNode, str]] = set()
    for here in use.here.up():
        if len(here.frame.context) <= depth:
            break
        branch = here.node if here.arm and not here.is_decided else None
        if isinstance(branch, cst.If) and _varies(facts, branch.test, use.module, forward):
            found.add((branch, here.arm))
        if isinstance(branch, cst.For) and here.arm == "body" and _is_as_long_as_is_set_later(facts, branch):
            found.add((branch, here.arm))
    for node, arm in _in_expressions(use):
        if _varies(facts, node, use.module, forward):
            found.add((node, arm))
    frames = {here.frame for here in use.here.up() if len(here.frame.context) > depth}
    for leave in inside:
        if leave.kind is Kind.LEAVE and leave.here.frame in frames and leave.before(use) and _leaves_out(leave, use):
            arms = _conditions(facts, leave, [], forward)
            found |= {(node, "orelse" if arm == "body" else "body") for node, arm in arms}
    return frozenset(found)


def _is_as_long_as_is_set_later(facts: Facts, loop: cst.For) -> bool:
    """`for block in self.blocks[: self.depth]`, where another depth is set between steps."""
    return any(isinstance(one, cst.Attribute) and _is_set_later(facts, one) for one in tree.walk(loop.iter))


def _leaves_out(leave: Event, use: Event) -> bool:
    """Whether who leaves there does not come to it: what is behind a loop, its `continue` and `break` come to."""
    if leave.name in ("continue", "break"):
        return leave.here.loops[0].node in use.turns if leave.here.loops else True
    return leave.name != "raise"


def _in_expressions(use: Event) -> Iterator[tuple[cst.BaseExpression, str]]:
    """`a(x) if test else b(x)`, `layers[number](x)`: each with what decides."""
    node = use.node
    called = use.receiver_node
    if isinstance(called, cst.Subscript):
        for element in called.slice:
            if isinstance(element.slice, cst.Index):
                yield element.slice.value, "item"
    elif isinstance(called, cst.IfExp):
        yield called.test, "item"
    for parent in use.module.enclosing(node):
        if isinstance(parent, cst.IfExp) and node is not parent.test:
            yield parent.test, "body" if node is parent.body else "orelse"
        if isinstance(parent, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            return
        node = parent


def _varies(facts: Facts, test: cst.BaseExpression, module: Module, forward: Event) -> bool:
    """Whether a test may have another outcome in another step: it looks at more than how the model was built."""
    if isinstance(test, (cst.Integer, cst.SimpleString)):
        return False
    if isinstance(test, cst.UnaryOperation):
        return _varies(facts, test.expression, module, forward)
    if isinstance(test, cst.BooleanOperation):
        return any(_varies(facts, one, module, forward) for one in (test.left, test.right))
    if isinstance(test, cst.Comparison) and _is_about_none(test):
        return _may_be_none(facts, test.left)
    if facts.value(test).constant() is not None:
        return False
    function = next((one for one in module.enclosing(test) if isinstance(one, cst.FunctionDef)), None)
    given = [param.name.value for param in function.params.params] if function is not None else []
    turns = {here.node for here in forward.here.up()}
    taken = {one.node for one in takes_of_before(facts)}
    for node in tree.walk(test):
        value = facts.value(node)
        if CHANCE in value.sources or loaders_of(value.sources) or node in taken:
            return True
        if isinstance(node, cst.Name) and taken.intersection(_given(module, node)):
            return True
        if isinstance(node, cst.Name) and node.value in given[1:] and not _is_fixed(value, turns):
            return True
        if isinstance(node, cst.Attribute) and _is_set_later(facts, node):
            return True
    return False


def _given(module: Module, name: cst.Name) -> Iterator[cst.CSTNode]:
    """What stands in the statements that have given a name its value."""
    for binding in module.flow(name).reaching(name):
        holder = next((one for one in module.enclosing(binding) if isinstance(one, cst.BaseSmallStatement)), None)
        if isinstance(holder, (cst.Assign, cst.AnnAssign)) and holder.value is not None:
            yield from tree.walk(holder.value)


def _is_about_none(test: cst.Comparison) -> bool:
    return any(isinstance(one.comparator, cst.Name) and one.comparator.value == "None" for one in test.comparisons)


def _may_be_none(facts: Facts, node: cst.BaseExpression) -> bool:
    """Whether it may be None in one step and something else in another: not an attribute that is set once and kept."""
    if isinstance(node, cst.Attribute) and not _is_set_later(facts, node):
        return False
    value = facts.value(node)
    nothing = any(isinstance(obj, Const) and obj.value is None for obj in value.objs)
    return nothing and (len(value.objs) > 1 or value.open)


def _is_fixed(value: Value, turns: Container[cst.CSTNode | None]) -> bool:
    """A literal, a setting or a part of the model, always the same one; or the counter of a loop over all parts."""
    counters = [obj for obj in value.objs if isinstance(obj, Counter)]
    if counters:
        return all(obj.loop not in turns for obj in counters)
    kinds = all(isinstance(obj, (Const, Setting, Instance, External)) for obj in value.objs)
    return bool(value.objs) and kinds and not value.open and len(value.objs) == 1


def _is_set_later(facts: Facts, node: cst.Attribute) -> bool:
    """An attribute that is set when the model has been built."""
    holders = set(map(core, facts.value(node.value).objs))
    for event in facts.of_kind(Kind.STORE):
        if event.name != node.attr.value or holders.isdisjoint(map(core, event.receiver.objs)):
            continue
        if not event.in_a_maker:
            return True
    return False
