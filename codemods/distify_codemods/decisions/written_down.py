"""Where figures were written down that are held together: in a dictionary, a list, a record, a text."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.decisions.put_into import is_record, put_into, read_one_by_one
from distify_codemods.decisions.texts import made_before, reckoned_before
from distify_codemods.facts import Facts
from distify_codemods.libraries import torch_tensors
from distify_codemods.objects import Mapping, Method, Sequence
from distify_codemods.scale import LOST

_DISPLAYS = (cst.Dict, cst.List, cst.Tuple)


def displays(facts: Facts, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Where figures were written down that are held together: the dictionary or the record that a function returns,
    what was put into it, a text."""
    if isinstance(node, cst.Name):
        yield from made_before(facts.module_of(node), node) or _reckoned(facts, node)
    for obj in facts.value(node).objs if isinstance(node, cst.BaseExpression) else ():
        is_display = isinstance(obj.site, _DISPLAYS) and isinstance(obj, (Mapping, Sequence))
        if isinstance(obj.site, cst.BaseExpression) and (is_display or _is_made_of_training(facts, obj)):
            yield obj.site
        yield from put_into(facts).get(obj, ())


def _reckoned(facts: Facts, name: cst.Name) -> list[cst.BaseExpression]:
    """`ppl = math.exp(loss.item())`: of the mean, which is not the mean of what is made of each rank's."""
    value = facts.value(name)
    if value.objs or value.scale not in LOST or not facts.shares_of_training(value):
        return []
    found = reckoned_before(facts.module_of(name), name)
    known = all(facts.value(one).scale in LOST for one in found if facts.shares_of_training(facts.value(one)))
    return found if known and all(_reckons(facts, part) for one in found for part in tree.walk(one)) else []


def _reckons(facts: Facts, node: cst.CSTNode) -> bool:
    """Whether it makes what it is of what is seen: no function of the script's own is called, which may take more."""
    if not isinstance(node, cst.Call):
        return True
    callees = facts.value(node.func).objs
    known = (isinstance(one, Method) or (isinstance(one, Ref) and _is_of_numbers(one.name)) for one in callees)
    return bool(callees) and all(known)


def _is_of_numbers(name: str) -> bool:
    return name.startswith(("builtins.", "math.")) or torch_tensors.computes(name)


def is_written_down(obj: Obj) -> bool:
    """`{"loss": loss}`, `dict()`: whatever else is in it was put there."""
    made = obj.site
    called = isinstance(made, cst.Call) and (not made.args or is_record(obj))
    return called or isinstance(made, _DISPLAYS)


def is_read_again(facts: Facts, place: cst.BaseExpression) -> bool:
    """A record, a list made of lists, or what entries are read of: what is in there is also read one by one, and put
    together there. A mean of means is that mean; a sum of sums would be too large."""
    made = [obj for obj in facts.value(place).objs if obj.site is place]
    if isinstance(place, _DISPLAYS):
        return not read_one_by_one(facts).isdisjoint(made)
    return any(_is_made_of_training(facts, obj) for obj in made)


def _is_made_of_training(facts: Facts, obj: Obj) -> bool:
    """A record, or a list made of lists: where a class is called, or lists are put together, figures of training and of
    other batches may go in, so that what this one holds is asked."""
    added = isinstance(obj.site, cst.BinaryOperation) and isinstance(obj.site.operator, cst.Add)  # and no text, by `%`
    listed = isinstance(obj, Sequence) and (added or isinstance(obj.site, cst.Subscript))
    held = obj.parts() if isinstance(obj, Sequence) else obj.attributes.values()
    return (listed or is_record(obj)) and any(facts.shares_of_training(value) for value in held)
