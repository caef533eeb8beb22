"""In single precision, rounding may be larger than a mistake: what differs is compared in double precision, too."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared import check
from distify_runtime.shared.comparing import Apart, Doubtful
from distify_runtime.shared.doubled import in_double
from distify_runtime.shared.models import _shared
from ranks import on_ranks
from torch import Tensor, nn
from torch.nn import functional as F

OTHER_GRADIENTS = "a part of the batch has other gradients than the whole one"
OTHER_VALUES = "a part of the batch gives other values than the whole one: its samples depend on each other"


class Cancelling(nn.Module):
    """A convolution's weight has a gradient of which a hundredth is rounding: it sees far values, before a BatchNorm.

    kept: how what comes of it is computed, of its rows.
    """

    def __init__(self, kept: Callable[[Tensor], Tensor] = lambda rows: rows) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU()), nn.Linear(16, 4)
        self.kept = kept

    def forward(self, images: Tensor) -> Tensor:
        found = self.body(images + 300)
        found = (found * found).mean((2, 3)) - found.mean((2, 3)) ** 2
        out: Tensor = self.head(self.kept(found))
        return out


class Deep(nn.Module):
    """Many BatchNorms, each of as many values a channel as there are samples."""

    def __init__(self, layers: int = 20) -> None:
        super().__init__()
        parts = [part for _ in range(layers) for part in (nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU())]
        self.body = nn.Sequential(nn.Linear(16, 32), *parts, nn.Linear(32, 4))

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.body(images.flatten(1)[:, :16])
        return out


class Decided(nn.Module):
    """Of three numbers at even distances, a last digit decides whether the one in the middle is above their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(1, 64), nn.BatchNorm1d(64), nn.Linear(64, 4)

    def forward(self, numbers: Tensor) -> Tensor:
        out: Tensor = self.head(torch.relu(self.norm(self.first(numbers))))
        return out


def _in_single(rows: Tensor) -> Tensor:
    """As layers do that are not to be computed in half precision."""
    wide = rows.float()
    scale = torch.ones(rows.shape[1]) / torch.arange(1, 1 + rows.shape[1]).to(torch.float32)
    return torch.matmul(wide, torch.diag(scale)).type_as(rows)


