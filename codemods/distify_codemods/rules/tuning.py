"""Settings that a library tries out: each rank has a study of its own, in which all take what rank 0's chooses.

What is reported of a trial is the same on all ranks; what it chooses comes from random numbers of the library's own,
and from the trials that a storage holds.
"""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.arguments import bound
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import root
from distify_codemods.libraries import tuning
from distify_codemods.objects import External, Instance
from distify_codemods.rules.base import Context, call_of

_REASON = "each rank's study would try out something else"


def studies(facts: Facts) -> list[Event]:
    return facts.calls(*tuning.STUDIES)


def run(context: Context) -> None:
    found = studies(context.facts)
    for event in found:
        _storage(context, event)
    if found or any(event.name.startswith(tuning.LIBRARY) for event in context.facts.of_kind(Kind.CALL)):
        _runs(context)
        _choices(context)


def _storage(context: Context, event: Event) -> None:
    """Rank 0's study is the one that is kept."""
    given = bound(event.node, (tuning.STORAGE,)).get(tuning.STORAGE) if isinstance(event.node, cst.Call) else None
    if given is None or event.arguments.get(tuning.STORAGE, 0) is None:
        return
    if event.name in tuning.LOADED:
        context.needs_you(
            "a study is loaded that several processes share: each rank would run trials of its own in it",
            event.module, event.node, "let rank 0 alone have it, and hand its settings over by `rt.from_main_process`",
        )  # fmt: skip
    elif context.editable(event.module, event.node, "a study is made"):
        kept = call_of(f"{{}} if {context.rt(event.module)}.is_main_process() else None")
        context.plan(event.module).replace(given.value, kept, context.code, "rank 0 keeps the trials")
        context.applied("rank 0's study is the one that is kept", event.module, event.node)


def _runs(context: Context) -> None:
    for event in context.facts.of_kind(Kind.METHOD):
        if event.name != tuning.RUNS or not any(map(_is_a_study, event.receiver.objs)):
            continue
        for name, (place, harmless) in tuning.BY_ITSELF.items():
            value = event.arguments.get(name, place)
            if value is None or value.is_none or (harmless is not None and value.constant() == harmless):
                continue
            why = f"`{name}=` lets each rank run as many trials, or at such times, as it gets to"
            if isinstance(value.single(), Const):
                todo = f"run a number of trials, without `{name}=`"
                context.needs_you(why, event.module, event.node, todo)
            else:
                context.advice(f"if it is set, {why}: run a number of trials", event.module, event.node)


def _choices(context: Context) -> None:
    """`trial.suggest_float(...)`, `trial.should_prune()`, `study.best_params`."""
    asked = [
        event for event in context.facts.of_kind(Kind.ATTRIBUTE)
        if isinstance(event.node, cst.Attribute) and not any(isinstance(obj, Instance) for obj in event.receiver.objs)
    ]  # fmt: skip
    trials = {_holder(event) for event in asked if event.name in tuning.CHOOSES}
    for event in {event.node: event for event in asked}.values():
        node, module = event.node, event.module
        assert isinstance(node, cst.Attribute)
        call = module.parents.get(node)
        of_a_trial = event.name in tuning.OF_A_TRIAL and _holder(event) in trials
        told: cst.BaseExpression | None = None
        if event.name in tuning.CHOOSES or (event.name in tuning.TOLD_BY_A_CALL and _may_be_a_study(event)):
            told = call if isinstance(call, cst.Call) and call.func is node else None
        elif of_a_trial or (event.name in tuning.OF_A_STUDY and _may_be_a_study(event)):
            told = node
        if told is None or context.is_on_main(module, told) or not context.editable(module, told, "a setting is tried"):
            continue
        if context.tell(module, told, _REASON):
            context.applied("all ranks try out what rank 0's study chooses", module, told)


def _holder(event: Event) -> str:
    assert isinstance(event.node, cst.Attribute)
    return tree.code_of(event.node.value)


def _may_be_a_study(event: Event) -> bool:
    """A study that the script has made, or something of which nothing is known by such a name."""
    return all(map(_is_a_study, event.receiver.objs))


def _is_a_study(obj: Obj) -> bool:
    made = root(obj)
    return isinstance(made, (External, Ref)) and made.name in tuning.STUDIES
