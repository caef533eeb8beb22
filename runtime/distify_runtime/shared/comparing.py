"""Whether two passes gave the same, to rounding."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from distify_runtime.shared.graph import flows, kinds_of_nodes
from distify_runtime.shared.state import Counted
from distify_runtime.shared.streams import Positions
from distify_runtime.sparse import dense

#: How far apart two computations of one number may be, as a share of its size. Mistakes are tenths and more.
_ROUNDING = {torch.float64: 1e-7, torch.float32: 2e-3, torch.complex128: 1e-7, torch.complex64: 2e-3}
_ROUNDING_OF_HALVES = 5e-2
#: What is further apart than this is seldom rounding: a mistake may be small as yet, and grow.
_DOUBTFUL, _DOUBTFUL_GRADIENTS = 2e-5, 2e-4
#: Of numbers that are all nearly the same, as those of an untrained network: what their size alone rounds away.
_EPSILONS = 16
#: The same of wide numbers that were computed from narrow ones: each step rounds them by chance, up or down.
_EPSILONS_OF_STEPS = 2
#: What is not equal, and no further apart than this, may be rounding all the same: where last digits decide something.
_NEAR = 0.1
#: What is this much smaller than the largest gradient is held against that: it may be nothing but rounding.
_SMALL = 1e-2
#: The same for a running mean, held against the spread of what it is a mean of.
_OF_SPREAD = 0.1
#: How exactly the weights of the parts have to show, where no gradients vouch for them.
_OF_WEIGHTS = 1e-2
_SINGLE = (torch.float32, torch.complex64)
OTHER_GRADIENTS = "a part of the batch has other gradients than the whole one"
OTHER_VALUES = "a part of the batch gives other values than the whole one: its samples depend on each other"
#: Where a tensor keeps those that are called with its gradient.
_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


class Apart(str):
    """Why two passes are not equal, where rounding may be what it is. They are compared in double precision then."""


class Doubtful(Apart):
    """They are equal to rounding, if it is as large as it seldom is. Where double precision cannot tell, they are."""


@dataclass
class Left:
    """A tensor that is still there when a pass is over, and what holds it, in words."""

    where: str
    tensor: Tensor


@dataclass
class Outside:
    """What a pass leaves where nothing gathers it."""

    tensors: list[Left] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)  # by where they are
    of_modules: frozenset[str] = frozenset()  # which of them modules have, by then
    returned: Any = None  # all of its outputs but their tensors
    drawn_alike: tuple[tuple[int, ...], ...] = ()  # the shapes of what all ranks draw alike


@dataclass
class Passed:
    """What a pass gave. Gradients are those of a random projection of the outputs; by identity of what they are for."""

    tensors: list[Tensor]
    flows: list[bool]  # whether gradients flow to the tensor
    gradients: dict[int, Tensor | None]
    leaves: dict[int, Tensor]  # that gradients flow to, past copies and splits
    state: dict[str, Tensor]
    draws: list[tuple[int, ...]]  # the shapes of what was drawn
    drops: bool  # something was left out by a kernel that draws by itself
    has_sides: bool  # a single number was drawn, by which it may have been decided
    moved: Positions  # where streams are then that were drawn from
    outside: Outside
    spreads: dict[str, float] = field(default_factory=dict)  # by the names of running means in `state`
    counted: Counted | None = None  # the traces of a pass that counts, if it leaves no others
    precision: torch.dtype | None = None  # of half size, which something was computed in, whatever came of it
    generators: list[Any] = field(default_factory=list)  # the script's own, that were drawn from

    @property
    def differs(self) -> bool:
        """Whether there is anything to compare: outputs that are all one number tell nothing."""
        return any(_varies(one) for one in self.tensors)


@dataclass
class Both:
    """The whole batch and this rank's part, or why there is none; and of all ranks, what they leave outside.

    dims: where the batch is in what they draw. moved: the streams that they draw from. failed: what the first rank says
    that cannot compute one of them.
    """

    whole: Passed | str
    part: Passed | str
    dims: list[frozenset[int]] | None
    moved: list[Positions]
    outside: list[Outside]
    failed: str


def gradients_of(tensors: list[Tensor], wanted: dict[int, Tensor]) -> dict[int, Tensor | None]:
    """Of one random projection of the tensors, the same on every rank. `.grad` stays as it is."""
    flowing = [one for one in tensors if flows(one)]
    if not flowing or not wanted:
        return {}
    directions = [_direction(one) for one in flowing]
    inputs = list(wanted.values())
    with _unheard(inputs):
        if "CheckpointFunctionBackward" in kinds_of_nodes(tensors):  # reentrant: it bears `backward` alone
            found = _by_backward(flowing, inputs, directions)
        else:
            found = torch.autograd.grad(flowing, inputs, directions, allow_unused=True, retain_graph=True)
    return dict(zip(wanted, (None if one is None else dense(one.detach()) for one in found), strict=True))


@contextmanager
def _unheard(leaves: Sequence[Tensor]) -> Iterator[None]:
    """Hooks on these do not hear of gradients that are none of the training's."""
    hooks = [getattr(one, name) for one in leaves for name in _HOOKS if getattr(one, name)]
    before = [dict(one) for one in hooks]
    for one in hooks:
        one.clear()
    try:
        yield
    finally:
        for one, held in zip(hooks, before, strict=True):
            one.update(held)


