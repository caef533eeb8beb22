"""Where a recorded run is."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan


@dataclass
class Moment:
    steps: int = 0  # optimizer steps so far
    draws: int = 0  # draws of noise since the last one: by these, each rank finds the same noise
    in_training: bool = False  # some loader has handed out a batch
    forwards: int = 0  # calls of modules that train, and that are under way
    in_dataset: bool = False  # a sample is being fetched
    each_sample: bool = False  # noise is drawn for each sample, and not one row for all
    initialising: int = 0  # calls of `torch.nn.init` that are under way
    drawn: bool = False  # something was, or would have been, that may be noise for samples
    #: Single numbers that may be for one sample each: how many, by the step, the line's place, and what stands there.
    singles: dict[tuple[int, str, str], int] = field(default_factory=dict)
    workers: bool = False  # a loader has asked for some
    loss: float = nan  # of which gradients have been taken since the last step, all together
    mixed: bool = False  # the script has asked for mixed precision
    #: Of a wrapped model: the step, where chance was, and of how many numbers some would have been left out.
    dropouts: list[tuple[int, int, int]] = field(default_factory=list)
    unwrapped_dropouts: list[tuple[int, int, int]] = field(default_factory=list)  # of others, as under Horovod
    #: Orders of so many numbers that lines draw by chance, as a batch's samples are paired by: as `singles`.
    orders: dict[tuple[int, str, str], int] = field(default_factory=dict)

    def step(self) -> None:
        self.steps += 1
        self.draws = self.forwards = 0
        self.loss = nan

    @property
    def draws_noise(self) -> bool:
        """Whether what is drawn now is for a batch, on a rank for its share: without a loader, in models alone."""
        return (self.in_training or self.forwards > 0) and not self.in_dataset and not self.initialising


NOW = Moment()
