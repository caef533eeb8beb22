"""Models of many parts that cannot be shared as a whole: what was found of one part spares the others of its kind."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime import communicator
from distify_runtime.shared import check, finding
from distify_runtime.shared.comparing import is_equal
from distify_runtime.shared.models import _shared
from ranks import on_ranks
from torch import Tensor, nn


class Mixture(nn.Module):
    """Experts, and a router whose statistics relate the samples of a batch."""

    def __init__(self, channels: int, experts: int = 3) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(experts))
        self.router = nn.Linear(channels, experts)
        self.register_buffer("load", torch.ones(experts))

    def forward(self, images: Tensor) -> Tensor:
        scores = self.router(images.mean((2, 3))).softmax(1)
        self.load = scores.detach().mean(0)
        weights = scores / self.load
        found: Tensor = torch.stack([expert(images) for expert in self.experts], 1)
        return (found * weights[:, :, None, None, None]).sum(1)


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.norm, self.second = Mixture(channels), nn.BatchNorm2d(channels), Mixture(channels)

    def forward(self, images: Tensor) -> Tensor:
        return images + torch.relu(self.second(torch.relu(self.norm(self.first(images)))))


class Net(nn.Module):
    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(3) for _ in range(blocks))
        self.head = nn.Linear(3, 2)

    def forward(self, images: Tensor) -> Tensor:
        for block in self.blocks:
            images = block(images)
        out: Tensor = self.head(images.mean((2, 3)))
        return out


class Centred(nn.Module):
    """`coupled`: whether it compares the samples of a batch. index: which it does by in one case."""

    def __init__(self, index: int, coupled: bool | None = None) -> None:
        super().__init__()
        self.inner, self.index, self.coupled = nn.Linear(3, 3), index, coupled

    def forward(self, samples: Tensor) -> Tensor:
        found: Tensor = self.inner(samples)
        is_coupled = self.index % 2 == 0 if self.coupled is None else self.coupled
        return found - found.mean(0) if is_coupled else found.tanh()


def _looked_at(*_: Any) -> None:
    """As a hook that logs."""


class Row(nn.Module):
    """A model that compares samples, of such parts."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, samples: Tensor) -> Tensor:
        for part in self.parts:
            samples = part(samples)
        return samples - samples.mean(0) ** 2


def _verbose_on_one_rank() -> nn.Module:
    parts = [Centred(index, True) for index in range(3)]
    for index, part in enumerate(parts):
        part.verbose = index != 1 or rt.rank() == 0  # type: ignore[assignment]
    return Row(*parts)


def _looked_at_one() -> nn.Module:
    parts = [Centred(index, True) for index in range(3)]
    parts[1].register_forward_hook(_looked_at)
    parts[2].register_forward_hook(_looked_at)
    parts[0].register_forward_hook(lambda *_: None)
    return Row(*parts)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "two blocks": (lambda: Net(2), (6, 3, 5, 5)),
    "four blocks": (lambda: Net(4), (6, 3, 5, 5)),
    "by a flag": (lambda: Row(*(Centred(index, index % 2 == 0) for index in range(4))), (6, 3)),
    "by a number": (lambda: Row(*(Centred(index) for index in (1, 0, 3, 2))), (6, 3)),
    "by a number, the first one coupled": (lambda: Row(*(Centred(index) for index in range(4))), (6, 3)),
    "other hooks": (_looked_at_one, (6, 3)),
    "other attributes on each rank": (_verbose_on_one_rank, (6, 3)),
}


class _Asked:
    """Whose call was checked for the first time, and whether it may be shared."""

    def __init__(self) -> None:
        self.found: dict[str, bool] = {}
        self.parts = 0
        find_plan, part = finding.find_plan, check.Check._part

        def counted(model: Any, call: Any, known: Any, *args: Any, **kwargs: Any) -> finding.Found:
            answer = find_plan(model, call, known, *args, **kwargs)
            self.found.setdefault(model.name, answer.plan is not None)
            return answer

        def trying(*args: Any, **kwargs: Any) -> Any:
            self.parts += 1
            return part(*args, **kwargs)

        finding.find_plan, check.Check._part = counted, trying  # type: ignore[assignment, method-assign]

    @property
    def failed(self) -> list[str]:
        return [name for name, is_shared in self.found.items() if not is_shared]


