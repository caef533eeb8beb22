"""Samples that are kept from one batch to the next, and reach a loss then: each rank would keep its own of them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.base import Averaging, Link, made_at
from distify_codemods.decisions.marks import marks
from distify_codemods.decisions.own_figures import is_made_in
from distify_codemods.facts import Facts
from distify_codemods.interpreter import pooling
from distify_codemods.naming import brief
from distify_codemods.objects import Mapping, Sequence
from distify_codemods.origins import Pooled
from distify_codemods.program import Module


def links(seen: Facts) -> Iterator[Link]:
    """`seen`: a run for evidence."""
    for mark in marks(seen, Pooled):
        module, site = made_at(mark)
        if _is_dealt_ahead(seen, module, site):
            continue
        if _fills_what_a_turn_makes(seen, module, site):
            yield Link(
                module, site,
                f"`{brief(site)}` puts a batch together, of what is made for one sample after the other: which of them "
                "are a rank's is not seen",
            )  # fmt: skip
            continue
        yield Link(
            module, site,
            f"`{brief(site)}` keeps samples from one batch to the next, and the loss depends on them: each rank "
            "would keep its own share",
        )  # fmt: skip


def _is_dealt_ahead(seen: Facts, module: Module, site: cst.CSTNode) -> bool:
    """`x, y = get_batch()` at the end of a turn: the next turn has this batch as it was dealt, and no other."""
    given = site.body[0] if isinstance(site, cst.SimpleStatementLine) and len(site.body) == 1 else None
    loop = _innermost(module, site)
    if not isinstance(given, cst.Assign) or not isinstance(loop, (cst.For, cst.While)):
        return False
    flow = module.flow(loop)
    names = [name for target in tree.targets(given) for name in tree.target_names(target)]
    bound = [(name, one) for name in names for one in flow.bindings(site, name)]
    first = [one for name, _ in bound for one in flow.reaching_loop(loop, name)]
    dealt = {getattr(_statement(module, one), "value", None) for one in first} | {given.value}
    uses = [use for _, one in bound for use in flow.uses(one)]
    alone = all(loop in module.enclosing(use) and not flow.follows(site, use, turns=False) for use in uses)
    return alone and all(one.site in dealt for one in _dealt(seen))


def _dealt(seen: Facts) -> Iterator[Obj]:
    """What deals out the batches that losses are computed from."""
    losses = (event.receiver for event in seen.backwards if seen.in_training(event))
    return (one for value in losses for one in value.sources if not isinstance(one, str) and pooling.is_dealt(one))


def _statement(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    return next((one for one in module.enclosing(node) if isinstance(one, cst.BaseSmallStatement)), None)


def _fills_what_a_turn_makes(seen: Facts, module: Module, site: cst.CSTNode) -> bool:
    """Whether what is filled is made in the turn of training, so that no other turn finds anything in it."""
    calls = [one for one in tree.walk(site) if isinstance(one, cst.Call) and isinstance(one.func, cst.Attribute)]
    holder = calls[0].func.value if calls and isinstance(calls[0].func, cst.Attribute) else None
    loop = next((one for one in seen.training_loops if one.node in module.enclosing(site)), None)
    if not isinstance(holder, cst.Name) or loop is None or loop.node is _innermost(module, site):
        return False
    made = [obj for obj in seen.value(holder).objs if isinstance(obj, (Sequence, Mapping))]
    carried = module.flow(loop.node).carried(loop.node, holder.value)
    return bool(made) and all(is_made_in(loop, obj) for obj in made) and not carried


def _innermost(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    return next((one for one in module.enclosing(node) if isinstance(one, (cst.For, cst.While))), None)


def read_back(seen: Facts, found: list[Averaging]) -> list[cst.CSTNode]:
    """Of figures, those that are no figures: training reads what is kept of them."""
    kept = {place for mark in marks(seen, Pooled) for place in (mark.site, *mark.context)}
    return [one.node for one in found if not kept.isdisjoint((one.node, *one.module.enclosing(one.node)))]
