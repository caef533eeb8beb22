"""OUT05: one rank keeps the experiment's log."""

from __future__ import annotations

import libcst as cst

from distify_codemods.allocation import Ref
from distify_codemods.arguments import bound
from distify_codemods.events import Event, Kind
from distify_codemods.facts import wrapped
from distify_codemods.inside import root
from distify_codemods.libraries.registry import Api, Role, find, tracker
from distify_codemods.objects import External, Instance
from distify_codemods.plan import Rewrite
from distify_codemods.rules.base import Context, Rule, call_of
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.rules.once import once
from distify_codemods.rules.other_scripts import inside_wrap

CODE = "OUT05"


def run(context: Context) -> None:
    found, of_rank_zero = False, _of_runs_of_rank_zero(context)
    for event in context.facts.of_kind(Kind.CALL):
        known = tracker(event.name) or _of_its_bases(event)
        if known is None or (known.role is Role.OF_A_RUN and event not in of_rank_zero):
            continue
        if known.role is Role.FOR_ALL and not known.advice:
            continue
        found = True
        if known.role is Role.FOR_ALL:
            context.advice(known.advice, event.module, event.node)
        elif isinstance(event.module.parents.get(event.node), cst.Decorator):
            context.advice("what this decorates runs on each rank, and reports there", event.module, event.node)
        elif known.role is Role.AGENT:
            context.needs_you(
                "a sweep starts runs of its own, each of which would have to be a run of all ranks",
                event.module, event.node, "let the sweep's command be `distify run`",
            )  # fmt: skip
        elif known.role is Role.RUN:
            _run(context, event, known)
        else:
            _report(context, event, known)
    for event in context.facts.of_kind(Kind.METHOD):
        if event.name == "add_graph":
            _graph(context, event)
    logged = [event for event in context.facts.of_kind(Kind.CALL) if _logs_to_a_run(event)]
    if found:
        _told(context)
    elif logged:
        context.advice("the run is made out of sight: each rank logs to one", logged[0].module, logged[0].node)
    else:
        context.not_needed_if_known("no experiment tracker is used")


def _logs_to_a_run(event: Event) -> bool:
    known = tracker(event.name)
    return known is not None and known.role is Role.OF_A_RUN and event.name.endswith(".log")


def _of_runs_of_rank_zero(context: Context) -> set[Event]:
    """What reports to a run that is begun on rank 0 alone: elsewhere there is none, not even one that does nothing."""
    calls = [(event, known) for event in context.facts.of_kind(Kind.CALL) if (known := tracker(event.name)) is not None]
    begun = tuple({known.begins for _, known in calls if known.begins})
    made = [event for event, known in calls if known.role is Role.RUN]
    reports = [event for event, known in calls if known.role is Role.OF_A_RUN and event.name.startswith(begun)]
    return {event for event in reports if begun and not any(_makes_its_run(one, event) for one in made)}


def _makes_its_run(made: Event, report: Event) -> bool:
    """Whether each rank has made a run of that library, whenever something is reported."""
    of_its_library = made.name.partition(".")[0] == report.name.partition(".")[0]
    return of_its_library and made.before(report) and made.here.conditions() <= report.here.conditions()


def _of_its_bases(event: Event) -> Api | None:
    """What is known of a tracker's class that a class of the script's own derives from."""
    bases = (
        base.name
        for obj in event.value.objs
        if event.name.startswith("local.") and isinstance(obj, Instance) and obj.of is not None
        for one in obj.of.ancestors()
        for value in one.bases
        for base in value.objs
        if isinstance(base, Ref)
    )
    return next((known for name in bases if (known := find(name, Role.TRACKER)) is not None), None)


def _report(context: Context, event: Event, known: Api) -> None:
    node, module = event.node, event.module
    if not isinstance(node, cst.Call) or not context.editable(module, node, "an experiment is logged"):
        return
    asked = [name for name in known.answers.split() if _is_asked(context, event, name)]
    if asked:
        text = ", ".join(f'"{name}"' for name in asked)
        share = f"({text},)" if len(asked) == 1 else f"({text})"
        context.call_alone(module, node, "rank 0 logs; all ranks know where", f", share={share}")
    else:
        once(context, event, "rank 0 logs")
    context.applied("rank 0 logs the experiment", module, node)


def _is_asked(context: Context, made: Event, name: str) -> bool:
    return any(
        event.name == name and any(obj in made.value.objs for obj in event.receiver.objs)
        for event in context.facts.of_kind(Kind.ATTRIBUTE)
    )


# ---- runs that can be told to do nothing


def _run(context: Context, event: Event, known: Api) -> None:
    node, module = event.node, event.module
    if not isinstance(node, cst.Call) or not context.editable(module, node, "an experiment is logged"):
        return
    test, plan = f"{context.rt(module)}.is_main_process()", context.plan(module)
    reason = "the other ranks' runs do nothing"
    if event.arguments.double_star is not None and "mode" not in event.arguments.keywords:
        given = next(one.value for one in reversed(node.args) if one.star == "**")  # it may have a `mode`, too
        plan.replace(given, _with_mode(test, known.quiet), CODE, reason)
    else:
        present = bound(node, known.parameters.split()).get("mode")
        if present is None:
            plan.set_keyword(node, "mode", f'None if {test} else "{known.quiet}"', CODE, reason)
        else:
            plan.replace(present.value, call_of(f'{{}} if {test} else "{known.quiet}"'), CODE, reason)
    context.applied("rank 0 logs the experiment", module, node)


def _with_mode(test: str, mode: str) -> Rewrite:
    """`{**kwargs, **({} if rt.is_main_process() else {"mode": "disabled"})}`."""

    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        quiet = cst.parse_expression(f'({{}} if {test} else {{"mode": "{mode}"}})')
        return cst.Dict([cst.StarredDictElement(updated), cst.StarredDictElement(quiet)])

    return rewrite


def _told(context: Context) -> None:
    """`wandb.run.dir` and the like: a run that does nothing makes up its own, and where there is none, nobody knows."""
    for event in context.facts.of_kind(Kind.ATTRIBUTE, Kind.METHOD):
        objs = map(root, event.receiver.objs) if event.kind is Kind.METHOD else event.receiver.objs
        made = [obj.name for obj in objs if isinstance(obj, (External, Ref))]
        known = next(filter(None, map(tracker, made)), None)
        node, module = event.node, event.module
        if known is None or event.name not in known.tells.split() or not isinstance(node, cst.BaseExpression):
            continue
        holder = module.parents.get(node)
        called = isinstance(holder, cst.Call) and holder.func is node
        unused = called or isinstance(holder, (cst.AssignTarget, cst.AugAssign, cst.Expr))
        if not unused and not context.is_on_main(module, node) and context.editable(module, node, "a run is named"):
            context.tell(module, node, "all ranks mean rank 0's run")


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
            group='+ rt.init_process_group(own_random=["mlflow"])',
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
