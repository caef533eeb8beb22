"""OUT03: one rank writes files."""

from __future__ import annotations

import libcst as cst

from distify_codemods import file_events, file_names, tree
from distify_codemods.decisions.backward_passes import excludes
from distify_codemods.decisions.differing import reached_alike
from distify_codemods.decisions.outside import is_used
from distify_codemods.events import Event, Kind
from distify_codemods.file_events import is_writing_method
from distify_codemods.interpreter import files
from distify_codemods.libraries import effects, paths
from distify_codemods.libraries.outside import is_command
from distify_codemods.naming import brief
from distify_codemods.objects import External, Method, Setting
from distify_codemods.opened import Opened, written_in_place
from distify_codemods.rules import sample_caches, temporary
from distify_codemods.rules.base import Context, Rule, instead, path_given_to
from distify_codemods.rules.download import downloads, is_every_ranks
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.rules.once import guardable, once
from distify_codemods.rules.save import by_name, unless_written
from distify_codemods.run_folders import RunFolder, run_folders
from distify_codemods.unfollowed import unfollowed
from distify_codemods.values import Value

CODE = "OUT03"
BY_ITSELF = "what the script opens under a test of the rank is not opened by the others"


#: What asks whether a folder is there.
_ASKING = frozenset("exists isdir is_dir lexists access listdir glob iglob iterdir".split())


def run(context: Context) -> None:
    found = False
    for event in context.facts.of_kind(Kind.CALL, Kind.METHOD):
        found = _one(context, event) or found
    for event in context.named_writers:
        found = _write(context, event) or found
    unknown = [event for event in file_events.may_write(context.facts) if is_every_ranks(context, event)]
    for event in unknown:
        code = file_events.code_of(event)
        alone = "put it under `if rt.is_main_process():`"
        if is_used(event) and event.kind is Kind.CALL and not file_events.is_called_for_itself(event):
            alone = f"and does nothing else, let rank 0 alone have it, with `rt.main_process_only({code})(...)`"
        context.advice(
            f"every rank calls `{code}`{_with_what(context, event)}, and it is not known what that does: if it writes, "
            f"or asks somebody, {alone}", event.module, event.node,
        )  # fmt: skip
    unseen = [call for call in unfollowed(context.facts) if call.writes]
    told = {call.node for call in sample_caches.put_in_place(context)}
    for call in (one for one in unseen if one.node not in told):
        context.advice(
            f"whenever a library calls this, each rank writes with `{call.code}`, and maybe several processes of it",
            call.module, call.node,
        )  # fmt: skip
    _windows(context)
    temporary.advise(context)
    folders = run_folders(context.facts)
    for one in folders:
        _run_folder(context, one)
    if not (found or unknown or unseen or folders):
        answer = any(call.answers for call in unfollowed(context.facts))
        but = ", unless by the command that NET01 names, which answers" if answer else _but_caches(context)
        context.not_needed(f"no other files are written{but}{unless_written(context)}")


def _run_folder(context: Context, folder: RunFolder) -> None:
    event, more = folder.event, folder.lacks[folder.named_by_the_time :]
    kept = "keeps files of its own there" if more else ""
    if folder.named_by_the_time:
        makes = "makes an output folder named by the time on each rank, and perhaps goes into it"
        says = f"{makes}{' and ' * bool(kept)}{kept}: give all ranks one name{', and no such files' * bool(more)}"
    else:
        says = "keeps files of its own in the output folder, as every rank does at once: do without them"
    context.advice(
        f"`{event.name}` {says}, by `{' '.join(folder.lacks)}` on the command line, unless the configuration does",
        event.module, event.node,
    )  # fmt: skip


def _but_caches(context: Context) -> str:
    first = next(iter(file_events.caches(context.facts)), None)
    if first is None:
        return ""
    called = f"`{file_events.code_of(first)}` at {first.module.place(first.node)}"
    return f", but for the cache of {called}: each rank fills in what it does not find there"


