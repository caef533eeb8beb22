"""The learning rate of a larger global batch: scaled while the optimizer steps, and ramped up as the run begins.

Optimizer, schedulers and script go on seeing the rate that the script sets: what they print, compare, change and save
is that of the original. Only for the length of a step is each group's rate multiplied. So schedules follow by
themselves, and a checkpoint goes on in the original script.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import MethodType
from typing import Any, TypeVar

import torch
from torch.optim import Optimizer

from distify_runtime.environment import world_size
from distify_runtime.meeting import by_itself, collective
from distify_runtime.output import note, stop

Item = TypeVar("Item")

LINEAR = "linear"
SQUARE_ROOT = "square root"
_FACTORS: dict[str, Callable[[int], float]] = {LINEAR: float, SQUARE_ROOT: math.sqrt}

#: Libraries whose optimizers are known by the names of their classes.
_LIBRARIES = ("torch", "apex", "bitsandbytes", "timm", "torch_optimizer", "transformers")

#: Which rule fits which optimizer, by the name of its class. The checklist gives the sources.
RULES: dict[str, str] = {
    **dict.fromkeys(["SGD", "SGDP", "SGDW", "FusedSGD", "SGD8bit", "LARS", "Lars", "LARS8bit"], LINEAR),
    **dict.fromkeys(
        [
            *("Adam", "AdamW", "Adamax", "NAdam", "NAdamW", "Nadam", "RAdam", "SparseAdam", "AdamP"),
            *("FusedAdam", "Adam8bit", "AdamW8bit", "PagedAdam", "PagedAdamW", "PagedAdamW8bit"),
            *("Adagrad", "Adadelta", "RMSprop", "RMSpropTF", "FusedAdagrad", "Adagrad8bit", "RMSprop8bit"),
            *("LAMB", "Lamb", "FusedLAMB", "LAMB8bit"),
        ],
        SQUARE_ROOT,
    ),
}


@dataclass
class _WarmUp:
    """How far the loop that `warm_up` runs has come: `done` of `total` items, which are epochs or steps."""

    epochs: float
    by_step: bool
    total: int
    done: int

    @property
    def length(self) -> float:
        """How many of its items ramp up."""
        fifth = self.total / 5
        if not self.by_step:
            return min(self.epochs, fifth)
        return min(self.epochs * _batches, fifth) if _batches else fifth


#: The loop that is running; what steps outside of any has the full rate.
_warm_up: _WarmUp | None = None

#: How many batches the latest pass over a training loader has; 0 if that is not known.
_batches = 0


def pass_begins(batches: int) -> None:
    """A pass over a training loader begins: in a loop over epochs, an epoch has so many steps until it is measured."""
    global _batches
    _batches = batches


@dataclass
class _Scaled:
    """What one optimizer's rate is multiplied by."""

    full: float
    loop: _WarmUp | None = None
    item: int = -1  # in which it stepped last
    steps: int = 0  # in that item
    expected: int = 0  # steps in an item, as measured in the one before
    told: bool = False

    def next_factor(self) -> float:
        loop = _warm_up
        if loop is None or loop.length <= 0:
            return self.full
        if self.loop is not loop:
            self.loop, self.item, self.steps, self.expected = loop, -1, 0, 0
        if self.item != loop.done:
            self.expected = self.steps
            self.item, self.steps = loop.done, 0
        expected = self.expected or (1 if loop.by_step else _batches)
        within = min(self.steps / expected, 1.0) if expected else 0.0
        self.steps += 1
        return 1 + (self.full - 1) * min((loop.done + within) / loop.length, 1.0)


@by_itself
def scale_learning_rate(optimizer: Optimizer, rule: str = "") -> Optimizer:
    """The optimizer itself, whose steps take its learning rate times the world size, or times that one's square root.

    For a global batch that is `world_size()` times as large as the script's. rule: "linear" or "square root"; without
    it, the one that fits the optimizer's class. In a loop over `warm_up(...)`, the factor grows from 1 on.
    Raises SystemExit on all ranks for an optimizer that no rule is known for.
    """
    if not isinstance(optimizer, Optimizer):
        stop(f"{type(optimizer).__name__} is no optimizer of torch: its learning rate cannot be scaled")
    rule = rule or _rule_of(optimizer)
    if rule not in _FACTORS:
        stop(f"{rule!r} is no rule for learning rates: it is {LINEAR!r} or {SQUARE_ROOT!r}")
    if world_size() > 1:
        _scale(optimizer, rule, _Scaled(_FACTORS[rule](world_size())))
    return optimizer


