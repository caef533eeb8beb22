"""Inputs come to the device of a model that was in nn.DataParallel. The device of these tests is torch's `meta`."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any, NamedTuple

import distify_runtime as rt
import torch
from ranks import on_ranks
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Pair(NamedTuple):
    first: Tensor
    second: int


class Shown(nn.Module):
    """Returns what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return args, kwargs


class Empty(nn.Module):
    def forward(self, samples: Tensor) -> Tensor:
        return samples


def test_tensors_are_moved_wherever_nn_data_parallel_looks_for_them() -> None:
    model = Shown().to("meta")
    assert rt.inputs_to_device(model) is model
    held = torch.ones(3)
    (one, two, three, four), named = model(held, (held, [held]), OrderedDict(a={"b": held}), Pair(held, 2), c=held)
    found = [one, two[0], two[1][0], three["a"]["b"], four.first, named["c"]]
    assert [tensor.device.type for tensor in found] == ["meta"] * 6
    assert (type(two), type(two[1]), type(three), type(four), four.second) == (tuple, list, OrderedDict, Pair, 2)


def test_all_else_stays_the_same_object() -> None:
    model = rt.inputs_to_device(Shown())
    given = torch.ones(3), {"a": 1}, object(), "text", None, {1, 2}
    (args, _) = model(*given)
    assert all(one is other for one, other in zip(args, given, strict=True))


def test_other_models_of_the_class_and_copies_and_models_without_parameters_move_nothing() -> None:
    model = rt.inputs_to_device(Shown().to("meta"))
    held = torch.ones(3)
    for other in (Shown().to("meta"), copy.deepcopy(model)):
        ((found,), _) = other(held)
        assert found is held
    assert rt.inputs_to_device(Empty())(held) is held
    assert rt.inputs_to_device("no model") == "no model"


def test_the_model_moves_inputs_to_where_it_is_now_and_pickles_as_before() -> None:
    model = rt.inputs_to_device(Shown())
    held = torch.ones(3)
    assert model(held)[0][0] is held
    assert b"distify" not in pickle.dumps(model)
    model.to("meta")
    assert model(held)[0][0].is_meta


class Moves(TorchFunctionMode):
    """Where tensors are asked to go."""

    def __init__(self) -> None:
        self.devices: list[object] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.to and isinstance(args[1], torch.device):
            self.devices.append(str(args[1]))
        return func(*args, **(kwargs or {}))


def _shared(moves_inputs: bool) -> tuple[int, list[Any]]:
    model = nn.Linear(3, 2)
    rt.data_parallel(rt.inputs_to_device(model) if moves_inputs else model)
    for _ in range(4):
        model.zero_grad()
        with Moves() as moves:
            out = model(torch.ones(4, 3))
        out.sum().backward()
    assert model.weight.grad is not None
    return len(moves.devices), [tuple(out.shape), model.weight.grad.tolist()]


def test_a_shared_model_moves_its_inputs() -> None:
    first, second = on_ranks(_shared, True)
    count, found = on_ranks(_shared, False)[0]
    assert first == second == (count + 1, found)
    assert found == [(4, 2), [[4.0] * 3] * 2]