def _images(samples: int) -> Tensor:
    return torch.randn(samples, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def _numbers(samples: int) -> Tensor:
    return torch.linspace(0.8, 1.4, samples)[:, None]


MODELS: dict[str, tuple[Callable[[], nn.Module], Tensor, int]] = {
    "far values": (Cancelling, _images(4), 0),
    "far values, and casts": (lambda: Cancelling(_in_single), _images(4), 0),
    "two values a channel": (Deep, _images(2), 0),
    "outputs, too": (Deep, _images(4), 0),
    "a last digit decides": (Decided, _numbers(3), 0),
}


class _Doubles:
    """How often a check was made once more."""

    def __init__(self) -> None:
        self.made = 0
        asked = check.in_double

        def counting(*args: Any) -> Any:
            self.made += 1
            return asked(*args)

        check.in_double = counting


def _checked(make: str | Callable[[], nn.Module], samples: Tensor | None = None, seed: int = 0) -> Any:
    """Why the model is computed whole, and how often it was compared in double precision."""
    doubles = _Doubles()
    if isinstance(make, str):
        make, samples, seed = MODELS[make]
    torch.manual_seed(seed)
    model = make()
    single = copy.deepcopy(model)
    rt.data_parallel(model)
    kept = {name: one.detach().clone() for name, one in model.named_parameters()}
    places = [one.data_ptr() for one in model.parameters()]
    gradients = [torch.ones_like(one) for one in model.parameters()]
    for one, gradient in zip(model.parameters(), gradients, strict=True):
        one.grad = gradient
    assert samples is not None
    out = model(samples)
    assert all(torch.equal(one, kept[name]) for name, one in model.named_parameters())
    assert [one.data_ptr() for one in model.parameters()] == places
    assert all(one.grad is before for one, before in zip(model.parameters(), gradients, strict=True))
    assert all(one.dtype in (torch.float32, torch.int64) for one in (out, *model.buffers()))
    single(samples)
    for one, other in zip(model.buffers(), single.buffers(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)
    out.sum().backward()
    found = _shared[id(model)]
    return found.given_up, doubles.made


@pytest.mark.parametrize("name", MODELS)
def test_rounding_is_not_taken_for_a_difference(name: str) -> None:
    for given_up, made in on_ranks(_checked, name):
        assert (given_up, made) == ("", 1)


class Bypassed(Cancelling):
    """Its outputs are those of a model that can be shared; `share` of a gradient has to do with other samples."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, images: Tensor) -> Tensor:
        found = self.body(images + 300).mean((2, 3))
        related = found * found.detach().mean(0)
        out: Tensor = super().forward(images)
        return out + self.share * (related - related.detach()).sum(1, keepdim=True)


def _own_norm(rows: Tensor) -> Tensor:
    """A BatchNorm that is not seen to be one; of many samples, a part has nearly the mean of the whole."""
    return (rows - rows.mean(0)) / (rows.var(0) + 1).sqrt()


class Loss(nn.Module):
    """Returns a loss that is a mean over what a mask lets through: the mean of the parts' means is near to it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Cancelling()

    def forward(self, images: Tensor) -> Tensor:
        mask = (images.mean((1, 2, 3)) > 0).float()
        rows = (self.inner(images) - 1).square().mean(1)
        return (rows * mask).sum() / mask.sum()


class Overlapping(nn.Module):
    """Returns a sum over samples, weighed by how far all of them overlap with their labels: by little at first."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(16, 64)

    def forward(self, images: Tensor) -> Tensor:
        found = torch.sigmoid(self.body(images.flatten(1)[:, :16]))
        wanted = (images[:, 0, :8, :8].flatten(1) > 2.5) * 1.0
        both = (found * wanted).sum()
        overlap = both / (found.sum() + wanted.sum() - both)
        return ((1 - overlap / 2) * (found - wanted).square()).sum()


class Leaning(nn.Module):
    """Each sample leans on the mean of all, by a thousandth."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(16, 4)

    def forward(self, images: Tensor) -> Tensor:
        rows = images.flatten(1)[:, :16]
        out: Tensor = self.body(rows + 1e-3 * rows.mean(0))
        return out


DIFFERENT: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "as large as rounding": (lambda: Bypassed(0.05), _images(4)),
    "ten times as large": (lambda: Bypassed(0.5), _images(4)),
    "a hundred times as large": (lambda: Bypassed(5.0), _images(4)),
    "a norm of its own": (lambda: Cancelling(_own_norm), _images(32)),
    "a mean of means": (Loss, _images(31)),
    "an overlap of all": (Overlapping, _images(32)),
    "a thousandth of the others": (Leaning, _images(32)),
}


def _different(name: str) -> Any:
    make, samples = DIFFERENT[name]
    return _checked(make, samples)


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_difference_is_seen_that_is_not_much_larger_than_rounding(name: str) -> None:
    for given_up, made in on_ranks(_different, name):
        assert given_up in (OTHER_GRADIENTS, OTHER_VALUES)
        assert made


def _gravest(said: list[str]) -> str:
    return check._first(said[rt.rank()])


def test_what_one_rank_doubts_hides_no_difference_that_another_one_sees() -> None:
    doubt, near = Doubtful(OTHER_VALUES), Apart(OTHER_GRADIENTS)
    assert on_ranks(_gravest, [doubt, near]) == [OTHER_GRADIENTS] * 2
    assert on_ranks(_gravest, [near, "it is another one"]) == ["it is another one"] * 2
    assert on_ranks(_gravest, ["", doubt]) == [OTHER_VALUES] * 2


class Refusing(Cancelling):
    """Some of its code is not for double precision, on these ranks."""

    def __init__(self, *ranks: int) -> None:
        super().__init__(self._refused)
        self.ranks = ranks

    def _refused(self, rows: Tensor) -> Tensor:
        if rows.dtype == torch.float64 and rt.rank() in self.ranks:
            raise TypeError("there is no such kernel")
        return rows


def _refusing(*ranks: int) -> Any:
    return _checked(lambda: Refusing(*ranks), _images(4))


@pytest.mark.parametrize("ranks", [(0,), (1,), (0, 1)])
def test_what_cannot_be_computed_in_double_precision_is_held_to_what_was_found(ranks: tuple[int, ...]) -> None:
    for given_up, made in on_ranks(_refusing, *ranks):
        assert given_up == OTHER_GRADIENTS
        assert made


def _well_conditioned(name: str) -> Any:
    layers: dict[str, Callable[[], nn.Module]] = {
        "a bias before a norm": lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten()),
        "a group norm": lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten()),
        "attention": lambda: nn.Sequential(nn.Flatten(2), nn.TransformerEncoderLayer(1024, 2, 8, batch_first=True)),
    }
    return _checked(layers[name], _images(4))


@pytest.mark.parametrize("name", ["a bias before a norm", "a group norm", "attention"])
def test_nothing_is_computed_twice_more_where_nothing_differs(name: str) -> None:
    for given_up, made in on_ranks(_well_conditioned, name):
        assert (given_up, made) == ("", 0)


class Drawing(Cancelling):
    """Draws for each sample, and for the batch."""

    def forward(self, images: Tensor) -> Tensor:
        scale = 1 + random.random()
        return super().forward(F.dropout(images, 0.5)) * scale


