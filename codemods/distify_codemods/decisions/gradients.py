"""Where gradients are averaged by a line of their own: after the last backward pass, before anything reads them.

The mean over ranks is linear, and averaging what is averaged changes nothing. So a line before each group of readers
that no backward pass interrupts is right, in whatever order backward passes and readers come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.backward_passes import excludes
from distify_codemods.decisions.base import Blocked, GradientAveraging, GradientCall, Unwrapped
from distify_codemods.decisions.expressions import held_in, is_bound_before, is_set_between
from distify_codemods.decisions.models import same
from distify_codemods.decisions.several import repeated_by
from distify_codemods.decisions.tensors_alone import of_tensors
from distify_codemods.events import Event, Here, Kind
from distify_codemods.facts import Facts, Optimizer, dealt_by
from distify_codemods.inside import contained, core
from distify_codemods.interpreter.frames import Frame
from distify_codemods.libraries import torch_nn
from distify_codemods.objects import External, Parameters
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import Value

_STEPPING = ("step", "unscale_")
#: Libraries' functions that may be given a model and do not look at its gradients.
_NOT_READING = (
    "torch.", "builtins.", "copy.", "numpy.", "tqdm.", "logging.", "time.", "math.", "os.", "functools.", "itertools.",
)  # fmt: skip


@dataclass(frozen=True)
class Trainee:
    """An optimizer with its models; or models that are updated by hand."""

    objs: Ordered[Obj]  # the optimizer, if there is one
    models: Ordered[Obj]
    by_its_models: bool = False  # the optimizer is not there in every run that trains them


@dataclass(frozen=True)
class _Place:
    module: Module
    node: cst.CSTNode
    frame: Frame


def decide_gradients(
    facts: Facts, unwrapped: Iterable[Unwrapped], waits: Mapping[Obj, tuple[GradientAveraging, ...]]
) -> tuple[tuple[GradientAveraging, ...], list[Blocked]]:
    """waits: optimizers that average by themselves, with the lines that wait for them."""
    models = [model for model in facts.models if any(same(model, one.model) for one in unwrapped)]
    found: dict[tuple[cst.CSTNode, bool], GradientAveraging] = {}
    blocked: list[Blocked] = []
    unread: list[Trainee] = []
    trained: set[Obj] = set()
    waiting = {(line.statement, *line.targets): line for lines in waits.values() for line in lines}
    for trainee in _trainees(facts, models):
        if trainee.objs & waits.keys():
            trained |= trainee.models
            continue
        lines = 0
        for group in groups_of_readers(facts, trainee):
            for line in gradient_lines(facts, trainee, group):
                lines += 1
                if isinstance(line, Blocked):
                    blocked.append(line)
                    continue
                key = (line.statement, line.after)
                known = found[key].targets if key in found else ()
                targets = tuple(dict.fromkeys((*known, *line.targets)))
                found[key] = GradientAveraging(targets, line.module, line.statement, line.after)
        if lines:
            trained |= trainee.models
        else:
            unread.append(trainee)
    # An optimizer that never steps, as where another one takes its place, leaves the training to that one.
    open_ones = [one for one in unread if not (facts.run.exact and one.models and one.models <= trained)]
    blocked += (_never_read(facts, one) for one in open_ones)
    return (*(replace(line, waits=True) for line in waiting.values()), *found.values()), blocked


def _trainees(facts: Facts, models: list[Obj]) -> Iterator[Trainee]:
    left = dict.fromkeys(models)
    for optimizer in facts.optimizers:
        if any(model in left for model in optimizer.models):
            yield Trainee(optimizer.obj.alone, Ordered(optimizer.models), may_be_absent(facts, optimizer))
    yield from (Trainee(one.obj.alone, EMPTY) for one in of_tensors(facts))
    trained = {model for optimizer in facts.optimizers for model in optimizer.models}
    for model in left:
        if model not in trained:
            yield Trainee(EMPTY, model.alone)


def may_be_absent(facts: Facts, optimizer: Optimizer) -> bool:
    """Whether its models may be trained without it, or another one in its place: where a name for it may not exist."""
    others = [
        other.made for other in facts.optimizers if other is not optimizer and set(other.models) & set(optimizer.models)
    ]
    return not any(excludes(other, optimizer.made) for other in others) and not any(
        made.dominates(backward) for made in (optimizer.made, *others) for backward in facts.backwards
    )


def decide_gradient_calls(facts: Facts) -> tuple[tuple[GradientCall, ...], list[Blocked]]:
    """Gradients that are taken by `torch.autograd.grad`: of each sample, or of the mean over the batch."""
    found: dict[cst.CSTNode, GradientCall] = {}
    blocked: list[Blocked] = []
    for event in facts.of_kind(Kind.GRADIENT):
        if event.value.scale in _OF_SAMPLES or not dealt_by(event.value.sources):
            continue
        if event.value.scale is Scale.MEAN and isinstance(event.node, cst.Call) and facts.in_training(event):
            found[event.node] = GradientCall(event.module, event.node)
        else:
            blocked.append(Blocked(CODE, event.module, event.node, _SHARED, _SHARED_FIX))
    return tuple(found.values()), blocked


CODE = "GRAD01"
_OF_SAMPLES = (Scale.CONST, Scale.SLOPES, *PER_SAMPLE)
_SHARED = "this gradient depends on the whole batch, of which a rank has a share; its mean over ranks is another one"
_SHARED_FIX = "take it of a mean over the batch by parameters, or of a sum over samples by the samples themselves"


# ---- readers


def groups_of_readers(facts: Facts, trainee: Trainee) -> list[list[Event]]:
    """The events that read a trainee's gradients, in runs between backward passes; before the first there are none."""
    groups: list[list[Event]] = []
    backwards = {event.number for event in facts.backwards}
    first = min(backwards, default=0)
    repeated = {loop for event in facts.backwards for loop in repeated_by(facts, event)}
    open_group = False
    for event in facts.run.events:
        if event.number in backwards:
            open_group = False
        elif reads(event, trainee) and (event.number > first or not repeated.isdisjoint(repeated_by(facts, event))):
            if not open_group:
                groups.append([])
            open_group = True
            groups[-1].append(event)
    return groups