def _direction(tensor: Tensor) -> Tensor:
    """Numbers between -1 and 1 without a pattern, that nothing has to be drawn for."""
    count = torch.arange(1, tensor.numel() + 1, dtype=torch.float64, device=tensor.device)
    return ((count * 78.233).sin() * 43758.5453).frac().view(tensor.shape).to(tensor)


def _by_backward(flowing: list[Tensor], inputs: list[Tensor], directions: list[Tensor]) -> tuple[Tensor | None, ...]:
    before = [one.grad for one in inputs]
    for one in inputs:
        one.grad = None
    torch.autograd.backward(flowing, directions, retain_graph=True)
    found = tuple(one.grad for one in inputs)
    for one, gradient in zip(inputs, before, strict=True):
        one.grad = gradient
    return found


def difference(parts: Passed, whole: Passed) -> str:
    """Where they differ, in words; empty: nowhere."""
    precision = whole.precision
    for part, other in zip(parts.tensors, whole.tensors, strict=True):
        if part.shape != other.shape or not is_equal(part, other, precision=precision):
            return Apart(OTHER_VALUES) if is_near(part, other) else OTHER_VALUES
    for mine, expected, least in _gradients(parts, whole):
        if not is_equal(mine, expected, least, precision):
            return Apart(OTHER_GRADIENTS) if torch.equal(mine.isfinite(), expected.isfinite()) else OTHER_GRADIENTS
    return _of_states(parts.state, whole)


def doubt(parts: Passed, whole: Passed) -> str:
    """Of two that are equal to rounding: whether double precision is to tell if it was that."""
    if whole.precision is not None:
        return ""
    for part, other in zip(parts.tensors, whole.tensors, strict=True):
        if other.dtype in _SINGLE and not is_equal(part, other, allowed=_DOUBTFUL):
            return Doubtful(OTHER_VALUES)
    for mine, expected, least in _gradients(parts, whole):
        if expected.dtype in _SINGLE and not is_equal(mine, expected, least, allowed=_DOUBTFUL_GRADIENTS):
            return Doubtful(OTHER_GRADIENTS)
    return ""


def _gradients(parts: Passed, whole: Passed) -> Iterator[tuple[Tensor, Tensor, float]]:
    """Those of both passes, and what their sizes are taken for if they are smaller."""
    largest = max((_norm(one) for one in whole.gradients.values() if one is not None), default=0.0)
    for identity, mine in parts.gradients.items():
        expected = whole.gradients.get(identity)
        if mine is None and expected is None:
            continue
        mine = torch.zeros_like(expected) if mine is None else mine  # type: ignore[arg-type]
        yield mine, torch.zeros_like(mine) if expected is None else expected, _SMALL * largest


