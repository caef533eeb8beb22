"""TF04: each process learns from its part of the data, and counts its part of the steps."""

from __future__ import annotations

import re

import libcst as cst

from distify_codemods import tree
from distify_codemods.events import Event, Kind
from distify_codemods.rules.base import Context, Rule
from distify_codemods.tensorflow.found import Found, argument, code_in_brackets, is_of, is_starred
from distify_codemods.values import Value

CODE = "TF04"
_SHARD = "each process reads its own part of the data"
_STEPS = "as many samples as before, in steps of as many batches as there are processes"
_FINITE = (".from_tensor_slices", ".range")
_DATASET = r"tensorflow(?:\.compat\.v[12])?\.data\."
_STOPS = re.compile(r"tensorflow(?:\.compat\.v1)?\.train\.StopAtStepHook")


def run(context: Context) -> None:
    found = Found(context.facts)
    fed = {node for fit in found.fits for one in _data_of(fit) for node in found.origins(one)}
    trained_on = [one for one in found.datasets
                  if one.node in fed or (not found.by_keras and _is_trained_on(found, one))]  # fmt: skip
    for event in trained_on:
        _shard(context, found, event)
    known = {one.node for one in trained_on}
    for event in found.fits:
        if any(is_of(one, _DATASET) and not found.origins(one) <= known for one in _data_of(event)):
            _not_followed(context, event)
        _slice(context, event)
        _divide(context, event, "steps_per_epoch", None)
    for event in context.facts.of_kind(Kind.CALL):
        if _STOPS.fullmatch(event.name):
            _divide(context, event, "num_steps", 0)
            _divide(context, event, "last_step", 1)
    if not found.by_keras and not trained_on:
        _not_followed(context, (found.monitored or found.sessions)[0])


def _not_followed(context: Context, event: Event) -> None:
    context.needs_you("where the batches of this training come from was not followed to a tf.data.Dataset",
                      event.module, event.node, "give each process its own part of the data")  # fmt: skip


def _data_of(fit: Event) -> list[Value]:
    given = (fit.arguments.get("x", 0), fit.arguments.get("y", 1))
    return [one for one in given if one is not None]


def _is_trained_on(found: Found, event: Event) -> bool:
    """The only one, or one that goes round and round or is shuffled; others are looked at as a whole."""
    return len(found.datasets) == 1 or bool({"repeat", "shuffle", "shuffle_and_repeat"} & found.made_of(event))


def _shard(context: Context, found: Found, event: Event) -> None:
    module, call, plan = event.module, event.node, context.plan(event.module)
    assert isinstance(call, cst.Call)
    hvd = context.engine(module)
    shard = f"shard({hvd}.size(), {hvd}.rank())"
    if "repeat" in found.made_of(event):
        plan.replace(call, lambda updated: _method(context, updated, shard), CODE, _SHARD)
    elif found.by_keras and event.name.endswith(_FINITE):
        name = context.fresh(module, "dataset")
        plan.insert_before(module.statement(call), f"{name} = {tree.code_of(call)}", CODE, _SHARD)
        text = f"{name}.take(len({name}) // {hvd}.size() * {hvd}.size()).{shard}"
        plan.replace(call, lambda _: context.text(module, text), CODE, _SHARD)
    else:
        context.needs_you(
            "the processes might take different numbers of steps, and wait for each other for ever: how long this data "
            "set is is not known, and it is not repeated", module, call,
            f"share it out by .{shard}, and see that all shares are of equal length",
        )  # fmt: skip
        return
    context.applied(_SHARD, module, call)


def _method(context: Context, updated: cst.BaseExpression, code: str) -> cst.BaseExpression:
    called = cst.parse_expression(f"_.{code}")
    assert isinstance(called, cst.Call)
    assert isinstance(called.func, cst.Attribute)
    return called.with_changes(func=called.func.with_changes(value=updated))


def _slice(context: Context, event: Event) -> None:
    """`model.fit(x, y)` with arrays: equal parts, since each process has to take as many steps."""
    module, call, plan = event.module, event.node, context.plan(event.module)
    values = _data_of(event)
    if any(is_of(one, _DATASET) for one in values):
        return
    given = [one.value for one in (argument(call, "x", 0), argument(call, "y", 1)) if one is not None]
    plain = given and not is_starred(call) and all(isinstance(one, (cst.Name, cst.Attribute)) for one in given)
    if not plain or any(is_of(one, r".*(?:flow\w*|Sequence|Generator)$") for one in values):
        context.needs_you("how this data can be shared out is not known", module, call,
                          "give each process its own part of it, all of equal length")  # fmt: skip
        return
    hvd, share = context.engine(module), context.fresh(module, "share")
    end = f"len({tree.code_of(given[0])}) // {hvd}.size() * {hvd}.size()"
    line = f"{share} = slice({hvd}.rank(), {end}, {hvd}.size())"
    plan.insert_before(module.statement(call), line, CODE, _SHARD)
    for node in given:
        plan.replace(node, lambda updated: context.text(module, f"{tree.code_of(updated)}[{share}]"), CODE, _SHARD)
    context.applied(_SHARD, module, call)


def _divide(context: Context, event: Event, name: str, position: int | None) -> None:
    given = argument(event.node, name, position)
    none = given is not None and isinstance(given.value, cst.Name) and given.value.value == "None"
    if given is None or none:
        return
    text = f"{code_in_brackets(given.value)} // {context.engine(event.module)}.size()"
    module = event.module
    context.plan(module).replace(given.value, lambda _: context.text(module, text), CODE, _STEPS)
    context.applied(_STEPS, module, given)


RULE = Rule(
    CODE, "data and steps",
    why="Processes that all read everything do the same work N times over, on one and the same batch after the other.",
    safety="Data sets of tf.data are sharded where they begin, arrays of `fit` are sliced. Shares are of equal length, "
    "or repeated: a process that takes a step less than the others leaves them waiting for ever.",
    run=run,
)  # fmt: skip
