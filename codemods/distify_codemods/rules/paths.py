"""PATH01: all ranks mean the same file, and find it there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from distify_codemods import file_events, tree
from distify_codemods.answers import answered_once
from distify_codemods.decisions import entropy, outside
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.file_events import code_of, path_of, reads
from distify_codemods.file_names import may_be_same
from distify_codemods.inside import values_in
from distify_codemods.interpreter import files
from distify_codemods.libraries import effects, listings
from distify_codemods.libraries import paths as table
from distify_codemods.libraries.checkpoints import LOAD
from distify_codemods.libraries.torch_data import LOADERS
from distify_codemods.objects import Instance
from distify_codemods.origins import Origin
from distify_codemods.program import Module
from distify_codemods.rules import as_a_whole, disk, handed_over, waits
from distify_codemods.rules.base import Context, Rule, instead
from distify_codemods.rules.contended import contended
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.run_folders import run_folders
from distify_codemods.unfollowed import Unfollowed, unfollowed
from distify_codemods.values import Value
from distify_codemods.wholes import asked_in_one

CODE = "PATH01"
_NONE_READ = "no file is read that the run wrote"


def run(context: Context) -> None:
    as_a_whole.run(context)
    found = _own_values(context)
    found = _questions(context) or found
    found = _decisions(context) or found
    found = waits.run(context) or found
    handed_over.advise(context)
    if not found and run_folders(context.facts):
        context.not_needed(f"{_NONE_READ}, unless below the output folder that OUT03 names")
    elif not found:
        what = "no other file is read that the run wrote than LOAD01 waits for" if context.barriers else _NONE_READ
        context.not_needed_if_known(f"{_said_of_paths(context)}{what}{_read_later(context)}")


def _said_of_paths(context: Context) -> str:
    asked = [one for one in context.facts.of_kind(Kind.CALL, Kind.METHOD) if listings.is_of_the_disk(one.name)]
    if not asked:
        return "every path is the same on all ranks, and "
    made = any(disk.may_be_made(context, one) for one in asked)
    return "" if made else "what the disk is asked was there before the run, and "


def _read_later(context: Context) -> str:
    """Which call may do so after all, in a function that a library calls, of a file that is written before that."""
    facts = context.facts
    called = (event for event in facts.of_kind(Kind.CALL, Kind.METHOD) if handed_over.reads_later(context, event))
    for event in called if context.files_written else ():
        return f", unless by `{code_of(event)}` at {event.module.place(event.node)}, in what a library calls"
    until = (*facts.of_kind(Kind.PASS, Kind.FORWARD), *facts.backwards)
    written = [one for one in context.files_written if any(waits.may_come_before(one, event) for event in until)]
    for call in unfollowed(facts) if written else ():
        path = next((tree.string(one.value) for one in call.node.args), None)
        if call.reads and any(may_be_same(path_of(one, written=True).constant(), path) for one in written):
            calls = "a loader asks for its samples" if _is_of_a_loader(call) else "a library calls"
            return f", unless by `{call.code}` at {call.module.place(call.node)}, in what {calls}"
    return ""


def _is_of_a_loader(call: Unfollowed) -> bool:
    return call.by is not None and call.by.name in LOADERS


# ---- names that each process would make up for itself


def meetings(context: Context) -> set[cst.CSTNode]:
    """The calls whose results the ranks will tell each other: the process group has to be there before."""
    asked = {event.node for event in context.facts.calls(*table.ASKS)}
    parting = {one.site for _, origins in _contended(context) for one in origins if one.site is not None}
    drawn = {event.node for event in entropy.without_seeds(context.facts)} if context.shares_forwards else set()
    shuffled = {event.node for event in (*entropy.shuffles(context.facts), *entropy.seeded_anew(context.facts))}
    origins = [*_origins(context), *entropy.seeds(context.facts)]
    heard = {one.node for one in outside.askings(context.facts) if one.doing is outside.Doing.HEARD}
    heard |= {one.node for one in context.facts.wholes}
    return asked | parting | drawn | shuffled | heard | {one.site for one in origins if one.site is not None}


def _origins(context: Context) -> list[Origin]:
    for module in _modules(context.facts):
        context.plan(module)  # files are written, and shown, in the order in which they do something
    used = _used(context.facts)
    found = dict.fromkeys(one for event, origins in used for one in _of_a_path(context, event, origins))
    return [one for one in found if not asked_in_one(context.facts, one.site)]


def _own_values(context: Context) -> bool:
    found = _origins(context)
    for origin in found:
        if origin.site is not None and origin.module is not None:
            share(context, origin, origin.module, origin.site, "all ranks take rank 0's name")
    return bool(found)


@answered_once
def _modules(facts: Facts) -> list[Module]:
    events = facts.of_kind(Kind.CALL, Kind.METHOD, Kind.STORE)
    return list(dict.fromkeys(event.module for event in events if _is_out_of_sight(event)))


@answered_once
def _used(facts: Facts) -> list[tuple[Event, list[Origin]]]:
    """Where paths are used, and what they were made of; also where rank 0 may have removed what is asked for."""
    events = facts.of_kind(Kind.CALL, Kind.METHOD, Kind.STORE)
    used = ((event, _made_of(facts, event)) for event in events)
    return [(event, origins) for event, origins in used if origins or disk.is_asked(event)]


def _made_of(facts: Facts, event: Event) -> list[Origin]:
    """What the path that is used here was made of."""
    given: Iterable[Value] = ()
    if _is_out_of_sight(event):
        given = file_events.own_paths_out_of_sight(facts, event)
    elif (
        event.name in effects.MAKES_FOLDERS or reads(event) or listings.is_of_the_disk(event.name) or event.name == LOAD
    ):
        given = [event.receiver, *event.arguments.positional[:1], *event.arguments.keywords.values()]
    elif event.name in LOADERS:
        given = [held for held in _held_by(event.arguments.get("dataset", 0)) if files.of_the_disk(held)]
    elif event.name in table.REMOVALS or event.name in table.MAKES:
        return _made_for_some_time(event)
    return [one for value in given for one in _origins_of(value)]


def _origins_of(value: Value) -> list[Origin]:
    return [one for one in value.sources if isinstance(one, Origin)]


def _is_out_of_sight(event: Event) -> bool:
    return event.kind is Kind.STORE or file_events.is_unknown(event)


def _of_a_path(context: Context, event: Event, origins: list[Origin]) -> Iterator[Origin]:
    """What the path that every rank uses here was made of, and rank 0 is to tell."""
    if _is_out_of_sight(event) and context.is_on_main(event.module, event.node):
        return
    if disk.may_fail(context, event):
        origins = _origins_of(event.value)
    makes = event.name in effects.MAKES_FOLDERS
    yield from (one for one in origins if makes or not disk.is_as_before(context, one))


def _held_by(data: Value | None) -> Iterator[Value]:
    """What a data set of the script's own keeps: files that ranks see in unequal numbers are unequal shares."""
    for obj in data.objs if data is not None else ():
        if isinstance(obj, Instance):
            yield from (one for value in obj.attributes.values() for one in values_in(value))