def _streams() -> Any:
    torch.manual_seed(0)
    model, images, doubles = Drawing(), _images(4), _Doubles()
    rt.data_parallel(model)
    random.seed(3)
    before = torch.get_rng_state()
    model(images)
    after = random.random()
    random.seed(3)
    random.random()  # of the pass
    return (
        doubles.made,
        after == random.random(),
        torch.equal(before, torch.get_rng_state()),
        _shared[id(model)].given_up,
    )


def test_streams_go_on_as_if_nothing_had_been_compared() -> None:
    assert on_ranks(_streams) == [(1, True, True, "")] * 2


# ---- in double precision, by itself

MADE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "zeros": lambda wide, whole: torch.zeros(2),
    "of a dtype": lambda wide, whole: torch.ones(2, dtype=torch.float32),
    "of numbers": lambda wide, whole: torch.tensor([1.0]),
    "of whole numbers": lambda wide, whole: whole / 3,
    "float()": lambda wide, whole: wide.float(),
    "half()": lambda wide, whole: wide.half(),
    "to": lambda wide, whole: wide.to(torch.float32),
    "to, of whole numbers": lambda wide, whole: whole.to(dtype=torch.bfloat16),
    "as": lambda wide, whole: wide.type_as(torch.zeros(1)),
    "a sum": lambda wide, whole: wide.sum(0, dtype=torch.float32),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_is_wide(name: str) -> None:
    third, whole = torch.tensor([1.0, 1.0], dtype=torch.float64) / 3, torch.tensor([1, 1])
    with in_double(nn.Linear(1, 1), []):
        found = MADE[name](third, whole)
    assert found.dtype is torch.float64
    if name in ("float()", "half()", "to", "as", "of whole numbers"):
        torch.testing.assert_close(found.expand(2), third, rtol=1e-7 if name == "of whole numbers" else 0, atol=0)


def test_what_is_no_number_stays_what_it_is() -> None:
    bytes_ = torch.zeros(4, dtype=torch.uint8)
    outside = torch.zeros(2)
    with in_double(nn.Linear(1, 1), []):
        assert torch.arange(3).dtype is torch.int64
        assert (torch.arange(3) > 1).dtype is torch.bool
        assert bytes_.view(torch.float32).dtype is torch.float32
        outside.add_(1)
    assert outside.tolist() == [1, 1]


class Holding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.LSTM(2, 2)
        self.register_buffer("held", torch.ones(2))
        self.register_buffer("counted", torch.tensor(1))
        self.table, self.tables = torch.ones(2), [torch.ones(2)]
        self.made = self.inner.weight_ih_l0 * 2


def test_a_model_is_afterwards_what_it_was() -> None:
    model, other = Holding(), torch.ones(2, requires_grad=True)
    tensors = [*model.parameters(), *model.buffers(), model.table, *model.tables, other]
    made = model.made
    for one in model.parameters():
        one.grad = torch.ones_like(one)
    before = [(one.data_ptr(), one.dtype, one.grad, one._version) for one in tensors]
    for error in (None, ValueError()):
        try:
            with in_double(model, [other]):
                wide = [one for one in (*tensors, model.made) if one is not model.counted]
                assert {one.dtype for one in wide} == {torch.float64}
                assert model.counted.dtype is torch.int64
                assert all(one.grad is None for one in wide)
                assert model.made.requires_grad
                if error:
                    raise error
        except ValueError:
            pass
        assert [(one.data_ptr(), one.dtype, one.grad, one._version) for one in tensors] == before
        assert model.made is made


class Padded(nn.Module):
    """Frames through BatchNorms, one frame in each call: of padding, last digits are made large in each layer."""

    def __init__(self) -> None:
        super().__init__()
        widths = [1, 4, 8, 8, 8, 8]
        parts = [
            part for width, wider in itertools.pairwise(widths)
            for part in (nn.Conv2d(width, wider, 3, padding=1), nn.BatchNorm2d(wider), nn.ReLU())
        ]  # fmt: skip
        self.body = nn.Sequential(*parts)

    def forward(self, frame: Tensor) -> Tensor:
        out: Tensor = self.body(frame)
        return out


def _padded() -> tuple[str, list[Tensor]]:
    torch.manual_seed(0)
    model = Padded().double()
    rt.data_parallel(model)
    for _ in range(8):
        model(torch.rand(4, 1, 8, 8, dtype=torch.float64)).sum().backward()
    outputs = [model(torch.zeros(4, 1, 8, 8, dtype=torch.float64)) for _ in range(3)]
    why = "" if rt.world_size() == 1 else _shared[id(model)].forms.why_whole
    return why, [one.detach() for one in outputs]


def test_a_call_whose_last_digits_are_made_large_is_computed_whole_from_then_on() -> None:
    ((_, alone),) = on_ranks(_padded, ranks=1)
    for why, outputs in on_ranks(_padded):
        assert why == "its last digits decide what it gives, so that no part of a batch gives what the whole one does"
        torch.testing.assert_close(outputs[1:], alone[1:], rtol=0, atol=0)
