"""What stands in the way of believing that a conversion to sharded data is right: links that are not seen through.

Ranks may train on samples of their own only where each link from the batch to the step is known, or was followed. What
is not, may look at the samples of a batch together, draw for all of them, keep something of them, or change the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TypeGuard

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.decisions import (
    alike,
    batch_size,
    beside_loaders,
    entropy,
    filled_up,
    handed_on,
    hooks,
    kept_by_data,
    kept_by_models,
    loaders_of_one,
    losses,
    orders,
    outliving,
    outside,
    own_gradients,
    own_places,
    paired,
    passed_over,
    pools,
    put_together,
    seeded_samples,
    steered,
    workers,
    written_data,
)
from distify_codemods.decisions.base import Decisions, Link, made_at
from distify_codemods.decisions.between import drawn_between_passes, never_apart
from distify_codemods.decisions.chance import decided_by_chance, drawn_for_batches
from distify_codemods.decisions.marks import as_it_stands, marks, with_evidence
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import contained, core, root
from distify_codemods.interpreter.evidence import is_given_unseen, is_known, may_be_given_labels
from distify_codemods.libraries import computing, torch_data, torch_nn
from distify_codemods.libraries.metrics import OVER_RANKS
from distify_codemods.libraries.registry import is_tracker
from distify_codemods.naming import brief
from distify_codemods.objects import External, Parameters
from distify_codemods.origins import Cropped, Foreign, Share, Single, Unseen
from distify_codemods.values import Value

#: Statements after which a program is large: a run takes most of a second.
LARGE = 2_500
#: A run takes many seconds.
VAST = 20_000


def unknown_links(decisions: Decisions) -> list[Link]:
    """Each once, in the order of the program; none: the conversion to sharded data may be believed."""
    facts = decisions.facts
    found = links_seen(facts)
    if facts.training_loops and facts.run.exact:
        found += [*workers.links(decisions), *_alike_transforms(facts), *_without_seeds(facts)]
        found += [*_halves(decisions), *own_places.links(decisions)]
        found += [*drawn_between_passes(decisions), *never_apart(decisions), *outliving.links(decisions)]
        found += [*_of_its_own_order(facts), *written_data.links(facts), *alike.links(decisions)]
        found += [*beside_loaders.links(facts), *paired.links(decisions), *seeded_samples.links(facts)]
        found += [*batch_size.links(decisions), *kept_by_data.links(decisions)]
        found += [
            *filled_up.links(decisions),
            *loaders_of_one.links(decisions),
            *kept_by_models.links(decisions),
            *hooks.links(decisions),
            *own_gradients.links(decisions),
            *steered.links(decisions),
            *handed_on.links(decisions),
            *orders.links(decisions),
        ]
    return _each_once(found)


def links_at_once(facts: Facts) -> list[Link]:
    """Of a large program, those that show before anything is decided: to decide all takes a dozen runs."""
    if not facts.run.exact or facts.run.machine.size < LARGE:
        return []
    told = [*_not_at_once_a_mean(facts), *decided_by_chance(facts)]  # by the run that there is
    return _each_once(told) or links_seen(facts)


def _not_at_once_a_mean(facts: Facts) -> Iterator[Link]:
    for event in losses.lost(facts) if facts.run.machine.size >= VAST else ():
        if facts.in_training(event):
            yield Link(
                event.module, event.node,
                "the loss is not seen at once to be a mean over samples, and the program is too large to try out what "
                "of it could be reduced",
            )  # fmt: skip


def links_seen(facts: Facts) -> list[Link]:
    """Those that the values of a run tell."""
    if not facts.training_loops or not facts.run.exact:
        return []
    seen = with_evidence(facts)
    return _each_once(
        [
            *_foreign(seen), *_unseen(seen), *_given_the_model(seen),
            *put_together.links(seen, marks, partial(as_it_stands, facts)),
            *decided_by_chance(seen), *drawn_for_batches(seen), *_kept_in_metrics(seen), *passed_over.links(seen),
            *_asked(facts), *_single(seen), *_cropped(seen), *_with_parameters(seen), *pools.links(as_it_stands(facts)),
        ]
    )  # fmt: skip


def _each_once(found: list[Link]) -> list[Link]:
    return list({(one.node, one.message): one for one in found}.values())


# ---- what is called


def _foreign(facts: Facts) -> Iterator[Link]:
    """Unknown things that are called in training, of whose results the loss is made."""
    called = {event.node: event for event in _calls(facts) if _is_on_the_way(facts, event)}
    elsewhere = {event.node for event in _calls(facts)} - called.keys()
    found = [mark for mark in marks(facts, Foreign) if mark.site is not None and mark.site not in elsewhere]
    sites = {mark.site for mark in found}
    events = {mark: called.get(mark.site) for mark in found if mark.site is not None}
    roots = {mark for mark in found if not _foreign_receivers(events[mark], mark)}
    for mark in found:
        event = events[mark]
        asked_of = _foreign_receivers(event, mark)
        if mark.site is None or not sites.isdisjoint(_receivers(mark.site)) or not roots.isdisjoint(asked_of):
            continue  # `unknown(x).mean()`: said of `unknown(x)`, also where that has a name
        text = f"`{brief(mark.site)}`"
        if event is None:  # of what is not even seen what has it
            yield Link(
                made_at(mark)[0], mark.site, f"of {text} it is not known what is called, nor what that does to a batch"
            )
        elif mark.name.startswith(computing.OF_LABELS) and may_be_given_labels(mark.site):
            yield Link(
                event.module, mark.site, _loss_of_labels(mark, mark.site),
                "without labels it is followed, and the loss can be computed from what it gives",
            )  # fmt: skip
        elif event.kind is Kind.FORWARD:
            yield Link(
                event.module, mark.site,
                f"{text} is a call of something whose class cannot be seen: it may look at the samples of a batch "
                "together",
                "it could be followed as a module of the project, or of torch or torchvision",
            )  # fmt: skip
        else:
            yield Link(
                event.module, mark.site, f"the loss depends on {text}, of which is not known what it does to a batch",
                "it could be followed as a function of the project that uses torch",
            )  # fmt: skip


def _foreign_receivers(event: Event | None, mark: Foreign) -> set[Foreign]:
    """Of which unknown calls that is a result of which a method is called."""
    given = event.receiver.sources if event is not None and event.kind is Kind.METHOD else ()
    return {one for one in given if isinstance(one, Foreign) and one.site is not mark.site}


def _is_on_the_way(facts: Facts, event: Event) -> bool:
    """Whether it is called in training, or of a share that is trained on later: `data = scaled(batch)`."""
    given = (event.receiver, *event.arguments.all())
    return facts.in_training(event) or any(isinstance(one, Share) for value in given for one in value.sources)


def _loss_of_labels(mark: Foreign, site: cst.CSTNode) -> str:
    text, unseen = f"`{brief(site)}`", is_given_unseen(site)
    if not computing.is_a_mean_over_labels(mark.name):
        given = f"it is not seen whether {text} is given labels" if unseen else f"{text} is given labels"
        return f"{given}, and of `{mark.name}` it is not known what loss it makes of them, or whether it makes one"
    loss = "a mean over all labels but -100, and each rank's share may have another number of those"
    if unseen:
        return f"it is not seen whether {text} is given labels, from which it computes the loss itself: {loss}"
    return f"{text} computes the loss by itself where it is given labels: {loss}"


def _receivers(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What a method is called of, and what that is a part of."""
    while isinstance(node, (cst.Call, cst.Attribute, cst.Subscript)):
        node = node.func if isinstance(node, cst.Call) else node.value
        yield node


