"""DATA02: a new order in each epoch, the same on all ranks."""

from __future__ import annotations

import libcst as cst

from distify_codemods import claims
from distify_codemods.batches import Beginning
from distify_codemods.decisions.base import Dealing, Sharding
from distify_codemods.decisions.names import loader_expression, loader_node
from distify_codemods.decisions.orders import draws_its_order, keeps_its_order
from distify_codemods.events import Here, Kind
from distify_codemods.half_done import samplers
from distify_codemods.libraries import seeding
from distify_codemods.origins import Counter
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.rules.other_scripts import other_user

CODE = "DATA02"


def run(context: Context) -> None:
    done: dict[tuple[cst.CSTNode, str], tuple[Beginning, str]] = {}
    unknown = {event.node for event in claims.unknown_calls(context.facts)}
    for one in context.facts.beginnings:
        if not _is_sharded(context, one) or _is_viewed(context, one):
            continue
        told = _without_a_word(context, one, unknown)
        if told:
            context.not_needed(told)
        elif context.editable(one.module, one.event.node, "the training loader is iterated here"):
            key = (one.event.node, one.event.name)
            text = _text(context, one)
            if text is not None and key in done and done[key][1] != text:
                text = _counted(context, one)
            if text is not None:
                done[key] = (one, text)
    for one, text in done.values():
        reason = "without it each epoch would repeat the first one's order"
        context.plan(one.module).insert_before(one.module.statement(one.event.node), text, CODE, reason)
        context.applied("a new order in each epoch", one.module, one.event.node)


def _without_a_word(context: Context, one: Beginning, unknown: set[cst.CSTNode]) -> str:
    """Why a pass has its own order, or may have the one before it, though nobody tells it the epoch."""
    if all(context.decisions.dealing_of(loader) is Dealing.EXAMPLES for loader in one.loaders):
        return "the training iterator shuffles by a random state of its own"
    if all(keeps_its_order(context.decisions, loader) for loader in one.loaders):
        return "the training loader does not shuffle: its order is the same in each epoch"
    if all(draws_its_order(context.decisions, loader) for loader in one.loaders):
        return "the training loader shuffles by a generator of the script's own"
    if _is_told(context, one):
        return "the script tells its DistributedSampler the epoch"
    passes = _passes(context, one)
    alike = [other for other in passes if other.event.node is one.event.node]
    once = one is passes[0] and len(alike) == 1 and not _repeating(one) and not _is_called_back(one, unknown)
    if once and not _is_restored(context):
        return "the training loader's first pass has an order of its own"
    return ""


def _is_sharded(context: Context, one: Beginning) -> bool:
    return any(context.decisions.sharding_of(loader) is Sharding.TRAINING for loader in one.loaders)


def _is_told(context: Context, one: Beginning) -> bool:
    """Whether the script's own DistributedSampler hears of each epoch before the pass."""
    own = {sampler for made in context.facts.loaders if made.obj in one.loaders for sampler in samplers(made)}
    around = {here.node for here in one.event.loops()[:1]}
    return bool(own) and any(
        event.name == "set_epoch" and own & event.receiver.objs and event.before(one.event)
        and around == {here.node for here in event.loops()[:1]}
        for event in context.facts.of_kind(Kind.METHOD)
    )  # fmt: skip


def _is_viewed(context: Context, one: Beginning) -> bool:
    """Whether all samples are seen here, in another order: an evaluation over the training data."""
    loops = [loop for loop in context.facts.loops if loop.node is one.event.node]
    if loops:
        return not any(loop.trains for loop in loops)
    node = loader_node(context.facts, one.expression)
    return any(view.node is node for view in context.decisions.views)


def _is_called_back(one: Beginning, unknown: set[cst.CSTNode]) -> bool:
    """Whether something that is not known calls the function around it, perhaps again and again."""
    return not unknown.isdisjoint(one.event.here.frame.context)


def _is_restored(context: Context) -> bool:
    """Whether random numbers may go on from a state that a run before this one had."""
    return bool(context.facts.calls(*seeding.RESTORING))


def _repeating(one: Beginning) -> list[Here]:
    """The loops around it whose turns are not followed one by one, innermost first."""
    return [here for here in one.event.loops() if here.frame.context == here.parent_context]


def _passes(context: Context, one: Beginning) -> list[Beginning]:
    """Where passes over the same loader begin, in whatever contexts, that are sharded."""
    found = (other for other in context.facts.beginnings if set(other.loaders) & set(one.loaders))
    return [other for other in found if not _is_viewed(context, other)]


