"""Which optimizers average their gradients by themselves, for a backend that has such, and what waits for them.

The averaging begins during the backward pass, and `step()` waits for it. So no line is needed before steps alone, and
one that waits before whatever else reads gradients. In how many backward passes gradients are added up does not matter.
Where gradients are not an optimizer's alone, or something reads them where it is out of reach, a line averages them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.backward_passes import excludes
from distify_codemods.decisions.base import AveragingOptimizer, GradientAveraging
from distify_codemods.decisions.broadcasts import first_use, places_in_frames
from distify_codemods.decisions.expressions import held_in, is_bound_before
from distify_codemods.decisions.gradients import Trainee, gradient_lines, groups_of_readers, may_be_absent
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, Optimizer
from distify_codemods.interpreter.frames import Frame
from distify_codemods.libraries import torch_optim
from distify_codemods.objects import External
from distify_codemods.ordered import Ordered

_Waits = dict[Obj, tuple[GradientAveraging, ...]]


def decide_optimizers(facts: Facts, models: Iterable[Obj]) -> tuple[tuple[AveragingOptimizer, ...], _Waits]:
    """The optimizers, and for each the lines that wait for it."""
    left_alone = set(models)
    kept = {
        one.obj: one
        for one in facts.optimizers
        if left_alone.issuperset(one.models)
        and not _shares(facts, one)
        and _suits(facts, one)
        and not may_be_absent(facts, one)
    }
    while True:
        waits = {obj: _waits(facts, one, Ordered(kept.keys())) for obj, one in kept.items()}
        unfit = {obj for obj, lines in waits.items() if lines is None}
        open_sites = {one.made.node for one in facts.optimizers if one.obj not in kept or one.obj in unfit}
        unfit |= {obj for obj, one in kept.items() if one.made.node in open_sites}  # one line makes them all
        found = {obj: one for obj, fit in kept.items() if obj not in unfit and (one := _averaging(facts, fit))}
        unfit |= kept.keys() - found.keys()
        if not unfit:
            break
        kept = {obj: one for obj, one in kept.items() if obj not in unfit}
    return tuple(_merged(found.values())), {obj: lines for obj, lines in waits.items() if lines is not None}


def _merged(found: Iterable[AveragingOptimizer]) -> Iterator[AveragingOptimizer]:
    """One for each line: a factory makes several."""
    lines: dict[tuple[str, cst.CSTNode], AveragingOptimizer] = {}
    for one in found:
        known = lines.setdefault((one.target, one.node), one)
        if known is not one:
            lines[one.target, one.node] = replace(known, objs=(*known.objs, *one.objs))
    return iter(lines.values())


def _shares(facts: Facts, optimizer: Optimizer) -> bool:
    """Whether another one, made in the same course of the program, trains the same."""
    return any(
        other is not optimizer
        and set(other.models) & set(optimizer.models)
        and not excludes(other.made, optimizer.made)
        for other in facts.optimizers
    )


def _suits(facts: Facts, optimizer: Optimizer) -> bool:
    obj = optimizer.obj
    if not isinstance(obj, External) or not isinstance(optimizer.made.node, cst.Call):
        return False
    if not torch_optim.is_optimizer(obj.name) or obj.name == torch_optim.BY_CLOSURE:
        return False
    if not optimizer.models or optimizer.unknown or optimizer.wholes or optimizer.not_models:
        return False
    steps = [event for event in facts.steps if obj in event.receiver.objs]
    with_closure = any(event.arguments.all() for event in steps)
    graphs = any("create_graph" in event.arguments.keywords for event in facts.backwards)
    return bool(facts.backwards) and not with_closure and not graphs


def _waits(facts: Facts, optimizer: Optimizer, fit: Ordered[Obj]) -> tuple[GradientAveraging, ...] | None:
    """Lines before the readers that are no plain step; None where one cannot be written."""
    trainee = Trainee(optimizer.obj.alone, Ordered(optimizer.models))
    found: dict[tuple[cst.CSTNode, bool], GradientAveraging] = {}
    groups = groups_of_readers(facts, trainee)
    for group in groups:
        if all(_is_plain_step(event, fit) for event in group):
            continue
        for line in gradient_lines(facts, trainee, group, fit):
            if not isinstance(line, GradientAveraging) or line.after:
                return None
            found[(line.statement, line.after)] = line
    return tuple(found.values()) if groups else None


def _is_plain_step(event: Event, fit: Ordered[Obj]) -> bool:
    return event.kind is Kind.METHOD and event.name == "step" and event.receiver.objs <= fit


def resumes(facts: Facts, optimizers: Iterable[AveragingOptimizer]) -> Iterator[Event]:
    """Where one of these is given the state of a checkpoint."""
    made = {obj for one in optimizers for obj in one.objs}
    for event in facts.of_kind(Kind.METHOD):
        tried = any(isinstance(here.node, cst.Try) and here.arm for here in event.here.up())
        if event.name == "load_state_dict" and event.receiver.objs and event.receiver.objs <= made and not tried:
            yield event


def _averaging(facts: Facts, optimizer: Optimizer) -> AveragingOptimizer | None:
    """Where it is made; or, if the line that makes it makes other things too, where it is there."""
    made = optimizer.made
    ours = {one.obj for one in facts.optimizers}
    if any(event.node is made.node and not event.value.objs <= ours for event in facts.of_kind(Kind.CALL)):
        return _later(facts, optimizer)
    statement = made.module.statement(made.node)
    target = ""
    line = statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,)
    if len(line) == 1 and isinstance(line[0], cst.Assign) and line[0].value is made.node:
        (name, *others) = line[0].targets
        target = tree.code_of(name.target) if not others and tree.is_plain(name.target) else ""
    named = _named(facts, optimizer, made.here.frame, statement)
    passes = _passes(facts, optimizer)
    return AveragingOptimizer((optimizer.obj,), target, named, passes, made.module, statement, made.node)


def _later(facts: Facts, optimizer: Optimizer) -> AveragingOptimizer | None:
    """After the last that is done to it before training."""
    model, obj = optimizer.models[0], optimizer.obj
    anchor = first_use(facts, model)
    for frame, place in places_in_frames(facts, model, obj, anchor, False):
        if place.after and place.target.isidentifier():
            named, line = _named(facts, optimizer, frame, place.statement), place.statement
            return AveragingOptimizer((obj,), place.target, named, "", place.module, line, line)
    return None


def _named(facts: Facts, optimizer: Optimizer, frame: Frame, statement: cst.CSTNode) -> str:
    return held_in(facts, frame, statement, optimizer.models[0]) if len(optimizer.models) == 1 else ""


def _passes(facts: Facts, optimizer: Optimizer) -> str:
    """How many backward passes a step follows, by the test that guards it: `turn % passes == 0`."""
    made = optimizer.made
    found = {
        tree.code_of(node.right)
        for step in facts.of_kind(Kind.METHOD)
        if step.name == "step"
        and optimizer.obj in {obj for value in (step.receiver, *step.arguments.positional) for obj in value.objs}
        for here in step.here.up()
        if isinstance(here.node, cst.If) and here.arm == "body"
        if not any(event.inside_of(here) for event in facts.backwards)
        for node in tree.walk(here.node.test)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo) and tree.is_plain(node.right)
    }
    statement = made.module.statement(made.node)
    known = [text for text in found if text.isdigit() or is_bound_before(made.module, statement, text.split(".")[0])]
    return known[0] if len(found) == len(known) == 1 else ""