def _unseen(facts: Facts) -> Iterator[Link]:
    """Where it is lost from sight which dimension the samples of a batch lie along."""
    for mark in [one for one in marks(facts, Unseen) if not one.told]:
        module, site = made_at(mark)
        yield Link(module, site, f"of `{brief(site)}` it is not seen where the samples of a batch are in it")


def _calls(facts: Facts) -> list[Event]:
    return facts.of_kind(Kind.CALL, Kind.METHOD, Kind.FORWARD)


def _single(facts: Facts) -> Iterator[Link]:
    """`loss(output[0], target)`: of a tensor, the first sample of each rank's share."""
    for mark in marks(facts, Single):
        module, site = made_at(mark)
        yield Link(
            module, site,
            f"`{brief(site)}` is one sample of a batch, of which each rank has another, unless it is a part of a "
            "tuple",
            "a tuple that is unpacked (`first, second = ...`) is seen to be one",
        )  # fmt: skip


def _cropped(facts: Facts) -> Iterator[Link]:
    for mark in marks(facts, Cropped):
        module, site = made_at(mark)
        yield Link(
            module, site, f"how much `{brief(site)}` takes of each sample, the other samples of the batch decide: each "
            "rank would take as much as its own say",
        )  # fmt: skip


def _with_parameters(facts: Facts) -> Iterator[Link]:
    """`functional_call(model, fast, (x,))`: what wraps a model averages the gradients of its own parameters."""
    for event in facts.calls(*torch_nn.WITH_PARAMETERS):
        if facts.in_training(event) and _is_model(facts, event.arguments.get("module", 0) or Value()):
            yield Link(
                event.module, event.node,
                f"`{brief(event.node)}` calls a trained model with other parameters than its own",
            )  # fmt: skip