def _text(context: Context, one: Beginning) -> str | None:
    loader = _loader(context, one)
    if loader is None:
        return None
    epoch = _epoch_name(context, one)
    if epoch is None:
        return _counted(context, one)
    return _call(context, one, loader, epoch)


def _evaluates(context: Context, one: Beginning) -> bool:
    """Whether the same line also begins passes over loaders that are not sharded for training."""
    return any(
        context.decisions.sharding_of(loader) is not Sharding.TRAINING
        for other in context.facts.beginnings
        if other.event.node is one.event.node and other.event.name == one.event.name
        for loader in other.loaders
    )


def _loader(context: Context, one: Beginning) -> str | None:
    loader = loader_expression(context.facts, one.event, one.expression, one.loaders)
    if loader is None or isinstance(one.module.statement(one.event.node), cst.While):
        context.needs_you(
            "the training loader has no name where it is iterated", one.module, one.event.node,
            "give the loader a name, and call `loader.sampler.set_epoch(epoch)` before each pass",
        )  # fmt: skip
        return None
    return loader


def _epoch_name(context: Context, one: Beginning) -> str | None:
    """A variable where the pass begins that holds another number in each pass."""
    passes = _passes(context, one)
    if any(other.event.node is not one.event.node for other in passes):
        return None
    outer = _repeating(one)
    if outer:
        for name, value in one.event.names.items():
            if value.objs and all(isinstance(obj, Counter) and obj.loop is outer[0].node for obj in value.objs):
                return name
        return None
    tables = [other.event.names for other in passes]
    for name in tables[0]:
        numbers = [names[name].constant() if name in names else None for names in tables]
        if all(type(number) is int for number in numbers) and len(set(numbers)) == len(numbers):
            return name
    return None


def _counted(context: Context, one: Beginning) -> str | None:
    """Without a variable that counts the epochs, orders follow from random numbers; a new sampler has a new order."""
    if _is_made_in_each_turn(context, one) and not _is_restored(context):
        context.not_needed("the training loader is made anew in each epoch, and draws another order there")
        return None
    loader = _loader(context, one)
    return None if loader is None else _call(context, one, loader, None)


def _is_made_in_each_turn(context: Context, one: Beginning) -> bool:
    outer = {here.node for here in _repeating(one)[:1]}
    made = [each.made.here for each in context.facts.loaders if each.obj in one.loaders]
    return bool(made) and all(any(here.node in outer and here.arm for here in each.up()) for each in made)


#: Which part of a loader chooses the order of its samples.
_CHOOSERS = {
    Dealing.DATASET: "sampler",
    Dealing.OWN_SAMPLER: "sampler",
    Dealing.OWN_SHARDS: "sampler",
    Dealing.OWN_BATCHES: "batch_sampler",
    Dealing.STREAM: "dataset",
}


def _call(context: Context, one: Beginning, loader: str, epoch: str | None) -> str:
    choosers = {_CHOOSERS.get(context.decisions.dealing_of(each)) for each in one.loaders}
    chooser = choosers.pop() if len(choosers) == 1 else None
    shared = other_user(context, one.module, one.event.node)  # with loaders of its own
    if epoch is None:
        return f"{context.rt(one.module)}.reshuffle({loader})"
    if chooser is None or shared or _evaluates(context, one) or context.options.per_rank_batch:  # looks at its length
        return f"{context.rt(one.module)}.set_epoch({loader}, {epoch})"
    return f"{loader}.{chooser}.set_epoch({epoch})"


RULE = Rule(
    code=CODE,
    name="reshuffling",
    why="A DistributedSampler shuffles by its seed and epoch: without `set_epoch` every epoch repeats the first "
    "one's order.",
    safety="Put before each pass over a sharded training loader, with the variable that counts the epochs where "
    "there is one. Else the order follows from where rank 0's random numbers are, as one process's does; of a loader "
    "with a `generator`, it is drawn from that.",
    run=run,
    shared="loaders shuffle as the script has them, alike on all ranks",
    limits="A run that is resumed has the orders of its beginning again where the script neither counts the epochs nor "
    "puts its random numbers back, as it has in one process.",
    pitfalls=(1,),
    examples=(
        Example(),
        Example(
            apart="""


              def train(batches, now):
            +     batches.sampler.set_epoch(now)
                  for x, y in batches:
                      loss = nn.functional.mse_loss(model(x), y) / (1 + now)
                      {step}


              {apart}
            """,
            loop="for epoch in range(3):\n    train(loader, epoch)",
        ),
        LeftAlone(loop="{batches}\n    {loss}\n    {step}"),
    ),
)
