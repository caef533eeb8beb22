"""Shared forward passes: whatever a script does with a model, N ranks do what one process does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime import communicator
from distify_runtime.shared.models import _shared
from ranks import on_ranks
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.grid import RANKS

STEPS = 6

Step = Callable[[int], Tensor]
#: Models that have to be computed whole, by the name of the training.
WHOLE = {
    "contrast_inside": {"Contrast"},
    "a_codebook_that_forward_updates": {"Codebook"},
    "running_means_that_are_no_rounding": {"Sequential", "Sequential.1"},
}
#: What makes the models of a training and its step: the loss of the n-th batch.
TRAININGS: dict[str, Callable[[], tuple[list[nn.Module], Step]]] = {}


def training(make: Callable[[], tuple[list[nn.Module], Step]]) -> Callable[[], tuple[list[nn.Module], Step]]:
    TRAININGS[make.__name__] = make
    return make


def batch(step: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(100 + step), dtype=torch.float64)


def labels(step: int, size: int, classes: int) -> Tensor:
    return torch.randint(classes, (size,), generator=torch.Generator().manual_seed(900 + step))


@training
def plain() -> tuple[list[nn.Module], Step]:
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    return [net], lambda step: F.cross_entropy(net(batch(step, 12, 5)), labels(step, 12, 3))


@training
def batches_that_do_not_divide() -> tuple[list[nn.Module], Step]:
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    sizes = (13, 7, 1, 3, 2, 5)
    return [net], lambda step: net(batch(step, sizes[step], 5)).square().sum()


@training
def all_pairs_of_a_batch() -> tuple[list[nn.Module], Step]:
    net = nn.Linear(5, 4)

    def step(step: int) -> Tensor:
        embedded = F.normalize(net(batch(step, 8, 5)), dim=1)
        return F.cross_entropy(embedded @ embedded.T / 0.5, labels(step, 8, 8))

    return [net], step


@training
def gradient_penalty() -> tuple[list[nn.Module], Step]:
    critic, maker = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), nn.Linear(3, 4)

    def step(step: int) -> Tensor:
        real, fake = batch(step, 8, 4), maker(batch(50 + step, 8, 3))
        mixed = (0.3 * real + 0.7 * fake.detach()).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        return critic(real).mean() - critic(fake).mean() + 0.1 * (slope.norm(dim=1) - 1).square().mean()

    return [critic, maker], step


@training
def batchnorm_under_double_backward() -> tuple[list[nn.Module], Step]:
    critic = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))

    def step(step: int) -> Tensor:
        mixed = batch(step, 10, 4).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        return critic(batch(step, 7, 4)).mean() + (slope.norm(dim=1) - 1).square().mean()

    return [critic], step


@training
def norm_of_the_parameters_gradients() -> tuple[list[nn.Module], Step]:
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))

    def step(step: int) -> Tensor:
        loss = net(batch(step, 8, 5)).square().mean()
        slopes = torch.autograd.grad(loss, net.parameters(), create_graph=True)
        return loss + 0.1 * sum((one.square().sum() for one in slopes), torch.zeros(()))

    return [net], step


@training
def weight_penalty_outside() -> tuple[list[nn.Module], Step]:
    net = nn.Linear(5, 3)
    return [net], lambda step: net(batch(step, 6, 5)).square().mean() + 0.1 * net.weight.abs().sum()


@training
def three_passes_before_one_backward() -> tuple[list[nn.Module], Step]:
    net = nn.Sequential(nn.Linear(5, 5), nn.Tanh())
    return [net], lambda step: net(net(net(batch(step, 6, 5)))).square().mean()


@training
def batchnorm() -> tuple[list[nn.Module], Step]:
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    return [net], lambda step: F.cross_entropy(net(batch(step, 9, 2, 6, 6)), labels(step, 9, 3))


@training
def batchnorms_with_means_of_nothing_but_rounding() -> tuple[list[nn.Module], Step]:
    net = nn.Sequential(  # as linear bottlenecks: behind a BatchNorm means are zero, and of what is linear in it, too
        nn.Conv2d(2, 6, 3), nn.BatchNorm2d(6), nn.Conv2d(6, 4, 1, bias=False), nn.BatchNorm2d(4),
        nn.Flatten(), nn.Linear(64, 3, bias=False), nn.BatchNorm1d(3),
    )  # fmt: skip
    return [net], lambda step: F.cross_entropy(net(batch(step, 9, 2, 6, 6)), labels(step, 9, 3))


class MeanOfAPart(nn.BatchNorm1d):
    """Keeps the mean of what this process has, and uses another."""

    def forward(self, input: Tensor) -> Tensor:
        assert self.running_mean is not None
        with torch.no_grad():
            self.running_mean.lerp_(input.mean(0), 0.1)
        return input * 2.0


@training
def running_means_that_are_no_rounding() -> tuple[list[nn.Module], Step]:
    net = nn.Sequential(nn.Linear(5, 4), MeanOfAPart(4))
    return [net], lambda step: net(batch(step, 9, 5)).square().mean()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(11, 4), nn.LSTM(4, 6, 2), nn.Linear(6, 11)

    def forward(self, words: Tensor, hidden: Any) -> Any:
        out, hidden = self.lstm(self.embedding(words), hidden)
        return self.head(out).view(-1, 11), hidden


@training
def recurrent_with_steps_first() -> tuple[list[nn.Module], Step]:
    net, hidden = Recurrent(), [(torch.zeros(2, 6, 6), torch.zeros(2, 6, 6))]

    def step(step: int) -> Tensor:
        words = labels(step, 30, 11).view(5, 6)
        out, after = net(words, hidden[0])
        hidden[0] = tuple(one.detach() for one in after)
        return F.cross_entropy(out, labels(60 + step, 30, 11))

    return [net], step


@training
def recurrent_with_gradients_that_add_up() -> tuple[list[nn.Module], Step]:
    net = Recurrent()

    def step(step: int) -> Tensor:
        words, hidden = labels(step, 30, 11).view(5, 6), (torch.zeros(2, 6, 6), torch.zeros(2, 6, 6))
        for _ in range(2):
            net(words, hidden)[0].square().mean().backward()
        return F.cross_entropy(net(words, hidden)[0], labels(60 + step, 30, 11))

    return [net], step


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 4), nn.Linear(4, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, words: Tensor) -> Tensor:
        out: Tensor = self.head(self.embedding(words).tanh())
        return out


@training
def tied_weights() -> tuple[list[nn.Module], Step]:
    net = Tied()
    return [net], lambda step: F.cross_entropy(net(labels(step, 9, 11)), labels(9 + step, 9, 11))


class Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(5, 4)

    def forward(self, samples: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        logits = self.net(samples)
        return {"loss": F.cross_entropy(logits, labels, ignore_index=0)} if labels is not None else {"logits": logits}


@training
def loss_inside_over_what_counts() -> tuple[list[nn.Module], Step]:
    net = Loss()
    return [net], lambda step: net(batch(step, 9, 5), labels=labels(step, 9, 4))["loss"]


class Kept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net, self.kl = nn.Linear(5, 4), torch.zeros(())

    def forward(self, samples: Tensor) -> Tensor:
        out: Tensor = self.net(samples)
        self.kl = out.square().mean()
        self.features = out.tanh()
        return out


@training
def attributes_that_are_read_outside() -> tuple[list[nn.Module], Step]:
    net = Kept()
    return [net], lambda step: net(batch(step, 9, 5)).mean() + net.kl + net.features.std()


@training
def a_model_that_calls_another() -> tuple[list[nn.Module], Step]:
    inner, other = nn.Linear(5, 5), nn.Linear(5, 2)

    class Outer(nn.Module):
        def forward(self, samples: Tensor) -> Tensor:
            out: Tensor = other(inner(samples).tanh())
            return out

    outer = Outer()
    return [inner, outer, other], lambda step: outer(batch(step, 6, 5)).square().mean()


@training
def a_parameter_that_no_module_has() -> tuple[list[nn.Module], Step]:
    scale = nn.Parameter(torch.full((5,), 0.5))

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.kept = nn.Linear(5, 2), [scale]

        def forward(self, samples: Tensor) -> Tensor:
            out: Tensor = self.net(samples * scale)
            return out

    net, holder = Scaled(), nn.ParameterList([scale])
    return [net, holder], lambda step: net(batch(step, 6, 5)).square().mean()


@training
def a_head_of_zeros() -> tuple[list[nn.Module], Step]:
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    nn.init.zeros_(net[2].weight)
    nn.init.zeros_(net[2].bias)
    return [net], lambda step: F.cross_entropy(net(batch(step, 8, 5)), labels(step, 8, 3))


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3)
        self.reentrant = reentrant

    def forward(self, samples: Tensor) -> Tensor:
        out = checkpoint(self._scaled, self.first(samples), use_reentrant=self.reentrant)
        last: Tensor = self.last(out)
        return last

    def _scaled(self, x: Tensor) -> Tensor:
        """By a single number that is held within a limit, which a check lets go beyond it: the second time, too."""
        size = self.last.weight.abs().mean().clamp(min=1e-5)
        return torch.tanh(self.norm(x) / size)


@training
def checkpoints() -> tuple[list[nn.Module], Step]:
    net = Checkpointed(False)
    return [net], lambda step: F.cross_entropy(net(batch(step, 8, 5)), labels(step, 8, 3))


@training
def reentrant_checkpoints() -> tuple[list[nn.Module], Step]:
    net = Checkpointed(True)
    return [net], lambda step: F.cross_entropy(net(batch(step, 8, 5)), labels(step, 8, 3))


class Codebook(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(5, 4), nn.Linear(4, 5)
        self.register_buffer("codes", torch.randn(6, 4))

    def forward(self, samples: Tensor) -> Tensor:
        encoded = self.encode(samples)
        nearest = torch.cdist(encoded.detach(), self.codes).argmin(1)
        with torch.no_grad():
            for code in range(6):
                if (nearest == code).any():
                    self.codes[code].lerp_(encoded[nearest == code].mean(0), 0.1)
        out: Tensor = self.decode(encoded + (self.codes[nearest] - encoded).detach())
        return out


@training
def a_codebook_that_forward_updates() -> tuple[list[nn.Module], Step]:
    net = Codebook()
    return [net], lambda step: F.mse_loss(net(batch(step, 12, 5)), batch(step, 12, 5))


class Contrast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(5, 4)

    def forward(self, samples: Tensor) -> Tensor:
        embedded = self.net(samples)
        return embedded @ embedded.T


@training
def contrast_inside() -> tuple[list[nn.Module], Step]:
    net = Contrast()
    return [net], lambda step: F.cross_entropy(net(batch(step, 8, 5)), torch.arange(8))


def follow(name: str) -> tuple[list[list[float]], list[list[float]], dict[str, str]]:
    """The losses, the parameters and buffers after each step, and why models were computed whole."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    models, step = TRAININGS[name]()
    rt.data_parallel(models)
    parameters = list({id(one): one for model in models for one in model.parameters()}.values())
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    losses, states = [], []
    for number in range(STEPS):
        optimizer.zero_grad()
        loss = step(number)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        buffers = [one for model in models for one in model.buffers()]
        states.append(torch.cat([one.detach().double().flatten() for one in (*parameters, *buffers)]).tolist())
    return losses, states, {one.name: one.given_up for one in _shared.values()}