def _of_states(parts: dict[str, Tensor], whole: Passed) -> str:
    for name in whole.state.keys() | parts.keys():
        one, other, least = parts.get(name), whole.state.get(name), _OF_SPREAD * whole.spreads.get(name, 0.0)
        known = None if one is None or other is None or one.shape != other.shape else (one, other)
        if known is None or not is_equal(*known, least, whole.precision):
            why = f"what it keeps in `{name}` is another thing after a part of the batch than after the whole one"
            return Apart(why) if known is not None and is_near(*known, least) else why
    return ""


def is_equal(
    one: Tensor,
    other: Tensor,
    at_least: float = 0.0,
    precision: torch.dtype | None = None,
    allowed: float | None = None,
) -> bool:
    """To rounding. `at_least`: what their sizes are taken for if they are smaller; `precision`: what was computed in,

    if that is coarser than theirs: a weight's gradient is as wide as the weight, under autocast, too. `allowed`: how
    far apart they may be, as a share of their size.
    """
    if not (other.dtype.is_floating_point or other.dtype.is_complex):
        return torch.equal(one.to(other.dtype), other)
    if one.shape != other.shape:
        return False
    found, apart = other.detach(), one.detach() - other.detach()
    has_many, size, distance = found.numel() > 1, _norm(found), _norm(apart)
    if not (math.isfinite(size) and math.isfinite(distance)):  # to take numbers out of all takes longer than the rest
        finite = found.isfinite()
        if not torch.equal(one.isfinite(), finite):
            return False
        found, apart = found[finite], apart[finite]
        size, distance = _norm(found), _norm(apart)
    if allowed is None:
        allowed = _ROUNDING_OF_HALVES if precision is not None else _ROUNDING.get(other.dtype, _ROUNDING_OF_HALVES)
    if has_many and found.numel():  # what all numbers have in common says nothing about which is whose
        coarse = 0.0 if precision is None else _EPSILONS_OF_STEPS * torch.finfo(precision).eps
        rounded = max(_EPSILONS * torch.finfo(other.dtype).eps, coarse) * size
        size = _norm(found - found.mean())
    else:
        rounded = torch.finfo(other.dtype).tiny
    return distance <= allowed * max(size, at_least) + rounded


def is_near(one: Tensor, other: Tensor, at_least: float = 0.0) -> bool:
    """Whether these are not so far apart that it can be no rounding. at_least: as for `is_equal`."""
    if one.shape != other.shape or not other.dtype.is_floating_point:
        return False
    size = _norm(other - other.mean()) if other.numel() > 1 else _norm(other)
    return _norm(one - other) <= _NEAR * max(size, at_least)


class Weights(enum.Enum):
    """Whether the numbers of the parts tell that those of the whole are their mean, or their sum."""

    SHOWN = enum.auto()
    OTHERS = enum.auto()  # near it, and not to rounding
    UNSEEN = enum.auto()  # the parts are too much alike: it would look so with any weights


def weights(parts: Sequence[Tensor], joined: Tensor, whole: Tensor, precision: torch.dtype | None) -> Weights:
    """Held against what the parts differ by: what they have in common is the same with any weights."""
    if not all(bool(one.isfinite().all()) for one in (*parts, whole)):
        return Weights.UNSEEN
    eps = max(_EPSILONS * torch.finfo(whole.dtype).eps, 0.0 if precision is None else torch.finfo(precision).eps)
    rounded, spread = eps * _norm(whole), max(_norm(part - parts[0]) for part in parts)
    if _norm(joined - whole) > _ROUNDING.get(whole.dtype, _ROUNDING[torch.float32]) * spread + rounded:
        return Weights.OTHERS
    return Weights.SHOWN if rounded <= _OF_WEIGHTS * spread else Weights.UNSEEN


def _norm(tensor: Tensor) -> float:
    wide = torch.promote_types(tensor.dtype, torch.float64)
    return float(torch.linalg.vector_norm(tensor, dtype=wide))


def _varies(tensor: Tensor) -> bool:
    if tensor.numel() < 2 or not tensor.dtype.is_floating_point:
        return tensor.dim() == 0 and bool(tensor.detach() != 0)
    flat = dense(tensor.detach()).reshape(-1)
    return bool((flat != flat[0]).any())
