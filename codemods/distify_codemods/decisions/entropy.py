"""Random numbers that each process has for itself: from the operating system, the time, a library's own state.

Ranks that are to draw alike take rank 0's.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import file_events, tree
from distify_codemods.allocation import Const, Obj
from distify_codemods.answers import answered_once
from distify_codemods.batches import loaders_of
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core, made_of
from distify_codemods.interpreter import files
from distify_codemods.libraries import drawing, seeding, sql, torch_data
from distify_codemods.objects import External, Method, Setting
from distify_codemods.ordered import Ordered
from distify_codemods.origins import Counter, Origin
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.scale import Scale
from distify_codemods.values import Value

_SEEDS = ("seed", "random_state")
_TEXTS = (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString)
_AT_RANDOM = "a database is asked for rows at random, and draws from random numbers of its own"
#: Of Hugging Face's data sets; without a seed they draw from the operating system.
_SHUFFLES = frozenset({"shuffle", "train_test_split"})


def seeds(facts: Facts) -> list[Origin]:
    """Where seeds come from that are another number in each process: `int(time.time())`."""
    found: list[Origin] = []
    for event in facts.of_kind(Kind.CALL, Kind.METHOD):
        if seeding.is_seeding(event.name) or event.name in drawing.UNSEEDED or event.name == "manual_seed":
            found += [one for value in event.arguments.all() for one in files.origins(value) if isinstance(one, Origin)]
    return list(dict.fromkeys(found))


def without_seeds(facts: Facts) -> list[Event]:
    """Generators that are made without a seed."""
    return [event for event in facts.calls(*drawing.UNSEEDED) if _is_empty(event) and not facts.in_a_model(event)]


def seeded_anew(facts: Facts) -> list[Event]:
    """Streams that are seeded with what the operating system has: `random.seed()`."""
    return [event for event in facts.of_kind(Kind.CALL) if seeding.is_seeding(event.name) and _is_empty(event)]


def shuffles(facts: Facts) -> Iterator[Event]:
    """Data sets that are shuffled or split in an order of each process's own."""
    for event in facts.of_kind(Kind.METHOD):
        given = event.arguments
        told = given.keywords.keys() & {"seed", "seeds", "generator", "generators"} or given.double_star is not None
        roots = [_root(obj) for obj in event.receiver.objs]
        ours = any(isinstance(one, External) and one.name.startswith("datasets.") for one in roots)
        if event.name in _SHUFFLES and ours and not told and not (event.name == "shuffle" and given.positional):
            yield event


def seeded_transforms(facts: Facts) -> list[Event]:
    """Augmentation that is given a seed of its own: wherever it is made, it draws the same."""
    seeds = [
        (one, one.arguments.keywords) for one in facts.of_kind(Kind.CALL) if one.name.startswith(drawing.OF_THEIR_OWN)
    ]
    return [event for event, given in seeds if any(name in given and not given[name].is_none for name in _SEEDS)]


def seeded_libraries(facts: Facts) -> tuple[str, ...]:
    """Whose own generators get their seeds from torch's stream, by how their names begin."""
    called = {event.name for event in facts.of_kind(Kind.CALL)}
    return tuple(begins for begins, by in drawing.SEEDED_BY.items() if not by.isdisjoint(called))


def _is_empty(event: Event) -> bool:
    given = event.arguments
    return given.star is None and given.double_star is None and all(value.is_none for value in given.all())


def _root(obj: Obj) -> Obj | None:
    while isinstance(obj, Method):
        inner = obj.receiver.single() if obj.receiver is not None else None
        if inner is None:
            return None
        obj = inner
    return obj


def whole(module: Module, node: cst.CSTNode) -> cst.BaseExpression:
    """`datetime.now().strftime("%H")` for `datetime.now()`; `time.strftime("%H", time.localtime())`, too."""
    for holder in module.enclosing(node):
        if isinstance(holder, cst.Attribute) and holder.value is node:
            continue_with: cst.CSTNode = holder
        elif isinstance(holder, cst.Call) and (holder.func is node or _is_of_time(holder)):
            continue_with = holder
        elif isinstance(holder, cst.Arg):
            call = module.parents[holder]
            if not (isinstance(call, cst.Call) and _is_of_time(call)):
                break
            continue_with = holder
        else:
            break
        node = continue_with
    if isinstance(node, cst.Arg):
        node = node.value
    assert isinstance(node, cst.BaseExpression)
    return node


def _is_of_time(call: cst.Call) -> bool:
    return (tree.dotted(call.func) or "").endswith(("strftime", "localtime", "fromtimestamp"))


# ---- batches that a library draws for


@dataclass(frozen=True)
class Drawn:
    """Where a batch is taken or changed that each rank has otherwise: a loop, with those of its names, or a call."""

    module: Module
    node: cst.For | cst.BaseExpression
    names: tuple[str, ...]
    why: str
    is_taken: bool = True  # from a loader; else it is changed


