"""BatchNorm inside of a shared pass: over the whole batch, differentiable as often as torch's own is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from distify_runtime.normalise import local_statistics, merged, normalise, update_running
from distify_runtime.shared import region


def batch_norm(
    original: Callable[..., Tensor],
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`torch.nn.functional.batch_norm`, of all ranks' samples where it takes their statistics. A collective there."""
    inside = region.current()
    if inside is None or not training:
        return original(input, running_mean, running_var, weight, bias, training, momentum, eps)
    mine = local_statistics(input.detach())
    mean, variance, count = merged(inside.everyones(mine, running_mean if weight is None else weight))
    alone = input.numel() // max(input.shape[1], 1) < 2  # else nobody has to look, which waits for a GPU
    if alone and count < 2:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    update_running((running_mean, running_var), momentum, mean, variance * (count / (count - 1)))
    return normalise(input, weight, bias, (mean, variance, count), eps, _Total(inside, inside.place))


@dataclass(frozen=True)
class _Total:
    """The sum over the ranks in a backward pass, of what was summed as the `place`-th of a shared pass."""

    inside: region.Region
    place: int

    def __call__(self, term: Tensor) -> Tensor:
        return self.inside.sum_at(self.place, term)
