"""SEED01: one stream of random numbers for what the ranks share, one per rank for what they do not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst

from distify_codemods.decisions import between, chance, entropy, streams
from distify_codemods.decisions.base import Broadcast
from distify_codemods.decisions.differing import reached_alike
from distify_codemods.decisions.streams import Stretch
from distify_codemods.events import Event, Kind
from distify_codemods.libraries import drawing, listings, python
from distify_codemods.origins import Origin
from distify_codemods.plan import AFTER_HOISTS
from distify_codemods.program import Module
from distify_codemods.rules import paths, tuning
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example

CODE = "SEED01"
_ALIKE = "what is drawn from here on is drawn alike on all ranks"


def run(context: Context) -> None:
    _write(context)
    if not any(finding.code == CODE for finding in context.findings):
        context.not_needed("no training loop was found from which on ranks could draw apart: all is drawn alike")


def _write(context: Context) -> None:
    _keep_order(context)
    found = streams.stretches(context.decisions) if not context.shares_forwards else []
    _take_rank_zeros(context, found)
    for link in between.never_apart(context.decisions) if not context.shares_forwards else ():
        context.advice(link.message, link.module, link.node)
    if context.shares_forwards:
        _draw_alike(context)
        return
    if context.decisions.slicings:
        _apart_in_models(context)
        return
    if not found:
        return
    ended = list(streams.ends(context.facts, found))
    for node, one in {one.node: one for one in (found if ended else found[:1])}.items():
        if context.editable(one.module, node, "the training loop"):
            _apart(context, one)
    for statement, module in dict(_ends(context, ended)).items():
        text = f"{context.rt(module)}.seed_ranks_alike()"
        context.plan(module).insert_after(statement, text, CODE, _ALIKE, 90)
    for statement, module in streams.reseeded(context.facts, found).items():
        text = f"{context.rt(module)}.seed_ranks_apart()"
        context.plan(module).insert_after(statement, text, CODE, "one seed on all ranks would have them draw alike")
    for event in streams.choices(context.facts):
        if any(one.holds(event) for one in found):
            _choose_alike(context, event, found)


def _keep_order(context: Context) -> None:
    """What comes in the order in which it is done comes in that in which it was started, on all ranks."""
    unordered = [one for one in context.facts.of_kind(Kind.METHOD) if one.name == python.IN_ANY_ORDER]
    for event in (*context.facts.calls(python.AS_COMPLETED), *unordered):
        if isinstance(event.node, cst.Call) and context.editable(event.module, event.node, "an order is taken"):
            ours = cst.parse_expression(f"{context.rt(event.module)}.in_order")
            rewrite = _imap if event.name == python.IN_ANY_ORDER else partial(_instead, ours)
            why = "which is done first is another one on each rank"
            context.plan(event.module).replace(event.node.func, rewrite, CODE, why)
            context.applied("what is done side by side is taken in one order on all ranks", event.module, event.node)


def _instead(function: cst.BaseExpression, _: cst.BaseExpression) -> cst.BaseExpression:
    return function


def _imap(updated: cst.BaseExpression) -> cst.BaseExpression:
    """The method of the same pool that keeps the order, as it is asked for here."""
    return updated.with_changes(attr=cst.Name("imap")) if isinstance(updated, cst.Attribute) else updated


def _take_rank_zeros(context: Context, apart: list[Stretch]) -> None:
    """Seeds, orders of data sets, and settings that are tried out, which are others in each process."""
    tuning.run(context)
    for event in entropy.seeded_anew(context.facts):
        statement = event.module.statement(event.node)
        drawn_apart = any(one.holds(event) for one in apart)
        if not drawn_apart and context.editable(event.module, statement, "a seed is set"):
            text = f"{context.rt(event.module)}.seed_ranks_alike()"
            context.plan(event.module).insert_after(statement, text, CODE, _ALIKE)
            context.applied("all ranks go on with rank 0's random numbers", event.module, statement)
    for origin in entropy.seeds(context.facts):
        if origin.site is not None and origin.module is not None:
            paths.share(context, origin, origin.module, origin.site, _of_a_seed(origin))
    for event in entropy.shuffles(context.facts):
        if isinstance(event.node, cst.Call) and context.editable(event.module, event.node, "a data set is shuffled"):
            seed = f"{context.rt(event.module)}.common_seed()"
            context.plan(event.module).set_keyword(event.node, "seed", seed, CODE, "one order for all ranks")
            context.applied("the data set has one order on all ranks", event.module, event.node)


def _of_a_seed(origin: Origin) -> str:
    of_files = "a seed may hang on what files there are: all ranks see those that rank 0 sees"
    return of_files if listings.is_of_the_disk(origin.name) else "all ranks take rank 0's seed"


def _draw_alike(context: Context) -> None:
    """All that the script draws, until its end: whatever it draws from, rank 0's."""
    for event in entropy.without_seeds(context.facts):
        if context.editable(event.module, event.node, "a generator of random numbers is made"):
            assert isinstance(event.node, cst.BaseExpression)
            if context.tell(event.module, event.node, "without a seed each rank would draw other numbers"):
                context.applied("all ranks draw from rank 0's generator", event.module, event.node)
    for draw in chance.draws_for_all(context.facts):
        if context.editable(draw.module, draw.statement, "what is drawn decides for the whole batch"):
            _for_all(context, draw)
    for batch in entropy.batches(context.facts):
        if context.editable(batch.module, batch.node, "batches are taken here"):
            _take_its_batch(context, batch)
    for one in entropy.unplaced(context.facts):
        context.advice(
            f"{one.why}, and it is not seen where training takes what that makes: take rank 0's there, with "
            f"`x = rt.from_main_process(x)`, or each rank trains on something else", one.module, one.node,
        )  # fmt: skip
    if not any(finding.code == CODE for finding in context.findings):
        context.not_needed_if_known(
            "all is drawn alike on all ranks, but for what is drawn inside of a shared forward pass"
        )