def _rule_of(optimizer: Optimizer) -> str:
    """By the class whose steps it takes: one that takes steps of its own is another optimizer than its base."""
    cls = type(optimizer)
    bases: tuple[type[Any], ...] = cls.__mro__
    for known in bases:
        if known.__module__.split(".")[0] in _LIBRARIES and known.__name__ in RULES:
            if inspect.unwrap(cls.step) is inspect.unwrap(known.step):
                return RULES[known.__name__]
            break
    stop(
        f"no rule is known for how the learning rate of {cls.__name__} grows with the batch: say it with "
        f'scale_learning_rate(optimizer, rule="{LINEAR}") or rule="{SQUARE_ROOT}", or keep the global batch'
    )


def _scale(optimizer: Optimizer, rule: str, scaled: _Scaled) -> None:
    """A method of the object, as schedulers put theirs around it: it ends well however the step does."""
    unscaled = optimizer.step

    @functools.wraps(unscaled)
    def step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            stop("a step in a CUDA graph keeps the learning rate of its capture: leave the step out of the graph")
        if not scaled.told:
            scaled.told = True
            _say(self, rule, scaled.full)
        factor = scaled.next_factor()
        own = [(group, group["lr"], group["lr"] * factor) for group in self.param_groups]
        for group, _, more in own:
            group["lr"] = more
        try:
            return unscaled(*args, **kwargs)
        finally:
            for group, rate, more in own:
                if group["lr"] is more:
                    group["lr"] = rate

    optimizer.step = MethodType(step, optimizer)  # type: ignore[method-assign]


def _say(optimizer: Optimizer, rule: str, full: float) -> None:
    """Once for each optimizer: what it steps with, which the script's own output does not show."""
    rates = list(dict.fromkeys(float(group["lr"]) for group in optimizer.param_groups))
    own, more = (", ".join(f"{rate * factor:.4g}" for rate in rates) for factor in (1, full))
    loop, text = _warm_up, f"{type(optimizer).__name__} steps with a learning rate of {more} instead of {own}"
    if loop is not None and loop.done < loop.length:
        text += f", reached after {loop.length:.4g} of {loop.total} {'steps' if loop.by_step else 'epochs'}"
    ranks = "the number of ranks" if rule == LINEAR else f"the square root of {world_size()} ranks"
    note(f"{text} (times {full:.4g}, {ranks}); the script prints and saves its own")


@collective
def warm_up(items: Iterable[Item], epochs: float = 5, by_step: bool = False) -> Iterator[Item]:
    """The items of a training loop, in whose first `epochs` scaled learning rates grow to their full size.

    Goyal et al. 2017, "Accurate, Large Minibatch SGD", section 2.2. The rate grows with each step, also within an
    epoch, and never in more than a fifth of the loop. A range of epochs that begins above 1 goes on with a run: those
    before it are done. by_step: the items are steps; an epoch is then as many as the loader has batches, if it says.
    Raises SystemExit on all ranks where the number of items is not known.
    """
    if world_size() == 1:
        return iter(items)
    try:
        left = len(items)  # type: ignore[arg-type]
    except TypeError:
        stop("the loop that warms up has no length: loop over range(epochs), or convert with --warmup-epochs 0")
    numbers = getattr(items, "iterable", items)  # inside of a progress bar
    resumed = isinstance(numbers, range) and numbers.step == 1 and numbers.start > 1
    done = numbers.start if isinstance(numbers, range) and resumed else 0
    return _warmed_up(items, _WarmUp(epochs, by_step, done + left, done))


def _warmed_up(items: Iterable[Item], loop: _WarmUp) -> Iterator[Item]:
    global _warm_up
    for item in items:
        outer, _warm_up = _warm_up, loop
        try:
            yield item
        finally:
            _warm_up = outer
        loop.done += 1