def follow_as_beside_an_accelerator(name: str) -> Any:
    vars(communicator)["tells_beside"] = lambda tensor: True
    return follow(name)


@pytest.mark.parametrize("name", ["plain", "batches_that_do_not_divide", "reentrant_checkpoints"])
def test_what_ranks_must_know_travels_apart_where_there_is_an_accelerator(name: str) -> None:
    """Headers and what gradients there are: the numbers themselves need not be waited for."""
    ((_, expected, _),) = on_ranks(follow, name, ranks=1)
    for _, states, whole in on_ranks(follow_as_beside_an_accelerator, name):
        assert not any(whole.values())
        assert [*chain(*states)] == pytest.approx([*chain(*expected)], abs=1e-12)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", TRAININGS)
def test_ranks_follow_one_process(name: str, ranks: int) -> None:
    ((expected_losses, expected, _),) = on_ranks(follow, name, ranks=1)
    everyone = on_ranks(follow, name, ranks=ranks)
    assert all(one == everyone[0] for one in everyone)
    losses, states, whole = everyone[0]
    assert {one for one, why in whole.items() if why} == WHOLE.get(name, set()), whole
    assert losses == pytest.approx(expected_losses, abs=1e-12)
    assert max(abs(a - b) for of, to in zip(states, expected, strict=True) for a, b in zip(of, to, strict=True)) < 1e-12
