"""A loss over gathered samples has, averaged over the ranks, the gradients of one process."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import distify_runtime as rt
import numpy
import pytest
import torch
import torch.nn.functional as F
from ranks import RankFailed, on_ranks
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

Pair = namedtuple("Pair", "rows names")
SAMPLES = 12


def _dealt(batch: Tensor) -> Tensor:
    """This rank's samples, as a DistributedSampler deals them out."""
    return batch[rt.rank() :: rt.world_size()]


def _orders() -> list[Tensor]:
    samples = torch.arange(SAMPLES)
    views = torch.stack([samples, samples + 100])  # [views, samples]
    mine = _dealt(samples)
    rows = rt.gather_samples(torch.stack([mine, mine]).T)
    steps = torch.stack([samples, samples + 100, samples + 200], dim=1)  # [samples, steps]
    together = rt.gather_samples(_dealt(steps).reshape(-1), samples=len(mine))
    apart = rt.gather_samples(rt.shard_batch(steps.T, dim=1).reshape(-1), samples=len(mine), by_step=True, parts=True)
    listed = rt.gather_samples(_dealt(steps).reshape(-1).tolist(), samples=len(mine))
    return [
        together,
        apart,
        torch.tensor(listed),
        rt.gather_samples(mine),
        rt.gather_samples(torch.cat([mine, mine + 100]), views=2),
        rt.gather_samples(torch.stack([mine, mine]), dim=1),
        rt.gather_samples(rt.shard_batch(samples), parts=True),
        rt.gather_samples(torch.cat(list(rt.shard_batch(views, dim=1))), views=2, parts=True),
        rows,
    ]


@pytest.mark.parametrize("ranks", [2, 3])
def test_samples_come_in_the_order_of_one_process(ranks: int) -> None:
    samples = torch.arange(SAMPLES)
    views = torch.cat([samples, samples + 100])
    steps = torch.stack([samples, samples + 100, samples + 200], dim=1)
    flat = steps.reshape(-1)
    expected = [
        flat,
        steps.T.reshape(-1),
        flat,
        samples,
        views,
        torch.stack([samples, samples]),
        samples,
        views,
        torch.stack([samples, samples]).T,
    ]
    for got in on_ranks(_orders, ranks=ranks):
        assert all(torch.equal(one, other) for one, other in zip(got, expected, strict=True))


def _nested() -> Any:
    mine = _dealt(torch.arange(SAMPLES))
    names = [f"sample {number}" for number in mine.tolist()]
    pair = Pair(mine.bool(), names)
    half, none, texts = rt.gather_samples(
        {"pair": pair, "half": [mine.half(), (mine / 2).bfloat16()]}, (None, 3), (mine, tuple(names))
    )
    return half["pair"]._asdict(), half["half"], none, texts[1]


def test_nested_values_of_any_type_come_back_as_they_were() -> None:
    for pair, (half, brain), rest, texts in on_ranks(_nested):
        assert pair["rows"].tolist() == torch.arange(SAMPLES).bool().tolist()
        assert pair["names"] == [f"sample {number}" for number in range(SAMPLES)]
        assert texts == tuple(pair["names"])
        assert half.dtype is torch.float16
        assert brain.tolist() == (torch.arange(SAMPLES) / 2).tolist()
        assert rest == (None, 3)


def _arrays() -> Any:
    mine = _dealt(torch.arange(SAMPLES))
    names = numpy.array([f"sample {number}" for number in mine.tolist()])
    return rt.gather_samples((mine.numpy(), names), mine.numpy().astype("float32").reshape(-1, 1))


def test_arrays_come_back_as_arrays() -> None:
    for (numbers, names), rows in on_ranks(_arrays):
        assert (numbers.tolist(), numbers.dtype) == (list(range(SAMPLES)), numpy.dtype("int64"))
        assert names.tolist() == [f"sample {number}" for number in range(SAMPLES)]
        assert (rows.shape, rows.dtype) == ((SAMPLES, 1), numpy.dtype("float32"))