def _for_all(context: Context, draw: chance.Common) -> None:
    """Inside of a shared forward pass ranks draw apart, but for what is drawn once for all samples."""
    module, plan, reason = draw.module, context.plan(draw.module), "one draw for the whole batch: the same on all ranks"
    header = f"with {context.rt(module)}.draw_alike():"
    if draw.expression is not None:
        plan.hoist(draw.statement, draw.expression, context.fresh(module, "drawn"), CODE, reason)
    plan.guard(draw.statement, header, CODE, reason, draw.expression)
    context.applied("what is drawn once for the whole batch is drawn alike", module, draw.statement)


def _take_its_batch(context: Context, batch: entropy.Drawn) -> None:
    rt, plan, names = context.rt(batch.module), context.plan(batch.module), ", ".join(batch.names)
    if isinstance(batch.node, cst.For):
        given = f"({names})" if len(batch.names) > 1 else names
        text = f"{names} = {rt}.from_main_process({given})"
        plan.insert_before(batch.node.body.body[0], text, CODE, batch.why, -20)
    elif not context.tell(batch.module, batch.node, batch.why):
        return
    what = "load, and take rank 0's batches" if batch.is_taken else "take what rank 0 gets"
    context.applied(f"all ranks {what}: {batch.why}", batch.module, batch.node)


def _apart(context: Context, one: Stretch) -> None:
    reason = "from here on dropout and augmentation differ from rank to rank; until here all draw alike"
    text = f"{context.rt(one.module)}.seed_ranks_apart()"
    plan, header = context.plan(one.module), between.drawing_header(context.facts, one)
    if header is not None:
        plan.hoist(one.node, header, context.fresh(one.module, "batches"), CODE, "drawn alike by all ranks")
    plan.insert_before(one.node, text, CODE, reason, -5 if header is None else AFTER_HOISTS)
    message = "random numbers: common up to here, each rank's own in training"
    context.applied(message, one.module, one.node)


def _ends(context: Context, ended: list[Stretch]) -> Iterator[tuple[cst.CSTNode, Module]]:
    """The statements after which all draw alike again."""
    for one in ended:
        place = streams.end(context.facts, one) if not streams.is_left_by_an_error(context.facts, one) else None
        if place is not None:
            yield place
        else:
            context.needs_you(
                "there is no place after this loop that every rank comes to, from where all must draw alike again",
                one.module, one.node, "leave the loop by `break`, and return, or raise an error, after it",
            )  # fmt: skip


