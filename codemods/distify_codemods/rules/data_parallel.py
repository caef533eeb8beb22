"""OLD01: nn.DataParallel gives way to DistributedDataParallel."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.arguments import bound
from distify_codemods.decisions.prefixes import holder
from distify_codemods.events import Event, Kind
from distify_codemods.facts import wrapped
from distify_codemods.libraries import distributed, python
from distify_codemods.libraries.parallel import OF_LIBRARIES, WALKS
from distify_codemods.naming import brief
from distify_codemods.objects import Instance
from distify_codemods.plan import Rewrite
from distify_codemods.program import Module
from distify_codemods.rules import replicas
from distify_codemods.rules.base import Context, Rule, call_of
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.rules.other_scripts import not_shared
from distify_codemods.rules.replica_inputs import are_moved

CODE = "OLD01"
#: Those of the script's own, of one process and of many.
_MOVING = "nn.DataParallel moved what the model is called with to its GPU"
_REASON = "one process per GPU takes the place of one process for all of them"


def run(context: Context) -> None:
    found = context.facts.calls(*distributed.AROUND, *OF_LIBRARIES)
    for event in found:
        node, module = event.node, event.module
        assert isinstance(node, cst.Call)
        what = "nn.DataParallel is used"
        if not context.editable(module, node, what) or not not_shared(context, module, node, what):
            continue
        given = bound(node, ("module",)).get("module")
        if given is None:
            context.needs_you("nn.DataParallel is given its arguments unseen", module, node, "name the model")
            continue
        inner, parent = given.value, module.parents[node]
        if node in context.decisions.parts or event.name in OF_LIBRARIES:
            _keep(context, event)
            continue
        if not are_moved(context, context.facts.value(inner)):
            context.plan(module).replace(node, _moving(context.rt(module)), CODE, _MOVING)
        elif (
            isinstance(parent, cst.Assign)
            and len(parent.targets) == 1
            and tree.code_of(parent.targets[0].target) == tree.code_of(inner)
        ):
            context.plan(module).remove(parent, CODE, _REASON)
        else:
            context.plan(module).replace(node, _module_argument, CODE, _REASON)
        context.applied("nn.DataParallel is gone", module, node)
    _module_before_wrap(context)
    _walks(context)
    _checkpoints(context)
    if not replicas.run(context) and not found:
        context.not_needed("the script does not use nn.DataParallel")


def _keep(context: Context, event: Event) -> None:
    """Around a part of a module, or with batches of a form of its own, it stays, on the GPU of the rank."""
    node, module = event.node, event.module
    assert isinstance(node, cst.Call)
    if not context.decisions.parts.get(node, True):
        context.needs_you(
            "nn.DataParallel goes around models and around parts of modules here: it gives way to the wrap of a model, "
            "and stays around a part", module, node, "wrap models and parts in lines of their own",
        )  # fmt: skip
        return
    context.plan(module).replace(node, _on_one(context.rt(module)), CODE, "a rank has one GPU; the keys stay")
    what = "DataParallel of a library" if event.name in OF_LIBRARIES else "nn.DataParallel around a part of a model"
    context.applied(f"{what} stays, on the one GPU of the rank", module, node)


def _on_one(rt: str) -> Rewrite:
    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        assert isinstance(updated, cst.Call)
        call = call_of(f"wrap({{}}, device_ids=[{rt}.gpu_index()])")(_module_argument(updated))
        return call.with_changes(func=updated.func)

    return rewrite


def _module_argument(updated: cst.BaseExpression) -> cst.BaseExpression:
    assert isinstance(updated, cst.Call)
    return bound(updated, ("module",))["module"].value


def _moving(rt: str) -> Rewrite:
    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        return call_of(f"{rt}.inputs_to_device({{}})")(_module_argument(updated))

    return rewrite


def _module_before_wrap(context: Context) -> None:
    """`.module` where the model is not wrapped yet: there is nothing to reach through."""
    if not context.facts.calls(*distributed.AROUND):
        return
    for event in context.facts.of_kind(Kind.ATTRIBUTE):
        models = [obj for obj in event.receiver.objs if obj in context.facts.models]
        through = context.decisions.reached_through.get(event.node, bool(models))
        if event.name != "module" or not through or wrapped(event.receiver) or _stays_around(event):
            continue
        assert isinstance(event.node, cst.Attribute)
        if context.editable(event.module, event.node, "`.module` is used"):
            context.plan(event.module).replace(event.node, _inner, CODE, "nothing is wrapped yet")


def _stays_around(event: Event) -> bool:
    """Of an object of a class that is derived from nn.DataParallel, and does more than that."""
    return any(
        isinstance(obj, Instance) and obj.of is not None and obj.of.derives_from(*distributed.AROUND)
        for obj in event.receiver.objs
    )  # fmt: skip


def _inner(updated: cst.BaseExpression) -> cst.BaseExpression:
    assert isinstance(updated, cst.Attribute)
    return updated.value


def _walks(context: Context) -> None:
    """`model.children()` of nn.DataParallel was the model itself: of a wrap it is still; else it is spelled out."""
    reached: dict[cst.CSTNode, list[Event]] = {}
    for event in context.facts.of_kind(Kind.ATTRIBUTE, Kind.CALL):
        if event.node in context.decisions.walked:
            reached.setdefault(event.node, []).append(event)
    for node, events in reached.items():
        module = events[0].module
        inside = [bool(wrapped(holder(event))) for event in events]
        if all(inside) or not context.editable(module, node, f"`{brief(node)}` is used"):
            continue
        read, pattern = _read(module, node), WALKS[node.attr.value] if isinstance(node, cst.Attribute) else "{}"
        if any(inside) or not pattern or read is None:
            context.needs_you(
                f"`{brief(node)}` goes through nn.DataParallel, which will be gone: the model was one step further in",
                module, node, "reach into the model itself: `.module`",
            )  # fmt: skip
        else:
            reason = "it goes through nn.DataParallel, which is gone: the model itself is one step further in"
            context.plan(module).replace(read, _spelled_out(pattern), CODE, reason)


def _read(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """`model.children()`, `model._modules`: the expression that reads it, if nothing is given or set."""
    if not isinstance(node, cst.Attribute):
        return node if isinstance(node, cst.Call) else None
    parent = module.parents[node]
    if node.attr.value != "_modules":
        return parent if isinstance(parent, cst.Call) and parent.func is node and not parent.args else None
    above = module.parents[parent] if isinstance(parent, cst.Subscript) else parent
    changed = isinstance(parent, cst.Attribute) and parent.attr.value not in (*python.ALL_ENTRIES, "keys", "get")
    return None if changed or isinstance(above, (cst.AssignTarget, cst.AugAssign, cst.Del)) else node


def _spelled_out(pattern: str) -> Rewrite:
    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        walk = updated.func if isinstance(updated, cst.Call) else updated
        if isinstance(walk, cst.Attribute):
            return call_of(pattern)(walk.value)
        assert isinstance(updated, cst.Call)
        return updated.args[0].value  # of getattr

    return rewrite


def _checkpoints(context: Context) -> None:
    """Checkpoints of nn.DataParallel have `module.` before each key."""
    reason = "checkpoints of nn.DataParallel have `module.` before each key"
    for event in context.facts.of_kind(Kind.METHOD):
        node, always = event.node, context.decisions.prefixed.get(event.node)
        if always is None or not isinstance(node, cst.Call) or (always and wrapped(event.receiver)):
            continue  # the wrap has the prefix, and expects it
        if event.name == "load_state_dict" and node.args:
            if context.editable(event.module, node, "a checkpoint is loaded"):
                context.put_into(event.module, node.args[0].value, "strip_module_prefix({})", reason)
        elif event.name == "state_dict" and always and context.editable(event.module, node, "a checkpoint is made"):
            context.put_into(event.module, node, "add_module_prefix({})", reason)
    if any(not always for always in context.decisions.prefixed.values()):
        context.advice("checkpoints are written without `module.` on every machine, and read with or without it")


RULE = Rule(
    code=CODE,
    name="nn.DataParallel",
    why="A model in nn.DataParallel inside DistributedDataParallel is wrapped twice and would use every GPU "
    "from every process.",
    safety="Taken out, but for one around a part of a model: it stays, on the one GPU of the rank, with its keys. "
    "Where the script leaves it to nn.DataParallel to move a batch to the GPU, "
    "`rt.inputs_to_device(model)` does so. What goes through it by `children()` and the like sees the model as before. "
    "Where a checkpoint was always written with `module.` before its keys, it "
    "still is. Copies made by hand (`replicate`) are left out by the test for several GPUs that they stand "
    "under; without one they need you.",
    run=run,
    pitfalls=(39,),
    examples=(
        Example(
            wrap="""
              {wrap}
            - if torch.cuda.device_count() > 1:
            -     model = nn.DataParallel(model)
            """,
            end="""
            - torch.save(model.state_dict(), "model.pt")
            + if rt.is_main_process():
            +     torch.save(model.module.state_dict(), "model.pt")
            """,
        ),
        Example(
            wrap="""
            - model = nn.DataParallel(model, device_ids=[0, 1])
              {wrap}
            """,
            end="""
            - torch.save(model.state_dict(), "model.pt")
            + if rt.is_main_process():
            +     torch.save(model.state_dict(), "model.pt")
            """,
        ),
        LeftAlone(),
    ),
)
