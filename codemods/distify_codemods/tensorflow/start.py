"""TF01: Horovod is started, and each process takes one GPU."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.program import Module
from distify_codemods.rules.base import Context, Rule
from distify_codemods.tensorflow.found import Found, argument, is_starred

CODE = "TF01"
_PINNED = "each process takes the GPU of its local rank"


def run(context: Context) -> None:
    found, module, hvd = Found(context.facts), context.entry, context.engine(context.entry)
    first = _first_statement(module)
    if first is None:
        context.needs_you("this file does nothing but import what trains", module, module.tree,
                          f"call {hvd}.init() before that import")  # fmt: skip
        return
    plan, reason = context.plan(module), "the processes find each other before anything else happens"
    plan.insert_before(first, f"{hvd}.init()", CODE, reason, -11)
    context.applied("Horovod starts", module, first)
    if found.by_keras:
        tf = context.imported(module, "tf", "import tensorflow as {name}", 0)
        gpus = context.fresh(module, "gpus")
        plan.insert_before(first, f'{gpus} = {tf}.config.list_physical_devices("GPU")', CODE, _PINNED, -10)
        pinned = f'if {gpus}:\n    {tf}.config.set_visible_devices({gpus}[{hvd}.local_rank()], "GPU")\n'
        plan.insert_before(first, pinned, CODE, _PINNED, -9)
        context.applied(_PINNED, module, first)
    for event in (*found.monitored, *found.sessions):
        _pin(context, event.module, event.node)


def _first_statement(module: Module) -> cst.CSTNode | None:
    """What follows the imports with which the file begins."""
    body = module.tree.body
    place = max((place for place, one in enumerate(body) if tree.is_import(one)), default=-1) + 1
    return body[place] if place < len(body) else None


def _pin(context: Context, module: Module, call: cst.CSTNode) -> None:
    """`config=` of a session names the one GPU that it may use."""
    assert isinstance(call, cst.Call)
    statement, plan, hvd = module.statement(call), context.plan(module), context.engine(module)
    given = argument(call, "config")
    if is_starred(call):
        context.needs_you("what this session is given is not known", module, call,
                          f"set config.gpu_options.visible_device_list = str({hvd}.local_rank())")  # fmt: skip
        return
    named = given is not None and isinstance(given.value, (cst.Name, cst.Attribute))
    if given is not None and named:
        config = tree.code_of(given.value)
    else:
        config = context.fresh(module, "config")
        made = tree.code_of(given.value) if given is not None else f"{_library(call)}.ConfigProto()"
        plan.insert_before(statement, f"{config} = {made}", CODE, _PINNED, -2)
        plan.set_keyword(call, "config", config, CODE, _PINNED)
    pinned = f"{config}.gpu_options.visible_device_list = str({hvd}.local_rank())"
    plan.insert_before(statement, pinned, CODE, _PINNED, -1)
    context.applied(_PINNED, module, call)


def _library(call: cst.Call) -> str:
    """`tf` of `tf.Session(…)` and of `tf.train.MonitoredTrainingSession(…)`."""
    owner = (tree.dotted(call.func) or "tf.Session").rpartition(".")[0]
    return owner.removesuffix(".train")


RULE = Rule(
    CODE, "start and GPUs",
    why="Processes that all see every GPU fill the memory of all of them.",
    safety="`hvd.init()` follows the imports. Sessions are told in their configuration, Keras before it looks for a "
    "device.",
    run=run,
)  # fmt: skip
