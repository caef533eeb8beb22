"""Losses over the batches of all ranks: their value and their averaged gradient are those of one process."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import distify_runtime as rt
import numpy as np
import pytest
import torch
from ranks import on_ranks
from torch import Tensor, nn
from torch.nn import functional

KINDS = torch.tensor([0, 1, 0, 2, 0, 1])  # rank 0 has the zeros only
WEIGHT = torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64)
CRITERIA: dict[str, Callable[[], Callable[..., Tensor]]] = {
    "ignored": lambda: nn.CrossEntropyLoss(ignore_index=0),
    "weighted": lambda: nn.CrossEntropyLoss(weight=WEIGHT),
    "weighted and smoothed": lambda: nn.CrossEntropyLoss(weight=WEIGHT + 1, label_smoothing=0.2),
    "logarithms": lambda: lambda scores, kinds: functional.nll_loss(scores.log_softmax(1), kinds, WEIGHT),
    "outdated": lambda: nn.NLLLoss(size_average=True, ignore_index=2),
}


def _scores() -> Tensor:
    return torch.linspace(-1, 1, 18, dtype=torch.float64).view(6, 3).sin().requires_grad_()


def _of_share(name: str) -> Any:
    scores, mine = _scores(), slice(rt.rank(), None, rt.world_size())
    if name == "logarithms":
        given = scores.log_softmax(1)[mine], KINDS[mine], WEIGHT
        loss = rt.weighted_mean(functional.nll_loss, *given)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loss = rt.weighted_mean(CRITERIA[name](), scores[mine], KINDS[mine])
    loss.backward()
    return loss.detach(), rt.all_reduce_mean(scores.grad)


@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.filterwarnings("ignore:size_average")
def test_weighted_criteria(name: str) -> None:
    scores = _scores()
    whole = CRITERIA[name]()(scores, KINDS)
    whole.backward()
    for loss, gradient in on_ranks(_of_share, name):
        assert loss.sub(whole).abs() < 1e-15
        assert scores.grad is not None
        assert gradient.sub(scores.grad).abs().max() < 1e-15


def _parts() -> Any:
    rank = rt.rank()
    value = torch.tensor(1.0 + rank, requires_grad=True)
    loss = rt.sum_over_ranks(value) ** 2 * (1 + rank) + rt.mean_over_ranks(value)
    (gradient,) = torch.autograd.grad(loss, value, create_graph=True)
    (second,) = torch.autograd.grad(gradient, value)
    numbers = rt.sum_over_ranks(2 + rank), rt.sum_over_ranks(0.5), rt.sum_over_ranks(np.int64(rank))
    array = rt.sum_over_ranks(np.array([rank, 1], dtype=np.float32))
    assert (array.dtype, array.tolist()) == (np.float32, [1.0, 2.0])
    picked = rt.global_mean(torch.arange(3.0)[: 3 * rank])
    with torch.no_grad():
        alone = rt.sum_over_ranks(value), rt.mean_over_ranks(value), rt.global_mean(value)
    return loss.item(), gradient.item(), second.item(), numbers, picked.item(), [one.item() for one in alone]


def test_parts_of_a_loss() -> None:
    """The mean of the ranks' losses, 1.5 s² + s/2, has the derivatives 3 s + 1/2 and 3; a rank's own are as large."""
    for rank, (loss, gradient, second, numbers, picked, alone) in enumerate(on_ranks(_parts)):
        assert loss == 9 * (1 + rank) + 1.5
        assert gradient == 2 * (9 + 0.5)
        assert second == 2 * 2 * 3
        assert numbers == (5, 1.0, 1)
        assert [type(one) for one in numbers] == [int, float, np.int64]
        assert picked == 1.0
        assert alone == [1.0 + rank] * 3


def _others() -> Any:
    values = torch.tensor([0.2, 0.4, 0.9])[rt.rank() :].double()
    wanted = torch.tensor([0.0, 1.0, 1.0])[rt.rank() :].double()
    zeros, ones = torch.zeros(3000, 2, dtype=torch.bfloat16), torch.ones(3000).long()
    half = rt.weighted_mean(functional.cross_entropy, zeros, ones)
    spread = rt.weighted_mean(nn.KLDivLoss(reduction="batchmean"), values[None].log(), wanted[None])
    soft = rt.weighted_mean(functional.cross_entropy, values[:2, None].expand(2, 2), torch.full((2, 2), 0.5).double())
    refused = []
    for call in (
        lambda: rt.weighted_mean(lambda x: x.mean(), values),
        lambda: rt.weighted_mean(nn.Identity(), values),
        lambda: rt.sum_over_ranks(values > 0.5),
        lambda: rt.sum_over_ranks([1, 2]),
        lambda: rt.sum_over_ranks(np.array(["a"])),
    ):
        with pytest.raises(TypeError):
            call()
        refused.append(1)
    entropy = rt.weighted_mean(functional.binary_cross_entropy, values, wanted).item()
    return half.dtype, half.item(), spread.item(), soft.item(), entropy, refused


def test_other_criteria() -> None:
    values, wanted = torch.tensor([0.2, 0.4, 0.9, 0.4, 0.9]).double(), torch.tensor([0, 1, 1, 1, 1]).double()
    divergence = functional.kl_div(values.log(), wanted, reduction="sum") / 2
    for kind, half, spread, soft, entropy, refused in on_ranks(_others):
        assert kind is torch.bfloat16
        assert half == pytest.approx(0.693, abs=0.01)
        assert spread == pytest.approx(divergence.item(), abs=1e-12)
        assert soft == pytest.approx(0.6931471805599453, abs=1e-12)
        assert entropy == pytest.approx(functional.binary_cross_entropy(values, wanted).item(), abs=1e-12)
        assert len(refused) == 5


def test_in_one_process_they_are_what_they_were() -> None:
    value = torch.tensor([1.0, 3.0])
    assert rt.sum_over_ranks(value) is value
    assert rt.mean_over_ranks(value) is value
    assert rt.global_mean(value) == 2
    assert rt.weighted_mean(functional.mse_loss, value, value + 1) == 1
