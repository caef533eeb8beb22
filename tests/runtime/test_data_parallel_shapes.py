"""Ways to call a model, to ask for gradients and to step: N ranks do what one process does."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import distify_runtime as rt
import numpy
import pytest
import torch
from distify_runtime.shared.models import _shared
from ranks import on_ranks
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F
from torch.nn.utils import parametrizations, rnn

from tests.grid import RANKS

Losses = Iterator[Tensor]
#: What trains: gives models first, then the loss of each step.
PROGRAMS: dict[str, Callable[[], Iterator[Any]]] = {}
#: Models that are computed whole, by the name of the program.
WHOLE = {
    "nested_tensors": {"OfNested"},
    "channels_that_are_no_batch": {"Channels"},
}


def program(make: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
    PROGRAMS[make.__name__] = make
    return make


def batch(step: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(100 + step))


def labels(step: int, size: int, classes: int) -> Tensor:
    return torch.randint(classes, (size,), generator=torch.Generator().manual_seed(900 + step))


def mlp(*, out: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, out))


def train(models: list[nn.Module], loss_of: Callable[[int], Tensor], steps: int, lr: float = 0.1) -> Iterator[Any]:
    """A program: a step for each loss, by the step's number."""
    optimizer = sgd(*models, lr=lr)
    yield models
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()
        optimizer.step()
        yield loss


def classes(net: nn.Module, step: int, size: int = 8) -> Tensor:
    return F.cross_entropy(net(batch(step, size, 5)), labels(step, size, 3))


def sgd(*models: nn.Module, lr: float = 0.1) -> torch.optim.SGD:
    return torch.optim.SGD([one for model in models for one in model.parameters()], lr=lr, momentum=0.9)


class Losses3(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = mlp()

    def forward(self, samples: Tensor, target: Tensor) -> dict[str, Tensor]:
        out = self.net(samples)
        return {"class": F.cross_entropy(out, target), "size": out.square().sum(), "spread": out.abs().mean()}


@program
def a_dictionary_of_losses() -> Iterator[Any]:
    net, sizes = Losses3(), (8, 8, 5, 7, 9, 3)

    def loss(step: int) -> Tensor:
        losses = net(batch(step, sizes[step], 5), labels(step, sizes[step], 3))
        return torch.stack(list(losses.values())).sum()

    return train([net], loss, len(sizes), lr=0.01)


@program
def functional_calls() -> Iterator[Any]:
    net = mlp()

    def loss(step: int) -> Tensor:
        slopes = torch.autograd.grad(classes(net, step), list(net.parameters()), create_graph=True)
        fast = {
            name: one - 0.1 * slope for (name, one), slope in zip(net.named_parameters(), slopes, strict=True)
        }  # as meta-learning steps
        return F.cross_entropy(functional_call(net, fast, (batch(50 + step, 8, 5),)), labels(50 + step, 8, 3))

    return train([net], loss, 5)


@program
def per_sample_gradients() -> Iterator[Any]:
    net = mlp()
    optimizer = sgd(net)
    yield [net]

    def of_one(parameters: dict[str, Tensor], sample: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(net, parameters, (sample[None],)), label[None])

    for step in range(4):
        optimizer.zero_grad()
        x, y = batch(step, 8, 5), labels(step, 8, 3)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        held = {name: one.detach() for name, one in net.named_parameters()}
        each = vmap(grad(of_one), in_dims=(None, 0, 0))(held, x, y)
        for name, one in net.named_parameters():
            assert one.grad is not None
            one.grad += each[name].clamp(-0.1, 0.1).mean(0)
        optimizer.step()
        yield loss


@program
def an_ensemble_by_vmap() -> Iterator[Any]:
    net = mlp()

    def loss(step: int) -> Tensor:
        return net(batch(step, 8, 5)).square().mean() + vmap(net)(batch(step, 3, 4, 5)).square().mean()

    return train([net], loss, 4)


@program
def parametrized_weights() -> Iterator[Any]:
    net = mlp()
    parametrizations.weight_norm(net[0])
    parametrizations.spectral_norm(net[2])
    return train([net], functools.partial(classes, net), 5)


@program
def weights_normed_by_hooks() -> Iterator[Any]:
    net = mlp()
    with warnings.catch_warnings(action="ignore"):
        nn.utils.weight_norm(net[0])
        nn.utils.spectral_norm(net[2])
    return train([net], functools.partial(classes, net), 5)


@program
def the_same_graph_twice() -> Iterator[Any]:
    net, head = mlp(), nn.Linear(3, 1)
    optimizer = sgd(net, head)
    yield [net, head]
    for step in range(4):
        optimizer.zero_grad()
        out = net(batch(step, 9, 5))
        loss = F.cross_entropy(out, labels(step, 9, 3))
        loss.backward(retain_graph=True)
        head(out).square().mean().backward(retain_graph=True)
        (out**3).mean().backward()
        optimizer.step()
        yield loss


@program
def backward_of_some_inputs() -> Iterator[Any]:
    net, head = mlp(), nn.Linear(3, 1)
    optimizer = sgd(net, head)
    yield [net, head]
    for step in range(4):
        optimizer.zero_grad()
        loss = head(net(batch(step, 9, 5))).square().mean()
        loss.backward(inputs=list(head.parameters()), retain_graph=True)
        (2 * loss).backward(inputs=[net[0].weight])
        optimizer.step()
        yield loss


@program
def lbfgs() -> Iterator[Any]:
    net = mlp()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=5, line_search_fn="strong_wolfe")
    yield [net]
    for step in range(3):

        def closure(step: int = step) -> Tensor:
            optimizer.zero_grad()
            loss = classes(net, step, 9)
            loss.backward()
            return loss

        yield optimizer.step(closure)