class Twins(nn.Module):
    """Two towers and a temperature, as contrastive models have them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.left, self.right = nn.Linear(5, 4), nn.Linear(5, 4)
        self.logit_scale = nn.Parameter(torch.tensor(0.7))
        self.double()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return F.normalize(self.left(x), dim=1), F.normalize(self.right(x), dim=1), self.logit_scale


def _loss(left: Tensor, right: Tensor, scale: Tensor, head: nn.Module) -> Tensor:
    scores = head(left) @ right.T * scale
    return F.cross_entropy(scores, torch.arange(len(scores)))


def _batch() -> Tensor:
    return torch.randn(SAMPLES, 5, generator=torch.Generator().manual_seed(1)).double()


def _heads() -> tuple[nn.Module, nn.Module]:
    model, head = Twins(), nn.Linear(4, 4).double()
    return model, head


def _gradients_on_ranks(gathered: bool) -> list[Tensor]:
    model, head = _heads()
    if wrapped := torch.distributed.is_initialized():
        model, head = DistributedDataParallel(model), DistributedDataParallel(head)
    left, right, scale = model(_dealt(_batch()))
    local = (left * right).sum(1).mean()  # a mean over samples needs no gathering
    if gathered:
        left, right = rt.gather_samples(left, right)
    (_loss(left, right, scale, head) + local).backward()
    if not wrapped:  # over Horovod
        rt.all_reduce_gradients(model, head)
    return [parameter.grad for parameter in [*model.parameters(), *head.parameters()]]


def _gradients_of_one() -> list[Tensor]:
    model, head = _heads()
    left, right, scale = model(_batch())
    (_loss(left, right, scale, head) + (left * right).sum(1).mean()).backward()
    return [parameter.grad for parameter in [*model.parameters(), *head.parameters()]]


@pytest.mark.parametrize("ranks", [2, 4])
def test_gradients_are_those_of_one_process(ranks: int) -> None:
    wanted = _gradients_of_one()
    for got in on_ranks(_gradients_on_ranks, True, ranks=ranks):
        assert max((one - other).abs().max().item() for one, other in zip(got, wanted, strict=True)) < 1e-15
    apart = on_ranks(_gradients_on_ranks, False, ranks=ranks)[0]
    assert max((one - other).abs().max().item() for one, other in zip(apart, wanted, strict=True)) > 1e-3


def _without_gradients() -> bool:
    with torch.no_grad():
        return bool(rt.gather_samples(torch.ones(2, requires_grad=True)).requires_grad)


def test_no_gradients_are_recorded_where_none_are() -> None:
    assert on_ranks(_without_gradients) == [False, False]


def _ragged() -> None:
    rt.gather_samples(torch.zeros(4, 3 + rt.rank()))


def test_shares_of_different_shapes_end_in_a_clear_error() -> None:
    with pytest.raises(RankFailed, match=r"pad the samples to one size .*rank 1: float32 .4, 4."):
        on_ranks(_ragged)


def _not_per_view() -> None:
    rt.gather_samples(torch.zeros(5, 3), views=2)


def test_what_does_not_hold_its_views_is_refused() -> None:
    with pytest.raises(RankFailed, match="does not hold 2 row"):
        on_ranks(_not_per_view)


def test_a_world_of_one_keeps_its_values() -> None:
    value = torch.ones(3, requires_grad=True)
    assert rt.gather_samples(value) is value
    assert rt.gather_samples(value, None) == (value, None)


def _averaged() -> list[float]:
    losses = iter([torch.tensor(1.0 + rt.rank(), requires_grad=True), 3.0 * rt.rank()])
    closure = rt.averaged_closure(lambda: next(losses))
    return [float(closure()), float(closure())]


def test_a_closure_returns_the_same_loss_on_all_ranks() -> None:
    assert on_ranks(_averaged) == [[1.5, 1.5], [1.5, 1.5]]
