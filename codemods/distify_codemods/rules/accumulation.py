"""ACCUM01: gradients that are accumulated are averaged once, in the backward pass before the step."""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions.backward_passes import reaches
from distify_codemods.events import Event, Here, Kind
from distify_codemods.inside import core
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.tree import walk

CODE = "ACCUM01"
_EACH = "each backward pass is followed by a step"


def run(context: Context) -> None:
    for one in context.decisions.accumulations:
        if context.editable(one.module, one.statement, "gradients are accumulated here"):
            text = context.backend.averages_when(one.target, one.when)
            reason = "gradients are averaged in the backward pass before a step, not in those that add to them"
            context.plan(one.module).insert_before(one.statement, text, CODE, reason)
            context.applied(f"accumulated gradients of `{one.target}` are averaged once", one.module, one.statement)
    if not context.decisions.accumulations and not _is_slower(context):
        each = all(_is_stepped_on(context, event) for event in context.facts.backwards)
        context.not_needed_if_known(_EACH if each else "gradients are averaged before each step, whatever was added up")


def _is_stepped_on(context: Context, backward: Event) -> bool:
    """Whether a step with what it has computed follows in each turn that comes to a backward pass."""
    left = [event for event in context.facts.of_kind(Kind.LEAVE) if event.name != "raise" and backward.before(event)]
    return any(
        backward.before(step)
        and _is_of(context, step, backward)
        and step.here.conditions() <= backward.here.conditions()
        and not any(event.before(step) and event.turns >= backward.turns for event in left)
        for step in context.facts.steps
    )


def _is_of(context: Context, step: Event, backward: Event) -> bool:
    stepping = step.receiver.objs.union(*(value.objs for value in step.arguments.all()))  # `scaler.step(optimizer)`
    models = [model for one in context.facts.optimizers if one.obj in stepping for model in one.models]
    return not models or any(reaches(context.facts, backward, model) for model in models)


def _is_slower(context: Context) -> bool:
    """Where the optimizer steps on some batches only, and which ones is not known before the forward pass."""
    for loop in context.facts.training_loops if context.decisions.wraps else ():
        backwards = [event for event in context.facts.backwards if event.inside(loop.event)]
        for step in context.facts.steps:
            guards = [
                here for here in step.here.up()
                if isinstance(here.node, cst.If) and here.arm and here.frame is loop.event.here.frame
                and any(isinstance(node, cst.Modulo) for node in walk(here.node.test))
            ]  # fmt: skip
            adds = any(
                not event.inside_of(guard) for guard in guards for event in backwards
                if not _begins_anew(context, guard, step)
            )  # fmt: skip
            if adds and step.inside(loop.event):
                context.advice(
                    "gradients are averaged after each backward pass, which is right; under `model.no_sync()` for all "
                    "but the last before a step it would be faster", step.module, step.node,
                )  # fmt: skip
                return True
    return False


def _begins_anew(context: Context, guard: Here, step: Event) -> bool:
    """Whether a step's gradients are set to zero and computed together with it: nothing was added up before."""
    trained = {model for one in context.facts.optimizers if one.obj in step.receiver.objs for model in one.models}
    zeroed = [
        event for event in context.facts.of_kind(Kind.METHOD)
        if event.name == "zero_grad" and event.before(step) and event.inside_of(guard)
        and (event.receiver.objs & step.receiver.objs or trained & {core(obj) for obj in event.receiver.objs})
    ]  # fmt: skip
    return any(
        zero.before(one) and one.before(step) and one.inside_of(guard) for zero in zeroed
        for one in context.facts.backwards
    )  # fmt: skip


RULE = Rule(
    code=CODE,
    name="gradient accumulation",
    why="DistributedDataParallel averages in each backward pass, also in those that only add up what a step will use.",
    safety="Where the test that guards the step can be asked before the forward pass, or the turn is the last one of "
    "a `range`, that decides whether this backward pass averages (what `no_sync()` sets, over forward and backward "
    "pass). Nothing else may read gradients, and each turn of each loop that trains the model must be decided so.",
    run=run,
    shared="what is added up on every rank are whole gradients",
    limits="What is left over after the last full group, and is stepped on after the loop, has been averaged in each "
    "backward pass: then it stays as it is.",
    pitfalls=(30,),
    examples=(
        Example(
            batches="for number, (x, y) in enumerate(loader, 1):",
            loss="""
            + model.require_backward_grad_sync = number % 3 == 0 or number == len(loader)
              loss = nn.functional.mse_loss(model(x), y) / 3
            """,
            step="""
            loss.backward()
            if number % 3 == 0 or number == len(loader):
                optimizer.step()
                optimizer.zero_grad()
            """,
        ),
        Example(
            optimizer="{optimizer}\nbatches = iter(loader)",
            loop="""
              for step in range(4):
                  optimizer.zero_grad()
                  for turn in range(2):
                      x, y = next(batches)
            +         model.require_backward_grad_sync = turn == 1
                      loss = nn.functional.mse_loss(model(x), y) / 2
                      loss.backward()
                  optimizer.step()
            """,
        ),
        LeftAlone(
            batches="for number, (x, y) in enumerate(loader, 1):",
            loss="loss = nn.functional.mse_loss(model(x), y) / 3",
            step="""
            loss.backward()
            if number % 3 == 0:
                optimizer.step()
                optimizer.zero_grad()
            """,
            later="optimizer.step()\noptimizer.zero_grad()",
        ),
    ),
)