@program
def scaled_and_accumulated() -> Iterator[Any]:
    net = mlp()
    optimizer, scaler = sgd(net), torch.amp.GradScaler("cpu", init_scale=2.0**10)
    yield [net]
    for step in range(8):
        loss = classes(net, step, 7) / 2
        scaler.scale(loss).backward()
        if step % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        yield loss


@program
def empty_batches() -> Iterator[Any]:
    net, sizes = mlp(), (8, 0, 6, 1, 0, 5)
    return train([net], lambda step: net(batch(step, sizes[step], 5)).square().sum(), len(sizes))


class Packed(nn.Module):
    def __init__(self, pads: bool) -> None:
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(11, 4), nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 3)
        self.pads = pads

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        packed = rnn.pack_padded_sequence(self.embedding(words), lengths, batch_first=True, enforce_sorted=False)
        out, (hidden, _) = self.lstm(packed)
        if self.pads:
            hidden = rnn.pad_packed_sequence(out, batch_first=True)[0]
        found: Tensor = self.head(hidden)
        return found


def _with_lengths(net: nn.Module) -> Iterator[Any]:
    sizes = (8, 8, 5, 6)

    def loss(step: int) -> Tensor:
        size = sizes[step]
        words, lengths = labels(step, size * 7, 11).view(size, 7), 1 + labels(40 + step, size, 7)
        found: Tensor = net(words, lengths).square().mean()
        return found

    return train([net], loss, len(sizes))


@program
def packed_inside() -> Iterator[Any]:
    return _with_lengths(Packed(False))


@program
def packed_and_padded_inside() -> Iterator[Any]:
    return _with_lengths(Packed(True))


class OfPacked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(4, 6), nn.Linear(6, 3)

    def forward(self, packed: rnn.PackedSequence) -> Tensor:
        found: Tensor = self.head(self.gru(packed)[1][-1])
        return found


@program
def packed_sequences_as_arguments() -> Iterator[Any]:
    embedding, net = nn.Embedding(11, 4), OfPacked()

    def loss(step: int) -> Tensor:
        is_sorted, lengths = step in (0, 3), 1 + labels(40 + step, 8, 7)
        lengths = lengths.sort(descending=True).values if is_sorted else lengths
        embedded = embedding(labels(step, 56, 11).view(7, 8))
        found: Tensor = net(rnn.pack_padded_sequence(embedded, lengths, enforce_sorted=is_sorted)).square().mean()
        return found

    return train([embedding, net], loss, 4)


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Conv2d(2, 3, 3), nn.Linear(3, 2)

    def forward(self, images: list[Tensor], targets: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        features = torch.stack([self.body(one[None]).mean((2, 3))[0] for one in images])
        aims = torch.stack([one["boxes"].mean(0) for one in targets])
        return {"loss": F.mse_loss(self.head(features), aims)}


@program
def lists_with_one_entry_per_sample() -> Iterator[Any]:
    net = Detector()

    def loss(step: int) -> Tensor:
        images = [batch(10 * step + index, 2, 6 + index, 7) for index in range(4)]
        targets = [{"boxes": batch(200 + 10 * step + index, 1 + index, 2)} for index in range(4)]
        found: Tensor = net(images, targets)["loss"]
        return found

    return train([net], loss, 4)


class OfNested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(5, 4), nn.Linear(4, 2)

    def forward(self, nested: Tensor) -> Tensor:
        padded = torch.nested.to_padded_tensor(self.body(nested), 0.0)
        found: Tensor = self.head(padded.sum(1))
        return found


@program
def nested_tensors() -> Iterator[Any]:
    net = OfNested()

    def loss(step: int) -> Tensor:
        with warnings.catch_warnings(action="ignore"):
            nested = torch.nested.nested_tensor([batch(10 * step + index, 2 + index, 5) for index in range(4)])
        found: Tensor = net(nested).square().mean()
        return found

    return train([net], loss, 4)


class Channels(nn.Module):
    """Its samples depend on each other, those of its BatchNorm, too, if its channels are taken for the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.plain, self.head = nn.BatchNorm1d(5), nn.BatchNorm1d(5, affine=False), nn.Linear(5, 3)
        self.plain.running_mean = self.plain.running_var = None

    def forward(self, samples: Tensor) -> Tensor:
        found: Tensor = self.head(self.plain(self.norm(samples).softmax(0)).cumsum(0))
        return found


@program
def channels_that_are_no_batch() -> Iterator[Any]:
    net = Channels()
    return train([net], lambda step: net(batch(step, 6, 5)).square().mean(), 4)


def follow(name: str) -> tuple[list[float], list[list[float]], dict[str, str]]:
    """The losses, the parameters and buffers after each step, and why models were computed whole."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    numpy.random.seed(1)
    steps = PROGRAMS[name]()
    models = next(steps)
    rt.data_parallel(models)
    losses, states = [], []
    for loss in steps:
        losses.append(loss.item())
        held = [one for model in models for one in (*model.parameters(), *model.buffers())]
        states.append(torch.cat([one.detach().double().flatten() for one in held]).tolist())
    return losses, states, {one.name: one.given_up for one in _shared.values()}


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_ranks_follow_one_process(name: str, ranks: int) -> None:
    ((expected_losses, expected, _),) = on_ranks(follow, name, ranks=1)
    everyone = on_ranks(follow, name, ranks=ranks)
    assert all(one == everyone[0] for one in everyone)
    losses, states, whole = everyone[0]
    assert losses == pytest.approx(expected_losses, abs=1e-12)
    assert max(abs(a - b) for of, to in zip(states, expected, strict=True) for a, b in zip(of, to, strict=True)) < 1e-12
    assert {one for one, why in whole.items() if why and "." not in one} == WHOLE.get(name, set()), whole
