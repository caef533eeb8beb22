"""Evaluation loops that share loaders or code, decided together: sharded, gathered, or replicated."""

from __future__ import annotations

import libcst as cst

from distify_codemods.allocation import Const
from distify_codemods.decisions import dealing, evaluation, views
from distify_codemods.decisions.base import Decisions, Gathering, LoaderDecision, Reduction, Sharding
from distify_codemods.decisions.names import loader_node
from distify_codemods.decisions.training import by_call
from distify_codemods.events import Kind
from distify_codemods.facts import BatchLoop, Facts, Loader, loaders_iterated
from distify_codemods.inside import to_library
from distify_codemods.libraries.torch_data import HOW_SOON, LOADERS
from distify_codemods.objects import External, Passing
from distify_codemods.records import dataclass
from distify_codemods.values import Value


def decide_evaluations(decisions: Decisions) -> None:
    for group in _together(decisions.facts):
        _decide_group(decisions, group)


def _together(facts: Facts) -> list[list[BatchLoop]]:
    """Evaluation loops grouped by shared loops and shared loader calls.

    A loop is written once: where it is an evaluation in one call, what it is in any other is decided with that.
    """
    groups: list[tuple[set[cst.CSTNode], list[BatchLoop]]] = []
    calls = {loader.obj: loader.made.node for loader in facts.loaders}
    evaluating = {loop.node for loop in facts.loops if loop.forwards and not loop.trains}
    for loop in facts.loops:
        if loop.trains or loop.node not in evaluating:
            continue
        keys: set[cst.CSTNode] = {loop.node, *(calls[loader] for loader in loop.loaders if loader in calls)}
        joined = [group for group in groups if group[0] & keys]
        for group in joined:
            groups.remove(group)
            keys |= group[0]
        groups.append((keys, [*(one for group in joined for one in group[1]), loop]))
    return [loops for _, loops in groups]


def _decide_group(decisions: Decisions, loops: list[BatchLoop]) -> None:
    facts = decisions.facts
    training = facts.training_loaders
    calls = {
        node: loaders for node, loaders in by_call(facts).items()
        if any(loader.obj in loop.loaders for loop in loops for loader in loaders)
    }  # fmt: skip
    twofold = _in_two_roles(facts, loops, [loader for loaders in calls.values() for loader in loaders])
    used = [one for loaders in calls.values() for one in loaders if any(one.obj in loop.loaders for loop in loops)]
    way = _way(facts, loops, used, twofold)
    decisions.replicated += tuple(way.whole)
    decisions.reductions += tuple(one for one in way.done if isinstance(one, Reduction))
    decisions.gatherings += tuple(one for one in way.done if isinstance(one, Gathering))
    dealt = {loader for one in way.done for loader in one.loop.loaders}
    for node, loaders in calls.items():
        others = tuple(loader for loader in loaders if loader.obj not in training)
        shares = any(loader.obj in dealt for loader in loaders)
        if others:
            sharding = way.sharding if shares else Sharding.REPLICATED
            decisions.loaders += (LoaderDecision(node, others[0].made.module, sharding, others, way.why),)
    done = {one.loop.node for one in way.done}
    for loop in loops:
        if loop.node not in done and any(decisions.sharding_of(one) is not Sharding.REPLICATED for one in loop.loaders):
            views.decide_view(decisions, loop, Sharding.REPLICATED)
        elif set(loop.loaders) & training:
            views.decide_view(decisions, loop, way.sharding if loop.node in done else Sharding.REPLICATED)


def _in_two_roles(facts: Facts, loops: list[BatchLoop], loaders: list[Loader]) -> str:
    """Which line, or loader, serves training as well, if there is one."""
    nodes = {loop.node for loop in facts.training_loops}
    if any(loop.node in nodes for loop in loops):
        return "the loop trains as well"
    made = next((loader.made for loader in loaders if loader.obj in facts.training_loaders), None)
    return f"line {made.module.place(made.node).line} makes the training loader as well" if made is not None else ""


