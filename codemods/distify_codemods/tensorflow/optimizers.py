"""TF02: optimizers average their gradients over the processes, and learn as much faster as there are processes."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj
from distify_codemods.events import Event
from distify_codemods.program import Module
from distify_codemods.rules.base import Context, Rule, call_of
from distify_codemods.tensorflow.found import Found, argument, code_in_brackets, is_starred

CODE = "TF02"
_AVERAGED = "the processes average their gradients before each step"
_SCALED = "the global batch is as many times as large as there are processes, and so is the learning rate"
#: The rates of optimizers that are made without one.
_DEFAULTS = {"SGD": "0.01", "AdamOptimizer": "0.001", **dict.fromkeys(
    ("Adam", "AdamW", "Nadam", "Adamax", "RMSprop", "Adagrad", "Adadelta", "Ftrl", "Lion"), "0.001")}  # fmt: skip


def run(context: Context) -> None:
    found = Found(context.facts)
    for event in found.optimizers:
        if context.options.scale != "none" and context.options.op != "adasum":
            _scale(context, found, event)
        _wrap(context, event)
        context.advice("each process takes batches as large as before: so many times more samples make a step, and a "
                       "fixed number of steps sees so many times more of them", event.module, event.node)  # fmt: skip
    made = {obj for event in found.optimizers for obj in event.value.objs}
    for event in found.fits:
        _check_compiled(context, found, event, made)
    for event in found.methods("tensorflow", "minimize", "apply_gradients"):
        if not event.receiver.objs <= made:
            _not_seen(context, event)


def _scale(context: Context, found: Found, event: Event) -> None:
    module, call = event.module, event.node
    assert isinstance(call, cst.Call)
    rate = argument(call, "learning_rate", 0) or argument(call, "lr")
    hvd, plan = context.engine(module), context.plan(module)
    if rate is not None and found.schedules(context.facts.value(rate.value)):
        context.needs_you("the learning rate is a schedule of Keras, which cannot be multiplied", module, call,
                          f"multiply the rates of the schedule by {hvd}.size(), or use --scale none")  # fmt: skip
        return
    if rate is not None:
        text = f"{code_in_brackets(rate.value)} * {hvd}.size()"
        plan.replace(rate.value, lambda _: context.text(module, text), CODE, _SCALED)
    elif (default := _DEFAULTS.get(event.name.rsplit(".", 1)[-1])) and not is_starred(call):
        plan.set_keyword(call, "learning_rate", f"{default} * {hvd}.size()", CODE, _SCALED)
    else:
        context.needs_you("the learning rate of this optimizer is not known", module, call,
                          f"give it learning_rate=… * {hvd}.size()")  # fmt: skip
        return
    context.applied(_SCALED, module, call)


def _wrap(context: Context, event: Event) -> None:
    """In a line of its own where the optimizer has a name."""
    module, call = event.module, event.node
    assert isinstance(call, cst.Call)
    plan, hvd, options = context.plan(module), context.engine(module), context.options
    given = f", compression={hvd}.Compression.fp16" if options.compression == "fp16" else ""
    given += f", op={hvd}.Adasum" if options.op == "adasum" else ""
    name = _name_of(module, call)
    if name:
        line = f"{name} = {hvd}.DistributedOptimizer({name}{given})"
        plan.insert_after(module.statement(call), line, CODE, _AVERAGED)
    else:
        plan.replace(call, call_of(f"{hvd}.DistributedOptimizer({{}}{given})"), CODE, _AVERAGED)
    context.applied(_AVERAGED, module, call)


def _name_of(module: Module, call: cst.Call) -> str:
    assign = module.parents[call]
    if isinstance(assign, cst.Assign) and len(assign.targets) == 1 and assign.value is call:
        target = assign.targets[0].target
        return tree.code_of(target) if tree.is_plain(target) else ""
    return ""


def _check_compiled(context: Context, found: Found, fit: Event, made: set[Obj]) -> None:
    """Each optimizer that `model.compile` was given has to be one that a line is put around."""
    compiled = [one for one in found.compiled if one.receiver.objs & fit.receiver.objs]
    for event in compiled:
        given = event.arguments.get("optimizer", 0)
        if given is None or any(isinstance(obj, Const) for obj in given.objs):
            context.needs_you("the optimizer is given by its name", event.module, event.node,
                              "make it, as in keras.optimizers.Adam(0.001)")  # fmt: skip
        elif not given.objs or not given.objs <= made:
            _not_seen(context, event)
    if not compiled:
        _not_seen(context, fit)


def _not_seen(context: Context, event: Event) -> None:
    context.needs_you("it was not seen where the optimizer of this is made", event.module, event.node,
                      f"put {context.engine(event.module)}.DistributedOptimizer around it")  # fmt: skip


RULE = Rule(
    CODE, "optimizers and rates",
    why="Without it each process trains a model of its own; with N times the batch and the old rate it learns more "
    "slowly.",
    safety="Every optimizer that is made. Each process keeps the batch that the script had, so that the global batch, "
    "and the rate, grow with their number; `--scale none` leaves the rate alone.",
    run=run,
)  # fmt: skip
