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