def reads(event: Event, trainee: Trainee) -> bool:
    if event.kind is Kind.ATTRIBUTE:
        return event.name == "grad" and (_is_of(event.receiver, trainee) or _is_unknown(event.receiver))
    if event.kind is Kind.METHOD:
        given = (event.receiver, *event.arguments.positional)
        if event.name in _STEPPING:
            return any(trainee.objs & value.objs for value in given)
        return False
    if event.kind is not Kind.CALL:
        return False
    if event.name.startswith(torch_nn.READS_GRADIENTS):
        return any(_is_of(value, trainee) for value in event.arguments.all()) or not _names_any(event)
    known = event.name.startswith(_NOT_READING) or event.name.rpartition(".")[2][:1].isupper() or event.name == "?"
    return not known and any(_is_of(value, trainee) for value in event.arguments.all())


def _is_unknown(value: Value) -> bool:
    """Whether it is not seen what a value is, nor what it was computed from: it may be a parameter."""
    return not value.objs and not value.sources


def _names_any(event: Event) -> bool:
    """Whether it is seen whose parameters a call is given."""
    return any(isinstance(obj, Parameters) for value in event.arguments.all() for obj in contained(value))


def _is_of(value: Value, trainee: Trainee) -> bool:
    for obj in contained(value):
        inner = core(obj)
        if isinstance(inner, Parameters) and inner.of is not None:
            inner = core(inner.of)
        while isinstance(inner, External) and inner.whole is not None and inner not in trainee.models:
            inner = inner.whole
        if inner in trainee.models or inner in trainee.objs:
            return True
    return False


# ---- lines


def gradient_lines(
    facts: Facts, trainee: Trainee, group: list[Event], only: Ordered[Obj] = EMPTY
) -> Iterator[GradientAveraging | Blocked]:
    """`only`: what the line has to name, if not whatever holds the gradients."""
    place = _before_all(facts, group)
    if place is not None and (target := _target(facts, trainee, group, place, only)):
        yield GradientAveraging((target,), place.module, place.node)
        return
    for event in group:
        place = _before(facts, event)
        if place is not None and (target := _target(facts, trainee, [event], place, only)):
            yield GradientAveraging((target,), place.module, place.node)
        else:
            yield from _behind_backwards(facts, trainee, event)


def _before_all(facts: Facts, group: list[Event]) -> _Place | None:
    """In the innermost block that holds all readers, before the first one; unless a backward pass would follow."""
    chains = [_chain(event) for event in group]
    size = 0
    for steps in zip(*chains, strict=False):
        if any(step.node is not steps[0].node or step.arm != steps[0].arm for step in steps):
            break
        size += 1
    first = chains[0]
    while size < len(first) and first[size].arm:
        size -= 1  # different arms of one statement
    index = min(size, len(first) - 1)
    return _outside_loops(facts, first, index)


def _before(facts: Facts, event: Event) -> _Place | None:
    chain = _chain(event)
    return _outside_loops(facts, chain, len(chain) - 1)