def _made_for_some_time(event: Event) -> list[Origin]:
    """A folder that is removed again, or made where one looks: each rank would have one, and rank 0 removes its own."""
    where = event.arguments.get("dir", 2)
    given = [event.receiver, *event.arguments.all()]
    if event.name in table.MAKES:
        given = [event.value] if where is not None and not where.is_none else []
    return [one for value in given for one in _origins_of(value) if one.name in table.MAKES]


def share(context: Context, origin: Origin, module: Module, node: cst.CSTNode, done: str) -> None:
    """Lets all ranks take what rank 0 finds out for itself."""
    if origin.name == table.OF_A_BLOCK and _one_for_all(context, module, node):
        context.applied("all ranks have the same temporary folder, which is there until all are past it", module, node)
        return
    if origin.name in table.ENDS_WITH_IT:
        context.needs_you(
            "each rank has a temporary file or folder of its own, and reads what rank 0 has written to its",
            module, node,
            "make one folder for all, `folder = rt.call_on_main_process(tempfile.mkdtemp)`, and let rank 0 remove it",
        )  # fmt: skip
        return
    if listings.is_of_the_disk(origin.name):
        disk.tell(context, origin, done, "every rank would have one of its own")
        return
    outer = entropy.whole(module, node)
    if context.is_on_main(module, outer):
        return
    if not context.editable(module, outer, "what each process has for itself is asked for"):
        return
    reason = "every rank would have one of its own"
    if origin.name in table.MAKES and isinstance(outer, cst.Call):
        told = context.call_for_all(module, outer, reason)
    else:
        told = context.tell(module, outer, reason)
    if told:
        context.applied(done, module, node)


