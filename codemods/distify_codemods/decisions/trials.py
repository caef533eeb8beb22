"""Runs of the program as it would be: with models wrapped, figures summed and averaged."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions import figures, pools
from distify_codemods.decisions.agreement import averages
from distify_codemods.decisions.base import DECIDES, Averaging, Decisions, Left, Putting, Reduction, Wrap
from distify_codemods.decisions.differing import is_of_an_evaluation, why_different
from distify_codemods.decisions.marks import as_it_stands
from distify_codemods.decisions.places import Place, places_of
from distify_codemods.decisions.shown import shown
from distify_codemods.decisions.training_sums import training_sums
from distify_codemods.events import Kind
from distify_codemods.facts import Facts, dealt_by
from distify_codemods.inside import core
from distify_codemods.interpreter import Hooks, Machine
from distify_codemods.objects import Bound, External, Function, Instance, Partial, Wrapped
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import CHANCE, Share
from distify_codemods.records import dataclass
from distify_codemods.scale import Scale
from distify_codemods.settled import is_module
from distify_codemods.values import Value, join


def with_sums(facts: Facts, wraps: tuple[Wrap, ...]) -> Facts:
    """The facts once figures of training are summed over the ranks: what depends on them no longer differs."""
    sums = _sums(facts)
    return try_out(facts, wraps, sums) if sums else facts


def _sums(facts: Facts) -> list[Reduction]:
    return [one for loop in facts.training_loops if (one := training_sums(facts, loop)) is not None]


def agreed(facts: Facts, wraps: tuple[Wrap, ...]) -> tuple[Facts, tuple[Averaging, ...], tuple[Left, ...]]:
    """The facts once figures that are kept or decided upon are put together; what depends on them is alike, too."""
    denied: set[cst.CSTNode] = set()
    again: set[cst.CSTNode] = set()
    never: dict[cst.CSTNode, Left] = {}  # where not all ranks come; what cannot be taken apart into what is of all
    while True:
        after, found, left = _agreed(facts, wraps, denied)
        while mixed := [one for one in _mixed(after, found) if one.node not in never]:
            stay = [one for one in mixed if one.node in again]
            never.update((one.node, Left(one.module, one.node, stays=True)) for one in stay)
            denied.update(one.node for one in stay)
            again.update(one.node for one in mixed)
            statements = [*map(_statement, mixed)]
            rest = [one for one in found if _statement(one) not in statements]
            after, found, left = _agreed(facts, wraps, denied, rest)
        after, found = _each_once(facts, after, wraps, found)
        missed = figures.not_reached_by_all(after, found)
        never.update((one.node, Left(one.module, one.node, stays=True)) for one in found if one.node in missed)
        wrong = [*missed, *_read_back(facts, found)]
        if not wrong:
            return after, found, (*left, *never.values())
        denied.update(wrong)


def _read_back(facts: Facts, found: tuple[Averaging, ...]) -> list[cst.CSTNode]:
    """What would be kept of all samples, and training goes on with."""
    gathered = [one for one in found if one.how is Putting.GATHERED]
    return pools.read_back(as_it_stands(facts), gathered) if gathered else []


def _statement(one: Averaging) -> cst.CSTNode:
    """The smallest around it: of those in one line, one."""
    around = one.module.enclosing(one.node)
    return next(node for node in around if isinstance(node, (cst.BaseSmallStatement, cst.BaseStatement)))


def _mixed(after: Facts, found: Sequence[Averaging]) -> list[Averaging]:
    """Of which a part is that of all ranks by now: `seen + len(x)`, `loss * len(x) / seen`, where `seen` is put
    together. They are no sums, counts or means of the ranks' own any more."""
    before = after.run.machine.before_averaging
    kept = [one for one in found if one.how in _STAYING and one.node in before and not one.told]
    return [
        one for one in kept
        if before[one.node].scale not in _STAYING[one.how] and figures.is_of_one_rank(after, one.node)
    ]  # fmt: skip


#: As what figures are put together, and what they are then, before they are.
_STAYING = {
    Putting.SUM: (Scale.SUM, Scale.COUNT),
    Putting.COUNT: (Scale.SUM, Scale.COUNT),
    Putting.MEAN: (Scale.MEAN, Scale.REDUCED, Scale.CONST),
}


def _agreed(
    facts: Facts, wraps: tuple[Wrap, ...], denied: set[cst.CSTNode], begun: Sequence[Averaging] = ()
) -> tuple[Facts, tuple[Averaging, ...], tuple[Left, ...]]:
    """`begun`: what is put together in any case."""
    found: dict[cst.CSTNode, Averaging] = {one.node: one for one in begun}
    facts = _with(facts, wraps, found) if found else facts
    refused = set(denied)
    while True:
        facts, left = _with_kept(facts, wraps, found, refused)
        more = [one for one in averages(facts) if one.node not in found]
        if more:
            found.update((one.node, one) for one in more)
            facts = _with(facts, wraps, found)
            refused = set(denied)  # what hung on a decision that each rank took for itself
            continue
        more = [one for one in shown(facts) if one.node not in found and one.node not in refused]
        if not more:
            return facts, tuple(found.values()), left
        facts = _put_together(facts, wraps, found, refused, more)


