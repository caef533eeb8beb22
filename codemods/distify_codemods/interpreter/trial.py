"""What a run of the program takes as given, besides the program as it is written: how conversions are tried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.records import dataclass

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: What happens besides, before (False) or after (True) a statement: how a conversion is tried out.
Hooks = tuple[tuple[tuple[cst.CSTNode, bool], Callable[["Machine"], None]], ...]


@dataclass(frozen=True)
class Reducing:
    """Asks a run to follow losses.

    `nodes`: expressions that are taken over all ranks; of `a += b`, what `a` was before.
    `traced`: whether values keep in mind where they stopped being means or sums.
    """

    nodes: frozenset[cst.CSTNode] = frozenset()
    traced: bool = False


@dataclass(frozen=True)
class Cutting:
    """Asks a run to follow batches that are cut by hand.

    `sizes`: the literals and settings that are known to be the size of a batch, by the place where they are made.
    `shares`: expressions after which each rank keeps its part of the batch, and loops that give it parts.
    """

    sizes: frozenset[tuple[cst.CSTNode | None, str]] = frozenset()
    shares: frozenset[cst.CSTNode] = frozenset()


@dataclass(frozen=True)
class Gathering:
    """Asks a run to follow how samples lie, and what is gathered over the ranks.

    `values`: expressions after which the value is that of the whole batch; also counts, times the world size.
    """

    values: frozenset[cst.CSTNode] = frozenset()
    hooks: Hooks = ()


@dataclass(frozen=True)
class Trial:
    """What is tried out. Of trials that are equal, one is run.

    `drop_data_parallel`: whether `nn.DataParallel(model)` is the model itself.
    `averaged`: expressions whose figures are made the same on all ranks.
    `whole`: where batches are taken that every rank sees, though training deals them out: loops, comprehensions, calls.
    `tracing`: whether values tell through which calls of modules their gradients flow back (`graph.py`).
    `evidence`: whether values tell what unknown things had a part in them (`evidence.py`).
    `shared`: whether ranks share forward passes alone, so that whatever the script sees is the same on all of them.
    With either, values tell where random numbers in them were drawn.
    `samples`: whether loaders ask their data sets for samples (`sampling.py`): what comes of it stays out of batches.
    `sparing`: whether a function is followed a few times for each kind of arguments (`sparing.py`).
    `hooks`: what wraps and sums change.
    """

    drop_data_parallel: bool = False
    cutting: Cutting | None = None
    averaged: frozenset[cst.CSTNode] = frozenset()
    whole: frozenset[cst.CSTNode] = frozenset()
    tracing: bool = False
    gathering: Gathering | None = None
    reducing: Reducing | None = None
    shared: bool = False
    evidence: bool = False
    samples: bool = False
    sparing: bool = False
    hooks: Hooks = ()

    @property
    def draws_alike(self) -> bool:
        """Whether what the script draws outside of its models is drawn alike on all ranks until the end."""
        return self.shared or self.cutting is not None


NOTHING_TRIED = Trial()
#: For a program that is too large to follow each call of it: only forward passes can be shared then.
SPARING = Trial(shared=True, sparing=True)
