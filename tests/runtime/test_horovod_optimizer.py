"""Two ranks with Horovod's optimizer take the steps of one process; its known mistakes show that they would not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import distify_runtime as rt
import pytest
import ranks
import torch
from ranks import on_ranks
from torch import Tensor, nn

from tests.equivalence.horovod_ranks import needs_horovod

pytestmark = needs_horovod
DECAYING = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}


@pytest.fixture(autouse=True)
def horovod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "over_horovod", True)


class Net(nn.Module):
    """With a layer that is never used, and one that only some samples use."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 4, sparse=False)
        self.first, self.never, self.sometimes = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.last = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(self.embedding(x)).tanh()
        if (rare := x == 15).any():
            hidden = hidden + self.sometimes(hidden) * rare[:, None]
        return self.last(hidden).squeeze(-1)


def _net(seed: int = 0) -> Net:
    torch.manual_seed(seed)
    return Net().double()


def _batches(steps: int = 6) -> list[tuple[Tensor, Tensor]]:
    stream = torch.Generator().manual_seed(1)
    found = []
    for _ in range(steps):
        x = torch.randint(0, 15, (8,), generator=stream)
        found.append((x, torch.randn(8, generator=stream, dtype=torch.float64)))
    found[-2][0][1] = 15  # of rank 1's share alone
    return found


def _loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The whole batch's mean in one process, the mean of a share on a rank."""
    share = slice(rt.rank(), None, rt.world_size())
    return (model(x[share]) - y[share]).square().mean()


def _weights(model: nn.Module) -> Tensor:
    return torch.cat([one.detach().reshape(-1) for one in model.parameters()])


def _gap(train: Callable[..., Tensor], *arguments: Any) -> float:
    """Between one process and each of two ranks, which have to agree."""
    alone = train(*arguments)
    first, second = on_ranks(train, *arguments)
    assert torch.equal(first, second)
    return float((first - alone).abs().max())


def train(optimizer_class: Any, options: dict[str, Any], compression: str = "none") -> Tensor:
    model = _net()
    optimizer = optimizer_class(model.parameters(), **options)
    if rt.world_size() > 1:
        optimizer = rt.DistributedOptimizer(optimizer, model.named_parameters(), compression)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for x, y in _batches():
        optimizer.zero_grad()
        _loss(model, x, y).backward()
        optimizer.step()
        schedule.step()
    return _weights(model)


@pytest.mark.parametrize(
    ("optimizer_class", "options"),
    [(torch.optim.SGD, DECAYING), (torch.optim.AdamW, {"lr": 0.01, "eps": 1e-3, "weight_decay": 0.5})],
    ids=["sgd", "adamw"],
)
def test_steps_are_those_of_one_process(optimizer_class: Any, options: dict[str, Any]) -> None:
    assert _gap(train, optimizer_class, options) < 1e-12


def test_compressed_gradients_are_near(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1e-9 < _gap(train, torch.optim.SGD, DECAYING, "fp16") < 1e-3


def accumulate(
    passes: int, clip: float, sum_them: bool = False, clip_first: bool = False, told: int | None = None
) -> Tensor:
    model = _net()
    optimizer: Any = torch.optim.SGD(model.parameters(), **DECAYING)
    if rt.world_size() > 1:
        told = told or passes
        optimizer = rt.DistributedOptimizer(optimizer, model.named_parameters(), backward_passes_per_step=told)
    for number, (x, y) in enumerate(_batches(5), 1):  # the last group is not full
        (_loss(model, x, y) / (1 if sum_them and rt.world_size() > 1 else passes)).backward()
        if number % passes == 0 or number == 5:
            if clip and clip_first:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            if rt.world_size() > 1:
                optimizer.synchronize()
            if clip and not clip_first:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    return _weights(model)


@pytest.mark.parametrize(("passes", "clip"), [(2, 0.0), (1, 0.05), (2, 0.05)])
def test_accumulation_and_clipping(passes: int, clip: float) -> None:
    assert _gap(accumulate, passes, clip) < 1e-12


@pytest.mark.parametrize("told", [1, 2, 7])
def test_more_or_fewer_backward_passes_than_it_was_told(told: int) -> None:
    assert _gap(accumulate, 3, 0.0, False, False, told) < 1e-12


def test_summing_what_is_to_be_averaged_shows() -> None:
    assert _gap(accumulate, 2, 0.0, True) > 1e-3


def test_clipping_before_synchronising_shows() -> None:
    """The first clipping sees a rank's own gradients, so ranks disagree or all are wrong."""
    alone = accumulate(1, 0.05)
    for weights in on_ranks(accumulate, 1, 0.05, False, True):
        assert (weights - alone).abs().max() > 1e-6


def without(what: str) -> Tensor:
    """Ranks that begin apart, as in life."""
    model = _net(rt.rank())
    if what != "broadcast" and rt.world_size() > 1:
        rt.broadcast_parameters(model)
    optimizer: Any = torch.optim.SGD(model.parameters(), **DECAYING)
    if what != "optimizer" and rt.world_size() > 1:
        optimizer = rt.DistributedOptimizer(optimizer, model.named_parameters())
    for x, y in _batches():
        optimizer.zero_grad()
        _loss(model, x, y).backward()
        optimizer.step()
    return _weights(model)


@pytest.mark.parametrize("what", ["optimizer", "broadcast"])
def test_what_is_left_out_shows(what: str) -> None:
    first, second = on_ranks(without, what, watch="off")
    assert (first - second).abs().max() > 1e-3
    first, second = on_ranks(without, "nothing")
    assert torch.equal(first, second)


def resume(broadcast: bool) -> Tensor:
    """Rank 0 alone finds the checkpoint, as on a disk that nodes do not share."""
    model = _net()
    optimizer: Any = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3)
    trained = _net()
    earlier = torch.optim.Adam(trained.parameters(), lr=0.01, eps=1e-3)
    for x, y in _batches(3):
        earlier.zero_grad()
        (trained(x) - y).square().mean().backward()
        earlier.step()
    if rt.rank() == 0:
        model.load_state_dict(trained.state_dict())
    if rt.world_size() > 1:
        rt.broadcast_parameters(model)
        optimizer = rt.DistributedOptimizer(optimizer)
    if rt.rank() == 0:
        optimizer.load_state_dict(earlier.state_dict())
    if broadcast:
        rt.broadcast_optimizer_state(optimizer)
    for x, y in _batches():
        optimizer.zero_grad()
        _loss(model, x, y).backward()
        optimizer.step()
    return _weights(model)


