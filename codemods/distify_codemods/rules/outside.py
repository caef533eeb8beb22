"""NET01: rank 0 alone asks the world outside, and all ranks hear the answer."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import claims, own_tests
from distify_codemods.decisions.outside import Asking, Doing, askings, is_used
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.file_events import code_of, may_write, tells_only
from distify_codemods.inside import root
from distify_codemods.libraries import effects, outside
from distify_codemods.libraries.registry import Role, find, tracker
from distify_codemods.naming import brief
from distify_codemods.objects import Arguments, External
from distify_codemods.origins import Answer
from distify_codemods.program import Module
from distify_codemods.rules import data_caches
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.download import downloads
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.rules.once import once
from distify_codemods.scale import Scale
from distify_codemods.unfollowed import unfollowed
from distify_codemods.values import Value

CODE = "NET01"
_ONCE = "one process speaks to the world outside"
_FIX = (
    "let rank 0 ask where every rank comes by, with a function that returns plain data: "
    "`answer = rt.call_on_main_process(function, ...)`"
)


def run(context: Context) -> None:
    facts, found = context.facts, False
    for one in askings(facts):
        own = _is_under_an_own_test(context, one)
        if own:
            context.not_needed("what the script asks outside under a test of the rank, the others do not ask")
            found = True
        if own or _is_under_a_guard(context, one):
            continue
        found = True
        if one.doing is Doing.BLOCKED:
            context.needs_you(one.why, one.module, one.node, _FIX)
        elif one.doing is Doing.LEFT:
            context.advice("each rank asks here for the samples that it loads", one.module, one.node)
        elif context.editable(one.module, one.node, "the world outside is asked"):
            _write(context, one)
    found = _by_each(context) or found
    found = _on_processes(context) or found
    found = _debuggers(context) or found
    found = _unknown(context) or found
    if not found:
        told = _told_elsewhere(context)
        but = f", but by what {' and '.join(told)} name{'s' if len(told) == 1 else ''}" if told else ""
        context.not_needed(f"nobody outside of the process is asked, and nothing is sent{but}{claims.unless(facts)}")


def _debuggers(context: Context) -> bool:
    """Says of each once that nobody sits at the terminal of a rank."""
    found = {event.node: event for event in context.facts.calls(*outside.DEBUGGERS)}
    for event in found.values():
        context.advice(
            f"`{brief(event.node)}` stops for a person at a terminal, which ranks do not have: a run that comes here "
            "ends with an error; take it out, or look in one process", event.module, event.node,
        )  # fmt: skip
    return bool(found)


def _by_each(context: Context) -> bool:
    """Says of each kind once what every rank asks for itself."""
    found: dict[str, Event] = {}
    for event in context.facts.of_kind(Kind.CALL):
        asked = outside.is_asked_by_each(event.name) or tells_only(event) or _is_read_from_afar(event)
        if asked and not context.is_on_main(event.module, event.node):
            found.setdefault(event.name, event)
    afar = [call for call in unfollowed(context.facts) if call.asks]
    for call in afar[:1]:
        context.advice(
            f"whenever a library calls this, each rank asks somebody outside with `{call.code}`", call.module, call.node
        )
    answering = [call for call in unfollowed(context.facts) if call.answers]
    for call in answering[:1]:
        context.advice(
            f"whenever a library calls this, each rank runs a command with `{call.code}`, and reads its output: right "
            "if that does nothing but answer", call.module, call.node,
        )  # fmt: skip
    for event in found.values():
        context.advice(
            f"each rank calls `{code_of(event)}` for itself: if that does more than to answer, let rank 0 alone do it, "
            f"with `rt.call_on_main_process({code_of(event)}, ...)`", event.module, event.node,
        )  # fmt: skip
    return bool(found or afar or answering)


def _on_processes(context: Context) -> bool:
    """Says where every rank ends or stops processes that are not its own, once for each way to do so."""
    found: dict[str, Event] = {}
    for event in context.facts.of_kind(Kind.CALL, Kind.ATTRIBUTE):
        if _acts_on_a_process(context, event) and not context.is_on_main(event.module, event.node):
            called = event.node.func if isinstance(event.node, cst.Call) else event.node
            found.setdefault(brief(called), event)
    for code, event in found.items():
        context.advice(
            f"each rank calls `{code}` for itself: if that is for other processes of the machine than its own, let "
            "rank 0 alone do it, under `if rt.is_main_process():`", event.module, event.node,
        )  # fmt: skip
    return bool(found)


def _acts_on_a_process(context: Context, event: Event) -> bool:
    if event.kind is Kind.CALL:
        return event.name in outside.SIGNALS and not _is_its_own_number(event.arguments.first)
    called = event.module.parents.get(event.node)
    if not isinstance(called, cst.Call) or called.func is not event.node:
        return False
    asked = (one.site for one in event.receiver.sources if isinstance(one, Answer) and one.site is not None)
    listed = [] if event.receiver.objs else [found.name for site in asked for found in context.facts.run.at(site)]
    if any(outside.acts_on_a_process(name, event.name) for name in listed):
        return True  # one of those that were asked for
    for obj in map(root, event.receiver.objs):
        if isinstance(obj, External) and outside.acts_on_a_process(obj.name, event.name):
            given = obj.arguments or Arguments()
            number = given.get("pid", 0)
            own = obj.name == outside.PROCESS and (number is None or _is_its_own_number(number))
            if not own:
                return True
    return False


def _is_its_own_number(value: Value) -> bool:
    only = value.single()
    return value.is_none or (isinstance(only, External) and only.name == outside.OWN_NUMBER)


def _is_read_from_afar(event: Event) -> bool:
    """`pandas.read_csv("https://...")`."""
    texts = (value.constant() for value in event.arguments.all())
    return effects.reading(event.name) is not None and any(isinstance(one, str) and "://" in one for one in texts)


def _unknown(context: Context) -> bool:
    """Says of which calls it is not known whom they ask, all in one line."""
    found: dict[str, Event] = {}
    facts = context.facts
    told = {*context.named_writers, *may_write(facts)}  # what to do about those, OUT03 says
    trained = {*facts.models, *(one.obj for one in facts.optimizers)}  # which every rank has to make
    for event in claims.unknown_calls(facts):
        made = event in told or not trained.isdisjoint(event.value.objs) or _only_computes(facts, event)
        if not made and not context.is_on_main(event.module, event.node):
            found.setdefault(code_of(event), event)
    for first in list(found.values())[:1]:
        one = len(found) == 1
        context.advice(
            f"it is not known whether {_listed(list(found))} {'asks or tells' if one else 'ask or tell'} somebody "
            "outside of the process, as each rank would: if so, and only then, let rank 0 alone do it, with "
            "`rt.call_on_main_process(function, ...)`", first.module, first.node,
        )  # fmt: skip
    return bool(found)


def _only_computes(facts: Facts, event: Event) -> bool:
    """Whether it is given samples, and no name nor address, in a step that uses its result: the claim of this rule has
    its name, and nobody has to look.
    """
    samples = any(value.scale is not Scale.CONST for value in event.arguments.all())
    is_step = event.kind is Kind.CALL and facts.in_training(event) and is_used(event)
    return samples and is_step and not data_caches.may_be_given_text(facts, event.arguments)


def _listed(names: list[str]) -> str:
    shown = [f"`{name}`" for name in (names if len(names) < 4 else names[:2])]
    shown += [f"{len(names) - 2} others"] if len(names) > 3 else []
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)


def _told_elsewhere(context: Context) -> list[str]:
    """The rules that see to what else goes outside: downloads, uploads, logs of the experiment."""
    calls = context.facts.of_kind(Kind.CALL)
    sent = [
        event for event in context.facts.of_kind(Kind.CALL, Kind.METHOD)
        if outside.sends(event.name) or "push_to_hub" in event.arguments.keywords
    ]  # fmt: skip
    found = {
        "DATA03": any(map(downloads, calls)),
        "SAVE01": any(event.kind is Kind.METHOD for event in sent),
        "OUT04": any((api := find(event.name, Role.LOG_SINK)) is not None and api.online for event in calls),
        "OUT05": any((api := tracker(event.name)) is not None and api.online for event in calls),
        "OUT03": any(event.kind is Kind.CALL for event in sent) or any(outside.is_command(one.name) for one in calls),
    }
    return [code for code, named in found.items() if named]


def _is_under_a_guard(context: Context, one: Asking) -> bool:
    """Whether rank 0 comes here alone, or before the others, who may then not come at all."""
    return any(node in context.plan(module).guards for module, node in _ways_to(one))


def _is_under_an_own_test(context: Context, one: Asking) -> bool:
    return any(own_tests.lets_one_come(context.facts, module, node) for module, node in _ways_to(one))


def _ways_to(one: Asking) -> Iterator[tuple[Module, cst.CSTNode]]:
    if one.event is not None:
        yield from ((here.frame.module, here.node) for here in one.event.here.up() if not here.arm)
        yield from ((one.module, node) for node in (one.node, *one.module.enclosing(one.node)))


def _write(context: Context, one: Asking) -> None:
    assert isinstance(one.node, cst.Call)
    module = one.module
    if one.doing is Doing.HEARD:
        if context.call_for_all(module, one.node, one.why):
            context.applied("rank 0 asks, all ranks hear the answer", module, one.node)
    elif one.doing is Doing.MADE:
        context.call_alone(module, one.node, _ONCE)
        context.applied(f"rank 0 alone has what `{code_of_call(one)}` makes", module, one.node)
    elif one.event is not None:  # of a connection that rank 0 alone has, nothing is to be written
        once(context, one.event, _ONCE)
        context.applied("rank 0 alone sends", module, one.node)


def code_of_call(one: Asking) -> str:
    return code_of(one.event) if one.event is not None else ""


RULE = Rule(
    code=CODE,
    name="the world outside",
    why="A server that N ranks ask counts N questions, and may answer each otherwise; N messages say what one would.",
    safety="Rank 0 asks, and what comes back, or the error, goes to all ranks. Connections, clients and devices exist "
    "on rank 0; the others have something that takes every call. What is asked while samples are loaded is each "
    "rank's own; what not all ranks come to, what is awaited, and what is used otherwise, is left to a person.",
    run=run,
    pitfalls=(16,),
    examples=(
        Example(
            torch="import requests\n{torch}",
            group="""
              {group}
            - rate = requests.get("http://settings/rate").json()["rate"]
            + rate = rt.call_on_main_process(requests.get, "http://settings/rate").json()["rate"]
            """,
            optimizer="optimizer = torch.optim.SGD(model.parameters(), lr=rate)",
            end="""
            - requests.post("http://chat/hook", json={"text": "done"})
            + if rt.is_main_process():
            +     requests.post("http://chat/hook", json={"text": "done"})
            """,
        ),
        LeftAlone(),
    ),
)
