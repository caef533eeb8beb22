"""Gradients averaged by a line, sent while the backward pass goes on: always those that blocking calls would give."""

from __future__ import annotations

import copy
import gc
import io
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime import overlap
from ranks import on_ranks, run_script
from torch import Tensor, nn

ROUNDS = 7
#: What happens in one round, after which the gradients are averaged.
Round = Callable[[nn.Module, int], None]


class Net(nn.Module):
    """Layers of several buckets; some are used by some ranks in some rounds, one never, one is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.rare, self.never, self.frozen = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.frozen.requires_grad_(False)
        self.words = nn.Embedding(10, 8, sparse=True)
        self.coarse = nn.Linear(8, 8)

    def forward(self, x: Tensor, rare: bool = False) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        x = x + self.coarse(x.to(self.coarse.weight.dtype)).to(x.dtype)
        return self.rare(x) if rare else self.frozen(x)


def batch(turn: int) -> Tensor:
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(100 * turn + rt.rank()), dtype=torch.float64)


def loss(model: nn.Module, turn: int, **options: Any) -> Tensor:
    return model(batch(turn), **options).square().mean()


def plain(model: nn.Module, turn: int) -> None:
    model.zero_grad()
    loss(model, turn).backward()


def accumulated(model: nn.Module, turn: int) -> None:
    """One, two or three backward passes: as many as ever, fewer and more."""
    model.zero_grad()
    for micro in range((1, 2, 2, 3, 1, 3, 2)[turn]):
        loss(model, turn + micro).backward()


def unlike(model: nn.Module, turn: int) -> None:
    """Ranks use different parts."""
    model.zero_grad()
    loss(model, turn, rare=(turn + rt.rank()) % 2 == 0).backward()


def thrown_away(model: nn.Module, turn: int) -> None:
    """What was computed is cleared in one of several ways, and computed again for a part of it."""
    model.zero_grad()
    loss(model, turn).backward()
    model.zero_grad(set_to_none=turn % 2 == 0)
    if turn % 3:
        model.layers[turn % 4](batch(turn)).sum().backward()


def changed(model: nn.Module, turn: int) -> None:
    """Gradients are written to behind the backward pass, by one rank alone, too."""
    plain(model, turn)
    if turn > 3 and (rt.rank() == 0 or turn == 5):
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        model.layers[0].weight.grad = torch.ones_like(model.layers[0].weight)
        model.layers[1].weight.grad = None


def sparse(model: nn.Module, turn: int) -> None:
    """Sparse gradients on all ranks, on one of them, and beside dense ones of the same parameter."""
    plain(model, turn)
    if turn != 4:
        model.words(torch.tensor([rt.rank(), 3])).sum().backward()
    if turn == 5 and rt.rank() == 0:
        model.words.weight.square().sum().backward()


def doubly(model: nn.Module, turn: int) -> None:
    model.zero_grad()
    value = loss(model, turn)
    gradients = torch.autograd.grad(value, list(model.layers.parameters()), create_graph=True)
    with warnings.catch_warnings(action="ignore"):  # of a cycle, which zero_grad() breaks
        torch.stack([one.square().sum() for one in gradients]).sum().backward(create_graph=turn % 2 == 0)


def by_hand(model: nn.Module, turn: int) -> None:
    """No hook sees these gradients."""
    model.zero_grad()
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.full_like(parameter, turn + rt.rank())


def thawed(model: nn.Module, turn: int) -> None:
    model.frozen.requires_grad_(turn > 3)
    model.layers[0].requires_grad_(turn != 5)
    plain(model, turn)


def reshaped(model: nn.Module, turn: int) -> None:
    if turn == 4:
        model.layers[3].weight.data = model.layers[3].weight.data[:, :8].double()
        for parameter in model.coarse.parameters():
            parameter.data = parameter.data.half().bfloat16()
        model.rare.weight.data = torch.ones(1, 8, dtype=torch.float64)
        model.rare.bias.data = torch.ones(1, dtype=torch.float64)
    model.zero_grad()
    loss(model, turn, rare=True).sum().backward()


def partly_before(model: nn.Module, turn: int) -> None:
    """Some gradients are averaged by two lines."""
    plain(model, turn)
    rt.all_reduce_gradients(model.layers, model.rare)


def averages(gradients: list[Tensor | None]) -> Iterator[Tensor | None]:
    """The seed of all of this: one blocking call for each parameter."""
    for gradient in gradients:
        have = rt.all_reduce_sum(int(gradient is not None))
        shapes = gradient.shape if gradient is not None else None
        shape = next(one for one in _gathered(shapes) if one is not None) if have else None
        if shape is None:
            yield None
            continue
        dense = torch.zeros(shape, dtype=torch.float64) if gradient is None else gradient.to_dense().double()
        torch.distributed.all_reduce(dense)
        yield dense / rt.world_size()


def _gathered(what: Any) -> list[Any]:
    found: list[Any] = [None] * rt.world_size()
    torch.distributed.all_gather_object(found, what)
    return found


def furthest(one_round: Round, several: bool) -> tuple[float, int]:
    """The largest difference from blocking calls, relative to it, in all rounds; how many buckets started early."""
    torch.manual_seed(0)
    started: list[int] = []
    agree = overlap.Reducer.agree

    def counting(reducer: overlap.Reducer, gradients: Any) -> list[int]:
        started.append(reducer._started)
        return agree(reducer, gradients)

    overlap.Reducer.agree = counting  # type: ignore[method-assign, assignment]
    model, worst = Net().double(), 0.0
    if several:
        overlap.SMALLEST_BUCKET = 600
        model.coarse.bfloat16()
    rt.broadcast_parameters(model)
    for turn in range(ROUNDS):
        one_round(model, turn)
        wanted = list(averages([None if one.grad is None else one.grad.clone() for one in model.parameters()]))
        rt.all_reduce_gradients(model)
        for parameter, average in zip(model.parameters(), wanted, strict=True):
            if average is None:
                assert parameter.grad is None
                continue
            assert parameter.grad is not None
            off = (parameter.grad.to_dense().double() - average).abs().max().item()
            worst = max(worst, off / (1e10 if parameter.dtype is torch.bfloat16 and off < 0.02 else 1))
    return worst, sum(started)


@pytest.mark.parametrize("several", [True, False], ids=["buckets", "bucket"])
@pytest.mark.parametrize(
    "one_round",
    [plain, accumulated, unlike, thrown_away, changed, sparse, doubly, by_hand, thawed, reshaped,
     partly_before],
)  # fmt: skip
def test_the_averages_are_those_of_blocking_calls(one_round: Round, several: bool) -> None:
    results = on_ranks(furthest, one_round, several, ranks=2)
    assert all(worst < 1e-12 for worst, _ in results), results
    if several and one_round in (plain, accumulated, unlike, changed, sparse):
        assert all(early > 0 for _, early in results), results


def heads_on_one_backbone() -> list[float]:
    """A head takes another's place in memory on one rank; on the other, the first one is still there."""
    torch.manual_seed(0)
    backbone, ends = nn.Linear(8, 8, dtype=torch.float64), []
    kept, place = [], 0
    for fold in range(3):
        head = nn.Linear(8, 8, bias=False, dtype=torch.float64)
        others = []
        while place and rt.rank() and id(head.weight) != place:
            others.append(head)
            head = nn.Linear(8, 8, bias=False, dtype=torch.float64)
            assert len(others) < 10_000
        for turn in range(4):
            nn.init.constant_(head.weight, fold + 1)
            plain(nn.Sequential(backbone, head), fold + turn)
            rt.all_reduce_gradients(backbone, head)
        assert head.weight.grad is not None
        ends.append(head.weight.grad.sum().item())
        place = id(head.weight)
        kept.append(head if rt.rank() == 0 else None)
        del head, others
        gc.collect()  # its place is free now, whoever has held it in a circle
    return ends


