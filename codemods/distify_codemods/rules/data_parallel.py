"""OLD01: nn.DataParallel gives way to DistributedDataParallel."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.arguments import bound
from distify_codemods.events import Kind
from distify_codemods.facts import wrapped
from distify_codemods.rules.base import Context, Rule, call_of

CODE = "OLD01"
_REASON = "one process per GPU takes the place of one process for all of them"


def run(context: Context) -> None:
    found = context.facts.calls("torch.nn.DataParallel")
    for event in found:
        node, module = event.node, event.module
        assert isinstance(node, cst.Call)
        if not context.editable(module, node, "nn.DataParallel is used"):
            continue
        given = bound(node, ("module",)).get("module")
        if given is None:
            context.needs_you("nn.DataParallel is given its arguments unseen", module, node, "name the model")
            continue
        inner, parent = given.value, module.parents[node]
        if (
            isinstance(parent, cst.Assign)
            and len(parent.targets) == 1
            and tree.code_of(parent.targets[0].target) == tree.code_of(inner)
        ):
            context.plan(module).remove(parent, CODE, _REASON)
        else:
            context.plan(module).replace(node, _module_argument, CODE, _REASON)
        context.applied("nn.DataParallel is gone", module, node)
    _module_before_wrap(context)
    _checkpoints(context)
    if not found:
        context.not_needed("the script does not use nn.DataParallel")


def _module_argument(updated: cst.BaseExpression) -> cst.BaseExpression:
    assert isinstance(updated, cst.Call)
    return bound(updated, ("module",))["module"].value


def _module_before_wrap(context: Context) -> None:
    """`.module` where the model is not wrapped yet: there is nothing to reach through."""
    if not context.facts.calls("torch.nn.DataParallel"):
        return
    for event in context.facts.of_kind(Kind.ATTRIBUTE):
        models = [obj for obj in event.receiver.objs if obj in context.facts.models]
        if event.name != "module" or not models or wrapped(event.receiver):
            continue
        assert isinstance(event.node, cst.Attribute)
        if context.editable(event.module, event.node, "`.module` is used"):
            context.plan(event.module).replace(event.node, _inner, CODE, "nothing is wrapped yet")


def _inner(updated: cst.BaseExpression) -> cst.BaseExpression:
    assert isinstance(updated, cst.Attribute)
    return updated.value


def _checkpoints(context: Context) -> None:
    """Checkpoints of nn.DataParallel have `module.` before each key."""
    for event in context.facts.of_kind(Kind.METHOD):
        if event.name != "load_state_dict" or event.node not in context.decisions.prefixed:
            continue
        node = event.node
        always = context.decisions.prefixed[node]
        if always and wrapped(event.receiver):
            continue  # the wrap expects the prefix
        assert isinstance(node, cst.Call)
        if node.args and context.editable(event.module, node, "a checkpoint is loaded"):
            rt = context.rt(event.module)
            context.plan(event.module).replace(
                node.args[0].value, call_of(f"{rt}.strip_module_prefix({{}})"), CODE, "checkpoints of "
                                                                                      "nn.DataParallel have "
                                                                                      "`module.` before each key"
            )  # fmt: skip
    if any(not always for always in context.decisions.prefixed.values()):
        context.advice("checkpoints are written without `module.` on every machine, and read with or without it")


RULE = Rule(
    code=CODE,
    name="nn.DataParallel",
    why="A model in nn.DataParallel inside DistributedDataParallel is wrapped twice and would use every GPU "
    "from every process.",
    safety="Taken out wherever it stands. Where a checkpoint was always written with `module.` before its keys, "
    "it still is.",
    run=run,
    pitfalls=(39,),
)