def _windows(context: Context) -> None:
    """Says what comes of a window that a person has to close before rank 0 goes on."""
    facts = context.facts
    meetings = [*facts.of_kind(Kind.PASS, Kind.FORWARD), *facts.backwards]
    for event in facts.calls(*effects.WAIT_FOR_A_PERSON):
        block = event.arguments.get("block")
        waits = block is None or block.constant() is not False
        if waits and any(_comes_behind(one, event) for one in meetings):
            return context.advice(
                "until somebody closes this window, rank 0 stays here and the others wait for it: show it at the end, "
                "or with `block=False`",
                event.module, event.node,
            )  # fmt: skip


def _comes_behind(one: Event, event: Event) -> bool:
    """Whether one thing may happen once another has: behind it, or in a later turn of a loop around both."""
    behind = event.before(one) and not excludes(event, one)
    return behind or not event.turns.isdisjoint(one.turns)


def _with_what(context: Context, event: Event) -> str:
    return " with a path" if event in file_events.given_a_path(context.facts) else ""


def _one(context: Context, event: Event) -> bool:
    """Whether an event has to do with files that are written."""
    if file_events.is_in_memory(event):
        return False
    if event.kind is Kind.METHOD:
        if event.name == "mkdir":
            return _makedirs(context, event)
        if event.name == "open":
            return _is_path(event.receiver) and _open(context, event, effects.PATHS_OPEN)
        return event.name not in effects.CHECKPOINT_METHODS and is_writing_method(event) and _write(context, event)
    if event.name in effects.MAKES_FOLDERS:
        return _makedirs(context, event)
    if event.name in effects.FILES or event.name in effects.BY_PATH:
        return _open(context, event, event.name)
    if event.name in effects.MAPPED or event.name in effects.DATABASES or file_events.is_for_both(event):
        return _whole(context, event)
    if event.name in effects.STORES or event.name in effects.ALWAYS_WRITE:
        return _writer(context, event)
    if is_command(event.name) and (is_used(event) or file_events.tells_only(event) or downloads(event)):
        return False  # rank 0 runs it, and all hear what came of it, or wait; or nothing comes of it
    return event.name in effects.WRITES and event.name not in effects.CHECKPOINTS and _write(context, event)


def _is_path(value: Value) -> bool:
    """Also what is not known at all: few things but paths have a method `open` that takes a mode."""
    return all(
        (isinstance(obj, External) and obj.name.startswith(("pathlib.", "?", "local")))
        or isinstance(obj, (Method, Setting))
        for obj in value.objs
    )


def _write(context: Context, event: Event) -> bool:
    if file_names.into_a_handle(event):
        return True
    if context.editable(event.module, event.node, "a file is written"):
        shows = file_events.shows(event)
        once(context, event, "one window" if shows else "one writer")
        context.applied("rank 0 shows the picture" if shows else "rank 0 writes", event.module, event.node)
        by_name(context, event)
    return True


def _makedirs(context: Context, event: Event) -> bool:
    """Every rank may make a folder, if none minds that it is there."""
    node, module = event.node, event.module
    given = event.arguments.get("exist_ok", 2)
    if (given is not None and given.constant() is True) or not isinstance(node, cst.Call):
        return False
    if not context.editable(module, node, "a folder is made"):
        return True
    alike = context.runs_beside(module, node) is None and _is_reached_alike(context, event)
    must_not = alike and not _may_be_there(context, event, given)
    if (_is_minded(event) or must_not) and not context.comes_on_main(event):
        if context.call_for_all(module, node, "one rank makes the folder; all hear of it if that fails"):
            context.applied("rank 0 makes the folder", module, node)
        return True
    reason = "another rank may have made it in the meantime"
    context.plan(module).set_keyword(node, "exist_ok", "True", CODE, reason)
    context.applied("making a folder survives a race", module, node)
    return True


def _is_reached_alike(context: Context, event: Event) -> bool:
    """Whether no rank may have left by then what the event is in, or ended, as by the time."""
    frames = {here.frame for here in event.here.up()}
    ends = (one for one in context.facts.of_kind(Kind.LEAVE) if one.here.frame in frames or one.name == "exit")
    return all(reached_alike(context.facts, one) for one in (event, *(end for end in ends if end.before(event))))


