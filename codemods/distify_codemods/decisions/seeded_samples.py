"""Generators of the script's own that a data set, or a transform, draws from for each of its samples.

They are made alike on all ranks, so that the first sample of each rank would be given the same numbers, and so on. A
generator that is made or seeded for the sample, by its index, say, is right. What draws is looked for in a run whose
loaders ask their data sets for a sample.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.base import Link
from distify_codemods.decisions.made_for_samples import functions_of, makers
from distify_codemods.decisions.passes import Callable, reached
from distify_codemods.events import Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import root
from distify_codemods.libraries import drawing
from distify_codemods.naming import brief
from distify_codemods.objects import External
from distify_codemods.program import Module


def links(facts: Facts) -> Iterator[Link]:
    if not any(drawing.is_a_generator(event.name) for event in facts.of_kind(Kind.CALL)):
        return
    seen = facts.tried(drop_data_parallel=True, evidence=True, samples=True, hooks=())
    begins = [one.node for obj in makers(seen) for one in functions_of(obj) if one.node is not None]
    for module, call in dict.fromkeys(_draws(seen, reached(seen, begins))):
        yield Link(
            module, call,
            f"`{brief(call)}` draws for a sample from a generator that has the same seed on all ranks: the "
            "same numbers for other samples",
            "what is drawn from the script's own streams, or from a generator that is seeded by the "
            "sample's index, is each sample's own",
        )  # fmt: skip


def _draws(facts: Facts, functions: list[Callable]) -> Iterator[tuple[Module, cst.Call]]:
    """Where they are drawn from, but for those that are made or seeded for the sample."""
    calls = [
        (facts.module_of(function), node)
        for function in functions for node in tree.walk(function.body) if isinstance(node, cst.Call)
    ]  # fmt: skip
    inside = set(functions)
    own = {obj for _, call in calls if _seeds(call) for obj in _generators(facts, [_called_of(call)])}
    for module, call in calls:
        drawn_from = _generators(facts, _drawn_from(call))
        if any(obj not in own and not _is_made_in(facts, obj, inside) for obj in drawn_from):
            yield module, call


def _is_made_in(facts: Facts, obj: Obj, inside: Collection[Callable]) -> bool:
    """`self.rng = random.Random(index)`, `np.random.default_rng(index).normal()`, for each sample."""
    steps = [one for one in (*obj.context, obj.site) if isinstance(one, cst.CSTNode)]
    return any(facts.module_of(one).function(one) in inside for one in steps)


def _generators(facts: Facts, nodes: Iterable[cst.BaseExpression | None]) -> list[Obj]:
    held = [root(obj) for node in nodes if node is not None for obj in facts.value(node).objs]
    return [one for one in held if isinstance(one, External) and drawing.is_a_generator(one.name)]


def _drawn_from(call: cst.Call) -> Iterator[cst.BaseExpression | None]:
    """`self.rng` of `self.rng.normal()`, `torch.rand(4, generator=self.rng)`"""
    if isinstance(call.func, cst.Attribute) and drawing.is_drawing_method(call.func.attr.value):
        yield call.func.value
    yield from (one.value for one in call.args if one.keyword is not None and one.keyword.value in drawing.OWN_STREAM)


def _seeds(call: cst.Call) -> bool:
    """`self.rng.manual_seed(index)`"""
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in drawing.SEEDING_METHODS


def _called_of(call: cst.Call) -> cst.BaseExpression | None:
    return call.func.value if isinstance(call.func, cst.Attribute) else None
