"""Batches that ranks load in shares are, bit for bit, those that one process loads."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import distify_runtime as rt
import numpy as np
import pytest
import torch
from distify_runtime.shared import loading, loading_phases
from ranks import RankFailed, on_ranks
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset
from torch.utils.data._utils.fetch import _MapDatasetFetcher
from torch.utils.data.dataloader import _BaseDataLoaderIter

from tests.grid import RANKS, some

SLOW = 0.01  # seconds for a sample: there is something to save
SIZE = 60


class Sample(NamedTuple):
    name: str
    pixels: np.ndarray[Any, Any]


class Rows(Dataset[Any]):
    """Samples that take a while, and how many were fetched in this process."""

    def __init__(self, of: str = "tensors", seconds: float = SLOW) -> None:
        self.of, self.seconds = of, seconds
        self.rows = torch.randn(SIZE, 3, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        self.fetched = 0

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        self.fetched += 1
        if self.seconds:
            time.sleep(self.seconds)
        return KINDS[self.of](self.rows[index], index)


def drawn(row: Tensor, index: int) -> Any:
    noise = torch.rand(1).item() + random.random() + np.random.rand()
    return row + noise, index


KINDS: dict[str, Callable[[Tensor, int], Any]] = {
    "tensors": lambda row, index: (row, index),
    "mixed": lambda row, index: {
        "pixels": (row * 100).numpy().astype(np.uint8),
        "half": row.to(torch.bfloat16).T,
        "words": f"sample {index}",
        "figures": [index / 7, index % 3 == 0, torch.tensor(index)],
        "named": Sample(str(index), row.numpy()),
    },
    "numbers": lambda row, index: index if index % 5 else float(index),  # of what type depends on the first of a batch
    "ragged": lambda row, index: (row.flatten()[: 1 + index % 6], index),
    "drawn": drawn,
}


def padded(samples: list[Any]) -> Any:
    rows = nn.utils.rnn.pad_sequence([row for row, _ in samples], batch_first=True)
    return rows, torch.tensor([index for _, index in samples])


def numbered(samples: list[Any]) -> Any:
    return torch.tensor([float(one) for one in samples]), str([type(one).__name__ for one in samples])


def worker_reads(worker: int) -> None:
    info: Any = torch.utils.data.get_worker_info()
    assert type(info.dataset) is Rows


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"batch_size": 6, "shuffle": True},
    "drop_last": {"batch_size": 7, "shuffle": True, "drop_last": True},
    "an uneven end": {"batch_size": 7},
    "too few for a share of each at the end": {"sampler": range(57), "batch_size": 8},
    "workers": {"batch_size": 6, "shuffle": True, "num_workers": 2, "worker_init_fn": worker_reads},
    "workers that stay": {"batch_size": 6, "shuffle": True, "num_workers": 1, "persistent_workers": True},
}


def in_shares(loader: DataLoader[Any], faster: float = math.inf, draws: bool = False) -> DataLoader[Any]:
    """In shares, however busy the machine is that exchanges them; with `faster` 0, never."""
    if rt.world_size() > 1:  # in a process of this test's own
        loading_phases._FASTER, loading_phases._WORTH = faster, 0
    return rt.shard_loading(loader, draws)


def epochs_of(loader: DataLoader[Any], epochs: int) -> tuple[list[Any], Tensor]:
    """The batches, with what else is drawn from the script's stream."""
    found: list[Any] = []
    for epoch in range(epochs):
        found.append(torch.rand(3))
        for number, batch in enumerate(loader):
            found.append(batch)
            if epoch == 2 and number == 2:
                break
    return found, torch.rand(3)


def loaded(
    options: dict[str, Any], of: str, seconds: float = SLOW, epochs: int = 5, draws: bool = False
) -> tuple[Any, str, int]:
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    data = Rows(of, seconds)
    collate = {"ragged": padded, "numbers": numbered}.get(of)
    loader = in_shares(DataLoader(data, collate_fn=collate, **options), draws=draws)
    assert len(loader) == len(loader.batch_sampler)  # type: ignore[arg-type]
    assert loader.dataset is data
    assert loader.batch_size == options["batch_size"]
    found = epochs_of(loader, epochs)
    shared = loading._shared.get(id(loader))
    return found, shared.phases.phase.name if shared else "", data.fetched


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return type(one) is type(other) and one.dtype is other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)):
        pairs = zip(one, other, strict=True)
        return type(one) is type(other) and all(same(*pair) for pair in pairs)
    return bool(one == other)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", some(OPTIONS, ("drop_last", "too few for a share of each at the end", "workers")))
