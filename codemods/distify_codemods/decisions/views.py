"""Sharded loaders that are read for something else: an evaluation over the training data, a first batch to look at."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from distify_codemods.decisions import roles
from distify_codemods.decisions.base import Blocked, Decisions, Sharding, View
from distify_codemods.decisions.handed_on import handed_on, taken_beside
from distify_codemods.decisions.names import loader_node
from distify_codemods.events import Event, Kind
from distify_codemods.facts import BatchLoop, Facts, loaders_iterated
from distify_codemods.libraries import progress, python, torch_optim
from distify_codemods.objects import External, Mapping, Sequence, Wrapped
from distify_codemods.program import Module
from distify_codemods.scale import Scale
from distify_codemods.values import Value

#: What may be asked of a sharded loader: its number of batches and its data set are the same.
_HARMLESS = ("builtins.", "tqdm.", "torch.", "itertools.", "local.", "copy.", *sorted(progress.BARS))


def decide_view(decisions: Decisions, loop: BatchLoop, sharding: Sharding) -> None:
    """A loop that does not train over a loader that is sharded for training, with padding."""
    trains_too = any(one.node is loop.node for one in decisions.facts.training_loops)
    unless = roles.training_only(decisions.facts, loop) if trains_too else ""
    if unless is None:
        _block(decisions, roles.two_purposes(loop))
        return
    if loop.passing is not None:
        _add(decisions, loop.event, loop.passing.iter, sharding, unless)
    else:
        _block(decisions, _share(loop.event))


def decide_other_uses(decisions: Decisions) -> None:
    """What is neither training nor an evaluation loop sees all samples, in the batches of before."""
    evaluating = {loop.node for loop in decisions.facts.loops if loop.forwards and not loop.trains}
    for loop in decisions.facts.loops:
        if not loop.trains and loop.node not in evaluating and _is_sharded(decisions, loop.event.value):
            decide_view(decisions, loop, Sharding.REPLICATED)
    for event, node in _reads(decisions.facts):
        if _is_sharded(decisions, decisions.facts.value(node)):
            _add(decisions, event, node, Sharding.REPLICATED)
    for event in decisions.facts.of_kind(Kind.ATTRIBUTE):
        if _is_asked(decisions, event) and event.receiver_node is not None:
            _add(decisions, event, event.receiver_node, Sharding.REPLICATED)
    for event in taken_beside(decisions.facts):
        if _is_sharded(decisions, event.value):
            _block(decisions, _share(event))
    for event in _given_away(decisions.facts):
        if any(_is_sharded(decisions, one) for one in event.arguments.all()):
            _block(
                decisions,
                Blocked(
                    "DATA01",
                    event.module,
                    event.node,
                    "a loader that is dealt out over the ranks is given to a library here, which sees one rank's share",
                    "give it a loader of its own",
                ),
            )


def given_away(facts: Facts, loaders: Collection[External]) -> bool:
    """Whether a library is given one of these, of which nothing is known that it does with it."""
    given = (value for event in _given_away(facts) for value in event.arguments.all())
    return any(loader in loaders for value in given for loader in loaders_iterated(value))


def _given_away(facts: Facts) -> Iterator[Event]:
    for event in facts.of_kind(Kind.CALL, Kind.METHOD):
        held = any(isinstance(obj, (Mapping, Sequence)) for obj in event.receiver.objs)
        if not held and not event.name.startswith(_HARMLESS):
            yield event


def beside_training(facts: Facts) -> frozenset[cst.CSTNode]:
    """Where batches of the training loaders are taken for something else: each rank sees all of them there, or ranks
    put together what they make of their own."""
    loops = [
        loop.node for loop in facts.loops
        if not loop.trains and any(one in facts.training_loaders for one in loaders_iterated(loop.event.value))
    ]  # fmt: skip
    return frozenset([*loops, *(event.node for event, _ in _reads(facts))])


def _is_asked(decisions: Decisions, event: Event) -> bool:
    """`len(loader.sampler)`, `loader.batch_size`: figures of all samples and of the global batch.

    In a loop over its batches the batch size is left that of a rank's share, as `x.size(0)` is, unless what is made of
    each batch is put together there.
    """
    if event.name == "batch_size" and event.value.scale is Scale.COUNT:
        dealt = [decisions.sharding_of(loader) for loader in loaders_iterated(event.receiver)]
        if Sharding.GATHERED not in dealt:
            return False
    if event.name not in ("sampler", "batch_sampler", "batch_size") or not _is_sharded(decisions, event.receiver):
        return False
    asked = loaders_iterated(event.receiver)  # an object of a derived class is no loader until its base is made
    return any(loader.made.before(event) for loader in decisions.facts.loaders if loader.obj in asked)


def _reads(facts: Facts) -> Iterator[tuple[Event, cst.BaseExpression]]:
    """Comprehensions over a loader, `list(loader)`, and `next(iter(loader))`."""
    trained = {draw.node for loop in facts.training_loops for draw in loop.draws} | handed_on(facts).nodes
    for event in facts.of_kind(Kind.LOOP):
        if isinstance(event.node, cst.CompFor) and event.node not in trained:
            yield event, event.node.iter
    for event in facts.of_kind(Kind.CALL):
        if event.node in trained or not isinstance(event.node, cst.Call) or not event.node.args:
            continue
        if event.name == torch_optim.UPDATES_BATCHNORM and not _is_synced(event):
            yield event, event.node.args[0].value
        if event.name in python.GO_THROUGH:
            given = event.node.args[python.GO_THROUGH[event.name]].value
            if event.name != python.TAKES_ONE or _is_call(given):
                yield event, given
        elif event.name == python.BEGINS and _is_looked_at(facts, event):
            yield event, event.node.args[0].value


def _is_looked_at(facts: Facts, began: Event) -> bool:
    """`batches = iter(loader)`, of which single batches are taken by that name, and by no loop over batches."""
    holder = began.module.parents.get(began.node)
    targets = [one.target for one in holder.targets] if isinstance(holder, cst.Assign) else []
    uses = [read for one in targets if isinstance(one, cst.Name) for read in began.module.flow(one).uses(one)]
    taken = [_taking(began.module, read) for read in uses]
    in_loops = {draw.node for loop in facts.loops for draw in loop.draws}
    return bool(taken) and all(isinstance(one, cst.Call) and one not in in_loops for one in taken)


def _taking(module: Module, read: cst.CSTNode) -> cst.CSTNode | None:
    """`next(batches)`"""
    call = module.parents.get(module.parents.get(read, read))
    takes = isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "next"
    return call if takes and isinstance(call, cst.Call) and call.args[0].value is read else None


def _is_synced(event: Event) -> bool:
    """Whether a model that was averaged has the BatchNorm of a wrapped one, which sees the batches of all ranks."""
    averaged = [obj for value in event.arguments.all() for obj in value.objs if isinstance(obj, External)]
    models = [obj.arguments.get("model", 0) for obj in averaged if obj.arguments and obj.name.endswith("AveragedModel")]
    return any(isinstance(obj, Wrapped) for model in models if model is not None for obj in model.objs)


def _is_call(node: cst.BaseExpression) -> bool:
    """`iter(loader)` where it is used up at once: one that has a name may be what training draws from."""
    return isinstance(node, cst.Call)


def _is_sharded(decisions: Decisions, value: Value) -> bool:
    return any(decisions.sharding_of(loader) is not Sharding.REPLICATED for loader in loaders_iterated(value))


def _add(decisions: Decisions, event: Event, over: cst.BaseExpression, sharding: Sharding, unless: str = "") -> None:
    node = loader_node(decisions.facts, over)
    if node is None:
        _block(decisions, _share(event))
        return
    view = View(event.module, node, sharding, unless)
    if view not in decisions.views:
        decisions.views += (view,)


def _share(event: Event) -> Blocked:
    return Blocked(
        "EVAL01",
        event.module,
        event.node,
        "this reads a loader that is dealt out over the ranks: each would see its own share of it",
        "give it a loader of its own",
    )


def _block(decisions: Decisions, one: Blocked) -> None:
    if one not in decisions.blocked:
        decisions.blocked.append(one)
