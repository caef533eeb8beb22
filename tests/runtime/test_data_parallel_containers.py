"""Containers of all kinds that a hook fills: what a pass that is only compared puts there is taken back."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import distify_runtime as rt
import numpy as np
import pytest
import torch
from distify_runtime.shared.models import shared_model
from ranks import on_ranks
from torch import Tensor, nn


class Record(dict[str, float]):
    """A dictionary of the script's own, with an attribute beside its items."""

    calls = 0

    def note(self, value: float) -> None:
        self.calls += 1
        self["total"] = self.get("total", 0.0) + value


class Rows(list[float]):
    def extend(self, _: Any) -> None:
        raise AssertionError("it is its own affair")

    def __iter__(self) -> Any:
        return iter([*range(len(self), 0, -1)])


class Once(OrderedDict[int, float]):
    """Takes each key once, and shows other values than it holds."""

    def __setitem__(self, key: int, value: float) -> None:
        assert key not in self
        super().__setitem__(key, value)

    def items(self) -> Any:
        return [(key, 0.0) for key in self]


def _added(container: Any, value: float) -> None:
    container["total"] += value


def _appended(container: Any, value: float) -> None:
    container["rows"].append(value)


def _entered(container: Any, value: float) -> None:
    container[len(container)] = value


def _first(container: Any, value: float) -> None:
    container[0] += value


Kind = tuple[Callable[[], Any], Callable[[Any, float], None], Callable[[Any], Any]]
KINDS: dict[str, Kind] = {
    "defaultdict of lists": (lambda: defaultdict(list), _appended, dict),
    "defaultdict of numbers": (lambda: defaultdict(float), _added, dict),
    "Counter": (Counter, _added, dict),
    "OrderedDict": (OrderedDict, _entered, dict),
    "OrderedDict of the script's": (Once, _entered, lambda once: [dict.__getitem__(once, key) for key in once]),
    "deque": (lambda: deque([0.0], maxlen=3), deque.append, list),
    "array": (lambda: np.zeros(2), _first, np.ndarray.tolist),
    "list of the script's": (Rows, Rows.append, lambda rows: rows[:]),
    "dictionary of the script's": (Record, Record.note, lambda record: {**record, "calls": record.calls}),
}


def _trained(name: str, counts: bool) -> Any:
    torch.manual_seed(0)
    make, put, found = KINDS[name]
    kept = make()
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    model[1].register_forward_hook(lambda _, __, out: put(kept, 1.0 if counts else out.detach().mean().item()))
    rt.data_parallel(model)
    for turn in range(4):
        rows = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(turn))
        model(rows).square().mean().backward()
    shared = shared_model(model)
    return _flat(found(kept)), shared is not None and not shared.given_up


def _flat(held: Any) -> list[float]:
    if isinstance(held, Tensor | float | int):
        return [float(held)]
    return [one for each in (held.values() if isinstance(held, dict) else held) for one in _flat(each)]


@pytest.mark.parametrize("name", KINDS)
def test_what_is_put_there_is_that_of_one_process(name: str) -> None:
    ((expected, _),) = on_ranks(_trained, name, False, ranks=1)
    for found, is_shared in on_ranks(_trained, name, False):
        assert found == pytest.approx(expected, abs=1e-12)
        assert not is_shared


@pytest.mark.parametrize("name", KINDS)
def test_what_counts_passes_is_no_reason_not_to_share(name: str) -> None:
    ((expected, _),) = on_ranks(_trained, name, True, ranks=1)
    assert on_ranks(_trained, name, True) == [(expected, True)] * 2


class Lazy(dict[str, float]):
    """Loads all that it could hold when it is asked for it, as a table of models does."""

    def items(self) -> Any:
        raise AssertionError("all of it was asked for")


class Looking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.table = nn.Linear(4, 1), Lazy(a=1.0)

    def forward(self, rows: Tensor) -> Tensor:
        out: Tensor = self.body(rows)
        return self.table["a"] * out


def _looked_up() -> Any:
    torch.manual_seed(0)
    model = Looking().double()
    rt.data_parallel(model)
    model(torch.randn(6, 4, dtype=torch.float64)).square().mean().backward()
    shared = shared_model(model)
    assert model.body.weight.grad is not None
    return model.body.weight.grad.tolist(), shared is not None and shared.is_shared


def test_a_dictionary_is_not_asked_for_what_it_would_have_to_load() -> None:
    ((expected, _),) = on_ranks(_looked_up, ranks=1)
    assert on_ranks(_looked_up) == [([pytest.approx(one, abs=1e-12) for one in expected], True)] * 2