def test_batches_are_those_of_one_process(name: str, ranks: int) -> None:
    whole, _, fetched = loaded(OPTIONS[name], "mixed")
    for found, phase, mine in on_ranks(loaded, OPTIONS[name], "mixed", ranks=ranks):
        assert same(found, whole)
        if "num_workers" not in OPTIONS[name]:  # which are started anew for each pass, and fetch in other processes
            assert phase == "SHARES"
            assert mine < fetched


@pytest.mark.parametrize("of", ["tensors", "ragged", "numbers"])
def test_whatever_makes_a_batch_of_them(of: str) -> None:
    whole, _, _ = loaded(OPTIONS["plain"], of)
    for found, phase, _ in on_ranks(loaded, OPTIONS["plain"], of):
        assert phase == "SHARES"
        assert same(found, whole)


# ---- random numbers


def drawn_by_place() -> tuple[Any, str, int]:
    return loaded(OPTIONS["plain"], "drawn", draws=True)


def test_a_data_set_that_draws_is_loaded_whole_and_all_goes_on_as_in_one_process() -> None:
    """Also what the script draws after it, and the order of later passes."""
    whole, _, _ = loaded(OPTIONS["plain"], "drawn", epochs=3)
    for found, phase, _ in on_ranks(loaded, OPTIONS["plain"], "drawn", SLOW, 3):
        assert phase == "WHOLE"
        assert same(found, whole)


def test_what_a_data_set_draws_follows_from_the_place_of_a_sample() -> None:
    """Whoever loads it: on four ranks as on two; and the script's own stream goes on alike on all."""
    two, four = (
        on_ranks(drawn_by_place, ranks=2),
        on_ranks(drawn_by_place, ranks=4),
    )
    assert [phase for _, phase, _ in (*two, *four)] == ["SHARES"] * 6
    assert all(same(found, two[0][0]) for found, _, _ in (*two, *four))
    noise = noise_of([one for one in two[0][0][0] if isinstance(one, list)][-8:])
    assert len(set(noise)) == len(noise)


def noise_of(batches: list[Any]) -> list[float]:
    """What was drawn for each sample, which is else the row of its number."""
    rows = Rows().rows
    found = [row - rows[index] for x, y in batches for row, index in zip(x, y.tolist(), strict=True)]
    assert all(((one - one[0, 0]).abs() < 1e-12).all() for one in found)
    return [one[0, 0].item() for one in found]


def drawn_in_workers() -> list[float]:
    torch.manual_seed(3)
    loader = in_shares(DataLoader(Rows("drawn"), batch_size=6, num_workers=1, persistent_workers=True), draws=True)
    epochs_of(loader, 4)
    assert loading._shared[id(loader)].phases.phase.name == "SHARES"
    return noise_of(list(loader))


def test_workers_of_different_ranks_do_not_draw_alike() -> None:
    first, second = on_ranks(drawn_in_workers)
    assert first == second
    assert len(set(first)) == len(first)


# ---- where nothing happens


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(range(24))


class Counting(Rows):
    """Another sample each time."""

    def __getitem__(self, index: int) -> Any:
        row, _ = super().__getitem__(index)
        return row, self.fetched


class Derived(DataLoader[Any]):
    pass


def untouched() -> None:
    data = Rows(seconds=0)
    for loader in (
        DataLoader(Stream(), batch_size=6), DataLoader(data, batch_size=None), Derived(data, batch_size=6),
    ):  # fmt: skip
        assert rt.shard_loading(loader) is loader
        assert id(loader) not in loading._shared
        assert type(iter(loader)).__module__.startswith("torch.")
    cheap = rt.shard_loading(DataLoader(data, batch_size=6))
    loading_phases._WORTH = 1.0  # seconds that there are to save
    assert stays_whole(cheap)
    assert stays_whole(in_shares(DataLoader(Rows(), batch_size=6), faster=0))


