"""Statements after which a model could be wrapped, the best first; whether one is right shows when it is tried out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.base import Wrap, lines_to, path
from distify_codemods.decisions.kept_in_arms import behind_all, line_in
from distify_codemods.decisions.of_before import ASSIGNMENTS
from distify_codemods.decisions.touching import parts_of
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import contained, core
from distify_codemods.interpreter.frames import Frame
from distify_codemods.interpreter.overlaid import is_called_for_sure
from distify_codemods.libraries import python
from distify_codemods.libraries.devices import is_setting
from distify_codemods.libraries.torch_nn import BATCHNORMS, may_hold_batchnorm
from distify_codemods.objects import External, Instance, Method
from distify_codemods.parameters import may_be_a_module
from distify_codemods.settled import is_module
from distify_codemods.values import Value


def candidates(facts: Facts, model: Obj, forward: Event, touching: list[Event], sync: bool) -> Iterator[Wrap]:
    """Variables first, from the outermost frame inwards; then attributes that the model is stored in; then variables
    that a run may come by without."""
    unbound = []
    for frame in frames_around_training(facts, forward):
        if _runs_again(frame, forward, touching):
            continue
        for name in _names(facts, frame, model):
            wrap = after_last(facts, model, frame, name, forward, touching, sync)
            if wrap is None or _is_named_after_training(frame, name, model, forward):
                continue
            if has_name(frame, name, wrap.statement, wrap.after, forward):
                yield wrap
            else:
                unbound.append(wrap)
    yield from where_it_is_kept(facts, model, forward, touching, sync)
    yield from unbound


def where_it_is_kept(facts: Facts, model: Obj, forward: Event, touching: list[Event], sync: bool) -> Iterator[Wrap]:
    """Behind the places where an attribute is given it, or else behind one of them."""
    for event in touching:
        kept = event.kind is Kind.STORE and _holds(event.value, model) and not _keeps_again(event, forward, touching)
        part = any(map(is_module, event.receiver.objs))  # of its checkpoints, moved with it, under names of its own
        if not kept or part or not isinstance(event.node, cst.Attribute):
            continue
        why, target = "its forward pass is called in the training loop", tree.code_of(event.node)
        lines = (behind_all(facts, event, touching, forward), _last_beside(event, touching))
        for line in dict.fromkeys(lines):
            if line is not None and _is_passed(facts, event, line, touching, forward):
                yield Wrap(target, event.module, line, True, (model,), sync, why, event.node)


def _is_passed(facts: Facts, store: Event, line: cst.CSTNode, touching: list[Event], forward: Event) -> bool:
    """Whether each run comes by this line that makes the model and trains it: `load` may be called for some only, or
    end before it where there is no file."""
    made, around = touching[0], {line, *store.module.enclosing(line)}
    done = [store, *(event for event in touching if line in path(event, store.here.frame))]
    known = {here.frame for one in (made, forward) for here in one.here.up()}
    outer = [here for here in store.here.up() if here.frame not in known]
    tests = {one for one in store.here.conditions() if one[2] != store.here.frame.context or one[0] in around}
    turns = {one.node for one in store.here.loops if one.frame is not store.here.frame or one.node in around}
    beside = {here.frame for here in outer}
    leaving = (event for event in facts.of_kind(Kind.LEAVE) if event.here.frame in beside and event.name != "raise")
    return (
        tests <= made.here.conditions() | forward.here.conditions()
        and turns <= made.turns | forward.turns
        and all(map(is_called_for_sure, outer))
        and not any(made.before(event) and event.before(done[-1]) for event in leaving)
    )


def _is_named_after_training(frame: Frame, name: str, model: Obj, forward: Event) -> bool:
    """`first = train(seed)`, which makes the model and trains it: there is no such name before."""
    lines = [here.node for here in forward.here.up() if here.frame is frame]
    for line in lines:
        if isinstance(line, cst.SimpleStatementLine) and not {*model.context, model.site}.isdisjoint(tree.walk(line)):
            targets = [target for one in line.body if isinstance(one, ASSIGNMENTS) for target in tree.targets(one)]
            return any(isinstance(target, cst.Name) and target.value == name for target in targets)
    return False


def _runs_again(frame: Frame, forward: Event, touching: list[Event]) -> bool:
    """Whether a function is called in a loop that goes on with the same model: it would be wrapped in each turn."""
    made = {node for event in touching[:1] for node in event.turns}
    around = [here.node for here in forward.loops() if here.frame is not frame and _is_outside(here.frame, frame)]
    return bool(set(around) - made)


def _keeps_again(store: Event, forward: Event, touching: list[Event]) -> bool:
    """Whether the turns of a loop that trains begin with keeping the same model: it would be wrapped in each."""
    return bool(store.turns & forward.turns - touching[0].turns)


def _is_outside(outer: Frame, inner: Frame) -> bool:
    return len(outer.context) < len(inner.context) and inner.context[: len(outer.context)] == outer.context


def _last_beside(store: Event, touching: list[Event]) -> cst.CSTNode | None:
    """The last statement of the block in which a model is kept that does something to it: `self.net.to(device)`.

    None where the block is a line with its `def`, behind which no other fits.
    """
    block = _block_of(store, touching)
    lines = [line for event in touching if (line := line_in(block, event, store)) is not None] if block else []
    return lines[-1] if lines else None


def _block_of(store: Event, touching: list[Event]) -> cst.CSTNode | None:
    """The block in which a model is kept; where it is only put into something else under a test
    (`if several_gpus: self.net = nn.DataParallel(self.net)`), the one around the test: it is kept there in any case."""
    stores = [event for event in touching if event.kind is Kind.STORE and event.here.frame is store.here.frame]
    blocks = lines_to(store.module, store.node)
    for block, _ in blocks:
        test = store.module.parents.get(block)
        inside = [event for event in stores if test in store.module.enclosing(event.node)]
        if not isinstance(test, cst.If) or not all(map(_keeps_what_it_has, inside)):
            return block
    return None


def _keeps_what_it_has(store: Event) -> bool:
    """`self.net = nn.DataParallel(self.net)`: there is one before."""
    if not isinstance(store.node, cst.Attribute):
        return False
    statement = next((one for one in store.module.enclosing(store.node) if isinstance(one, cst.Assign)), None)
    return statement is not None and any(
        isinstance(node, cst.Attribute) and node.deep_equals(store.node) for node in tree.walk(statement.value)
    )


def frames_around_training(facts: Facts, forward: Event) -> list[Frame]:
    """The activations that lead to a training forward, outermost first, up to the one that loops over batches."""
    loops = {loop.node for loop in facts.training_loops}
    frames: list[Frame] = []
    for here in forward.here.up():
        if here.node in loops and here.arm == "body":
            frames = [here.frame]
        elif here.frame not in frames:
            frames.insert(0, here.frame)
    return frames


def _names(facts: Facts, frame: Frame, model: Obj) -> list[str]:
    """The variables of an activation that hold the model: at its end, or, in one turn of a loop, at a loop inside."""
    own = _self_of(frame)
    tables = [frame.env, frame.bound, *(loop.names for loop in facts.of_kind(Kind.LOOP) if loop.here.frame is frame)]
    found = [name for table in tables for name, value in table.items() if _holds(value, model)]
    return [name for name in dict.fromkeys(found) if name.isidentifier() and name != own]


def _self_of(frame: Frame) -> str:
    """`self`: rebinding it would wrap nothing."""
    function = frame.function
    if function is None or function.owner is None or not isinstance(function.node, cst.FunctionDef):
        return ""
    params = function.node.params.params
    return params[0].name.value if params else ""


def _holds(value: Value, model: Obj) -> bool:
    """Whether it is the model, and never an object in its place that no wrap takes."""
    objs = [core(obj) for obj in value.objs]
    return model in objs and all(map(may_be_a_module, objs))


def after_last(
    facts: Facts, model: Obj, frame: Frame, name: str, forward: Event, touching: list[Event], sync: bool
) -> Wrap | None:
    """Behind all that is done to it: in a loop that trains only where its turns begin with making it."""
    training = path(forward, frame)
    if not training:
        return None
    paths = [steps for steps in (path(event, frame) for event in touching) if steps]
    made = path(touching[0], frame) if touching else []  # elsewhere, before this activation: nothing
    depth = _common(made, training)
    if depth >= len(training):
        return None
    before = _last_in(training[:depth], [steps for steps in paths if steps[: depth + 1] != training[: depth + 1]])
    statement = before if before is not None else training[depth]
    if not has_name(frame, name, statement, before is not None, forward):
        in_arm = _last_in_arm(made, [steps for steps in paths if steps[: depth + 1] != training[: depth + 1]])
        later = _in_arm_of(facts, forward, frame, training, depth)
        if in_arm is not None and has_name(frame, name, in_arm, True, forward):
            statement = before = in_arm
        elif later is not None and has_name(frame, name, later, False, forward):
            statement, before = later, None
    why = "all that is done to it before the first training step is done by here"
    return Wrap(name, frame.module, statement, before is not None, (model,), sync, why)


def _common(one: list[cst.CSTNode], other: list[cst.CSTNode]) -> int:
    pairs = itertools.takewhile(lambda pair: pair[0] is pair[1], zip(one, other, strict=False))
    return sum(1 for _ in pairs)


def _last_in(block: list[cst.CSTNode], paths: list[list[cst.CSTNode]]) -> cst.CSTNode | None:
    """The last statement of a block, of those that lead to what happens."""
    found = [steps[len(block)] for steps in paths if len(steps) > len(block) and steps[: len(block)] == block]
    return found[-1] if found else None


def _last_in_arm(made: list[cst.CSTNode], paths: list[list[cst.CSTNode]]) -> cst.CSTNode | None:
    """The same in the arm of a branch that a model is made in; if nothing is done to it behind the branch."""
    arm = made[:-1]
    inside = all(isinstance(one, cst.If) for one in arm) and all(steps[: len(arm)] == arm for steps in paths)
    return _last_in(arm, paths) if arm and inside else None


def _in_arm_of(
    facts: Facts, forward: Event, frame: Frame, training: list[cst.CSTNode], depth: int
) -> cst.CSTNode | None:
    """The statement that trains, in the arm of a branch that it stands in, where no other arm trains the same."""
    at = depth
    while isinstance(training[at], cst.If) and at + 1 < len(training):
        at += 1
    block, trained = frame.module.block(training[at]), {core(obj) for obj in forward.receiver.objs}
    others = (event for event in facts.of_kind(Kind.FORWARD) if event.grad and facts.in_training(event))
    paths = [path(event, frame) for event in others if any(core(obj) in trained for obj in event.receiver.objs)]
    elsewhere = any(frame.module.block(steps[at]) is not block for steps in paths if len(steps) > at)
    return training[at] if at > depth and not elsewhere else None


def has_name(frame: Frame, name: str, statement: cst.CSTNode, after: bool, forward: Event) -> bool:
    """Whether what is named is bound there in each run that comes to the forward pass, and in each that does not."""
    flow, root = frame.module.flow(statement), re.split(r"\W", name, maxsplit=1)[0]
    if not flow.may_be_unbound(statement, root, after):
        return True
    around = {statement, *frame.module.enclosing(statement)}
    is_only_this = len(set(map(core, forward.receiver.objs))) == 1  # else another one may be trained instead
    return is_only_this and all(node in around for node, _, _ in forward.here.conditions())


def _may_hold_batchnorm(name: str) -> bool:
    return may_hold_batchnorm(name) or not (name.startswith(("torch.", "builtins.")) or is_setting(name))


def _may_be_batchnorm(part: Obj) -> bool:
    if isinstance(part, Instance):
        kept = (obj for value in part.attributes.values() for obj in contained(value) if isinstance(obj, Method))
        bases = part.of.libraries if part.of is not None else ()  # what one has that is not seen, its objects have
        foreign = (one for one in bases if not one.startswith(python.PLAIN_BASES))
        return any(map(_may_hold_batchnorm, foreign)) or any(map(_is_of_a_library, kept))
    given = part.arguments.all() if isinstance(part, External) and part.arguments is not None else []
    taken = (obj for value in given for obj in contained(value) if isinstance(obj, Method))
    return isinstance(part, External) and (_may_hold_batchnorm(part.name) or any(map(_is_of_a_library, taken)))


def _is_of_a_library(kept: Method) -> bool:
    """`self.trunk = resnet18().layer1`: what a library's object has under a name may be a part of a model."""
    own = kept.receiver.objs if kept.receiver is not None else ()
    return not own or any(
        _is_of_a_library(obj)
        if isinstance(obj, Method)
        else isinstance(obj, External) and _may_hold_batchnorm(obj.name)
        for obj in own
    )


def with_batchnorm(facts: Facts) -> set[Obj]:
    """Models that may have BatchNorm: layers of the script are seen, what a library builds may hold them."""
    parts = {model: parts_of(model) for model in facts.models}
    found = {model for model, own in parts.items() if any(map(_may_be_batchnorm, own))}
    members = {model: set(own) for model, own in parts.items()}
    for event in facts.calls(*BATCHNORMS):
        made, context = event.value.single(), set(event.here.frame.context)
        owners = {model for model in facts.models if model.site in context or made in members[model]}
        found |= owners or set(facts.models)
    return found