@dataclass(frozen=True)
class _Way:
    """How loops that are decided together are: some in shares, in one and the same way, the others whole, and why."""

    done: tuple[Reduction | Gathering, ...]
    whole: tuple[tuple[BatchLoop, str], ...]
    why: str

    @property
    def sharding(self) -> Sharding:
        if not self.done:
            return Sharding.REPLICATED
        return Sharding.SUMS if isinstance(self.done[0], Reduction) else Sharding.GATHERED


_Tried = tuple[list[BatchLoop], list[Reduction | Gathering | evaluation.Refusal]]


def _way(facts: Facts, loops: list[BatchLoop], loaders: list[Loader], twofold: str) -> _Way:
    """The best way for all of the loops; where none is right for each of them, one for some, or all see all samples.

    `twofold`: what serves training as well, whose batches cannot be split.
    """
    reason = _never(facts, loops, loaders)
    if reason:
        return _Way((), tuple((loop, _said_of(loop, loops, reason)) for loop in loops), reason)
    everything: list[_Tried] = []
    some: _Way | None = None
    for try_out, why in (
        (_sums, "every value that leaves the loop is a sum over samples"),
        (_gathers, "what the model returns is gathered before it is used"),
    ):
        tried = [try_out(facts, loop, loops, loaders) for loop in loops]
        ways = [one for one in tried if not isinstance(one, evaluation.Refusal)]
        if twofold and try_out is _gathers:
            if len(ways) == len(tried) and some is None:
                return _Way((), tuple((loop, twofold) for loop in loops), twofold)
            break
        if len(ways) == len(tried):
            return _Way(tuple(ways), (), why)
        everything.append((loops, tried))
        some = some or _some(facts, loops, tried, loaders, why)
    if some is not None:
        return some
    told = tuple((loop, _why_whole(loop, everything)) for loop in loops)
    return _Way((), told, "; ".join(dict.fromkeys(why for _, why in told)))


def _some(
    facts: Facts,
    loops: list[BatchLoop],
    tried: list[Reduction | Gathering | evaluation.Refusal],
    loaders: list[Loader],
    why: str,
) -> _Way | None:
    """Shares for those that this is right for; the others see the same loader whole, where that is the same to them."""
    refused = _refused(loops, tried)
    done = [one for one in tried if not isinstance(one, evaluation.Refusal) and one.loop.node not in refused]
    dealt = {loader for one in done for loader in one.loop.loaders}
    lines = {loader.call for loader in loaders if loader.obj in dealt}
    whole = [loop for loop in loops if loop.node in refused]
    seen = {loader for loop in whole for loader in loop.loaders}
    drawn = any(dealing.loader_draws(one) for one in loaders if one.call in lines and one.obj in seen)
    trained = {loop.node for loop in facts.training_loops}
    if (
        not done
        or drawn
        or not all(_can_be_viewed(facts, loop) for loop in whole)
        or not trained.isdisjoint(refused)
        or views.given_away(facts, dealt)
    ):
        return None
    return _Way(tuple(done), tuple((loop, "; ".join(refused[loop.node])) for loop in whole), why)


def _can_be_viewed(facts: Facts, loop: BatchLoop) -> bool:
    """Whether one expression has all that it loops over: of `zip(one, other)`, the one alone would be seen whole."""
    node = loader_node(facts, loop.passing.iter) if loop.passing is not None else None
    return node is not None and set(loop.loaders) <= set(loaders_iterated(facts.value(node)))


def _refused(
    loops: list[BatchLoop], tried: list[Reduction | Gathering | evaluation.Refusal]
) -> dict[cst.CSTNode, list[str]]:
    """By loop as it is written, why not, in any of its contexts."""
    found: dict[cst.CSTNode, list[str]] = {}
    for loop, one in zip(loops, tried, strict=True):
        if isinstance(one, evaluation.Refusal) and one.why not in found.setdefault(loop.node, []):
            found[loop.node].append(one.why)
    return found