def batches(facts: Facts) -> Iterator[Drawn]:
    """Of training, where something draws for it that ranks have no common seed for."""
    called, told = [event.name for event in facts.of_kind(Kind.CALL)], seeded_libraries(facts)
    names = (name for name in called if name.startswith((*drawing.OF_THEIR_OWN, *torch_data.OTHERS)))
    library = next((name for name in names if not name.startswith(told)), "")
    asked = asked_at_random(facts)
    why = _of_its_own(library) if library else _AT_RANDOM
    for loop in facts.training_loops if library or asked else ():
        unknown = not loop.draws and isinstance(loop.node, cst.For) and isinstance(loop.node.body, cst.IndentedBlock)
        if unknown and isinstance(loop.node, cst.For) and (taken := _taken(facts, loop.node)):
            yield Drawn(loop.module, loop.node, taken, why)
        for draw in loop.draws:
            yield from _where(facts, draw, loop.node, why)
    for draw in _taken_besides(facts) if library or asked else ():
        yield from _where(facts, draw, draw.node, why)
    changed = {event.node: event for event in facts.of_kind(Kind.FORWARD) if _draws_by_itself(event, told)}
    for event in changed.values() if library else ():
        if not facts.in_a_model(event) and isinstance(event.node, cst.Call):
            yield Drawn(event.module, event.node, (), why, is_taken=False)


def unplaced(facts: Facts) -> Iterator[Drawn]:
    """What draws for training by itself, where nothing is seen that training takes of it: one stands for all."""
    told = seeded_libraries(facts)
    drawing_ones = (
        event for event in facts.of_kind(Kind.CALL)
        if not event.name.startswith(told)
        and (drawing.augments(event.name) or event.name.startswith(torch_data.OTHERS))
    )  # fmt: skip
    event = next(drawing_ones, None)
    asked = asked_at_random(facts) if event is None else None
    if (event is None and asked is None) or next(batches(facts), None) is not None:
        return
    if event is not None and isinstance(event.node, cst.BaseExpression):
        yield Drawn(event.module, event.node, (), _of_its_own(event.name))
    elif asked is not None:
        yield Drawn(*asked, (), _AT_RANDOM)


@answered_once
def asked_at_random(facts: Facts) -> tuple[Module, cst.BaseExpression] | None:
    """A text by which a database is asked for rows at random."""
    for module in facts.run.frames:
        if sql.AT_RANDOM.search(module.file.data.decode(errors="replace")):
            texts = (node for node in tree.walk(module.tree) if isinstance(node, _TEXTS))
            found = next((node for node in texts if sql.AT_RANDOM.search(tree.code_of(node))), None)
            if found is not None:
                return module, found
    return None


def _of_its_own(library: str) -> str:
    return f"`{library.split('.')[0]}` draws from random numbers of its own"


def _draws_by_itself(event: Event, told: tuple[str, ...]) -> bool:
    """A call of a transform whose generator is not one that all ranks have alike: `flip(image)`, `compose(image)`."""
    parts = (core(obj) for value in made_of([event.receiver]) for obj in value.objs)
    named = (obj.name for obj in parts if isinstance(obj, External))
    return any(drawing.augments(name) and not name.startswith(told) for name in named)


def _where(facts: Facts, draw: Event, loop: cst.CSTNode, why: str) -> Iterator[Drawn]:
    node = draw.node
    if node is loop and isinstance(node, cst.For):
        if isinstance(node.body, cst.IndentedBlock):
            held = (name for name in tree.target_names(node.target) if _is_of_batch(facts, node, name))
            yield Drawn(draw.module, node, tuple(held), why)
    elif isinstance(node, cst.Call):
        yield Drawn(draw.module, node, (), why)


def _taken_besides(facts: Facts) -> Iterator[Event]:
    """Where batches of training loaders are taken outside of training: to see a size, to reckon a mean."""
    known = {draw.node for loop in facts.training_loops for draw in loop.draws}
    for draw in facts.of_kind(Kind.DRAW):
        loaders = draw.value.objs & facts.training_loaders
        if not loaders or draw.node in known:
            continue
        if _computed_with(facts, draw, loaders) or not _maybe_rank_0s(facts, draw):
            known.add(draw.node)
            yield draw


def _computed_with(facts: Facts, draw: Event, loaders: Ordered[Obj]) -> bool:
    """Whether a model is given what is taken: in its forward pass all ranks meet, so that all of them come."""
    return any(
        draw.before(event) and not facts.in_training(event) and loaders & loaders_of(value.sources)
        for event in facts.forwards
        for value in event.arguments.all()
    )


def _maybe_rank_0s(facts: Facts, draw: Event) -> bool:
    """Whether rank 0 may be the one that comes here: what only shows or writes is its own, in a file that it opens."""
    writing = {event.node for event in facts.run.events if event.kind is Kind.PRINT or file_events.writes(event)}
    if any(isinstance(here.node, cst.With) for here in draw.here.up()):
        return True
    for holder in draw.module.enclosing(draw.node):
        if holder in writing or isinstance(holder, cst.Expr):
            return True
        if isinstance(holder, cst.BaseStatement):
            break
    return False


def _taken(facts: Facts, loop: cst.For) -> tuple[str, ...]:
    """The names of what a loop takes from something that is not known; not those of the numbers of its turns."""
    names = (node for node in tree.walk(loop.target) if isinstance(node, cst.Name))
    drawn = [node.value for node in names if not _is_counted(facts.value(node))]
    return tuple(name for name in tree.target_names(loop.target) if name in drawn)


def _is_counted(value: Value) -> bool:
    """A number of a turn, or one of a few that the script names: nobody draws it."""
    plain = all(isinstance(obj, (Const, Counter, Setting)) for obj in value.objs)
    return bool(value.objs) and plain and not value.open and value.scale is Scale.CONST


def _is_of_batch(facts: Facts, loop: cst.For, name: str) -> bool:
    values = (facts.value(node) for node in tree.walk(loop) if isinstance(node, cst.Name) and node.value == name)
    return any(_is_drawn(value) for value in values)


def _is_drawn(value: Value) -> bool:
    return bool(loaders_of(value.sources))