def _may_be_there(context: Context, event: Event, exist_ok: Value | None) -> bool:
    """Whether the script goes on where the folder is there already: it asks before, or passes over what fails.

    Who asks may be the caller: ranks might part by what each sees. Who writes `exist_ok=False` does not ask elsewhere.
    """
    around = event.module.enclosing(event.node)
    function = next((number for number, one in enumerate(around) if isinstance(one, cst.FunctionDef)), len(around))
    passed = any(isinstance(one, cst.Try) and _passes_over(one, event.node) for one in around[:function])
    told = exist_ok is not None and exist_ok.constant() is False
    asked = around[:1] and [one.test for one in around[:function] if isinstance(one, (cst.If, cst.While))]
    within = asked if told else _where_it_may_be_asked(context, event)
    return passed or any(_asks(node) for one in within for node in tree.walk(one))


def _where_it_may_be_asked(context: Context, event: Event) -> list[cst.CSTNode]:
    """Anywhere, if the folder is made under a test. What comes in any case hangs on a question only where that ends
    something before, has the folder removed, or goes on until there is none.
    """
    facts, trees = context.facts, [module.tree for module in context.facts.run.frames]
    if event.here.conditions():
        return [*trees]
    removed = [one for one in facts.calls(*paths.REMOVALS) if len(one.here.conditions()) == 1]
    settled = [one for one in (*removed, *facts.of_kind(Kind.LEAVE)) if one.before(event)]
    tests = [here.node.test for one in settled for here in one.here.up() if isinstance(here.node, cst.If)]
    return [*tests, *(one.test for each in trees for one in tree.walk(each) if isinstance(one, cst.While))]


def _asks(node: cst.CSTNode) -> bool:
    called = node.func if isinstance(node, cst.Call) else None
    name = called.attr if isinstance(called, cst.Attribute) else called
    return isinstance(name, cst.Name) and name.value in _ASKING


def _passes_over(block: cst.Try, call: cst.CSTNode) -> bool:
    inside = any(one is call for one in tree.walk(block.body))
    kinds = {name.rpartition(".")[2] for handler in block.handlers for name in tree.caught(handler) or {"Exception"}}
    return inside and not kinds.isdisjoint({"FileExistsError", "OSError", "Exception", "BaseException", "IOError"})


def _is_minded(event: Event) -> bool:
    """Whether the script does something about a folder that is there already."""
    for holder in event.module.enclosing(event.node):
        if isinstance(holder, cst.Try) and any(event.node is one for one in tree.walk(holder.body)):
            return any(not _passes(handler.body) for handler in holder.handlers)
        if isinstance(holder, cst.FunctionDef):
            break
    return False


def _passes(body: cst.BaseSuite) -> bool:
    """Nothing but `pass`, or a message."""
    return all(isinstance(one, cst.Pass) or _is_message(one) for one in tree.small_statements(body))


def _is_message(node: cst.CSTNode) -> bool:
    call = node.value if isinstance(node, cst.Expr) else None
    return isinstance(call, cst.Call) and (tree.dotted(call.func) or "") == "print"


# ---- files that are opened


def _open(context: Context, event: Event, name: str) -> bool:
    modes = files.modes(name, event.arguments)
    written = files.is_written(modes)
    if written is False or not isinstance(event.node, cst.Call):
        return False
    if event.kind is Kind.METHOD and (modes is None or any(set(mode) - set("rwaxbt+") for mode in modes)):
        return False  # no mode: something else is opened
    module, node = event.module, event.node
    if not context.editable(module, node, "a file is written"):
        return True
    if written and guardable(context, event) is not None:
        once(context, event, "one writer")
    elif context.comes_on_main(event):
        context.not_needed(BY_ITSELF)
        return True
    elif modes is not None and any("+" in mode for mode in modes) and Opened(context.facts, event).is_looked_at():
        context.needs_you(
            "a file is opened to be read and written by every rank", module, node,
            "write it under `if rt.is_main_process():`, and open it a second time to read it, after `rt.barrier()`",
        )  # fmt: skip
        return True
    else:
        _open_on_main(context, event, name)
    context.applied("rank 0 writes the file", module, node)
    return True


def _open_on_main(context: Context, event: Event, name: str) -> None:
    node, module = event.node, event.module
    assert isinstance(node, cst.Call)
    rt, plan = context.rt(module), context.plan(module)
    reason = "the other ranks write into the null device"
    if name in effects.FILES:
        plan.replace(node.func, instead(cst.parse_expression(f"{rt}.main_process_open")), CODE, reason)
    elif event.kind is Kind.METHOD:
        plan.replace(node, path_given_to(f"{rt}.main_process_open"), CODE, reason)
    elif node.args and not node.args[0].star and node.args[0].keyword is None:
        context.put_into(module, node.args[0].value, "main_process_path({})", reason)
    else:
        context.call_alone(module, node, reason)