def test_state_is_sent_after_a_resume() -> None:
    assert _gap(resume, True) < 1e-12
    first, second = on_ranks(resume, False, watch="off")
    assert (first - second).abs().max() > 1e-4


def adversarial(by_module: bool = False, to_none: bool = True) -> Tensor:
    """The generator's loss leaves gradients in the discriminator, which are thrown away."""
    torch.manual_seed(0)
    generator, judge = nn.Linear(4, 4).double(), nn.Linear(4, 1).double()
    optimizers: list[Any] = [torch.optim.Adam(one.parameters(), lr=0.01, eps=1e-3) for one in (generator, judge)]
    if rt.world_size() > 1:
        optimizers = [rt.DistributedOptimizer(one, model.named_parameters())
                      for one, model in zip(optimizers, (generator, judge), strict=True)]  # fmt: skip
    stream = torch.Generator().manual_seed(1)
    for _ in range(4):
        batch = torch.randn(8, 4, generator=stream, dtype=torch.float64)
        share = batch[rt.rank() :: rt.world_size()]
        (judge if by_module else optimizers[1]).zero_grad(to_none)
        (judge(share) - judge(generator(share).detach())).square().mean().backward()
        optimizers[1].step()
        (generator if by_module else optimizers[0]).zero_grad(to_none)
        judge(generator(share)).square().mean().backward()
        optimizers[0].step()
    return torch.cat([_weights(generator), _weights(judge)])


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("by_module", [True, False])
def test_two_optimizers_of_which_one_throws_gradients_away(by_module: bool, to_none: bool) -> None:
    assert _gap(adversarial, by_module, to_none) < 1e-12


def unfreeze() -> Tensor:
    model = _net()
    model.first.requires_grad_(False)
    optimizer: Any = torch.optim.SGD([*model.first.parameters(), *model.embedding.parameters()], lr=0.1)
    if rt.world_size() > 1:
        optimizer = rt.DistributedOptimizer(optimizer)
    for number, (x, y) in enumerate(_batches()):
        if number == 2:
            model.first.requires_grad_(True)
            optimizer.add_param_group({"params": list(model.last.parameters()), "lr": 0.05})
        optimizer.zero_grad()
        model.last.zero_grad()
        _loss(model, x, y).backward()
        optimizer.step()
    return _weights(model)


def test_what_is_trained_later_is_averaged_too() -> None:
    assert _gap(unfreeze) < 1e-12


def sparse_and_bfloat() -> list[Tensor]:
    torch.manual_seed(0)
    table, plain = nn.Embedding(8, 2, sparse=True).double(), nn.Linear(2, 1).bfloat16()
    optimizer: Any = torch.optim.SGD([*table.parameters(), *plain.parameters()], lr=0.5)
    if rt.world_size() > 1:
        optimizer = rt.DistributedOptimizer(optimizer)
    for rows in (torch.tensor([1, 2]), torch.tensor([1, 1])):
        share = rows[rt.rank() :: rt.world_size()]
        optimizer.zero_grad()
        plain(table(share).bfloat16()).float().mean().backward()
        optimizer.step()
    return [table.weight.detach(), plain.weight.detach()]


def test_sparse_and_bfloat16_gradients() -> None:
    alone = sparse_and_bfloat()
    for found in on_ranks(sparse_and_bfloat):
        for ours, theirs in zip(found, alone, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)


def step_with_a_closure() -> None:
    optimizer = rt.DistributedOptimizer(torch.optim.SGD(_net().parameters(), lr=0.1))
    with pytest.raises(SystemExit):
        optimizer.step(lambda: 0.0)


def test_a_closure_is_refused() -> None:
    on_ranks(step_with_a_closure)