def _each_once(
    facts: Facts, after: Facts, wraps: tuple[Wrap, ...], found: tuple[Averaging, ...]
) -> tuple[Facts, tuple[Averaging, ...]]:
    """Without figures that are alike by now: what they are made of was put together, or decided.

    Sums and counts would be too large. Means would be the same; in the loops themselves they stay, where the test of
    a loop may still be each rank's.
    """
    places = places_of(after)

    def stays(one: Averaging) -> bool:
        mean = one.how is Putting.MEAN
        looked_at = not mean or (one.code == figures.CODE and places.of(one.module, one.node) is not Place.INSIDE)
        return not looked_at or figures.is_of_one_rank(after, one.node)

    kept = tuple(one for one in found if stays(one))
    if len(kept) == len(found):
        return after, found
    return _with(facts, wraps, {one.node: one for one in kept}), kept


def _with_kept(
    facts: Facts, wraps: tuple[Wrap, ...], found: dict[cst.CSTNode, Averaging], denied: set[cst.CSTNode]
) -> tuple[Facts, tuple[Left, ...]]:
    """The facts once figures that are kept are put together, and which of them are not.

    What stands in a function may be alike once figures have been put together around it: all is looked at again then.
    """
    while True:
        known, left = facts, list[Left]()
        for stage in figures.Stage:
            while True:
                kept, stay = figures.kept(facts, stage, found.keys() | denied)
                if not kept:
                    break
                facts = _put_together(facts, wraps, found, denied, kept)
            left += stay
        if facts is known or not left:
            return facts, tuple(dict.fromkeys(left))


