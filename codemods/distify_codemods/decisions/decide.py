"""From facts to decisions. Loaders, and the loops over them, that share code are decided together."""

from __future__ import annotations

import libcst as cst

from distify_codemods import arguments
from distify_codemods.decisions import batch_size, cuts, evaluation, models
from distify_codemods.decisions.base import (
    Blocked,
    Decisions,
    Gathering,
    LoaderDecision,
    Reduction,
    Sharding,
)
from distify_codemods.events import Kind
from distify_codemods.facts import BatchLoop, Facts, Loader
from distify_codemods.values import Arguments, Class, External, Instance, Mapping, Passing, Value, Wrapped, contained


def decide(facts: Facts) -> Decisions:
    """What happens to each model, loader and evaluation loop of a program that trains."""
    facts, slicings, uncut = cuts.decide_cuts(facts)
    wraps, wrapped_facts, blocked = models.decide_wraps(facts)
    wrapped_facts, averages = models.agreed(wrapped_facts, wraps)
    decisions = Decisions(wrapped_facts, wraps, averages=averages, slicings=slicings, blocked=[*uncut, *blocked])
    by_call: dict[cst.CSTNode, list[Loader]] = {}
    for loader in wrapped_facts.loaders:
        by_call.setdefault(loader.made.node, []).append(loader)
    training = wrapped_facts.training_loaders
    decisions.blocked += _two_purposes(wrapped_facts)
    for group in _together(wrapped_facts):
        _decide_evaluation(decisions, group, by_call, training)
    decided = {decision.node for decision in decisions.loaders}
    for node, loaders in by_call.items():
        if node not in decided and any(loader.obj in training for loader in loaders):
            _decide_training(decisions, node, loaders, training)
    batch_size.decide_divisions(decisions)
    decisions.training_sums = tuple(
        reduction
        for loop in wrapped_facts.training_loops
        if (reduction := evaluation.training_sums(wrapped_facts, loop)) is not None
    )
    decisions.prefixed = _prefixed(facts)
    decisions.reached_through = frozenset(
        event.node
        for event in facts.of_kind(Kind.ATTRIBUTE)
        if event.name == "module" and any(isinstance(obj, Wrapped) for obj in event.receiver.objs)
    )
    return decisions


def _two_purposes(facts: Facts) -> list[Blocked]:
    """Loops that train when they are reached in one way, and evaluate in another."""
    training = {loop.node for loop in facts.training_loops}
    both = {loop.node: loop for loop in facts.evaluation_loops if loop.node in training}
    return [
        Blocked(
            "EVAL01",
            loop.module,
            loop.node,
            "this loop trains in one call and evaluates in another: what is right for one is wrong for the other",
            "train and evaluate in two functions",
        )
        for loop in both.values()
    ]


def _prefixed(facts: Facts) -> dict[cst.CSTNode, bool]:
    """Where the original saves or loads the state of a model in nn.DataParallel: its keys begin with `module.`"""
    found: dict[cst.CSTNode, bool] = {}
    for event in facts.of_kind(Kind.METHOD):
        if event.name in ("state_dict", "load_state_dict"):
            parallel = [isinstance(obj, Wrapped) for obj in event.receiver.objs]
            if any(parallel):
                found[event.node] = all(parallel) and found.get(event.node, True)
            elif event.node in found:
                found[event.node] = False
    return found


# ---- training


def _decide_training(decisions: Decisions, node: cst.CSTNode, loaders: list[Loader], training: set[External]) -> None:
    assert isinstance(node, cst.Call)
    module = loaders[0].made.module
    objs = {loader.obj for loader in loaders}
    mixed = next((loop for loop in decisions.facts.training_loops if _mixes(loop) and objs & set(loop.loaders)), None)
    if mixed is not None:
        decisions.blocked.append(
            Blocked(
                "DATA01",
                mixed.module,
                mixed.node,
                "this loop runs over more than one loader, and trains on some of their batches only: they must "
                "not be sharded alike",
                "train and evaluate in two loops",
            )
        )
        return
    others = [loader for loader in loaders if loader.obj not in training]
    if others and any(loader.obj in loop.loaders for loop in decisions.facts.loops for loader in others):
        decisions.blocked.append(
            Blocked(
                "DATA01",
                module,
                node,
                "this line makes the training loader and another one, which must not be sharded alike",
                "make the two loaders in two lines",
            )
        )
        return
    for loader in loaders:
        problem = _unshardable(loader)
        if problem:
            decisions.blocked.append(Blocked("DATA01", module, node, *problem))
            return
    why = "its batches reach a backward pass"
    decisions.loaders += (LoaderDecision(node, module, Sharding.TRAINING, tuple(loaders), why),)


def _mixes(loop: BatchLoop) -> bool:
    """Several loaders, one or the other at a time (not zipped)."""
    zipped = any(isinstance(obj, Passing) and obj.zipped for obj in contained(loop.event.value))
    return len(loop.loaders) > 1 and not zipped


def _given(options: Arguments, name: str) -> Value | None:
    """An argument that is given and not None."""
    position = arguments.PARAMETERS["DataLoader"].index(name)
    value = options.get(name, position)
    if value is None or any(getattr(obj, "value", 0) is None for obj in value.objs):
        return None
    return value


