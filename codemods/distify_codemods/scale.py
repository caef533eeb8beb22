"""How numbers depend on how many samples they were computed from: what sharding a batch does to them."""

from __future__ import annotations

from enum import Enum


class Scale(Enum):
    """How a number depends on how many samples it was computed from: what sharding a batch does to it."""

    __hash__ = object.__hash__  # members are compared by identity, and Enum hashes their names anew each time

    CONST = "does not depend on the batch"
    SAMPLES = "one entry per sample"
    TURNED = "one entry per sample, not along the first dimension"
    RAGGED = "some of the samples"
    COUNT = "the number of samples"
    INVERSE = "a number divided by the number of samples"
    MEAN = "a mean over samples"
    SUM = "a sum over samples"
    WEIGHTED = "a mean whose weights depend on the samples"
    SLOPES = "one entry per sample, divided by the number of samples or not: a gradient, of which the sign is known"
    REDUCED = "computed over the batches of all ranks: the same on each, with its gradient"
    COUPLED = "relates the samples of a batch to each other"
    UNKNOWN = "unknown"


PER_SAMPLE = frozenset({Scale.SAMPLES, Scale.TURNED, Scale.RAGGED})
#: What sharding a batch makes something else of.
LOST = frozenset({Scale.WEIGHTED, Scale.COUPLED, Scale.UNKNOWN})
#: Numbers that a rank's part of the batch has others of.
FIGURES = LOST | {Scale.MEAN, Scale.SUM, Scale.SLOPES}


def either(one: Scale, other: Scale) -> Scale:
    """What may be one or the other, as after a branch."""
    if Scale.CONST in (one, other):
        return other if one is Scale.CONST else one
    if {one, other} == {Scale.REDUCED, Scale.MEAN}:
        return Scale.MEAN
    if {one, other} == {Scale.SAMPLES, Scale.RAGGED}:
        return Scale.RAGGED
    numbers = {one, other} & {Scale.SUM, Scale.WEIGHTED}
    if numbers and PER_SAMPLE & {one, other}:
        return Scale.COUPLED  # a number of the whole batch, which must never be taken for an entry of each sample
    return Scale.COUPLED if Scale.COUPLED in (one, other) else Scale.UNKNOWN