def test_parameters_that_take_the_place_of_others() -> None:
    one, other = on_ranks(heads_on_one_backbone)
    assert one == other


def two_networks() -> list[float]:
    """One backward pass of two networks with an optimizer each, on ranks that finish them in different orders."""
    torch.manual_seed(0)
    overlap.SMALLEST_BUCKET = 200
    one, other = (nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).double() for _ in range(2))
    optimizers = [torch.optim.Adam(model.parameters(), eps=1e-3) for model in (one, other)]
    for turn in range(6):
        for optimizer in optimizers:
            optimizer.zero_grad()
        first, last = (one, other) if rt.rank() == 0 else (other, one)
        (last(first(batch(turn))).square().mean()).backward()
        for optimizer in optimizers:
            rt.all_reduce_gradients(optimizer)
            optimizer.step()
    return [parameter.sum().item() for model in (one, other) for parameter in model.parameters()]


def test_two_sets_of_parameters_in_one_backward_pass() -> None:
    one, other = on_ranks(two_networks)
    assert one == other


def kept_and_let_go() -> bool:
    """What the hooks hold on to, once the model is copied, saved, and gone."""
    overlap.SMALLEST_BUCKET = 200
    model = nn.Linear(8, 8).double()
    for turn in range(3):
        plain(model, turn)
        rt.all_reduce_gradients(model)
    copied = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for twin in (copied, torch.load(file, weights_only=False)):
        plain(twin, 0)  # of its own: what the other has sent stays the other's
    plain(model, 3)
    wanted = list(averages([None if one.grad is None else one.grad.clone() for one in model.parameters()]))
    rt.all_reduce_gradients(model)
    for parameter, average in zip(model.parameters(), wanted, strict=True):
        assert average is not None
        torch.testing.assert_close(parameter.grad, average, rtol=0, atol=1e-15)
    gone = weakref.ref(model)
    del model, parameter, turn
    gc.collect()
    return gone() is None and not overlap._reducers


