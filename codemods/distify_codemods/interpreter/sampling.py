"""Loaders ask their data sets for samples: what a library calls in processes of its own, and no run follows else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.inside import made_of
from distify_codemods.objects import Arguments, External, Instance
from distify_codemods.ordered import Ordered
from distify_codemods.origins import SAMPLE
from distify_codemods.scale import Scale
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: What is called for a sample: of data sets, and of transforms.
FOR_A_SAMPLE = ("__getitem__", "__getitems__", "__call__", "forward")


def makers(loader: External) -> Iterator[Instance]:
    """The data set of a loader, and objects of the script's that it holds, such as transforms."""
    given = loader.arguments.get("dataset", 0) if loader.arguments is not None else None
    seen = dict.fromkeys(obj for value in made_of([given] if given is not None else ()) for obj in value.objs)
    return (obj for obj in seen if isinstance(obj, Instance) and obj.of is not None)


def ask(machine: Machine, loader: External, place: cst.CSTNode) -> None:
    """With an index, or a sample, of which nothing else is known."""
    given = Value(scale=Scale.UNKNOWN, sources=Ordered([SAMPLE]))
    for obj in makers(loader):
        for name in FOR_A_SAMPLE:
            method = machine.attribute(obj, name)
            if method.objs:
                machine.call(method, Arguments([given]), place)
