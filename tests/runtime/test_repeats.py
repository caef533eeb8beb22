"""What a process alone keeps of a batch that it holds once for each rank, and what ranks keep of it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime.trace.repeats import count_repeats_once
from ranks import on_ranks
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

Kept = tuple[list[float], list[float], list[float]]


def _parts(case: str) -> list[Tensor]:
    """What each of two ranks holds."""
    first, second = torch.randn(2, 1, 3, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return (
        [first, first] if case == "one sample" else [first.repeat(2, 1, 1, 1)] * 2 if case == "two" else [first, second]
    )


def _kept(layer: nn.BatchNorm2d, samples: Tensor) -> Kept:
    out = layer(samples)
    assert layer.running_mean is not None
    assert layer.running_var is not None
    return out[:1].flatten().tolist(), layer.running_mean.tolist(), layer.running_var.tolist()


def _of_ranks(case: str) -> Kept:
    layer = rt.convert_sync_batchnorm(nn.BatchNorm2d(3, dtype=torch.float64))
    return _kept(layer, _parts(case)[rt.rank()])


class _Seeing(TorchFunctionMode):
    """Torch then calls its functions by their names once more."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _alone(case: str, sees: bool) -> Kept:
    count_repeats_once(2)
    with _Seeing() if sees else nullcontext():
        return _kept(nn.BatchNorm2d(3, dtype=torch.float64), torch.cat(_parts(case)))


@pytest.mark.parametrize("sees", [False, True])
@pytest.mark.parametrize("case", ["one sample", "two", "different ones"])
def test_running_variance(case: str, sees: bool) -> None:
    (alone,) = on_ranks(_alone, case, sees, ranks=1)
    first, _ = on_ranks(_of_ranks, case)
    for mine, expected in zip(alone, first, strict=True):
        assert mine == pytest.approx(expected, abs=1e-12)


def _evaluated() -> Kept:
    count_repeats_once(2)
    return _kept(nn.BatchNorm2d(3, dtype=torch.float64).eval(), torch.cat(_parts("one sample")))


def test_nothing_is_kept_in_an_evaluation() -> None:
    ((_, mean, variance),) = on_ranks(_evaluated, ranks=1)
    assert (mean, variance) == ([0.0] * 3, [1.0] * 3)
