"""What rank 0 sees on the disk, told to all ranks: by itself, or with what is made of it at once."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Ref
from distify_codemods.answers import answered_once
from distify_codemods.decisions import entropy
from distify_codemods.decisions.made_for_samples import functions_of, of_all_loaders
from distify_codemods.decisions.passes import reached
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.file_events import path_of
from distify_codemods.file_names import may_be_same
from distify_codemods.interpreter import files
from distify_codemods.libraries import effects, listings, paths
from distify_codemods.origins import Origin
from distify_codemods.plan import By
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.rules.base import Context, call_of
from distify_codemods.values import Value

#: Their results are plain, whatever they go through.
_COUNT = frozenset({"len", "sum", "any", "all"})
#: They go through all of what they are given, and keep its parts.
_GATHER = frozenset({"list", "sorted", "tuple", "set", "frozenset", "max", "min", "next", "reversed", "enumerate"})
_PLAIN, _LAZY, _NEVER = "can be sent", "a list of it can be sent", "cannot be sent"
_OF_ENTRIES = frozenset({"name", "path"})


def is_as_before(context: Context, origin: Origin) -> bool:
    """Whether what is found on the disk was there before the run, and is the same for all ranks."""
    if not listings.is_of_the_disk(origin.name):
        return False
    if origin.site is None or not context.files_written:
        return True
    if origin not in context.as_before:
        asked = [event for event in context.facts.run.at(origin.site) if event.name == origin.name]
        meet = any(_may_meet(context, question, write) for question in asked for write in context.files_written)
        context.as_before[origin] = not meet
    return context.as_before[origin]


def _may_meet(context: Context, question: Event, write: Event) -> bool:
    """Whether rank 0 may have written when another rank asks: before training, no rank waits for the others."""
    earlier = write.before(question) or not write.turns.isdisjoint(question.turns)
    soon = question.number < write.number < context.facts.first_step
    later = soon and may_be_below(question, write)
    return later or (earlier and context.names.may_hold(write, question))


def may_be_below(question: Event, write: Event) -> bool:
    """Whether what is written may be in the folder that is asked for, or be the file; or a whole folder around it."""
    written, asked = path_of(write, written=True).constant(), _asked(question)
    if asked is None or not isinstance(written, str):
        return True
    if _fills_a_folder(write) and may_be_same(written, _folder(asked)):
        return True
    folder = paths.before_patterns(asked)
    return written.removeprefix("./").startswith(folder.removeprefix("./").removeprefix("."))


def _asked(question: Event) -> str | None:
    """What a question names, if that is seen."""
    given = question.receiver if question.kind is Kind.METHOD else next(iter(question.arguments.positional), Value())
    asked = given.constant()
    return asked if isinstance(asked, str) else None


def _folder(asked: str) -> str:
    """The folder, or file, that is asked for: of patterns, what all that they stand for lies in."""
    plain = paths.before_patterns(asked)
    return plain if plain == asked else plain[: plain.rfind("/") + 1]


def is_asked(event: Event) -> bool:
    """Whether it is asked for the age or size of a file, or what asks for that is handed on."""
    keys = [event.name, *(obj.name for one in event.arguments.all() for obj in one.objs if isinstance(obj, Ref))]
    return not listings.RAISES.isdisjoint(keys)


def may_fail(context: Context, event: Event) -> bool:
    """Whether a rank asks for the age or size of a file that rank 0 may be removing, or that it alone makes."""
    if not is_asked(event):
        return False
    return any(
        _may_come_before(one, event)
        for one in context.facts.of_kind(Kind.CALL, Kind.METHOD)
        if one.name in listings.REMOVES or (one.name.startswith(effects.REMOVES) and _takes_files_away(one))
    ) or any(_may_come_before(one, event) and context.names.agree(one, event) for one in context.files_written)


def _takes_files_away(event: Event) -> bool:
    """Whether it may be a path's `replace`, and no text's."""
    return event.kind is Kind.CALL or effects.is_writing_method(event.name, len(event.arguments.all()))


def may_be_made(context: Context, event: Event) -> bool:
    """Whether the run may have written before what is asked for here."""
    return any(_may_come_before(one, event) and context.names.may_be_one(one, event) for one in context.files_written)


def lists(context: Context, event: Event) -> bool:
    """Whether it is asked what a folder holds."""
    return event.name in listings.LISTS and bool(_origins(context.facts, event.node))


def may_be_listed(context: Context, write: Event, event: Event) -> bool:
    """Whether what the run has written before may be what a folder holds, or the folder itself."""
    if not _may_come_before(write, event) or context.either.excludes(write, event):
        return False
    if write.name in effects.ONLY_FOLDERS and not context.comes_on_main(write):
        return False  # each rank has made it
    if effects.writes_one_file(write.name):
        return context.names.may_hold(write, event)
    asked = _asked(event)
    return asked is None or may_be_same(path_of(write, written=True).constant(), _folder(asked))


def each_answers(context: Context, event: Event) -> bool:
    """Whether it matters what each rank finds in a folder: whether there is one, or what it is trained by.

    Once they train, what is found that all ranks go by is rank 0's.
    """
    teller = context.plan(event.module).teller
    if teller(event.node, By.ALONE) is not None:
        return False
    trains_by_it = event.number < context.facts.first_step and teller(event.node) is None
    return trains_by_it or _may_have_no_folder(context, event)


def _may_have_no_folder(context: Context, event: Event) -> bool:
    """Whether a rank that looks before rank 0 has written fails, since there is no such folder yet."""
    return event.name in listings.LISTS_A_FOLDER and any(
        may_be_listed(context, one, event) for one in context.files_written if _may_make_a_folder(one)
    )


def _may_make_a_folder(write: Event) -> bool:
    """What writes one file has found a folder for it, and what removes one leaves the folder there."""
    return not effects.writes_one_file(write.name) and write.name not in listings.REMOVES


def _fills_a_folder(write: Event) -> bool:
    """Whether more may be there then than the one file or folder that is named."""
    return _may_make_a_folder(write) and write.name not in effects.ONLY_FOLDERS


def _may_come_before(one: Event, event: Event) -> bool:
    return one.before(event) or not one.turns.isdisjoint(event.turns)


def _fails_elsewhere(context: Context, origin: Origin, site: cst.CSTNode) -> bool:
    """Whether rank 0 alone is to ask, since there may be no such file, or folder, where another rank does."""
    asked = [one for one in context.facts.run.at(site) if one.name == origin.name]
    raises = origin.name in listings.RAISES
    return any(_may_have_no_folder(context, one) or (raises and may_fail(context, one)) for one in asked)


def tell(context: Context, origin: Origin, done: str, why: str) -> None:
    """Lets all ranks take what rank 0 sees there."""
    module, site = origin.module, origin.site
    if module is None or not isinstance(site, cst.BaseExpression):
        return
    part = _around(context.facts, module, site, origin.name)
    if context.is_on_main(module, part.node) or _is_asked_beside(context, module, part.node):
        return
    if module.function(part.node) in _for_a_sample(context.facts):
        return  # each rank asks for its own samples, and in its loaders' workers
    asked = context.facts.run.at(site)
    if asked and all(map(context.takes_turns, asked)):
        return  # who comes once rank 0 is done sees what that has left
    teller = context.plan(module).teller(part.node)
    if teller is not None:
        if teller != context.code:
            context.applied(done, module, site)
        return
    if not context.editable(module, part.node, "the disk is asked"):
        return
    if part.kind is _NEVER:
        context.needs_you(
            "each rank asks for itself what the disk holds, and this answer cannot be sent on", module, site,
            "let rank 0 alone ask, with a function that returns plain data: `rt.call_on_main_process(function, ...)`",
        )  # fmt: skip
        return
    text = "list({})" if part.kind is _LAZY else "{}"
    fails = _fails_elsewhere(context, origin, site)
    if fails:
        done, why = "all ranks see the files that rank 0 sees", "the file may not be there where another rank asks"
    if part.asks_again or fails:
        rewrite = call_of(f"{context.rt(module)}.call_on_main_process(lambda: {text})")
        context.plan(module).tell(part.node, rewrite, context.code, why, By.ALONE)
    else:
        rewrite = call_of(f"{context.rt(module)}.from_main_process({text})")
        context.plan(module).tell(part.node, rewrite, context.code, why)
    context.applied(done, module, site)


@answered_once
def _for_a_sample(facts: Facts) -> set[cst.CSTNode]:
    """The functions that are called for a sample, wherever else they are called."""
    begins = (one for obj in of_all_loaders(facts) for one in functions_of(obj))
    return set(reached(facts, [one.node for one in begins if one.node is not None]))


def _is_asked_beside(context: Context, module: Module, node: cst.CSTNode) -> bool:
    """Whether it is asked in what runs beside the script, where each rank sees for itself; says so."""
    start = context.runs_beside(module, node)
    if start is not None:
        context.advice(
            f"each rank sees for itself here what there is on the disk: in what `{start.name}` runs beside the script "
            f"(line {start.module.place(start.node).line}) ranks cannot meet; where rank 0 may be writing that "
            "meanwhile, look before it is started, and hand over what was found",
            module, node,
        )  # fmt: skip
    return start is not None


@dataclass(frozen=True)
class _Part:
    """What rank 0 sends of an expression."""

    node: cst.BaseExpression
    kind: str
    asks_again: bool  # rank 0 alone asks: of what another rank sees in between, the one may not fit the other


def _around(facts: Facts, module: Module, site: cst.BaseExpression, name: str) -> _Part:
    """The largest part that a question is in and that asks the disk, whichever question of it that begins with."""
    own, around = _whole(facts, module, site, name), [site, *module.enclosing(site)]
    top = next((one for one in reversed(_expressions(around))), site)
    for call in tree.walk(top):
        for origin in _origins(facts, call) if call is not site else ():
            assert isinstance(call, cst.BaseExpression)
            other = _whole(facts, module, call, origin.name)
            if other.node in around and own.node is not other.node and other.node in module.enclosing(own.node):
                own = other
    return own


def _expressions(around: list[cst.CSTNode]) -> list[cst.BaseExpression]:
    """Those up to the statement."""
    found: list[cst.BaseExpression] = []
    for node in around:
        if isinstance(node, (cst.BaseStatement, cst.BaseSmallStatement)):
            break
        if isinstance(node, cst.BaseExpression):
            found.append(node)
    return found


def _whole(facts: Facts, module: Module, site: cst.BaseExpression, name: str) -> _Part:
    """The largest part around a question that hangs on the disk alone, or the first that can be sent."""
    node = entropy.whole(module, site) if name in listings.STATUS else site
    kind = _NEVER if name in listings.ENTRIES else _LAZY if name in listings.LAZY else _PLAIN
    again = any(_asks_within(facts, one) for one in node.children)
    best = _Part(node, kind, again)
    for holder in _expressions(module.enclosing(node)):
        found = _in(facts, holder, node, kind)
        if found is None:
            break
        node, kind, more = holder, found[0], found[1]
        again = again or more
        if more or (kind is not best.kind and best.kind is not _PLAIN):
            best = _Part(node, kind, again)
    return best


def _in(facts: Facts, holder: cst.BaseExpression, node: cst.BaseExpression, kind: str) -> tuple[str, bool] | None:
    """What can be sent of an expression around another, and whether it asks the disk for more; None: it is not for us.

    Ranks must not meet where their own look at the disk has led them.
    """
    if isinstance(holder, cst.IfExp):
        return (kind, _asks(facts, holder.test)) if node is not holder.test else None
    if isinstance(holder, cst.BooleanOperation):
        return (kind, _asks(facts, holder.left)) if node is holder.right else None
    if isinstance(holder, cst.Call):
        return _in_call(facts, holder, node, kind)
    if isinstance(holder, (cst.Comparison, cst.UnaryOperation, cst.BinaryOperation)):
        return (kind, False) if kind is _PLAIN else None  # `not exists(path) or getsize(path) == 0` is one question
    if isinstance(holder, (cst.ListComp, cst.SetComp, cst.GeneratorExp)) and holder.for_in.iter is node:
        return _in_comprehension(facts, holder, kind)
    return None


def _in_call(facts: Facts, call: cst.Call, node: cst.BaseExpression, kind: str) -> tuple[str, bool] | None:
    callee = facts.value(call.func).single()
    name = callee.name.removeprefix("builtins.") if isinstance(callee, Ref) else ""
    if not call.args or call.args[0].value is not node or name not in _COUNT | _GATHER:
        return None
    more = any(_is_asking(facts, one.value) or _asks_within(facts, one.value) for one in call.args[1:])
    gathered = kind if kind is not _LAZY or name in ("reversed", "enumerate") else _PLAIN
    return (_PLAIN if name in _COUNT else gathered), more


def _in_comprehension(facts: Facts, node: cst.ListComp | cst.SetComp | cst.GeneratorExp, kind: str) -> tuple[str, bool]:
    parts = (node.elt, *(one.test for one in node.for_in.ifs))
    more = any(_asks_within(facts, one) for one in parts)
    if kind is _NEVER and not _is_plain(node):
        return _NEVER, more
    return (_LAZY if isinstance(node, cst.GeneratorExp) else _PLAIN), more


def _is_plain(node: cst.ListComp | cst.SetComp | cst.GeneratorExp) -> bool:
    """Whether what is kept of the entries of a folder are their names."""
    names = set(tree.target_names(node.for_in.target))
    used = sum(isinstance(one, cst.Name) and one.value in names for one in tree.walk(node.elt))
    named = sum(
        isinstance(one, cst.Attribute) and isinstance(one.value, cst.Name) and one.value.value in names
        and one.attr.value in _OF_ENTRIES for one in tree.walk(node.elt)
    )  # fmt: skip
    return used == named and node.for_in.inner_for_in is None


def _asks(facts: Facts, node: cst.BaseExpression) -> bool:
    return bool(files.of_the_disk(facts.value(node)))


def _asks_within(facts: Facts, node: cst.CSTNode) -> bool:
    """Whether the disk is asked in an expression, not only what it was asked before."""
    return any(_origins(facts, one) for one in tree.walk(node))


def _origins(facts: Facts, node: cst.CSTNode) -> list[Origin]:
    """The questions that a node is."""
    found = files.of_the_disk(facts.value(node)) if isinstance(node, cst.Call) else ()
    return [one for one in found if isinstance(one, Origin) and one.site is node]


def _is_asking(facts: Facts, node: cst.BaseExpression) -> bool:
    """`key=os.path.getmtime`."""
    return any(isinstance(obj, Ref) and listings.is_of_the_disk(obj.name) for obj in facts.value(node).objs)
