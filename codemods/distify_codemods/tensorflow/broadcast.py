"""TF03: all processes begin with the weights of the first."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.events import Event
from distify_codemods.objects import Sequence
from distify_codemods.program import Module
from distify_codemods.rules.base import Context, Rule
from distify_codemods.tensorflow.found import Found, argument, is_of, is_starred

CODE = "TF03"
_SENT = "all processes begin with the first one's weights"
_INITIALIZER = r"tensorflow(?:\.compat\.v1)?\.(?:global_variables_initializer|initialize_all_variables)"


def run(context: Context) -> None:
    found = Found(context.facts)
    for event in found.monitored:
        hook = f"{context.engine(event.module)}.BroadcastGlobalVariablesHook(0)"
        _add_to_list(context, event, "hooks", None, [hook])
    for event in found.sessions:
        _after_initializing(context, found, event)
    for event in found.fits:
        hvd = context.engine(event.module)
        calls = ("BroadcastGlobalVariablesCallback(0)", "MetricAverageCallback()")
        _add_to_list(context, event, "callbacks", 5, [f"{hvd}.callbacks.{one}" for one in calls])


def _add_to_list(context: Context, event: Event, name: str, position: int | None, added: list[str]) -> None:
    """At the beginning of a list of hooks or callbacks, where it is written or where it is given."""
    module, call, plan = event.module, event.node, context.plan(event.module)
    assert isinstance(call, cst.Call)
    given = argument(call, name, position)
    if is_starred(call):
        context.needs_you(f"what `{name}` is given is not known", module, call, f"put {', '.join(added)} into it")
        return
    context.applied(_SENT, module, call)
    if given is None or (isinstance(given.value, cst.Name) and given.value.value == "None"):
        if given is None:
            plan.set_keyword(call, name, f"[{', '.join(added)}]", CODE, _SENT)
        else:
            plan.replace(given.value, lambda _: context.text(module, f"[{', '.join(added)}]"), CODE, _SENT)
        return
    literal = given.value if isinstance(given.value, cst.List) else _written_at(context, module, given.value)
    if literal is None:
        text = f"[{', '.join(added)}, *{tree.code_of(given.value)}]"
        plan.replace(given.value, lambda _: context.text(module, text), CODE, _SENT)
        return
    elements = [cst.Element(context.text(module, one)) for one in added]
    plan.replace(literal, lambda updated: _with_first(updated, elements), CODE, _SENT)


def _written_at(context: Context, module: Module, node: cst.BaseExpression) -> cst.List | None:
    only = context.facts.value(node).single()
    site = only.site if isinstance(only, Sequence) else None
    return site if isinstance(site, cst.List) and site in module.parents else None


def _with_first(updated: cst.BaseExpression, elements: list[cst.Element]) -> cst.BaseExpression:
    assert isinstance(updated, cst.List)
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    last = elements[-1].with_changes(comma=comma if updated.elements else cst.MaybeSentinel.DEFAULT)
    new = [*(one.with_changes(comma=comma) for one in elements[:-1]), last]
    return updated.with_changes(elements=[*new, *updated.elements])


def _after_initializing(context: Context, found: Found, event: Event) -> None:
    """`session.run(tf.global_variables_initializer())` is followed by a line that sends the weights."""
    started = False
    for ran in found.methods(r"tensorflow.*Session", "run"):
        given = ran.arguments.get("fetches", 0)
        if given is not None and ran.receiver.objs & event.value.objs and is_of(given, _INITIALIZER):
            assert isinstance(ran.node, cst.Call)
            assert isinstance(ran.node.func, cst.Attribute)
            hvd = context.engine(ran.module)
            line = f"{tree.code_of(ran.node.func)}({hvd}.broadcast_global_variables(0))"
            context.plan(ran.module).insert_after(ran.module.statement(ran.node), line, CODE, _SENT)
            context.applied(_SENT, ran.module, ran.node)
            started = True
    if not started:
        context.needs_you(
            "it was not seen where this session gives variables their first values", event.module, event.node,
            f"follow that by session.run({context.engine(event.module)}.broadcast_global_variables(0))",
        )  # fmt: skip


RULE = Rule(
    CODE, "first weights",
    why="Processes that begin with other weights each average gradients of different models.",
    safety="A hook of monitored sessions, a line after the variables of other sessions have their values, a callback "
    "of Keras, whose metrics are averaged as well.",
    run=run,
)  # fmt: skip