def _one_for_all(context: Context, module: Module, node: cst.CSTNode) -> bool:
    """`with tempfile.TemporaryDirectory() as folder:`; elsewhere it is not seen when the last rank is past it."""
    if not isinstance(node, cst.Call) or not isinstance(module.parents.get(node), cst.WithItem):
        return False
    if context.is_on_main(module, node) or not context.editable(module, node, "a temporary folder is made"):
        return True
    shared = instead(context.text(module, f"{context.rt(module)}.TemporaryDirectory"))
    context.plan(module).replace(
        node.func, shared, CODE, "each rank would have one of its own, and rank 0 writes to its"
    )
    return True


# ---- questions to the person at the terminal


def _questions(context: Context) -> bool:
    found = context.facts.calls(*table.ASKS)
    for event in found:
        if context.comes_on_main(event):
            continue
        if isinstance(event.node, cst.Call) and context.editable(event.module, event.node, "a question is asked"):
            reason = "rank 0 asks, all ranks hear the answer"
            if context.call_for_all(event.module, event.node, reason):
                context.applied(reason, event.module, event.node)
    return bool(found)


# ---- what files there are


def _decisions(context: Context) -> bool:
    """What ranks would see differently once rank 0 has begun to write, they decide together."""
    found = False
    for test, origins in _contended(context):
        if context.is_on_main(test.module, test.node):
            continue
        found = True
        for one in origins:
            reason = "rank 0 may write it before another rank has looked"
            disk.tell(context, one, "all ranks see the files that rank 0 sees", reason)
    return found


def _contended(context: Context) -> Iterator[tuple[Event, list[Origin]]]:
    return contended(context, lambda: {one.site for one in _origins(context)})


RULE = Rule(
    code=CODE,
    name="paths",
    why="A folder named by the time has another name on each rank; a file that rank 0 writes is not there yet when "
    "another rank reads it; whether a file exists is no question that ranks may answer differently.",
    safety="Names made from the time, from random bytes or from the process are rank 0's wherever all ranks use them. "
    "Tests for files that decide about more than writing are rank 0's, too, and so is the size or age of a file that "
    "it writes or removes. A file that the run wrote is waited for, "
    "and so are those who read a file before it is written anew. "
    "Questions at the terminal are asked once.",
    run=run,
    pitfalls=(15, 45),
    examples=(
        Example(
            torch="import os\nimport time\n{torch}",
            group="""
              {group}
            - folder = time.strftime("runs/%H-%M-%S")
            - os.makedirs(folder)
            + folder = rt.from_main_process(time.strftime("runs/%H-%M-%S"))
            + rt.call_on_main_process(os.makedirs, folder)
            """,
            end="""
            - torch.save(model.state_dict(), f"{folder}/model.pt")
            + if rt.is_main_process():
            +     torch.save(model.module.state_dict(), f"{folder}/model.pt")
            """,
        ),
        Example(
            torch="import json\n{torch}",
            end="""
            - with open("done.json", "w") as file:
            -     json.dump({"epochs": 3}, file)
            + if rt.is_main_process():
            +     with open("done.json", "w") as file:
            +         json.dump({"epochs": 3}, file)
            + rt.barrier()
              with open("done.json") as file:
                  done = json.load(file)
            """,
        ),
        Example(
            torch="import os\n{torch}",
            group="""
              number = 0
              {group}
            - while os.path.exists(f"runs/{number}"):
            + while rt.from_main_process(os.path.exists(f"runs/{number}")):
                  number += 1
            - os.makedirs(f"runs/{number}")
            + os.makedirs(f"runs/{number}", exist_ok=True)
            """,
        ),
        LeftAlone(torch="import time\n{torch}", group="start = time.time()", end="print(time.time() - start)"),
    ),
)
