"""Figures that a model returns without gradients: one number may be near by chance, and is one process's or whole."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.models import shared_model
from ranks import RankFailed, on_ranks
from torch import Tensor, nn
from torch.nn import functional as F

from tests import gpus

Figure = Callable[[Tensor, Tensor], Tensor]


def loss_of_a_library(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def in_a_vector(logits: Tensor, labels: Tensor) -> Tensor:
    return loss_of_a_library(logits, labels).view(1)


def by_hand(logits: Tensor, labels: Tensor) -> Tensor:
    each = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="none")
    return each.sum() / (labels != -100).sum()


def accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    found: Tensor = ((logits.argmax(-1) == labels) & (labels != -100)).sum() / (labels != -100).sum()
    return found


def right_ones(logits: Tensor, labels: Tensor) -> Tensor:
    return (logits.argmax(-1) == labels).sum()


def mean(logits: Tensor, labels: Tensor) -> Tensor:
    return (logits * torch.linspace(0, 1, 7).to(logits)).square().mean()


def constant(logits: Tensor, labels: Tensor) -> Tensor:
    return torch.full((100,), 0.5)


class Net(nn.Module):
    def __init__(self, figure: Figure) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(7, 5), nn.Linear(5, 7)
        self.figure, self.seen = figure, array("i")

    def forward(self, ids: Tensor, labels: Tensor) -> Any:
        self.seen.append(len(ids))
        logits = self.head(self.table(ids))
        return self.figure(logits, labels), logits


def _batch(step: int, lengths: list[int], wrong: bool) -> tuple[Tensor, Tensor]:
    """Labels of as many words of each sample; wrong: the last one, which no model here finds."""
    drawn = torch.Generator().manual_seed(step)
    ids, labels = (torch.randint(6, (8, 9), generator=drawn) for _ in range(2))
    labels = torch.full_like(labels, 6) if wrong else labels
    return ids, labels.masked_fill(torch.arange(9) >= torch.tensor(lengths)[:, None], -100)


def _evaluated(figure: Figure, lengths: list[list[int]], wrong: int, dtype: torch.dtype, half: bool = False) -> Any:
    torch.manual_seed(1)
    torch.set_default_dtype(dtype)
    net = Net(figure).eval()
    with torch.no_grad():
        net.head.weight.mul_(0.02)  # all losses are near to each other
        net.head.bias.copy_(torch.tensor([0, 0.03, 0.02, 0.01, 0, 0, -9 if wrong else 0.0]))
    rt.data_parallel(net)
    found = []
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=half):
        for step, some in enumerate(lengths):
            value, logits = net(*_batch(step, some, step < wrong))
            found += [value.double().sum().item(), logits.double().sum().item()]
    shared = shared_model(net)
    return found, net.seen[-1], shared is not None and not shared.given_up


EVEN, UNEVEN = [9] * 8, [9, 9, 8, 9, 2, 1, 2, 3]


@pytest.mark.parametrize(
    ("figure", "wrong", "seen"),
    [
        (loss_of_a_library, 0, 4),
        (in_a_vector, 0, 4),
        (by_hand, 0, 8),
        (accuracy, 2, 8),
        (right_ones, 2, 4),
        (mean, 0, 4),
        (constant, 0, 4),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_figures_of_an_evaluation(figure: Figure, wrong: int, seen: int, dtype: torch.dtype) -> None:
    lengths = [UNEVEN, EVEN, UNEVEN[::-1], UNEVEN]
    ((expected, *_),) = on_ranks(_evaluated, figure, lengths, wrong, dtype, ranks=1)
    for found in on_ranks(_evaluated, figure, lengths, wrong, dtype):
        assert found == (pytest.approx(expected, rel=1e-5), seen, True)


@pytest.mark.parametrize("figure", [loss_of_a_library, in_a_vector, by_hand])
def test_batches_without_padding_come_first(figure: Figure) -> None:
    """That a mean by a count is one by samples there says nothing of batches that are padded."""
    lengths = [EVEN, EVEN, UNEVEN, EVEN, UNEVEN]
    ((expected, *_),) = on_ranks(_evaluated, figure, lengths, 0, torch.float32, ranks=1)
    for found, seen, _ in on_ranks(_evaluated, figure, lengths, 0, torch.float32):
        assert found == pytest.approx(expected, rel=1e-5)
        assert seen == (8 if figure is by_hand else 4)


def test_what_was_a_mean_for_long_and_is_none_ends_the_run() -> None:
    lengths = [EVEN] * 6 + [[9, 9, 9, 9, 1, 1, 1, 1]] * 10
    with pytest.raises(RankFailed, match="no longer computes in parts what it computes of a whole batch"):
        on_ranks(_evaluated, _far_apart, lengths, 0, torch.float32)


def _far_apart(logits: Tensor, labels: Tensor) -> Tensor:
    return ((labels == -100) * 5 + labels.clamp(0)).sum() / (labels != -100).sum()


@pytest.mark.parametrize(
    ("figure", "seen"),
    [
        (loss_of_a_library, 4),
        (by_hand, 8),
        pytest.param(mean, 8, marks=gpus.on_cpus_only("which round otherwise")),
    ],
)
def test_in_half_precision(figure: Figure, seen: int) -> None:
    """There the parts' means differ by no more than their rounding: it shows in no number whether it is their mean."""
    lengths = [UNEVEN] * 2
    ((expected, *_),) = on_ranks(_evaluated, figure, lengths, 0, torch.float32, True, ranks=1)
    for found in on_ranks(_evaluated, figure, lengths, 0, torch.float32, True):
        assert found == (pytest.approx(expected, rel=1e-3), seen, True)


def _trained_first(half: bool) -> Any:
    torch.manual_seed(1)
    net = Net(mean)
    rt.data_parallel(net)
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        net(*_batch(0, EVEN, False))[0].backward()
        with torch.no_grad():
            for step in range(6):
                net(*_batch(step, EVEN, False))
    return net.seen[-1]


@pytest.mark.parametrize("half", [False, True])
def test_what_gradients_have_shown_to_be_a_mean(half: bool) -> None:
    assert on_ranks(_trained_first, half) == [4, 4]


class Quantized(nn.Module):
    """How many codes are in use stands beside what is trained: of halves that are two views, it is much alike."""

    def __init__(self, of_samples: bool) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.codes, self.of_samples, self.seen = nn.Linear(4, 9, bias=False), of_samples, array("i")

    def forward(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        self.seen.append(len(samples))
        chosen = (0.3 * self.codes(samples)).softmax(-1)
        each = chosen.detach()
        used = each if self.of_samples else each.mean(0)
        return chosen, (-used * used.log()).sum(-1).exp().mean()


def _quantized(of_samples: bool) -> Any:
    torch.set_default_dtype(torch.float32)
    net = Quantized(of_samples)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    rt.data_parallel(net)
    found = []
    for step in range(4):
        torch.manual_seed(step)
        samples = torch.randn(8, 4)
        views = torch.cat([samples, samples + 0.05 * torch.randn(8, 4)])
        chosen, used = net(views)
        optimizer.zero_grad()
        chosen.square().sum(1).mean().backward()
        optimizer.step()
        found.append(used.item())
    return found, net.seen[-1]


@pytest.mark.parametrize(("of_samples", "seen"), [(False, 16), (True, 8)])
def test_a_figure_beside_what_trains_is_vouched_for_by_itself(of_samples: bool, seen: int) -> None:
    ((expected, _),) = on_ranks(_quantized, of_samples, ranks=1)
    for found, last in on_ranks(_quantized, of_samples):
        assert found == pytest.approx(expected, rel=1e-6)
        assert last == seen
