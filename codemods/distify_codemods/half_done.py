"""Scripts that are distributed with torch's own means: whether all of it is there, or something is to be finished."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from distify_codemods.events import Kind
from distify_codemods.facts import Facts, Loader
from distify_codemods.values import External, Obj, Setting, Value, Wrapped, core

GROUP = "torch.distributed.init_process_group"
WRAPS = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "torch.nn.parallel.DistributedDataParallelCPU",
    "apex.parallel.DistributedDataParallel",
)
SAMPLERS = ("torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler")
SPAWN = "torch.multiprocessing.spawn"
#: What may be missing of a script that calls them; nothing is of one that calls anything else for it.
MEANS = frozenset({GROUP, *WRAPS})
#: What tells a process who it is: by torch, by the launcher's environment, by an argument of the old launcher.
_RANK_CALLS = "rank"
_ENVIRONMENT = frozenset({"RANK", "LOCAL_RANK", "SLURM_PROCID", "SLURM_LOCALID"})
_ARGUMENTS = frozenset({"local_rank"})


def missing(facts: Facts) -> tuple[str, ...]:
    """What is still to be done; nothing where all is done, or where that cannot be seen."""
    trained = [loader for loader in facts.loaders if loader.obj in facts.training_loaders]
    if not facts.models or not trained or not facts.run.complete:
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
    return [obj for obj in given.objs if isinstance(obj, External) and obj.name in SAMPLERS]


def asks_for_rank(facts: Facts, test: cst.CSTNode, parts: Iterable[cst.CSTNode]) -> bool:
    """Whether a test may come out differently on each rank because it asks which one it is."""
    for node in (test, *parts):
        value = facts.value(node)
        if _RANK_CALLS in value.sources:
            return True
        if any(isinstance(obj, Setting) and obj.name in _ARGUMENTS for obj in value.objs):
            return True
    return False


def names_rank(key: object) -> bool:
    """Whether a variable of the environment has the number of this process."""
    return isinstance(key, str) and key in _ENVIRONMENT
