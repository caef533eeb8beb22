"""Forward passes that ranks share: every rank runs the script as it stands, and computes its part of each batch there.

What is decided is little: which models, methods and parts training calls, and from which line on each is shared.
Everything else of a script sees whole batches, as in one process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions import agreement, concurrent, doubts, enlarging, frozen, played
from distify_codemods.decisions.accumulation import waits
from distify_codemods.decisions.base import Averaging, Blocked, Broadcast, Decisions, SharedPass
from distify_codemods.decisions.broadcasts import places_of
from distify_codemods.decisions.loaders_of_one import of_one_sample
from distify_codemods.decisions.loading import decide_loading
from distify_codemods.decisions.one_sample import nothing_to_share
from distify_codemods.decisions.prefixes import decide_prefixes
from distify_codemods.decisions.training_calls import Called, called_in_training, in_training
from distify_codemods.decisions.trials import share_forwards, try_out
from distify_codemods.decisions.whole_graphs import of_one_graph
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core
from distify_codemods.libraries import distributed, python
from distify_codemods.objects import External
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.program import Module
from distify_codemods.results import Strategy
from distify_codemods.settled import is_module

CODE = "SHARE01"


def decide_shared(facts: Facts) -> Decisions:
    """What happens to a program of which ranks share the forward passes alone."""
    seen, told = _told(share_forwards(facts))
    decisions = Decisions(seen, Strategy.SHARED, averages=told)
    graphs = list(of_one_graph(seen))
    decisions.blocked += [*_distributed(seen), *_played(seen), *_in_threads(seen), *graphs]
    decisions.nothing_to_share = bool(graphs)
    called = called_in_training(seen)
    for one in called:
        place = _place(seen, one, {each.held for each in called})
        if place is not None and _trains_by_itself(seen, one.held):
            place = replace(place, forward=False)
            decisions.blocked += [] if one.methods else [_trains(seen, one)]
        if place is not None:
            decisions.shared += (place,)
        else:
            decisions.unshared += (_nowhere(seen, one),)
    decisions.shared = tuple(_each_target_once(decisions.shared))
    if not decisions.shared:
        decisions.blocked += decisions.unshared
    if not decisions.shared and not decisions.blocked:
        decisions.blocked.append(_nothing(seen))
    if decisions.shared:
        _add_frozen(decisions, called)
    _refuse_what_all_would_do(decisions)
    decide_prefixes(decisions, facts)
    decisions.shared_loading = decide_loading(seen, facts)
    if facts.program.options.per_rank_batch:
        enlarging.decide_enlarging(decisions)
    return decisions


def _refuse_what_all_would_do(decisions: Decisions) -> None:
    """Where it is seen that ranks would share nothing at all; a batch that grows with them is no sample."""
    plain = not any(one.methods or not one.forward for one in decisions.shared)
    if not plain or decisions.facts.program.options.per_rank_batch:
        return
    alone = nothing_to_share(decisions.facts, [one.held for one in decisions.shared])
    if alone is not None:
        decisions.nothing_to_share, decisions.shared = True, ()
        decisions.blocked.append(
            Blocked(
                CODE, alone.module, alone.node, alone.message,
                f"give it several samples in a step: {_how(decisions.facts)}; what has one sample is trained by one "
                "process",
            )
        )  # fmt: skip


def _how(facts: Facts) -> str:
    """`--scale linear` makes the batches of training loaders larger, if there are any."""
    larger = "by a DataLoader with a larger batch size, or `torch.stack`"
    if waits(facts):
        larger += " (where a step adds up the gradients of several passes, of as many times fewer)"
    alone = any(one.obj in facts.training_loaders and of_one_sample(facts, one) for one in facts.loaders)
    grows = ", or with --scale linear, if the loop is written for more than one sample in a batch"
    return larger + (grows if alone else "")


def _add_frozen(decisions: Decisions, trained: list[Called]) -> None:
    """Models that training only calls: shared as well, or said to be computed by every rank."""
    facts = decisions.facts
    models, whole = frozen.called_in_steps(facts, trained)
    for one in models:
        place = _place(facts, one, {each.held for each in models})
        if place is not None:
            decisions.shared += (place,)
        else:
            decisions.unshared += (_nowhere(facts, one),)
    decisions.unshared += tuple(whole)
    decisions.shared = tuple(_each_target_once(decisions.shared))


def _each_target_once(shared: Iterable[SharedPass]) -> Iterable[SharedPass]:
    """With the methods of all that it may stand for."""
    found: dict[tuple[cst.CSTNode, str], SharedPass] = {}
    for one in shared:
        known = found.setdefault((one.statement, one.target), one)
        methods = tuple(dict.fromkeys((*known.methods, *one.methods)))
        found[one.statement, one.target] = replace(known, methods=methods)
    return found.values()


def _told(facts: Facts) -> tuple[Facts, tuple[Averaging, ...]]:
    """The facts once rank 0 has decided for all where the time decides."""
    found: dict[cst.CSTNode, Averaging] = {}
    while True:
        more = [one for one in agreement.averages(facts) if one.node not in found]
        if not more:
            return facts, tuple(found.values())
        found.update((one.node, one) for one in more)
        facts = try_out(facts, (), averaged=frozenset(found))


# ---- from which line on


def _place(facts: Facts, one: Called, called: set[Obj]) -> SharedPass | None:
    """As late as it can be before training; where no name is left by then, right where there is one."""
    places = places_of(facts, one.model, one.held, one.first, False, _in_its_place(facts, one))
    late = next((place for place in places if not _may_be_left_over(place)), None)
    if late is not None:
        return SharedPass(late.target, late.module, late.statement, late.after, one.held, one.model, one.methods)
    return next(chain(_when_kept(facts, one, called), _when_made(facts, one), _when_chosen(facts, one, called)), None)


def _may_be_left_over(place: Broadcast) -> bool:
    """`for name, agent in agents.items():` in a branch, and nobody asks for `agent` behind it: it may be no name."""
    root = place.target.partition(".")[0].partition("[")[0]
    flow = place.module.flow(place.statement)
    return flow.may_be_unbound(place.statement, root, after=place.after) and not flow.reads_after(place.statement, root)


def _in_its_place(facts: Facts, one: Called) -> Ordered[Obj]:
    """What else training calls there: in a run that is resumed, the model that was read, of whichever class it is."""
    events = (event for event in facts.of_kind(Kind.FORWARD) if in_training(facts, event))
    called = [Ordered(core(obj) for obj in event.receiver.objs) for event in events]
    others = Ordered(obj for objs in called if one.held in objs for obj in objs if obj is not one.held)
    return others if all(isinstance(obj, External) or is_module(obj) for obj in others) else EMPTY


def _when_kept(facts: Facts, one: Called, called: set[Obj]) -> Iterator[SharedPass]:
    """`self.net = net`, `self.net = build(settings)`: whichever of several is kept there is shared."""
    for event in facts.of_kind(Kind.STORE):
        several = {core(obj) for obj in event.value.objs}
        holds = one.held in several and several <= called
        kept = holds and (event.dominates(one.first) or _is_made_there(event, one.held))
        if kept and isinstance(event.node, cst.Attribute) and tree.is_plain(event.node):
            yield _after(event, tree.code_of(event.node), one)


def _is_made_there(store: Event, held: Obj) -> bool:
    """Whether it is kept by the statement that makes it, or calls what does, in whichever arm."""
    statement = store.module.statement(store.node)
    inside = set(tree.walk(statement)) if isinstance(statement, cst.SimpleStatementLine) else set()
    return any(step in inside for step in (*held.context, held.site))


def _when_made(facts: Facts, one: Called) -> Iterator[SharedPass]:
    """`net = Net()`, wherever it goes from there."""
    for module, target, value in facts.names.bindings:
        site = one.held.site
        if site is None or site not in module.parents or {core(obj) for obj in value.objs} != {one.held}:
            continue
        statement = module.statement(target)
        if module.statement(site) is statement and isinstance(target, cst.Name):
            yield SharedPass(target.value, module, statement, True, one.held, one.model, one.methods)


def _when_chosen(facts: Facts, one: Called, called: set[Obj]) -> Iterator[SharedPass]:
    """`net = build(settings)`, which makes one of several: whichever it is, it is shared."""
    for module, target, value in facts.names.bindings:
        several = {core(obj) for obj in value.objs}
        assignment = module.parents.get(module.parents[target])
        given = assignment.value if isinstance(assignment, cst.Assign) else None
        if one.held not in several or not several <= called or not isinstance(target, cst.Name):
            continue
        if not _in_a_branch(module, target) and _is_called_before(facts, given, one.first):
            yield SharedPass(target.value, module, module.statement(target), True, one.held, one.model, one.methods)


def _is_called_before(facts: Facts, call: cst.BaseExpression | None, first: Event) -> bool:
    earlier = (event for event in facts.run.events if event.before(first))
    return call is not None and any(
        call in event.here.frame.context or (event.node is call and event.kind in (Kind.CALL, Kind.METHOD))
        for event in earlier
    )


def _in_a_branch(module: Module, node: cst.CSTNode) -> bool:
    for around in module.enclosing(node):
        if isinstance(around, cst.FunctionDef):
            return False
        if isinstance(around, (cst.If, cst.Try, cst.For, cst.While, cst.Match)):
            return True
    return False


def _after(event: Event, target: str, one: Called) -> SharedPass:
    statement = event.module.statement(event.node)
    return SharedPass(target, event.module, statement, True, one.held, one.model, one.methods)


# ---- what cannot be shared


def _distributed(facts: Facts) -> Iterator[Blocked]:
    for event in facts.calls(distributed.GROUP, distributed.SPAWN)[:1]:
        yield Blocked(
            CODE, event.module, event.node, "the script is distributed in part: each rank would see other batches",
            "take out what distributes it, or convert it with --strategy sharded, which finishes it",
        )  # fmt: skip


def _played(facts: Facts) -> Iterator[Blocked]:
    step = played.environment(facts)
    places = [(step.module, step.node)] if step is not None else played.for_training(facts)
    yield from [played.blocked(CODE, *place) for place in places][:1]


def _in_threads(facts: Facts) -> Iterator[Blocked]:
    """Forward passes in threads or processes of the script's own: each rank runs them in another order."""
    told_already = (distributed.SPAWN, python.STARTS_PROCESSES)
    for step in concurrent.starting(facts, facts.forwards, but=told_already)[:1]:
        yield Blocked(
            CODE, step.module, step.node,
            "a trained model is called in threads or processes of the script's own, in another order on each rank",
            "call it in the main thread",
        )  # fmt: skip


