"""What `methods` names: methods of a class, modules that a model holds, what a model is made around."""

from __future__ import annotations

from array import array
from typing import Any

import distify_runtime as rt
import pytest
import torch
from ranks import RankFailed, on_ranks
from torch import Tensor, nn


class Seen(nn.Linear):
    """Remembers how many samples its calls had."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.seen = array("i")  # a list would be noticed: it would have to hold what one process has in it

    def forward(self, input: Tensor) -> Tensor:
        self.seen.append(len(input))
        return super().forward(input)


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.vision, self.projection = nn.Sequential(Seen(4, 8)), nn.Linear(8, 2)
        self.scale, self.absent = 2.0, None

    def forward(self, samples: Tensor) -> Tensor:
        return self.encode(samples)

    def encode(self, samples: Tensor) -> Tensor:
        out: Tensor = self.projection(self.vision(samples))
        return out

    @property
    def base(self) -> nn.Module:
        return self.vision


class Around(nn.Module):
    """Hands on what it does not have itself, as a model of peft does."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)

    def forward(self, samples: Tensor) -> Tensor:
        out: Tensor = self.inner(samples)
        return out


def _shared(kind: type[nn.Module], name: str) -> Any:
    torch.manual_seed(0)
    net, samples = kind(), torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    rt.data_parallel(net, methods=(name,))
    getattr(net, name)(samples).square().sum().backward()
    layer = (net if isinstance(net, Inner) else net.inner).vision[0]
    return layer.seen[-1], layer.weight.grad.sum().item()


@pytest.mark.parametrize("kind", [Inner, Around])
@pytest.mark.parametrize("name", ["encode", "vision", "base"])
def test_what_is_called_under_a_name_of_a_model_is_shared(kind: type[nn.Module], name: str) -> None:
    ((seen, gradient), other) = on_ranks(_shared, kind, name)
    assert (seen, gradient) == other
    assert seen == 4
    torch.manual_seed(0)
    net, samples = kind(), torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    getattr(net, name)(samples).square().sum().backward()
    layer = (net if isinstance(net, Inner) else net.inner).vision[0]
    assert layer.weight.grad.sum().item() == pytest.approx(gradient, rel=1e-4)


def _named(name: str) -> Any:
    rt.data_parallel(Around(), methods=(name,))
    return True


def test_what_can_be_no_call_of_a_module_is_told_at_once() -> None:
    with pytest.raises(RankFailed, match="`scale` of Around cannot be shared"):
        on_ranks(_named, "scale")


@pytest.mark.parametrize("name", ["absent", "of_another_class"])
def test_what_a_model_does_not_have_is_not_asked_for(name: str) -> None:
    """One line may be for models of several classes."""
    assert on_ranks(_named, name) == [True, True]


class Trainer:
    """Of a library: no module, and keeps the one that it trains."""

    def __init__(self, net: Any) -> None:
        self.net, self.steps = net, 0


def _kept(net: Any) -> Any:
    trainer, samples = Trainer(net), torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    rt.data_parallel(trainer, methods=("net",))
    trainer.net(samples).sum().backward()
    return trainer.net[0].seen[-1]


def test_an_object_stands_for_the_modules_that_it_keeps() -> None:
    assert on_ranks(_kept, nn.Sequential(Seen(4, 2))) == [4, 4]


def test_an_object_without_modules_is_no_model() -> None:
    with pytest.raises(RankFailed, match="are shared, and Trainer is none and has none as an attribute: name the"):
        on_ranks(_kept, "resnet18")


class Scored(nn.Module):
    """Its method computes the loss, of what `forward` returns, or of what it has left behind."""

    def __init__(self, mean: Any) -> None:
        super().__init__()
        self.norm, self.body, self.mean = nn.BatchNorm1d(4), nn.Linear(4, 3), mean

    def forward(self, samples: Tensor) -> Tensor:
        self.code = self.body(self.norm(samples))
        return self.code.tanh()

    def score(self, samples: Tensor, targets: Tensor) -> Tensor:
        out = self.forward(samples)
        return self.mean(out, targets) + self.mean(2 * out, targets)

    def compare(self, out: Tensor, targets: Tensor) -> Tensor:
        return self.mean(out, targets) - (1 + self.code - self.code.exp()).sum(1).mean()

    def step(self, samples: Tensor, targets: Tensor) -> Tensor:
        return self.compare(self.forward(samples), targets)


def _plain(one: Tensor, other: Tensor) -> Tensor:
    return (one - other).square().mean()


_BY_NAME = {"torch's": torch.nn.functional.mse_loss, "its own": _plain}


def _scores(method: str, mean: str, ranks: bool) -> list[float]:
    torch.manual_seed(0)
    net, drawn = Scored(_BY_NAME[mean]).double(), torch.Generator().manual_seed(1)
    if ranks:
        rt.data_parallel(net, methods=("compare" if method == "step" else method,))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    found = []
    for _ in range(4):
        samples, targets = (torch.randn(8, size, generator=drawn, dtype=torch.float64) for size in (4, 3))
        loss = getattr(net, method)(samples, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("method", ["score", "step"])
@pytest.mark.parametrize("mean", ["torch's", "its own"])
def test_a_method_that_computes_a_loss(method: str, mean: str) -> None:
    """With torch's function as it was before any was replaced; of what the forward pass has left with its graph."""
    wanted = _scores(method, mean, False)
    assert on_ranks(_scores, method, mean, True) == [pytest.approx(wanted, abs=1e-12)] * 2