def _choose_alike(context: Context, event: Event, found: list[Stretch]) -> None:
    """Samples that are chosen for all ranks while they draw apart: rank 0 chooses."""
    module, node, plan = event.module, event.node, context.plan(event.module)
    statement = module.statement(node)
    elsewhere = any(
        other.node is node and not any(one.holds(other) for one in found) for other in streams.choices(context.facts)
    )
    if not reached_alike(context.facts, event):
        context.needs_you(
            "samples are chosen at random after training has begun, where the ranks draw apart",
            module, node, "draw with a generator of its own: torch.Generator().manual_seed(epoch)",
        )  # fmt: skip
    elif event.name in drawing.OF_NUMBERS and isinstance(node, cst.BaseExpression):
        if context.tell(module, node, "rank 0 chooses for all"):
            context.applied("samples are chosen by rank 0 for all", module, node)
    elif elsewhere or not isinstance(statement, cst.SimpleStatementLine):
        context.needs_you(
            "samples are chosen at random after training has begun, where the ranks draw apart",
            module, node, "choose them in a statement of its own, or before training",
        )  # fmt: skip
    else:
        rt = context.rt(module)
        plan.insert_before(statement, f"{rt}.seed_ranks_alike()", CODE, _ALIKE)
        plan.insert_after(statement, f"{rt}.seed_ranks_apart()", CODE, "and from here on apart again")
        context.applied("samples are chosen alike on all ranks", module, node)


def _apart_in_models(context: Context) -> None:
    """Batches that are drawn by hand must be drawn alike until the end: only the models' own draws may differ."""
    reason = "dropout differs from rank to rank; all else is drawn alike, batches too"
    for wrap in context.decisions.built:
        if not context.editable(wrap.module, wrap.statement, "the model is wrapped here"):
            continue
        if not wrap.models:
            continue  # tensors draw nothing
        if isinstance(wrap, Broadcast) and wrap.by_optimizer:
            context.needs_you("no variable here holds the model, whose dropout should differ from rank to rank",
                              wrap.module, wrap.statement, "give it one")  # fmt: skip
            continue
        plan, text = context.plan(wrap.module), f"{context.rt(wrap.module)}.seed_ranks_apart({wrap.target})"
        plan.insert(wrap.statement, text, CODE, reason, 50, after=wrap.after)
        context.applied("random numbers: common but for those drawn inside the model", wrap.module, wrap.statement)


RULE = Rule(
    code=CODE,
    name="random numbers",
    why="With one seed on all ranks every rank draws the same augmentation and dropout; with different ones "
    "from the start "
    "they build different splits.",
    safety="The group starts all ranks with rank 0's random numbers. Right before training the ranks go apart, and "
    "after it, where another fold or a draw follows, together again. A seed that the script sets in training is "
    "followed by another parting, and samples that are chosen there, or numbers that are drawn once for a whole batch, "
    "are rank 0's. What is not seen to be drawn for samples has forward passes shared. Where each turn of training "
    "makes a model or its data anew, all have to draw alike: forward passes are shared instead. What threads or "
    "processes of the script do side by side is taken in the order it was started in, not in that it ends in.",
    run=run,
    pitfalls=(22, 23),
    examples=(
        Example(
            group="torch.manual_seed(0)\n{group}",
            model="model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 1))",
        ),
        Example(
            script="""
              import torch
              from torch import nn
              from torch.utils.data import DataLoader, TensorDataset, random_split
              {ours}

              {group}
              {data}
              for fold in range(3):
                  part, rest = random_split(data, [48, 16])
            -     loader = DataLoader(part, batch_size=8, shuffle=True)
            +     loader = DataLoader(part, batch_size=rt.per_rank_batch_size(8),
            +                         sampler=rt.TrainingSampler(part))
                  {model}
                  {wrap}
                  {optimizer}
                  {apart}
                  {loop}
            +     rt.seed_ranks_alike()
            """
        ),
    ),
)