def test_models_are_copied_saved_and_let_go_as_before() -> None:
    assert on_ranks(kept_and_let_go) == [True, True]


ENDING = """
import torch
import distify_runtime as rt
from distify_runtime import overlap
overlap.SMALLEST_BUCKET = 200
rt.init_process_group()
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
for turn in range(4):
    model.zero_grad()
    if turn < 3:
        model(torch.randn(4, 8)).sum().backward()
        rt.all_reduce_gradients(model)
    else:
        model[rt.rank()](torch.randn(4, 8)).sum().backward()
print("done")
"""


def test_what_has_been_sent_by_one_rank_alone_does_not_keep_it_from_ending() -> None:
    for ended in run_script(ENDING):
        assert (ended.code, ended.out) == (0, "done\n"), ended.err


def in_a_world_of_one() -> None:
    model = nn.Linear(8, 8).double()
    plain(model, 0)
    gradient = model.weight.grad
    assert gradient is not None
    before = gradient.clone()
    rt.all_reduce_gradients(model)
    assert model.weight.grad is gradient
    assert torch.equal(gradient, before)


def test_in_a_world_of_one_it_does_nothing() -> None:
    on_ranks(in_a_world_of_one, ranks=1)


def _sent_from(devices: list[str]) -> str:
    try:
        rt.broadcast_parameters(nn.Linear(4, 1, device=devices[rt.rank()]))
    except SystemExit as end:
        return str(end.code)
    return "sent"


def test_a_model_that_lies_elsewhere_on_one_rank() -> None:
    """As where one rank alone has moved it: the ranks would wait for each other on two backends."""
    told = on_ranks(_sent_from, ["cpu", "meta"])
    assert told == ["distify: rank 0 holds its model on cpu, rank 1 on meta: move it on all ranks", "1"]
    assert on_ranks(_sent_from, ["cpu", "cpu"]) == ["sent", "sent"]
