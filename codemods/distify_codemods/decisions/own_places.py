"""What training puts down for each sample at a place: `confidence[epoch, i] = p`, `outputs[at : at + len(x)] = out`.

It is for all samples, whoever writes, shows or counts it later, and a rank has the places of its own samples alone.
Where rows of a batch stand behind those of the batches before, it would leave out what the other ranks have had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions import own_figures
from distify_codemods.decisions.base import Decisions, Link
from distify_codemods.decisions.own_figures import holder_of
from distify_codemods.facts import Facts
from distify_codemods.interpreter.pairing import gives_samples, goes_through_a_tensor
from distify_codemods.naming import brief
from distify_codemods.objects import Mapping, Sequence
from distify_codemods.program import Module
from distify_codemods.scale import PER_SAMPLE, Scale

#: Views of some entries, by their places.
_AT_PLACES = ("narrow", "select")


def links(decisions: Decisions) -> Iterator[Link]:
    facts = decisions.facts
    for module, statement in _written(decisions):
        for place in _places(statement):
            if _is_of_a_sample(facts, module, statement, place) and _is_there_before(facts, module, place):
                yield Link(
                    module, statement,
                    f"`{brief(statement)}` keeps something for each sample, and each rank would have it of its own "
                    "alone: in the places of the others nothing would stand",
                    "what is added up over samples, or kept for each batch, is put together or said",
                )  # fmt: skip


def _written(decisions: Decisions) -> Iterable[tuple[Module, cst.CSTNode]]:
    """What puts something of a rank's own samples where it stays."""
    own = own_figures.of(decisions).in_place()
    for module, node in dict.fromkeys([*((one.module, one.node) for one in decisions.left), *own]):
        around = (one for one in (node, *module.enclosing(node)) if isinstance(one, (cst.Assign, cst.AugAssign)))
        yield module, next(around, node)


def _places(statement: cst.CSTNode) -> list[cst.BaseExpression]:
    """`rows[i] = x`, `rows[i:].copy_(x)`, `rows.narrow(0, i, 8).copy_(x)`"""
    if isinstance(statement, cst.Call):
        return [statement.func.value] if isinstance(statement.func, cst.Attribute) else []
    return tree.assigned(statement)


def _is_of_a_sample(facts: Facts, module: Module, statement: cst.CSTNode, place: cst.BaseExpression) -> bool:
    """Whether it is the place of a sample: samples of a batch say it, or their rows do not begin at the front."""
    values = [facts.value(key) for key in _keys(place)]
    said = any(facts.shares_of_training(one) and one.scale not in (Scale.CONST, Scale.COUNT) for one in values)
    if isinstance(statement, cst.Assign) and said:
        return True
    into = [obj for one in tree.inwards(place) for obj in facts.value(one).objs]
    if any(isinstance(obj, (Mapping, Sequence)) for obj in into):
        return False  # it has as many as are put there
    given = [one.value for one in statement.args] if isinstance(statement, cst.Call) else [_value(statement)]
    rows = any(one is not None and facts.value(one).scale in PER_SAMPLE for one in given)
    begins = [*values, *map(facts.value, _beginnings(place))]
    moves = any(one.constant() is None for one in begins)
    return moves and (rows or _is_in_turns_of_samples(facts, module, statement))


def _is_in_turns_of_samples(facts: Facts, module: Module, statement: cst.CSTNode) -> bool:
    """`for row in out: rows[at] = row; at += 1`"""
    value = _value(statement)
    if not isinstance(statement, cst.Assign) or value is None or not facts.shares_of_training(facts.value(value)):
        return False
    over = (facts.value(one.iter) for one in module.enclosing(statement) if isinstance(one, cst.For))
    return any(gives_samples(one) or goes_through_a_tensor(one) for one in over)


def _value(statement: cst.CSTNode) -> cst.BaseExpression | None:
    return statement.value if isinstance(statement, (cst.Assign, cst.AugAssign)) else None


def _keys(place: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """`i` of `rows[i, :]`, and of `rows.narrow(0, i, 8)`."""
    if isinstance(place, cst.Call) and isinstance(place.func, cst.Attribute) and place.func.attr.value in _AT_PLACES:
        yield from (one.value for one in place.args)
    for part in place.slice if isinstance(place, cst.Subscript) else ():
        if isinstance(part.slice, cst.Index) and not _is_no_place(part.slice.value):
            yield part.slice.value


def _is_no_place(key: cst.BaseExpression) -> bool:
    return isinstance(key, cst.Ellipsis) or (isinstance(key, cst.Name) and key.value == "None")


def _beginnings(place: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    for part in place.slice if isinstance(place, cst.Subscript) else ():
        if isinstance(part.slice, cst.Slice) and part.slice.lower is not None:
            yield part.slice.lower


def _is_there_before(facts: Facts, module: Module, target: cst.BaseExpression) -> bool:
    """Whether what takes it was not made in the same turn: targets of one batch, one entry in each row."""
    holder = holder_of(target)
    if not isinstance(holder, cst.Name):
        return True
    turns = [loop.node.body for loop in facts.training_loops if loop.node in module.enclosing(target)]
    made = module.flow(target).reaching(holder)
    return not made or any(all(body not in module.enclosing(one) for body in turns) for one in made)