def stays_whole(loader: DataLoader[Any]) -> bool:
    epochs_of(loader, 3)
    return loading._shared[id(loader)].phases.is_over and type(iter(loader)).__module__.startswith("torch.")


def test_what_is_loaded_whole() -> None:
    on_ranks(untouched)


def counted() -> list[int]:
    loader = in_shares(DataLoader(Counting(), batch_size=6))
    found, _ = epochs_of(loader, 3)
    assert loading._shared[id(loader)].phases.is_over
    return [number for one in found if isinstance(one, list) for number in one[1].tolist()]


def test_a_data_set_that_gives_another_sample_each_time_is_loaded_whole() -> None:
    first, second = on_ranks(counted)
    assert first == second


# ---- what goes wrong


class Broken(Rows):
    bad = -1

    def __getitem__(self, index: int) -> Any:
        if index == self.bad:
            raise LookupError(f"sample {index} is broken")
        return super().__getitem__(index)


def errors() -> list[str]:
    """Two samples that cannot be loaded, each on another rank: the batch after goes on."""
    data = Broken()
    loader = in_shares(DataLoader(data, batch_size=6))
    epochs_of(loader, 3)
    assert loading._shared[id(loader)].phases.phase.name == "SHARES"
    found = []
    for data.bad in (1, 5):
        batches = iter(loader)
        try:
            next(batches)
        except LookupError as error:
            found.append(str(error))
        found.append(str(next(batches)[1].tolist()))
    return found


def test_an_error_of_one_sample_is_raised_on_all_ranks() -> None:
    for found in on_ranks(errors):
        after = str([*range(6, 12)])
        assert found == ["sample 1 is broken", after, "sample 5 is broken", after]


def another_order() -> None:
    order = list(range(SIZE))
    loader = in_shares(DataLoader(Rows(), batch_size=6, sampler=order))
    epochs_of(loader, 3)
    if rt.rank() == 1:
        order.reverse()
    next(iter(loader))


def test_ranks_that_draw_other_samples_end() -> None:
    with pytest.raises(RankFailed, match="draws other samples on some rank"):
        on_ranks(another_order)


def several_at_a_time() -> list[int]:
    torch.manual_seed(0)
    loader = in_shares(DataLoader(Subset(Rows(), range(30)), batch_size=6, shuffle=True))
    found = []
    for _ in range(4):
        for one in loader:
            for other in loader:
                found += [*one[1].tolist(), *other[1].tolist()]
                break
    found += [index for batch in list(loader) for index in batch[1].tolist()]
    assert rt.world_size() == 1 or loading._shared[id(loader)].phases.phase.name == "SHARES"
    return found


def test_several_passes_at_a_time() -> None:
    alone = several_at_a_time()
    assert on_ranks(several_at_a_time) == [alone, alone]


# ---- who watches


def watched() -> tuple[list[Any], list[int], str]:
    """What a tool sees that has put something between torch's loaders and what they ask."""
    drawn: list[Any] = []
    fetched: list[int] = []

    def next_index(self: Any) -> Any:
        drawn.append(list(index := original(self)))
        return index

    def fetch(self: Any, index: Any) -> Any:
        if not self.auto_collation:
            return self.collate_fn(self.dataset[index])
        fetched.extend(index)
        return self.collate_fn([self.dataset[one] for one in index])

    original = _BaseDataLoaderIter._next_index  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_BaseDataLoaderIter, "_next_index", next_index)
        patch.setattr(_MapDatasetFetcher, "fetch", fetch)
        _, phase, _ = loaded(OPTIONS["plain"], "tensors")
    return drawn, fetched, phase


def test_who_watches_a_loader_sees_the_batches_of_one_process_and_each_sample_once() -> None:
    batches, samples, _ = watched()
    first, second = on_ranks(watched)
    assert first[2] == second[2] == "SHARES"
    assert first[0] == second[0] == batches
    assert sorted({*first[1], *second[1]}) == sorted(set(samples))
    assert len(first[1]) + len(second[1]) < 2 * len(samples)
