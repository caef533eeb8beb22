"""What a forward pass sets by name outside of its model: a check takes it back, and each pass sets it once."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.models import shared_model
from ranks import on_ranks
from torch import Tensor, nn

passes = 0


class Settings:
    passes = 0


class Slotted:
    __slots__ = ("passes",)

    def __init__(self) -> None:
        self.passes = 0


class Frozen:
    __slots__ = ("__passes",)

    def __init__(self) -> None:
        object.__setattr__(self, "_Frozen__passes", 0)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(name)

    def count(self) -> int:
        object.__setattr__(self, "_Frozen__passes", self.__passes + 1)
        return self.__passes


frozen, space = Frozen(), SimpleNamespace(passes=0)
slotted, table = Slotted(), UserDict[str, int](passes=0)


def _global() -> int:
    global passes
    passes += 1
    return passes


def _of_a_class() -> int:
    Settings.passes += 1
    return Settings.passes


def _of_a_function() -> int:
    kept: Any = _of_a_function
    kept.passes = getattr(kept, "passes", 0) + 1
    return kept.passes  # type: ignore[no-any-return]


def _of_slots() -> int:
    slotted.passes += 1
    return slotted.passes


def _in_a_table() -> int:
    table["passes"] += 1
    return table["passes"]


def _frozen() -> int:
    return frozen.count()


def _in_a_namespace() -> int:
    space.passes += 1
    return space.passes  # type: ignore[no-any-return]


class Annealed(nn.Module):
    """The weights of its samples hang on how many passes there have been."""

    own = 0

    def __init__(self, count: Callable[[], int]) -> None:
        super().__init__()
        self.layer, self.count = nn.Linear(4, 3).double(), count

    def forward(self, rows: Tensor) -> Tensor:
        temperature = max(0.2, 0.9 ** self.count())
        return self.layer(rows) / temperature  # type: ignore[no-any-return]


class OfItsClass(Annealed):
    def forward(self, rows: Tensor) -> Tensor:
        OfItsClass.own += 1
        return self.layer(rows) / max(0.2, 0.9**OfItsClass.own)  # type: ignore[no-any-return]


COUNTS = [_global, _of_a_class, _of_a_function, _of_slots, _in_a_table, _frozen, _in_a_namespace]


def _trained(count: Callable[[], int] | None) -> tuple[list[float], int, bool]:
    torch.manual_seed(0)
    model = Annealed(count) if count is not None else OfItsClass(int)
    rt.data_parallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for turn in range(5):
        rows = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(turn))
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
    shared = shared_model(model)
    weights = [one for part in model.parameters() for one in part.detach().flatten().tolist()]
    return weights, count() - 1 if count is not None else OfItsClass.own, shared is not None and not shared.given_up


@pytest.mark.parametrize("count", [*COUNTS, None])
def test_each_pass_counts_once(count: Callable[[], int] | None) -> None:
    ((expected, _, _),) = on_ranks(_trained, count, ranks=1)
    for weights, counted, is_shared in on_ranks(_trained, count):
        assert weights == pytest.approx(expected, abs=1e-12)
        assert (counted, is_shared) == (5, True)
