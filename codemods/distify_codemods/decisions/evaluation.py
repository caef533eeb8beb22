"""Evaluation loops: sharded where every value that leaves them is understood, else replicated. Never in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions import modes, taken_apart
from distify_codemods.decisions.base import Gathering, Reduction
from distify_codemods.decisions.loaders_of_one import of_one_sample
from distify_codemods.decisions.loop_effects import effects, told
from distify_codemods.decisions.lying import Lying, lying_of
from distify_codemods.decisions.names import (
    bound_by,
    bound_in,
    flat,
    index_name,
    loader_expression,
    read_after,
    starts_at_zero,
    update_of,
    updates,
)
from distify_codemods.decisions.stand_ins import evaluated, may_differ
from distify_codemods.events import Event, Kind
from distify_codemods.facts import BatchLoop, Facts, loaders_in, loaders_of
from distify_codemods.inside import core
from distify_codemods.interpreter import Gathering as Layouts
from distify_codemods.libraries import python
from distify_codemods.objects import External
from distify_codemods.ordered import Ordered
from distify_codemods.origins import CHANCE, SIGNAL
from distify_codemods.records import dataclass
from distify_codemods.scale import PER_SAMPLE, Scale


@dataclass(frozen=True)
class Refusal:
    """Why an evaluation loop cannot be sharded in some way."""

    why: str


def sums(facts: Facts, loop: BatchLoop) -> Reduction | Refusal:
    """Each sample on one rank, and the loop's sums all-reduced after it."""
    common = _never(facts, loop)
    if common:
        return Refusal(common)
    effect = next(effects(facts, loop), None)
    if effect is not None:
        return Refusal(told(effect, loop))
    if _length_is_used(facts, loop):
        return Refusal("the number of batches is used")
    accumulators: list[str] = []
    for statement in flat(facts, loop):
        problem = _of_statement(facts, loop, statement, accumulators)
        if problem:
            return Refusal(problem)
    if not accumulators:
        return Refusal("no sum leaves the loop")
    flow = loop.module.flow(loop.node)
    for name in accumulators:
        if not starts_at_zero(facts, loop, name):
            return Refusal(f"`{name}` is not seen to start at zero")
        if len(flow.reads(loop.node.body, name)) > updates(loop.node.body, name):
            return Refusal(f"`{name}` is read inside the loop")
    index = index_name(loop)
    if index and flow.reads(loop.node.body, index):
        return Refusal("the number of the batch is used")
    left = read_after(loop, bound_in(loop) - set(accumulators))
    if left:
        return Refusal(f"`{left}`, of the last batch, is used after the loop")
    return Reduction(loop, tuple(accumulators))


def gathers(facts: Facts, loop: BatchLoop, everywhere: Sequence[BatchLoop]) -> Gathering | Refusal:
    """Each batch split over the ranks, what the model returns gathered; the rest of the loop stays as it is.

    `everywhere`: the loop in each of its contexts, in some of which something else may take a trained model's place.
    """
    common = _never(facts, loop)
    if common:
        return Refusal(common)
    if len(loop.loaders) != 1:
        return Refusal("it loops over several loaders")
    ones = [of_one_sample(facts, one) for one in facts.loaders if one.obj in loop.loaders]
    if ones and all(ones):
        return Refusal(ones[0])  # there is nothing to split
    assert loop.passing is not None
    loader = loader_expression(facts, loop.event, loop.passing.iter, loop.loaders)
    if loader is None:
        return Refusal("the loader has no name here")
    statements = list(flat(facts, loop))
    calls = [(event, one) for one in everywhere for event in one.forwards]
    forwards = [
        number for number, statement in enumerate(statements) if any(_contains(statement, *call) for call in calls)
    ]
    direct = [number for number in forwards if isinstance(statements[number], cst.SimpleStatementLine)]
    if not direct or direct != forwards:
        return Refusal("its forward pass is not a statement of the loop itself")
    last, direct_lines = forwards[-1], [statements[number] for number in forwards]
    before = statements[: last + 1]
    for event in effects(facts, loop):
        used = next((statement for statement in before if _contains(statement, event, loop)), None)
        if used is not None:
            how = " in the statement of the forward pass" if used in direct_lines else " before the forward pass"
            itself = any(event.node is one.node for one, _ in calls)
            return Refusal(f"{told(event, loop)}{'' if itself else how}")
    needed = _needed(facts, loop, before)
    if isinstance(needed, Refusal):
        return needed
    returned = {name for number in forwards for name in bound_by(statements[number])}
    if problem := taken_apart.why_not(facts, loop, needed, returned):
        return Refusal(problem)
    several = _have_several_rows(facts, needed)
    if isinstance(several, Refusal):
        return several
    return Gathering(loop, statements[last], tuple(needed), loader, several)


# ---- what both need