def _trains_by_itself(facts: Facts, model: Obj) -> bool:
    """Whether its forward pass holds a backward pass or a step, which are not to be made by parts."""
    calls = {
        event.node
        for event in facts.of_kind(Kind.FORWARD, Kind.METHOD)
        if "forward" in (event.name, event.kind.name.lower()) and any(core(obj) is model for obj in event.receiver.objs)
    }
    return any(not calls.isdisjoint(event.here.frame.context) for event in (*facts.backwards, *facts.steps))


def _trains(facts: Facts, one: Called) -> Blocked:
    return Blocked(
        CODE, one.first.module, one.first.node,
        f"the forward pass of `{facts.names.of(one.held)}` holds its backward pass, and calls no method of its own "
        "that could be shared",
        "move the backward pass and the step out of it",
    )  # fmt: skip


def _nothing(facts: Facts) -> Blocked:
    event, named = facts.backwards[0], doubts.to_be_named(facts)
    return Blocked(
        CODE, event.module, event.node,
        "no forward pass of a trained module is seen in training: ranks would all do the same work",
        "compute the loss with an `nn.Module` whose parameters the optimizer is given"
        + (f", or name it where it is: {named}" if named else ""),
    )  # fmt: skip


def _nowhere(facts: Facts, one: Called) -> Blocked:
    return Blocked(
        CODE, one.first.module, one.first.node,
        f"no line before training has a name for `{facts.names.of(one.held)}`, whose forward passes would be shared: "
        "every rank would compute all of them",
        "give it a variable where it is made",
    )  # fmt: skip