def _writer(context: Context, event: Event) -> bool:
    if event.name not in effects.ALWAYS_WRITE:
        written = files.is_written(files.modes(event.name, event.arguments))
        if written is None:
            context.needs_you(
                "this file may be written by every rank", event.module, event.node, "say its mode in the call"
            )
        if not written:
            return written is None
        both = any(set(mode) & set("a+") for mode in files.modes(event.name, event.arguments) or ())
        if both and guardable(context, event) is None and Opened(context.facts, event).is_looked_at():
            return _needs_both(context, event)
    if context.editable(event.module, event.node, "a file is written"):
        once(context, event, "one writer")
        context.applied("rank 0 writes the file", event.module, event.node)
    return True


def _whole(context: Context, event: Event) -> bool:
    """What is read and written in one place: every rank may need what is in it, and one alone may write."""
    if not (file_events.is_mapped_to_be_written(event) or event in written_in_place(context.facts)):
        return _may_execute(context, event) or _can_be_written(context, event)
    if Opened(context.facts, event).is_looked_at():
        return _needs_both(context, event)
    if context.editable(event.module, event.node, "a file is written"):
        once(context, event, "one writer")
        context.applied("rank 0 writes the file", event.module, event.node)
    return True


def _may_execute(context: Context, event: Event) -> bool:
    """Says so of what every rank has a database do, and that is not known."""
    statement = Opened(context.facts, event).unknown_statement() if event.name in effects.DATABASES else None
    if statement is None:
        return False
    context.advice(
        f"every rank opens this, and `{brief(statement.node)}` is taken to ask: nothing commits what else it may do",
        event.module, event.node,
    )  # fmt: skip
    return True


def _can_be_written(context: Context, event: Event) -> bool:
    """Says so of what is opened to be written, too, and of which nothing is seen but that it is read."""
    if not file_events.is_for_both(event) or files.modes(event.name, event.arguments) is None:
        return False
    context.advice(
        f"every rank opens this to write it, too, and nothing is seen to do so: {_to_read(event)}, it is read alone",
        event.module, event.node,
    )  # fmt: skip
    return True


def _to_read(event: Event) -> str:
    name = effects.told_by(event.name)
    told = event.arguments.get(name, effects.place_of_mode(event.name))
    plain = told is not None and isinstance(told.constant(), bool)
    return f"with `{name}={'False' if plain else chr(34) + 'r' + chr(34)}`"


def _needs_both(context: Context, event: Event) -> bool:
    if context.comes_on_main(event):
        context.not_needed(BY_ITSELF)
        return True
    context.needs_you(
        "this is opened to be read and written by every rank", event.module, event.node,
        "let rank 0 alone write it, and the others open it to read, after `rt.barrier()`",
    )  # fmt: skip
    return True


RULE = Rule(
    code=CODE,
    name="files",
    why="Processes that write one file at once corrupt it; N copies of a log or a run are no log.",
    safety="Statements that only write go under a guard. A folder that may be there is made so that a race does not "
    "matter; one that must not be there is made by rank 0, and all ranks hear if it is. Objects that "
    "keep writing (TensorBoard, open files, experiment trackers) are left to a person.",
    run=run,
    pitfalls=(15, 16, 48),
    examples=(
        Example(
            torch="import json\nimport os\n\n{torch}",
            end="""
              if not os.path.exists("runs"):
            -     os.makedirs("runs")
            - with open("runs/last.json", "w") as file:
            -     json.dump({"epochs": 3}, file)
            +     os.makedirs("runs", exist_ok=True)
            + if rt.is_main_process():
            +     with open("runs/last.json", "w") as file:
            +         json.dump({"epochs": 3}, file)
            """,
        ),
        LeftAlone(
            torch="import os\n\n{torch}",
            group='os.makedirs("runs", exist_ok=True)',
            end='with open("notes.txt") as file:\n    print(file.read())',
        ),
    ),
)
