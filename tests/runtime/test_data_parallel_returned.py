"""What a shared pass returns beside tensors, and what it writes into what it is given: what one process would have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.models import shared_model
from ranks import on_ranks
from torch import Tensor, nn


class Layer:
    """As of a cache of keys and values: of a class that nobody knows."""

    __slots__ = ("keys", "name")

    def __init__(self, keys: Tensor) -> None:
        self.keys, self.name = keys, "keys"


class Cache:
    def __init__(self) -> None:
        self.layers: list[Any] = []
        self.whose: Any = None


class Net(nn.Module):
    def __init__(self, give: Callable[[Tensor, Any], Any]) -> None:
        super().__init__()
        self.body, self.give, self.history = nn.Linear(5, 3), give, list[Tensor]()

    def forward(self, samples: Tensor, given: Any = None) -> Any:
        return self.give(self.body(samples), given if given is not None else self)


def _cache(out: Tensor, _: Any) -> Any:
    cache = Cache()
    cache.layers.append(Layer(out * 2))
    return out, cache


def _cache_of_itself(out: Tensor, _: Any) -> Any:
    cache = Cache()
    cache.whose, cache.layers = cache, [out]
    return out, cache


def _fills(out: Tensor, cache: Cache) -> Any:
    cache.layers.append(out.detach())
    return out


def _appends(out: Tensor, given: list[Tensor]) -> Any:
    given.append(out.detach())
    return out


def _keeps(out: Tensor, net: Net) -> Any:
    net.history.append(out)
    return out


def _run(name: str) -> Any:
    give, make, see, _ = CASES[name]
    torch.manual_seed(1)
    net, given, seen = Net(give).double(), make(), []
    rt.data_parallel(net)
    for step in range(5):
        samples = torch.randn(8, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
        found = net(samples, given)
        seen.append(see(found[1] if isinstance(found, tuple) else None, given, net))
        (found[0] if isinstance(found, tuple) else found).square().mean().backward()
    gradient = net.body.weight.grad
    assert gradient is not None
    shared = shared_model(net)
    return seen, gradient.tolist(), shared.given_up if shared else ""


def _rounded(value: Any) -> Any:
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else _number(value)


def _number(value: Any) -> Any:
    return pytest.approx(value, abs=1e-12) if isinstance(value, float) else value


def _second(found: Any, *_: Any) -> Any:
    return found


def _nothing() -> None:
    return None


CASES: dict[str, tuple[Callable[[Tensor, Any], Any], Callable[[], Any], Callable[..., Any], str]] = {
    "an object": (_cache, _nothing, lambda cache, *_: cache.layers[0].keys.tolist(), ""),
    "an object in itself": (_cache_of_itself, _nothing, lambda cache, *_: cache.layers[0].tolist(), "leads back"),
    "a number": (lambda out, _: (out, len(out)), _nothing, _second, "something else than tensors"),
    "a number that is read": (lambda out, _: (out, out.sum().item()), _nothing, _second, "something else than tensors"),
    "what is always the same": (lambda out, _: (out, {"layers": 2, "kind": "x"}), _nothing, _second, ""),
    "an object that is given": (_fills, Cache, lambda _, cache, __: [len(one) for one in cache.layers], "arguments"),
    "a list that is given": (_appends, list, lambda _, given, __: [len(one) for one in given], "arguments"),
    "a list, and returned": (_keeps, _nothing, lambda _, __, net: [len(one) for one in net.history], "Net.history[0]"),
    "an object to look at": (lambda out, given: out, Cache, lambda _, cache, __: len(cache.layers), ""),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_pass_returns_and_leaves_is_that_of_one_process(name: str) -> None:
    why = CASES[name][-1]
    ((seen, gradient, _),) = on_ranks(_run, name, ranks=1)
    for found in on_ranks(_run, name):
        assert _rounded(found[:2]) == _rounded((seen, gradient))
        assert (why in found[2]) if why else not found[2]


def _counts_in_some_calls() -> Any:
    """Nothing is counted in the calls that are checked; later, each rank counts in its part."""

    def give(out: Tensor, net: Any) -> Any:
        return out, int((out.sum(1) > 1000).sum())

    net, seen = Net(give), []
    rt.data_parallel(net)
    for step in range(6):
        samples = torch.ones(8, 5) * (1e6 if step > 3 else 1e-6)
        with torch.no_grad():
            net.body.weight.fill_(1.0)
        _, count = net(samples)
        seen.append(count)
    return seen


def test_a_count_that_was_nothing_in_each_check_is_that_of_the_batch_later() -> None:
    assert on_ranks(_counts_in_some_calls) == [[0, 0, 0, 0, 8, 8]] * 2