def _why_whole(loop: BatchLoop, everything: list[_Tried]) -> str:
    """What keeps a loop from being shared; or which other one does, where nothing in itself does."""
    refusals = [_refused(*tried) for tried in everything]
    if all(loop.node in one for one in refusals):
        return "; ".join(dict.fromkeys(why for one in refusals for why in one[loop.node]))
    refused = next(one for one in refusals if loop.node not in one)
    others = [one for one in everything[0][0] if one.node in refused]
    other = min(others, key=lambda one: set(loop.loaders).isdisjoint(one.loaders))
    place, why = other.module.place(other.node), "; ".join(refused[other.node])
    same = not set(loop.loaders).isdisjoint(other.loaders)
    return f"the loop at {place} {'goes over its loader, too' if same else 'is decided together with it'}: {why}"


def _never(facts: Facts, loops: list[BatchLoop], loaders: list[Loader]) -> str:
    """Why loops are not shared in any way."""
    if any(facts.left_alone(loader.obj) for loader in loaders) or any(loop.module.skipped(loop.node) for loop in loops):
        return "a comment leaves it alone"
    shared = {loader for loop in facts.training_loops for loader in loop.loaders if loader not in loop.trained}
    if any(loader.obj in shared for loader in loaders):
        return "its loader also serves a loop that trains on another one"
    nodes = {loop.node for loop in loops if loop.passing is not None}
    if not all(_only_loaders(event.value) for event in facts.of_kind(Kind.LOOP) if event.node in nodes):
        return _ODD
    problem = next(filter(None, map(dealing.unfit_for_evaluation, loaders)), "")
    return problem or (_BY_HAND if any(loop.passing is None for loop in loops) else "")


_ODD = "it also loops over something that is no DataLoader"
_BY_HAND = "its batches are taken by hand"


def _said_of(loop: BatchLoop, loops: list[BatchLoop], why: str) -> str:
    """What keeps one of the loops from being shared, of what keeps all of them."""
    if loop.passing is None and why == _ODD:
        return _BY_HAND
    if why != _BY_HAND or loop.passing is None:
        return why
    mine = set(loop.loaders)
    there = min((one for one in loops if one.passing is None), key=lambda one: mine.isdisjoint(one.loaders)).taking
    return f"batches of its loader are taken by hand at {there.module.place(there.node)}"


def _only_loaders(value: Value) -> bool:
    """Whether iterating gives batches of loaders whatever happens."""
    known = bool(value.objs) and not value.open
    for obj in value.objs:
        if isinstance(obj, Const) and obj.value is None:
            continue  # nothing to loop over: a script that comes here ends
        if isinstance(obj, Passing):
            parts = [one for one in (obj.over, *obj.zipped) if one is not None and loaders_iterated(one)]
            known = known and bool(parts) and all(map(_only_loaders, parts))
        else:
            loader = to_library(obj)
            known = known and isinstance(loader, External) and loader.name in LOADERS
    return known


def _sums(
    facts: Facts, loop: BatchLoop, together: list[BatchLoop], loaders: list[Loader]
) -> Reduction | Gathering | evaluation.Refusal:
    for loader in loaders:
        if dealing.may_be_on(loader, "drop_last"):
            return evaluation.Refusal("its loader drops the last batch")
        if loader.arguments.unseen is not None:
            return evaluation.Refusal("what its loader's `**kwargs` hold is not known")
    return evaluation.sums(facts, loop)


#: Options of a loader that have nothing to do with which samples a batch holds, or which comes first.
_FREE = HOW_SOON - {"in_order"} | {"collate_fn", "worker_init_fn"}


def _gathers(
    facts: Facts, loop: BatchLoop, together: list[BatchLoop], loaders: list[Loader]
) -> Reduction | Gathering | evaluation.Refusal:
    for loader in loaders:
        if loader.arguments.unseen is not None or not loader.arguments.expanded().keys() <= _FREE:
            return evaluation.Refusal("its loader's arguments are given as `**kwargs`")
        if not dealing.in_order(loader):
            return evaluation.Refusal("its loader has a sampler of its own")
        if dealing.may_be_on(loader, "shuffle"):
            return evaluation.Refusal("its loader shuffles")
    return evaluation.gathers(facts, loop, [one for one in together if one.node is loop.node])