def _unshardable(loader: Loader) -> tuple[str, str] | None:
    """Why a training loader cannot take a DistributedSampler, and what to do."""
    options = loader.arguments
    if options.star is not None:
        return "its arguments are given as `*args`", "name its arguments"
    for name in ("sampler", "batch_sampler"):
        if _given(options, name) is not None:
            return (
                f"it has a {name} of its own, whose order would have to be dealt out over the ranks",
                f"deal the {name} out by hand: each rank takes every world-size-th index, from one common seed",
            )
    if "batch_size" in options.keywords and _given(options, "batch_size") is None:
        return "it loads samples one by one (batch_size=None)", "shard the dataset itself by rank and worker"
    dataset = options.get("dataset", 0)
    for obj in dataset.objs if dataset else ():
        cls = obj.of if isinstance(obj, Instance) else None
        if isinstance(cls, Class) and cls.derives_from("torch.utils.data.IterableDataset"):
            return (
                "its dataset is an IterableDataset",
                "let each rank and worker iterate over its own share in `__iter__`",
            )
    return None


# ---- evaluation


def _together(facts: Facts) -> list[list[BatchLoop]]:
    """Evaluation loops grouped by shared loops and shared loader calls."""
    groups: list[tuple[set[cst.CSTNode], list[BatchLoop]]] = []
    calls = {loader.obj: loader.made.node for loader in facts.loaders}
    for loop in facts.loops:
        if loop.trains:
            continue
        keys: set[cst.CSTNode] = {loop.node, *(calls[loader] for loader in loop.loaders if loader in calls)}
        joined = [group for group in groups if group[0] & keys]
        for group in joined:
            groups.remove(group)
            keys |= group[0]
        groups.append((keys, [*(one for group in joined for one in group[1]), loop]))
    return [loops for _, loops in groups]


def _decide_evaluation(
    decisions: Decisions, loops: list[BatchLoop], by_call: dict[cst.CSTNode, list[Loader]], training: set[External]
) -> None:
    facts = decisions.facts
    shared = [loop for loop in loops if set(loop.loaders) & training]
    if shared:
        loop = shared[0]
        decisions.blocked.append(
            Blocked(
                "EVAL01",
                loop.module,
                loop.node,
                "this loop runs over the training loader without training: each rank would see its own share of it",
                "give the evaluation a loader of its own",
            )
        )
        return
    nodes = [
        node for node, loaders in by_call.items()
        if any(loader.obj in loop.loaders for loop in loops for loader in loaders)
    ]  # fmt: skip
    loaders = [loader for node in nodes for loader in by_call[node]]
    way, why = _way(facts, loops, loaders)
    if isinstance(way, str):
        decisions.replicated += tuple((loop, why) for loop in loops if loop.forwards)
        sharding = Sharding.REPLICATED
    elif all(isinstance(one, Reduction) for one in way):
        decisions.reductions += tuple(one for one in way if isinstance(one, Reduction))
        sharding = Sharding.SUMS
    else:
        decisions.gatherings += tuple(one for one in way if isinstance(one, Gathering))
        sharding = Sharding.GATHERED
    for node in nodes:
        if any(loader.obj in training for loader in by_call[node]):
            continue  # decided, or blocked, with the training loaders
        assert isinstance(node, cst.Call)
        module = by_call[node][0].made.module
        decisions.loaders += (LoaderDecision(node, module, sharding, tuple(by_call[node]), why),)


def _way(facts: Facts, loops: list[BatchLoop], loaders: list[Loader]) -> tuple[list[Reduction | Gathering] | str, str]:
    """The best way for all of the loops, and why; "replicated" where none is right for each of them."""
    if not any(loop.forwards for loop in loops):
        return "replicated", "no trained model sees its batches"
    if not all(loop.forwards for loop in loops):
        return "replicated", "its loader also serves a loop without a trained model"
    problem = next((problem for loader in loaders if (problem := _unshardable(loader))), None)
    if problem:
        return "replicated", problem[0]
    entry = facts.program.entry
    if any(loader.made.module is not entry for loader in loaders) or any(loop.module is not entry for loop in loops):
        return "replicated", "it reaches into another file"
    first = [_sums(facts, loop, loaders) for loop in loops]
    if not any(isinstance(one, evaluation.Refusal) for one in first):
        return list(first), "every value that leaves the loop is a sum over samples"  # type: ignore[arg-type]
    second = [_gathers(facts, loop, loaders) for loop in loops]
    if not any(isinstance(one, evaluation.Refusal) for one in second):
        return list(second), "what the model returns is gathered before it is used"  # type: ignore[arg-type]
    reasons = [one.why for one in (*first, *second) if isinstance(one, evaluation.Refusal)]
    return "replicated", "; ".join(dict.fromkeys(reasons))


def _sums(facts: Facts, loop: BatchLoop, loaders: list[Loader]) -> Reduction | evaluation.Refusal:
    for loader in loaders:
        given = _given(loader.arguments, "drop_last")
        if given is not None and given.constant() is not False:
            return evaluation.Refusal("its loader drops the last batch")
        if loader.arguments.double_star is not None and not _is_known(loader.arguments.double_star):
            return evaluation.Refusal("what its loader's `**kwargs` hold is not known")
    return evaluation.sums(facts, loop)


#: Options of a loader that have nothing to do with which samples a batch holds.
_FREE = frozenset(
    ["num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "collate_fn", "timeout", "worker_init_fn"]
)


def _is_known(value: Value) -> bool:
    return bool(value.objs) and all(isinstance(obj, Mapping) and obj.rest is None for obj in value.objs)


def _gathers(facts: Facts, loop: BatchLoop, loaders: list[Loader]) -> Gathering | evaluation.Refusal:
    for loader in loaders:
        if loader.arguments.double_star is not None and not (
            loader.arguments.expanded().keys() <= _FREE and _is_known(loader.arguments.double_star)
        ):
            return evaluation.Refusal("its loader's arguments are given as `**kwargs`")
        shuffle = _given(loader.arguments, "shuffle")
        if shuffle is not None and shuffle.constant() is not False:
            return evaluation.Refusal("its loader shuffles")
    return evaluation.gathers(facts, loop)
