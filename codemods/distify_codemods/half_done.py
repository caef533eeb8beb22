"""Scripts that are distributed with torch's own means: whether all of it is there, or something is to be finished."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.events import Kind
from distify_codemods.facts import Facts, Loader
from distify_codemods.inside import core
from distify_codemods.interpreter.ranks import RANK
from distify_codemods.libraries import torch_data
from distify_codemods.objects import External, Wrapped
from distify_codemods.values import Value


def missing(facts: Facts) -> tuple[str, ...]:
    """What is still to be done; nothing where all is done, or where that cannot be seen."""
    trained = [loader for loader in facts.loaders if loader.obj in facts.training_loaders]
    if not facts.models or not trained or not facts.run.exact:
        return ()
    found = []
    if any(not _is_wrapped(facts, model) for model in facts.models):
        found.append("a model that no DistributedDataParallel wraps")
    if any(not samplers(loader) for loader in trained):
        found.append("a training loader whose samples are not dealt out")
    return tuple(found)


def _is_wrapped(facts: Facts, model: Obj) -> bool:
    return any(
        isinstance(obj, Wrapped) and core(obj) is model
        for event in facts.of_kind(Kind.FORWARD)
        for obj in event.receiver.objs
    )


def samplers(loader: Loader) -> list[External]:
    """The DistributedSamplers of the script's own that a loader may be given."""
    given = loader.arguments.get("sampler", 3) or Value()
    return [obj for obj in given.objs if isinstance(obj, External) and obj.name == torch_data.OF_A_RANK]


def asks_for_rank(facts: Facts, test: cst.CSTNode) -> bool:
    """Whether a test may come out differently on each rank because it asks which one it is."""
    return any(facts.value(node).sources & RANK for node in tree.walk(test))