def _kept_in_metrics(facts: Facts) -> Iterator[Link]:
    """`metric.update(...)`, `metric(...)`: what it makes of its batches may be a mean, a sum, or all of them."""
    for event in _calls(facts):
        if not facts.in_training(event):
            continue
        callee = facts.value(event.node.func).objs if isinstance(event.node, cst.Call) else ()
        objs = [core(one) for one in (*event.receiver.objs, *callee)]
        if any(isinstance(one, External) and one.name.startswith(OVER_RANKS) for one in objs):
            yield Link(
                event.module, event.node,
                f"`{brief(event.node)}` keeps figures of a rank's own samples, and what it makes of them is not known",
                "figures that a loop counts and adds up by itself are summed over the ranks",
            )  # fmt: skip


#: What may be given a model, and only looks at it or averages it.
_TOOLS = ("torchinfo.", "torchsummary.", "thop.", "fvcore.", "torch_ema.", "ema_pytorch.")


def _is_tool(name: str) -> bool:
    return name.startswith(_TOOLS) or is_tracker(name)


def _given_the_model(facts: Facts) -> Iterator[Link]:
    """Unknown things that are given a trained model in training, or hold one and are called there."""
    trainers = {optimizer.obj for optimizer in facts.optimizers}
    for event in _calls(facts):
        if not facts.in_training(event) or event.receiver.objs & trainers:
            continue
        held = [one.arguments for one in map(core, event.receiver.objs) if _is_foreign(one) and one.arguments]
        unknown = event.kind is Kind.CALL and not is_known(event.name) and not _is_tool(event.name)
        if not held and not unknown:
            continue
        given = [*event.arguments.all(), *(value for one in held for value in one.all())]
        if event.node in facts.module_of(event.node).parents and any(_is_model(facts, value) for value in given):
            yield Link(
                event.module, event.node,
                f"`{brief(event.node)}` has a trained model, and what it does with that is not known",
            )  # fmt: skip


def _is_foreign(obj: Obj) -> TypeGuard[External]:
    named = isinstance(obj, External) and (is_known(obj.name) or _is_tool(obj.name))
    return isinstance(obj, External) and not named and not obj.name.startswith("transformers.")


def _is_model(facts: Facts, value: Value) -> bool:
    objs = (core(obj) for obj in contained(value))
    return any(obj in facts.models or (isinstance(obj, Parameters) and obj.of in facts.models) for obj in objs)


# ---- generators without a seed


def _without_seeds(facts: Facts) -> Iterator[Link]:
    """Data, or an order, that each rank would draw by itself."""
    for event in entropy.without_seeds(facts):
        if not facts.in_training(event) and not _is_left(event):
            yield Link(
                event.module, event.node,
                f"`{brief(event.node)}` has no seed: what is drawn from it is something else on each rank",
                "with a seed it could be followed",
            )  # fmt: skip


def _is_left(event: Event) -> bool:
    """`rng = np.random.default_rng()` in a function that never reads it."""
    given = event.module.parents.get(event.node)
    target = given.targets[0].target if isinstance(given, cst.Assign) and len(given.targets) == 1 else None
    within = isinstance(event.module.function(event.node), cst.FunctionDef)
    return within and isinstance(target, cst.Name) and not any(event.module.flow(target).uses(target))


def _of_its_own_order(facts: Facts) -> Iterator[Link]:
    """A stream that a library shuffles: each rank would keep its share of another order."""
    for loader in facts.loaders:
        data = (loader.arguments.get("dataset", 0) or Value()) if loader.obj in facts.training_loaders else Value()
        names = [one.name for one in map(root, data.objs) if isinstance(one, External)]
        library = next((name.split(".")[0] for name in names if name.startswith(torch_data.OTHERS)), None)
        if library is not None:
            yield Link(
                loader.made.module, loader.made.node,
                f"`{library}` may shuffle by random numbers of its own: the ranks would not keep shares of one order",
            )  # fmt: skip


def _halves(decisions: Decisions) -> Iterator[Link]:
    """`right += hits(out, y); seen += len(y)`: only all of a ratio can be put together over the ranks."""
    for left in decisions.left:
        if left.half:
            yield Link(
                left.module, left.node,
                "what is added up here belongs to a figure of which another part is not known: over all ranks the two "
                "would not fit",
                "the other part could be followed as a sum, a count or a mean over samples",
            )  # fmt: skip


# ---- questions


def _asked(facts: Facts) -> Iterator[Link]:
    """Somebody outside is asked about a rank's own samples, and one answer is for all."""
    for event in outside.of_own_samples(facts):
        yield Link(
            event.module, event.node,
            f"`{brief(event.node)}` asks about the samples of a batch, and rank 0 alone would know about its share",
        )  # fmt: skip


# ---- transforms that draw alike


def _alike_transforms(facts: Facts) -> Iterator[Link]:
    for event in entropy.seeded_transforms(facts):
        yield Link(
            event.module, event.node, f"`{brief(event.node)}` has a seed of its own: all ranks would augment alike",
            "without one each rank would draw its own",
        )  # fmt: skip
