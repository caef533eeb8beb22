"""Training loaders whose batches have one sample, or do not divide: they cannot be dealt out in even shares."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import command_line
from distify_codemods.allocation import Const
from distify_codemods.decisions import dealing
from distify_codemods.decisions.base import Decisions, Link
from distify_codemods.facts import Facts, Loader
from distify_codemods.libraries import torch_data
from distify_codemods.objects import Setting


def of_one_sample(facts: Facts, loader: Loader) -> str:
    """What makes its batches ones of a single sample, if that is seen."""
    size = loader.arguments.get("batch_size", 1)
    if dealing.given(loader, "batch_sampler") is not dealing.Given.NO or is_passed_by(facts, loader):
        return ""
    if size is None:
        plain = loader.obj.name == torch_data.LOADER and not dealing.partial(loader)
        by_itself = plain and dealing.given(loader, "batch_size") is dealing.Given.NO
        return "no `batch_size` is given, and so each batch has one sample" if by_itself else ""
    only = size.single()
    if isinstance(only, Const) and type(only.value) is int and only.value == 1:
        return "each batch has one sample"
    if isinstance(only, Setting) and command_line.integers(facts).get(only.name) == 1:
        return f"unless the option `{only.name}` is given, each batch has one sample"
    return ""


def links(decisions: Decisions) -> Iterator[Link]:
    """Training loaders whose batches can never be dealt out to two ranks, whatever options are given."""
    facts = decisions.facts
    for loader in facts.loaders if not facts.program.options.per_rank_batch else ():
        if loader.obj in facts.training_loaders and (told := _of_no_even_shares(facts, loader)):
            yield Link(loader.made.module, loader.call, told)


def _of_no_even_shares(facts: Facts, loader: Loader) -> str:
    size = loader.arguments.get("batch_size", 1)
    only = size.single() if size is not None and not size.open else None
    if size is not None and not isinstance(only, Const):
        return ""
    if told := of_one_sample(facts, loader):
        return f"{told}, which cannot be dealt out to several ranks"
    by_itself = dealing.given(loader, "batch_sampler") is dealing.Given.NO and not is_passed_by(facts, loader)
    if by_itself and isinstance(only, Const) and type(only.value) is int and only.value % 2:
        return f"a batch of {only.value} does not divide by 2 ranks: in even shares it cannot be dealt out to them"
    return ""


def is_passed_by(facts: Facts, loader: Loader) -> bool:
    """Whether it stands in a branch that the values of the script do not lead to: no caller leaves the size away."""
    below: cst.CSTNode = loader.call
    while (above := loader.made.module.parents.get(below)) is not None:
        if isinstance(above, cst.If) and below is not above.test:
            test = facts.value(above.test)
            holds = {bool(one.value) if isinstance(one, Const) else None for one in test.objs}
            if not test.open and holds == {below is not above.body}:
                return True
        below = above
    return False
