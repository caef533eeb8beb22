"""OUT05: one rank keeps the experiment's log."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.arguments import PARAMETERS, bound
from distify_codemods.events import Event, Kind
from distify_codemods.facts import wrapped
from distify_codemods.libraries import effects
from distify_codemods.plan import Rewrite
from distify_codemods.rules.base import Context, Rule, call_of
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.rules.once import once
from distify_codemods.rules.other_scripts import inside_wrap
from distify_codemods.values import External, Instance, Ref

CODE = "OUT05"
#: Libraries of which every call reports to somewhere, but for the one that has runs that do nothing.
_LIBRARIES = tuple(one for one in effects.TRACKERS if one != "wandb.")
#: What wandb leaves out by itself, once its run is a disabled one.
_WANDB_STARTS = frozenset({"wandb.login", "wandb.sync"})
_WANDB_AGENTS = frozenset({"wandb.agent", "wandb.sweep"})
#: Where a writer's files lie: the same on all ranks, if anybody asks.
_ANSWERS = ("log_dir", "logdir", "get_logdir")
_OF_A_RUN = frozenset({"dir", "name", "id", "path", "project"})


def run(context: Context) -> None:
    found = False
    for event in context.facts.of_kind(Kind.CALL):
        if event.name == "wandb.init":
            found = _wandb(context, event) or found
        elif event.name in _WANDB_AGENTS:
            found = True
            context.needs_you(
                "a sweep starts runs of its own, each of which would have to be a run of all ranks",
                event.module, event.node, "let the sweep's command be `distify run`",
            )  # fmt: skip
        elif event.name.startswith(_LIBRARIES) or event.name in _WANDB_STARTS or _is_of_a_subclass(event):
            found = _report(context, event) or found
    for event in context.facts.of_kind(Kind.METHOD):
        if event.name == "add_graph":
            _graph(context, event)
    if found:
        _names_of_runs(context)
    else:
        context.not_needed_if_known("no experiment tracker is used")


def _is_of_a_subclass(event: Event) -> bool:
    return event.name.startswith("local.") and any(
        isinstance(obj, Instance)
        and obj.of is not None
        and any(
            isinstance(base, Ref) and base.name.startswith(_LIBRARIES)
            for one in obj.of.ancestors()
            for value in one.bases
            for base in value.objs
        )
        for obj in event.value.objs
    )


def _report(context: Context, event: Event) -> bool:
    node, module = event.node, event.module
    if not isinstance(node, cst.Call) or not context.editable(module, node, "an experiment is logged"):
        return True
    asked = [name for name in _ANSWERS if _is_asked(context, event, name)]
    if asked:
        text = ", ".join(f'"{name}"' for name in asked)
        share = f"({text},)" if len(asked) == 1 else f"({text})"
        rewrite = call_of(f"{context.rt(module)}.main_process_only({{}}, share={share})")
        context.plan(module).hand_over(node.func, rewrite, CODE, "rank 0 logs; all ranks know where")
    else:
        once(context, event, CODE, "rank 0 logs")
    context.applied("rank 0 logs the experiment", module, node)
    return True


def _is_asked(context: Context, made: Event, name: str) -> bool:
    return any(
        event.name == name and any(obj in made.value.objs for obj in event.receiver.objs)
        for event in context.facts.of_kind(Kind.ATTRIBUTE)
    )


# ---- wandb has runs that do nothing


def _wandb(context: Context, event: Event) -> bool:
    node, module = event.node, event.module
    if not isinstance(node, cst.Call) or not context.editable(module, node, "an experiment is logged"):
        return True
    rt, plan = context.rt(module), context.plan(module)
    if event.arguments.double_star is not None and "mode" not in event.arguments.keywords:
        given = next(one.value for one in reversed(node.args) if one.star == "**")  # it may have a `mode`, too
        plan.replace(given, _with_mode(f"{rt}.is_main_process()"), CODE, "the other ranks' runs do nothing")
        context.applied("rank 0 logs the experiment", module, node)
        return True
    present = bound(node, PARAMETERS["wandb.init"]).get("mode")
    quiet: str | Rewrite = f'None if {rt}.is_main_process() else "disabled"'
    if present is not None and tree.code_of(present.value) != "None":
        quiet = _either(f"{rt}.is_main_process()")
    plan.set_keyword(node, "mode", quiet, CODE, "the other ranks' runs do nothing")
    context.applied("rank 0 logs the experiment", module, node)
    return True


def _either(test: str) -> Rewrite:
    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        if isinstance(updated, (cst.IfExp, cst.Lambda)) and not updated.lpar:
            updated = updated.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        return cst.IfExp(cst.parse_expression(test), updated, cst.SimpleString('"disabled"'))

    return rewrite


def _with_mode(test: str) -> Rewrite:
    """`{**kwargs, **({} if rt.is_main_process() else {"mode": "disabled"})}`."""

    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        quiet = cst.parse_expression(f'({{}} if {test} else {{"mode": "disabled"}})')
        return cst.Dict([cst.StarredDictElement(updated), cst.StarredDictElement(quiet)])

    return rewrite


def _names_of_runs(context: Context) -> None:
    """`wandb.run.dir` and the like: a disabled run makes up its own."""
    for event in context.facts.of_kind(Kind.ATTRIBUTE):
        of_run = any(isinstance(obj, External) and obj.name == "wandb.init" for obj in event.receiver.objs)
        of_module = any(isinstance(obj, Ref) and obj.name == "wandb.run" for obj in event.receiver.objs)
        node, module = event.node, event.module
        if event.name not in _OF_A_RUN or not (of_run or of_module) or not isinstance(node, cst.Attribute):
            continue
        stored = isinstance(module.parents.get(node), (cst.AssignTarget, cst.AugAssign))
        if not stored and not context.is_on_main(module, node) and context.editable(module, node, "a run is named"):
            rewrite = call_of(f"{context.rt(module)}.from_main_process({{}})")
            context.plan(module).tell(node, rewrite, CODE, "all ranks mean rank 0's run")


# ---- the graph of a model


def _graph(context: Context, event: Event) -> None:
    """Rank 0 alone draws it: not through the wrap, whose forward pass all ranks would have to join."""
    if not isinstance(event.node, cst.Call) or not event.node.args:
        return
    argument = event.node.args[0].value
    if wrapped(context.facts.value(argument)) and context.editable(event.module, argument, "a graph is drawn"):
        context.plan(event.module).replace(
            argument, inside_wrap(context, event.module, argument), CODE, "the model inside the wrap"
        )
    if any(wrap.sync_batchnorm for wrap in context.decisions.wraps):
        context.advice(
            "rank 0 alone draws the graph: call `model.eval()` first if it is drawn in training mode, where BatchNorm "
            "waits for the other ranks", event.module, event.node,
        )  # fmt: skip


RULE = Rule(
    code=CODE,
    name="experiment trackers",
    why="N ranks that report to one experiment write N curves over each other, or N experiments.",
    safety="What is made for the log (TensorBoard's writer, a run) exists on rank 0; the other ranks get something "
    "that takes every call and does nothing, wherever it is passed. Runs of wandb are disabled there.",
    run=run,
    pitfalls=(16,),
    examples=(
        Example(
            torch="{torch}\nfrom torch.utils.tensorboard import SummaryWriter",
            group="""
              {group}
            - writer = SummaryWriter("runs")
            + writer = rt.main_process_only(SummaryWriter)("runs")
            """,
            end="""
            - writer.add_scalar("loss", loss.item(), epoch)
            + writer.add_scalar("loss", rt.all_reduce_mean(loss.item()), epoch)
            """,
        ),
        Example(
            torch="{torch}\nimport wandb",
            group="""
              {group}
            - wandb.init(project="points")
            + wandb.init(project="points", mode=None if rt.is_main_process() else "disabled")
            """,
            end='wandb.log({"epochs": epoch})',
        ),
        Example(
            torch="{torch}\nimport mlflow",
            end="""
            - mlflow.log_param("epochs", 3)
            - mlflow.log_metric("done", 1)
            + if rt.is_main_process():
            +     mlflow.log_param("epochs", 3)
            +     mlflow.log_metric("done", 1)
            """,
        ),
        LeftAlone(),
    ),
)
