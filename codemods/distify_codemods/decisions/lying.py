"""How the samples of a batch lie in what is made of it, in a run that follows that (`interpreter/whole.py`)."""

from __future__ import annotations

from enum import Enum

from distify_codemods.decisions import regions
from distify_codemods.origins import Flattened, Numbered, Regrouped, Views
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import Value


class Lying(Enum):
    """What the parts of a batch, one behind the other, are."""

    ONE_ROW = "the batch: one row for each sample"
    SEVERAL_ROWS = "the batch: one row for each sample or several, those of a sample together"
    OTHERWISE = "something else"


def lying_of(value: Value) -> Lying:
    marks = regions.marks_of(value)
    if any(isinstance(mark, (Views, Regrouped, Numbered)) for mark in marks) or not _along_the_first(value):
        return Lying.OTHERWISE
    flattened = [mark for mark in marks if isinstance(mark, Flattened)]
    if any(mark.by_step for mark in flattened):
        return Lying.OTHERWISE
    return Lying.SEVERAL_ROWS if flattened else Lying.ONE_ROW


def _along_the_first(value: Value) -> bool:
    """Whether the samples lie along the first dimension of all that is of the batch, and all of them are there."""
    parts = list(regions.parts_of(value))
    own = value.scale not in PER_SAMPLE or value.scale is Scale.SAMPLES
    return own and all(map(_along_the_first, parts))
