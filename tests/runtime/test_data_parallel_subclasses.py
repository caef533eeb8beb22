"""Batches of classes that derive from Tensor, as MONAI's and torchvision's do, go through shared forward passes."""

from __future__ import annotations

import copy
from typing import Any

import distify_runtime as rt
import torch
from ranks import on_ranks
from torch import Tensor, nn


class Placed(Tensor):
    """Knows where each of its samples lies; of what is cut out of it, it does not."""

    places: list[int]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__getitem__ or func is Tensor.narrow or func is Tensor.split:
            raise ValueError("inconsistent places")
        made = super().__torch_function__(func, types, args, kwargs or {})
        first = next((one for one in args if isinstance(one, Placed) and hasattr(one, "places")), None)
        if isinstance(made, Placed) and first is not None:
            made.places = first.places
        return made


class Forgetting(Tensor):
    """What is computed of it is a plain tensor."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


def _follows_one_process() -> Any:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()
    alone = copy.deepcopy(net)
    rt.data_parallel(net)
    plain = torch.randn(8, 5, dtype=torch.float64)
    placed = plain.as_subclass(Placed)
    placed.places = list(range(8))
    for batch in (placed, plain.as_subclass(Forgetting)):
        for _ in range(3):
            ours, theirs = net(batch), alone(batch)
            assert type(ours) is type(theirs)
            assert getattr(ours, "places", None) == getattr(theirs, "places", None)
            ours.pow(2).mean().backward()
            theirs.pow(2).mean().backward()
            torch.testing.assert_close(ours.as_subclass(Tensor), theirs.as_subclass(Tensor))
    for one, other in zip(net.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    with torch.no_grad():
        assert type(net.eval()(placed)) is Placed
    return True


def test_what_tensors_carry_beside_numbers_is_not_cut() -> None:
    assert on_ranks(_follows_one_process) == [True, True]