def _outside_loops(facts: Facts, chain: list[Here], index: int) -> _Place | None:
    """The place of a reader; of one in a loop over parameters, before that loop."""
    while index >= 0 and (chain[index].arm or not _is_statement(chain[index])):
        index -= 1
    if index < 0:
        return None
    best = index
    for outer in range(index - 1, -1, -1):
        here = chain[outer]
        if here.frame is not chain[index].frame:
            break
        if not here.arm and isinstance(here.node, cst.For) and _runs_over_parameters(facts, here.node):
            best = outer
    for at in dict.fromkeys((best, index)):
        here = chain[at]
        if not any(_contains(here, event) for event in facts.backwards):
            return _Place(here.frame.module, here.node, here.frame)
    return None


def _runs_over_parameters(facts: Facts, loop: cst.For) -> bool:
    return any(isinstance(obj, Parameters) for obj in contained(facts.value(loop.iter)))


def _contains(place: Here, event: Event) -> bool:
    return any(here.node is place.node and not here.arm for here in event.here.up())


def _chain(event: Event) -> list[Here]:
    """The statements and arms that an event happens in, across calls, outermost first."""
    return list(reversed(list(event.here.up())))


def _is_statement(here: Here) -> bool:
    if isinstance(here.node, cst.BaseSmallStatement):
        return True
    return isinstance(here.node, (cst.SimpleStatementLine, cst.BaseCompoundStatement))


def _behind_backwards(facts: Facts, trainee: Trainee, reader: Event) -> Iterator[GradientAveraging | Blocked]:
    """A reader whose statement runs the backward pass itself: `optimizer.step(closure)`."""
    statement = _chain(reader)[-1]
    inside = [event for event in facts.backwards if _contains(statement, event)]
    for event in inside:
        chain = _chain(event)
        place = _Place(event.module, chain[-1].node, chain[-1].frame)
        target = _target(facts, trainee, [reader], place)
        if target and isinstance(place.node, (cst.SimpleStatementLine, cst.Expr)):
            yield GradientAveraging((target,), place.module, place.node, after=True)
        else:
            yield _unreachable(reader)
    if not inside:
        yield _unreachable(reader)


def _target(facts: Facts, trainee: Trainee, group: list[Event], place: _Place, only: Ordered[Obj] = EMPTY) -> str:
    """An expression of what is averaged, as it can be written at a place: the optimizer, its models, what was read."""
    objs = EMPTY if trainee.by_its_models else trainee.objs
    for event in group:
        for node in _read_at(event):
            own = objs & facts.value(node).objs
            alone = not only or facts.value(node).objs <= only
            if own and alone and len(facts.value(node).objs) >= 1 and _can_be_written(node, event, place):
                return tree.code_of(node)
    for wanted in (only,) if only else (objs, trainee.models):
        texts = [held_in(facts, place.frame, place.node, obj) for obj in wanted]
        if texts and all(texts):
            return ", ".join(dict.fromkeys(texts))
    if len(group) == 1 and not trainee.objs and not only:
        for node in _read_at(group[0]):
            if _can_be_written(node, group[0], place):
                return tree.code_of(node)
    return ""


def _read_at(event: Event) -> list[cst.BaseExpression]:
    given = [arg.value for arg in event.node.args] if isinstance(event.node, cst.Call) else []
    return [*([event.receiver_node] if event.receiver_node is not None else []), *given]


def _can_be_written(node: cst.BaseExpression, event: Event, place: _Place) -> bool:
    """Whether an expression that is read by an event means the same at a place before it."""
    if not tree.is_plain(node) or event.here.frame.node is not place.frame.node:
        return False
    names = [one.value for one in tree.walk(node) if isinstance(one, cst.Name)]
    if isinstance(node, cst.Attribute):
        names = [tree.code_of(node).split(".")[0].split("[")[0]]
    return all(is_bound_before(place.module, place.node, name) for name in names) and not is_set_between(
        place.module, place.node, node, event.node
    )


def _unreachable(reader: Event) -> Blocked:
    return Blocked(
        CODE,
        reader.module,
        reader.node,
        "the gradients must be averaged over the ranks before this, and nothing here holds the optimizer or its model",
        "write `rt.all_reduce_gradients(optimizer)` behind the last backward pass",
    )


def _never_read(facts: Facts, trainee: Trainee) -> Blocked:
    what = facts.names.of(next(iter(trainee.models or trainee.objs)))
    optimizer = next((one for one in facts.optimizers if one.obj in trainee.objs), None)
    backward = facts.backwards[0] if facts.backwards else facts.run.events[0]
    module, node = (optimizer.made.module, optimizer.made.node) if optimizer else (backward.module, backward.node)
    message = f"the gradients of `{what}` are never seen to be used, so where to average them is open"
    return Blocked(CODE, module, node, message, "write `rt.all_reduce_gradients(model)` behind the backward pass")