def follow(name: str) -> Any:
    """The state after each of three steps; who was checked in vain, how many parts were tried in the first step, and
    who is computed whole."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    make, shape = MODELS[name]
    net, asked = make(), _Asked()
    rt.data_parallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    states, parts = [], 0
    for step in range(3):
        optimizer.zero_grad()
        net(torch.randn(*shape, generator=torch.Generator().manual_seed(step))).square().mean().backward()
        optimizer.step()
        states.append(torch.cat([one.detach().double().flatten() for one in net.state_dict().values()]))
        parts = parts or asked.parts
    return states, asked.failed, parts, [one.name for one in _shared.values() if one.given_up]


def ranks_follow_one_process(name: str) -> tuple[list[str], int, list[str]]:
    """Also gives what rank 0 has counted."""
    ((expected, *_),) = on_ranks(follow, name, ranks=1)
    everyone = on_ranks(follow, name)
    for states, *counted in everyone:
        assert counted == list(everyone[0][1:])
        for one, other in zip(states, expected, strict=True):
            assert torch.allclose(one, other, rtol=0, atol=1e-12)
    _, failed, parts, whole = everyone[0]
    return failed, parts, whole


def test_one_of_each_kind_is_tried_in_vain() -> None:
    in_vain = ["Net", "Net.blocks.0", "Net.blocks.0.first"]
    failed, few, whole = ranks_follow_one_process("two blocks")
    assert failed == in_vain
    assert len(whole) == 1 + 2 * 3
    failed, many, whole = ranks_follow_one_process("four blocks")
    assert failed == in_vain
    assert len(whole) == 1 + 4 * 3
    assert many - few == 2 * (2 * 4 + 1)  # the layers of two blocks more, each checked once


def test_a_flag_makes_another_kind() -> None:
    failed, _, whole = ranks_follow_one_process("by a flag")
    assert failed == ["Row", "Row.parts.0"]
    assert whole == ["Row", "Row.parts.0", "Row.parts.2"]


def test_what_looks_at_a_part_makes_another_kind() -> None:
    failed, _, _ = ranks_follow_one_process("other hooks")
    assert failed == ["Row", "Row.parts.0", "Row.parts.1"]


def test_that_a_part_is_shared_says_nothing_of_the_next() -> None:
    failed, _, whole = ranks_follow_one_process("by a number")
    assert failed == ["Row", "Row.parts.1"]
    assert set(whole) == {"Row", "Row.parts.1", "Row.parts.2", "Row.parts.3"}


def test_what_is_wrong_of_a_part_costs_nothing_but_time() -> None:
    failed, _, whole = ranks_follow_one_process("by a number, the first one coupled")
    assert failed == ["Row", "Row.parts.0"]
    assert set(whole) == {"Row", *(f"Row.parts.{index}" for index in range(4))}


def test_ranks_do_not_part_where_their_attributes_differ() -> None:
    failed, _, whole = ranks_follow_one_process("other attributes on each rank")
    assert failed == ["Row", "Row.parts.0", "Row.parts.1"]  # the second is of the same kind on rank 0 alone
    assert set(whole) == {"Row", *(f"Row.parts.{index}" for index in range(3))}


def _searches() -> int:
    net, searches, get_objects = nn.Linear(3, 2), [], gc.get_objects

    def searched(*args: Any) -> Any:
        searches.append(args)
        return get_objects(*args)

    gc.get_objects = searched
    rt.data_parallel(net)
    for step in range(3):
        net(torch.randn(8, 3, generator=torch.Generator().manual_seed(step))).square().mean().backward()
    gc.get_objects = get_objects
    return len(searches)


def test_a_pass_that_leaves_nothing_has_not_all_objects_searched() -> None:
    found = on_ranks(_searches)  # in each of half a dozen passes, if any; a thread of torch's may hold something once
    assert max(found) <= 1, found


def _meetings() -> int:
    net, meetings, gather = nn.Linear(3, 2), [], communicator.all_gather_object

    def met(value: Any) -> list[Any]:
        meetings.append(value)
        return gather(value)

    rt.data_parallel(net)
    communicator.all_gather_object = met
    net(torch.randn(8, 3, generator=torch.Generator().manual_seed(1)))
    communicator.all_gather_object = gather
    return len(meetings)


def test_a_check_meets_for_what_the_ranks_have_to_know_and_no_more() -> None:
    """What the whole gave, how the parts were made, what they gave, outputs, and the shared pass.

    Whether all have a part is told as what is summed inside is: in a message of one size.
    """
    assert on_ranks(_meetings) == [5, 5]


@pytest.mark.parametrize("size", [1, 3, 2**12])
def test_numbers_that_are_not_finite_are_equal_in_the_same_places(size: int) -> None:
    numbers = torch.linspace(1, 2, size)
    for special in (float("inf"), float("nan")):
        other = torch.cat([numbers, torch.tensor([special])])
        assert is_equal(other.clone(), other)
        assert not is_equal(torch.cat([numbers, torch.tensor([1.0])]), other)
        assert not is_equal(other, torch.cat([numbers, torch.tensor([1.0])]))
        assert not is_equal(torch.cat([1.1 * numbers, torch.tensor([special])]), other)
    assert is_equal(numbers * (1 + 1e-6), numbers)
    assert not is_equal(numbers * 1.1, numbers)
    assert not is_equal(numbers, numbers[:-1])