def _never(facts: Facts, loop: BatchLoop) -> str:
    """Why the loop must see all samples on every rank, whatever it computes."""
    passes = Ordered((core(obj), event) for event in evaluated(facts, loop) for obj in event.receiver.objs)
    if any(event.inside(loop.event) for event in facts.backwards):
        return "it takes gradients, in which the ranks meet for each batch"
    if may_differ(facts, loop):
        return "what it evaluates is not seen to be the same on all ranks"
    for model, event in passes:
        last = next((one for one in reversed(modes.modes(facts, {model})) if one.before(event)), None)
        if last is not None and modes.trains(last) is None:
            return "its model's mode is computed"
        if last is None or modes.trains(last) or not last.dominates(event):
            return "its model is not seen to be in eval mode"
    if any(
        event.name == "train" and event.inside(loop.event) and modes.trains(event) is not False
        for event in facts.of_kind(Kind.METHOD)
    ):
        return "its model changes to train mode inside"
    for event in facts.of_kind(Kind.TEST):
        if event.value.sources & {CHANCE, "time", SIGNAL} and event.inside(loop.event) and _steers(loop, event):
            return "what it does depends on chance or time"
    return ""


def _steers(loop: BatchLoop, test: Event) -> bool:
    """Whether a branch decides what the loop itself does, and not merely what is shown."""
    if test.here.frame is loop.event.here.frame:
        return True
    return any(here.node is test.node and here.arm for event in loop.forwards for here in event.here.up())


def _length_is_used(facts: Facts, loop: BatchLoop) -> bool:
    shortened = set(loop.loaders) - facts.training_loaders  # a training loader keeps its number of batches
    return any(
        set(loaders_in(value)) & shortened
        for event in facts.calls(python.LENGTH)
        for value in event.arguments.all()[:1]
    )


def _contains(statement: cst.CSTNode, event: Event, loop: BatchLoop) -> bool:
    return any(here.node is statement and here.frame is loop.event.here.frame for here in event.here.up())


def _of_statement(facts: Facts, loop: BatchLoop, statement: cst.CSTNode, accumulators: list[str]) -> str:
    """Adds the sums that a statement updates; returns why it is not understood."""
    if not isinstance(statement, cst.SimpleStatementLine):
        for inner in tree.walk(statement):
            if isinstance(inner, (cst.AugAssign, cst.For, cst.While)):
                return f"line {loop.module.place(statement).line} counts under a condition or in a loop of its own"
        return ""
    for small in statement.body:
        update = update_of(small)
        if update is None:
            if isinstance(small, cst.AugAssign):
                return f"line {loop.module.place(small).line} is no plain sum"
            continue
        name, added = update
        value = facts.value(added)
        if value.scale not in (Scale.SUM, Scale.COUNT):
            what = _ADDED.get(value.scale, value.scale.value)
            return f"`{name}` adds up {what} (line {loop.module.place(small).line})"
        if name not in accumulators:
            accumulators.append(name)
    return ""


_ADDED = {Scale.UNKNOWN: "a value that cannot be followed", Scale.CONST: "what does not depend on the batch"}


# ---- gathering

_NUMBERS = frozenset({Scale.COUNT, Scale.INVERSE, Scale.MEAN, Scale.SUM, Scale.WEIGHTED, Scale.REDUCED})


def _needed(facts: Facts, loop: BatchLoop, before: Sequence[cst.CSTNode]) -> dict[str, cst.Name] | Refusal:
    """The per-sample names made up to the forward pass that are used after it, and where each is made last."""
    made: dict[str, cst.Name] = {}
    for target in _targets(loop, before):
        for inner in tree.walk(target):
            if isinstance(inner, cst.Name):
                made[inner.value] = inner
    flow, inside = loop.module.flow(loop.node), {node for statement in before for node in tree.walk(statement)}
    carried = next((name for name in made if not inside.isdisjoint(flow.carried(loop.node, name))), "")
    if carried:
        return Refusal(f"`{carried}` carries over from one batch to the next")
    names = {}
    for name, node in made.items():
        value = facts.value(node)
        if name == index_name(loop) or inside.issuperset(flow.reads_after(_own(before[-1]), name)):
            continue
        if not loaders_of(value.sources) and value.scale is Scale.CONST:
            continue
        if value.scale not in PER_SAMPLE or any(isinstance(obj, External) for obj in value.objs):
            seen = "is not" if value.scale in _NUMBERS else "is not seen to be"
            return Refusal(f"`{name}` {seen} one entry per sample")
        names[name] = node
    if any(isinstance(small, cst.AugAssign) for one in before for small in tree.walk(one)):
        return Refusal("something is counted before the forward pass")
    return names if names else Refusal("nothing of the forward pass is used")


def _have_several_rows(facts: Facts, names: dict[str, cst.Name]) -> bool | Refusal:
    """Whether samples may have several rows each: frames or patches that were folded into the batch.

    Those of a sample have to stand together: only then do the parts of a batch, one behind the other, make it up.
    """
    laid_out = facts.tried(gathering=Layouts())
    several = False
    for name, node in names.items():
        lying = lying_of(laid_out.value(node))
        if lying is Lying.OTHERWISE:
            return Refusal(f"the rows of `{name}` are not seen to be those of one sample after the other")
        several = several or lying is Lying.SEVERAL_ROWS
    return several


def _targets(loop: BatchLoop, statements: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    if isinstance(loop.node, cst.For):
        yield loop.node.target
    for statement in statements:
        for node in tree.walk(statement):
            if isinstance(node, cst.AssignTarget):
                yield node.target


def _own(statement: cst.CSTNode) -> cst.CSTNode:
    """A statement as it stands in the tree: `flat` puts those of `with x: y` into lines of their own."""
    return statement.body[-1] if isinstance(statement, cst.SimpleStatementLine) else statement
