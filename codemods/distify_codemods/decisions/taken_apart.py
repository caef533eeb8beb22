"""What the runtime can gather: tensors, and lists, tuples and dictionaries of them, with a row for each sample."""

from __future__ import annotations

from collections.abc import Mapping, Set

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.facts import BatchLoop, Facts
from distify_codemods.inside import core
from distify_codemods.interpreter import collated
from distify_codemods.interpreter.collate_forms import Kind
from distify_codemods.libraries import python, using
from distify_codemods.libraries.torch_data import LOADERS
from distify_codemods.objects import External, Instance
from distify_codemods.origins import Listed, Padded


def is_closed(obj: Obj) -> bool:
    """Whether the runtime cannot take it apart: no tensor, tuple or dictionary, but something with attributes."""
    if not isinstance(obj, Instance) or obj.of is None:
        return isinstance(obj, (External, Instance))
    known = obj.of.derives_from(*python.DICTIONARIES, *python.TUPLES)
    return not known and not any(map(using.is_dictionary, obj.of.libraries))


def why_not(facts: Facts, loop: BatchLoop, names: Mapping[str, cst.Name], returned: Set[str]) -> str:
    """Why what names hold after the forward pass of an evaluation cannot be gathered; empty where it can.

    `returned`: those that hold what a model returned.
    """
    for name, node in names.items():
        closed = next((one for one in facts.value(node).objs if is_closed(one)), None)
        if closed is not None:
            return f"`{name}` is no tensor, list, tuple or dictionary, of which parts can be put together"
    loaders = [one for one in map(core, loop.loaders) if isinstance(one, External) and one.name in LOADERS]
    forms = [collated.layout(facts.run.machine, one) for one in loaders]
    leaves = [leaf for form in forms for leaf in form.leaves()]
    if all(leaf.kind is Kind.ROWS and not leaf.padded for leaf in leaves):
        return ""
    if any(leaf.kind not in (Kind.ROWS, Kind.LISTED) for leaf in leaves):
        return "it is not seen that the samples of a batch lie along its first dimension, one row each"
    seen = facts.tried(drop_data_parallel=True, evidence=True, hooks=())
    for name, node in names.items():
        marks = seen.value(node).sources
        if any(isinstance(mark, Listed) for mark in marks):
            return f"`{name}` is made of a list of samples, and how many rows each has is not known"
        if name not in returned and any(isinstance(mark, Padded) for mark in marks):
            return f"`{name}` is padded to another length on each rank"
    return ""