def _put_together(
    facts: Facts,
    wraps: tuple[Wrap, ...],
    found: dict[cst.CSTNode, Averaging],
    denied: set[cst.CSTNode],
    more: Sequence[Averaging],
) -> Facts:
    """Of figures that could be put together, those through which nothing is learnt: training must stay as it was."""
    trial = _with(facts, wraps, {**found, **{one.node: one for one in more}})
    if _lessons(facts) == _lessons(trial):
        found.update((one.node, one) for one in more)
        return trial
    if len(more) == 1:
        denied.add(more[0].node)
        return facts
    for half in (more[: len(more) // 2], more[len(more) // 2 :]):
        facts = _put_together(facts, wraps, found, denied, half)
    return facts


def _with(facts: Facts, wraps: tuple[Wrap, ...], found: dict[cst.CSTNode, Averaging]) -> Facts:
    return try_out(facts, wraps, _sums(facts), frozenset(found))


def _lessons(facts: Facts) -> list[object]:
    """What each backward pass, and each argument of a module in training, depends on.

    What an object of the script's makes of its arguments that is no module, a stopper, shows in what is read of it.
    Of what nobody takes, nothing is learnt.
    """
    forwards = [event for event in facts.of_kind(Kind.FORWARD) if event.grad and not _is_plain(event.receiver)]
    forwards = [one for one in forwards if not isinstance(one.module.parents.get(one.node), cst.Expr)]
    told = [(event, event.receiver) for event in facts.backwards]
    told += [(event, given) for event in forwards for given in event.arguments.all()]
    lessons: list[object] = [(event.node, sorted(map(str, dealt_by(given.sources)))) for event, given in told]
    reduced = facts.run.trial.reducing.nodes if facts.run.trial.reducing is not None else ()
    return [*lessons, *((node, _own_parts(facts, node)) for node in reduced)]


def _own_parts(facts: Facts, node: cst.CSTNode) -> set[cst.CSTNode]:
    """What of a rank's own goes into what is summed over the ranks for a loss: else it would be summed twice."""
    parts = (one for one in tree.walk(node) if one is not node and isinstance(one, cst.BaseExpression))
    return {one for one in parts if facts.shares_of_training(facts.value(one))}


def _is_plain(called: Value) -> bool:
    return bool(called.objs) and all(isinstance(obj, Instance) and not is_module(obj) for obj in called.objs)


def put_together(
    facts: Facts, wraps: tuple[Wrap, ...], averages: Sequence[Averaging], but: Collection[cst.CSTNode] = ()
) -> Facts:
    """The facts once figures are put together, but some."""
    return _with(facts, wraps, {one.node: one for one in averages if one.node not in but})


def without_what_is_summed(facts: Facts, wraps: tuple[Wrap, ...], decisions: Decisions) -> tuple[Averaging, ...]:
    """The figures that are put together, but those of evaluations whose sums over the ranks are the same on all."""
    summed = [one for one in decisions.reductions if not one.when]
    found = decisions.averages
    asked = {one.node for one in found if one.code == DECIDES and is_of_an_evaluation(facts, one.node)}
    if not summed or not asked:
        return found
    rest = frozenset(one.node for one in found if one.node not in asked)
    after = try_out(facts, wraps, [*_sums(facts), *summed], rest)
    return tuple(
        one for one in found if one.node not in asked or why_different(after, after.value(one.node).sources)
    )  # fmt: skip


def try_out(
    facts: Facts,
    wraps: tuple[Wrap, ...],
    sums: Sequence[Reduction] = (),
    averaged: frozenset[cst.CSTNode] = frozenset(),
    tracing: bool = False,
) -> Facts:
    """`tracing`: values tell through which calls of modules their gradients flow back (`interpreter/graph.py`)."""
    made: Hooks = tuple(((one.loop.node, True), _Summing.by(one)) for one in sums)
    made += tuple(((one.statement, one.after), _Wrapping(one.statement, one.target, one.attribute)) for one in wraps)
    return facts.tried(drop_data_parallel=True, averaged=averaged, tracing=tracing, hooks=made)


def share_forwards(facts: Facts) -> Facts:
    """The facts of the program with its models as they are, and batches that all ranks see whole."""
    return facts.tried(drop_data_parallel=True, shared=True)


#: What is called as a module is, and cannot be wrapped as one.
NO_MODULES = (Function, Bound, Partial)


@dataclass(frozen=True)
class _Wrapping:
    """A hook: what a target holds is wrapped."""

    statement: cst.CSTNode
    target: str
    attribute: cst.Attribute | None

    def __call__(self, machine: Machine) -> None:
        if self.attribute is None:
            machine.bind(self.target, self._wrapped(machine, machine.lookup(self.target)))
            return
        for obj in machine.evaluate(self.attribute.value).objs:
            known = obj.attributes.get(self.attribute.attr.value)
            if known is not None:
                gone, past = _kept_elsewhere(machine, obj, self.attribute.attr.value)
                wrapped = self._wrapped(machine, known.of(Ordered(one for one in known.objs if core(one) not in gone)))
                bare = Ordered(one for one in known.objs if core(one) in gone | past)
                obj.attributes[self.attribute.attr.value] = join(wrapped, known.of(bare)) if bare else wrapped

    def _wrapped(self, machine: Machine, value: Value) -> Value:
        objs = Ordered(
            self._one(machine, obj) if isinstance(obj, (Instance, External, Wrapped, *NO_MODULES)) else obj
            for obj in value.objs
        )
        return Value(objs, value.scale, value.sources)

    def _one(self, machine: Machine, obj: Obj) -> Wrapped:
        """Of what another line has wrapped already, a wrap of that wrap, as it would be when the program runs."""
        mine = machine.made(Wrapped, self.statement, core(obj), "ours", inner=core(obj), ours=True)
        if not isinstance(obj, Wrapped) or not obj.ours or obj is mine:
            return mine
        return machine.made(Wrapped, self.statement, obj, "ours", inner=obj, ours=True)


def _kept_elsewhere(machine: Machine, holder: Obj, name: str) -> tuple[Ordered[Obj], Ordered[Obj]]:
    """Of what an attribute has been given, what is gone by here, and what it may have in a run that does not come here.

    In the analysis attributes keep what each arm of a branch has given them. What is set here in any case takes the
    place of all that was there before; what is set outside of the branches around may go past this place.
    """
    here = machine.here.conditions()
    stores = [
        (event.here.conditions(), event.receiver.single() is holder, Ordered(map(core, event.value.objs)))
        for event in machine.events
        if event.kind is Kind.STORE and event.name == name and holder in event.receiver.objs
    ]
    certain = [number for number, (around, alone, _) in enumerate(stores) if alone and around <= here]
    last = certain[-1] if certain else 0
    left = EMPTY.union(*(kept for _, _, kept in stores[last:]))
    gone = EMPTY.union(*(kept for _, _, kept in stores[:last])) - left
    return gone, EMPTY.union(*(kept for around, _, kept in stores[last:] if not here <= around))


@dataclass(frozen=True)
class _Summing:
    """A hook: some names hold what all ranks have of these loaders."""

    names: tuple[str, ...]
    loaders: frozenset[cst.CSTNode | None]

    @classmethod
    def by(cls, reduction: Reduction) -> _Summing:
        made = frozenset(loader.site for loader in reduction.loop.loaders)
        return cls((*reduction.names, *reduction.means), made)

    def __call__(self, machine: Machine) -> None:
        for name in self.names:
            value = machine.lookup(name)
            machine.bind(name, value.with_sources(Ordered(one for one in value.sources if not self._is_a_ranks(one))))

    def _is_a_ranks(self, source: Obj | str) -> bool:
        """Batches, and what was drawn for them: a sum over the ranks is the same on all, whatever it adds up."""
        if isinstance(source, External):
            return source.site in self.loaders
        return isinstance(source, Share) or source == CHANCE
