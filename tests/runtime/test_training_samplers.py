"""Samplers, batch samplers and streams of a script's own: N ranks draw what one process draws, and share it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, cast

import distify_runtime as rt
import pytest
import torch
from ranks import RankFailed, on_ranks
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)

from tests.grid import slow

Batches = list[list[int]]


def _data(samples: int = 24) -> TensorDataset:
    return TensorDataset(torch.arange(samples))


class Shuffled(Sampler[int]):
    """A sampler of the script's own, that draws from Python's random numbers."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[int]:
        order = list(range(self.samples))
        random.shuffle(order)
        return iter(order)

    def __len__(self) -> int:
        return self.samples


class SeededAnew(Sampler[int]):
    """Passes go on for ever, each from seeds of the operating system's."""

    def __iter__(self) -> Iterator[int]:
        import numpy

        while True:
            numpy.random.seed()
            random.seed()
            torch.seed()
            random.seed(a=None, version=2)
            yield from numpy.random.permutation(8).tolist()
            yield from random.sample(range(8, 16), 8)
            yield from (16 + torch.randperm(8)).tolist()
            yield from numpy.random.default_rng().permutation(24).tolist()


class Endless(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        while True:
            yield int(torch.randint(24, ()))


SAMPLERS: dict[str, Callable[[], Sampler[int]]] = {
    "weighted": lambda: WeightedRandomSampler(torch.arange(1.0, 25.0), 24),
    "subset": lambda: SubsetRandomSampler(range(0, 24, 2)),
    "with replacement": lambda: RandomSampler(_data(), replacement=True, num_samples=40),
    "own": lambda: Shuffled(20),
    "own generator": lambda: RandomSampler(_data(), generator=torch.Generator().manual_seed(3)),
    "endless": Endless,
    "seeded anew": SeededAnew,
}


def _epochs(name: str) -> list[Batches]:
    """Two epochs in batches of 4, on ranks whose own random numbers are apart."""
    rt.seed_ranks_apart()
    loader = DataLoader(**rt.shard_training(_data(), batch_size=4, sampler=SAMPLERS[name]()))
    epochs = []
    for epoch in range(2):
        torch.rand(1 + rt.rank())
        rt.set_epoch(loader, epoch)
        epochs.append([batch.tolist() for _, (batch,) in zip(range(5), loader, strict=False)])
    return epochs


def _together(ranks: list[Batches]) -> Batches:
    """Batches put together from the ranks' shares, dealt out in turn."""
    return [[index for turn in zip(*shares, strict=True) for index in turn] for shares in zip(*ranks, strict=True)]


@pytest.mark.parametrize("name", SAMPLERS)
def test_ranks_share_the_batches_of_one_process(name: str) -> None:
    torch.manual_seed(0)
    ranks = on_ranks(_seeded, _epochs, name)
    alone = _seeded(_epochs, name)
    for epoch in range(2):
        assert _together([rank[epoch] for rank in ranks]) == alone[epoch]
    assert alone[0] != alone[1]


def _seeded(function: Callable[..., Any], *arguments: Any) -> Any:
    torch.manual_seed(5)
    return function(*arguments)


def _lengths(samples: int, drop_last: bool) -> tuple[int, list[list[int]]]:
    sampler = rt.DistributedSamplerWrapper(range(samples), drop_last)
    return len(sampler), [list(sampler)]


@pytest.mark.parametrize(("drop_last", "shares"), [(False, [[0, 3], [1, 4], [2, 3]]), (True, [[0], [1], [2]])])
def test_uneven_ends(drop_last: bool, shares: list[list[int]]) -> None:
    assert on_ranks(_lengths, 5, drop_last, ranks=3) == [(len(share), [share]) for share in shares]


def _order(samples: int, drop_last: bool, epoch: int) -> tuple[int, list[int]]:
    torch.manual_seed(7)
    sampler = rt.TrainingSampler(range(samples), drop_last=drop_last)
    sampler.set_epoch(epoch)
    return len(sampler), [*sampler]


def _of_one_process(samples: int, epoch: int) -> list[int]:
    sampler: DistributedSampler[Any] = DistributedSampler(cast(Any, range(samples)), num_replicas=1, rank=0, seed=7)
    sampler.set_epoch(epoch)
    return [*sampler]


@pytest.mark.parametrize(("samples", "drop_last"), [(9, False), (9, True), (8, False)])
def test_training_sampler_deals_out_the_order_of_one_process(samples: int, drop_last: bool) -> None:
    """Its last sample is both ranks' where it is alone: the mean of a batch of one."""
    order = _of_one_process(samples, epoch=2)
    whole = order[:8] if drop_last or samples == 8 else [*order, order[-1]]
    half = len(whole) // 2
    assert on_ranks(_order, samples, drop_last, 2) == [(half, whole[0::2]), (half, whole[1::2])]


def _drawn_after_a_pass(ours: bool) -> float:
    torch.manual_seed(7)
    sampler = rt.TrainingSampler(range(9)) if ours else RandomSampler(range(9))
    list(sampler)
    return torch.rand(()).item()


def test_training_sampler_leaves_the_global_stream_where_a_random_sampler_does() -> None:
    """What is drawn after an epoch, the next fold's split say, is what one process draws."""
    assert on_ranks(_drawn_after_a_pass, True)[0] == _drawn_after_a_pass(False)


def _fewer_samples_than_ranks() -> list[int]:
    return list(rt.DistributedSamplerWrapper([7]))


def test_fewer_samples_than_ranks() -> None:
    assert on_ranks(_fewer_samples_than_ranks, ranks=3) == [[7], [7], [7]]


def _batches() -> tuple[list[list[int]], int]:
    rt.seed_ranks_apart()
    sampler = BatchSampler(RandomSampler(range(14)), 4, False)
    loader = DataLoader(**rt.shard_training(_data(), batch_sampler=sampler))
    rt.reshuffle(loader)
    return [batch.tolist() for (batch,) in loader], len(loader)


def test_batches_are_split_over_the_ranks() -> None:
    ranks = on_ranks(_seeded, _batches)
    alone, length = _seeded(_batches)
    assert _together([batches for batches, _ in ranks]) == alone
    assert length == ranks[0][1] == 4


def _ragged() -> list[list[int]]:
    return list(rt.DistributedBatchSampler([[1, 2, 3], [4], [5, 6]]))


def test_a_batch_that_does_not_divide_is_filled_up_with_its_own_samples() -> None:
    assert on_ranks(_ragged) == [[[1, 3], [4], [5]], [[2, 1], [4], [6]]]


class Unseeded(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(random.SystemRandom().sample(range(1000), 1000))


def _pass(sampler: Any) -> list[int]:
    return list(rt.DistributedSamplerWrapper(sampler))


def test_a_sampler_that_draws_other_samples_on_each_rank_is_told() -> None:
    with pytest.raises(RankFailed, match=r"Unseeded draws other samples on rank [01] than on another rank: seed what"):
        on_ranks(_pass, Unseeded())


def _peeked() -> list[int]:
    sampler = rt.DistributedSamplerWrapper(Shuffled(8))
    if rt.is_main_process():
        next(iter(sampler))
    list(sampler)
    sampler.set_epoch(1)
    return list(sampler)


def test_one_rank_may_peek_at_a_batch() -> None:
    first, second = on_ranks(_peeked)
    assert sorted([*first, *second]) == list(range(8))


def _undisturbed() -> tuple[bool, bool, bool]:
    import numpy

    def now() -> tuple[float, float, float]:
        return torch.rand(()).item(), random.random(), float(numpy.random.rand())

    for seed in (torch.manual_seed, random.seed, numpy.random.seed):
        seed(3)
    without = now()
    for seed in (torch.manual_seed, random.seed, numpy.random.seed):
        seed(3)
    list(rt.DistributedSamplerWrapper(Shuffled(30)))
    return tuple(a == b for a, b in zip(without, now(), strict=True))  # type: ignore[return-value]


def test_the_script_own_random_numbers_go_on_as_before() -> None:
    assert _undisturbed() == (True, True, True)


class SeededByName(Sampler[int]):
    """With a seed of its own in each pass, however it is given."""

    def __iter__(self) -> Iterator[int]:
        import numpy

        random.seed(a=5)
        yield from random.sample(range(8), 8)
        numpy.random.seed(seed=5)
        yield from (8 + numpy.random.permutation(8)).tolist()


def test_seeds_that_are_named_are_the_sampler_own() -> None:
    expected = list(SeededByName())
    assert list(rt.DistributedSamplerWrapper(SeededByName())) == expected


def test_attributes_are_the_sampler_own() -> None:
    own = WeightedRandomSampler([1.0, 2.0], 2)
    sampler = rt.DistributedSamplerWrapper(own)
    sampler.num_samples = 7
    assert sampler.weights is own.weights
    assert own.num_samples == 7 == len(sampler)


# ---- streams


class Stream(IterableDataset[int]):
    """Shuffles its range in passing, and shares it out over workers in one of the two usual ways, or not at all."""

    def __init__(self, samples: int, by_worker: bool = False) -> None:
        self.start, self.stop = 0, samples
        self.by_worker = by_worker

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        order = list(range(self.start, self.stop))
        random.shuffle(order)
        yield from order[worker.id :: worker.num_workers] if worker and self.by_worker else order


def _range_of_worker(number: int) -> None:
    info = get_worker_info()
    assert info is not None
    stream: Any = info.dataset
    stream.start, stream.stop = 12 * number, 12 * (number + 1)


OPTIONS: dict[str, dict[str, Any]] = {
    "in the process": {},
    "workers": {"num_workers": 2},
    "persistent workers": {"num_workers": 2, "persistent_workers": True},
    "own ranges": {"num_workers": 2, "worker_init_fn": _range_of_worker},
}


def _streamed(options: dict[str, Any], by_worker: bool) -> list[Batches]:
    rt.seed_ranks_apart()
    loader = DataLoader(**rt.shard_training(Stream(24, by_worker), batch_size=4, **options))
    epochs = []
    for epoch in range(2):
        torch.rand(1 + rt.rank())
        rt.set_epoch(loader, epoch)
        epochs.append([batch.tolist() for batch in loader])
    return epochs


STREAMS = [(name, by_worker) for name in OPTIONS for by_worker in (False, True)]
#: Worker processes are dear: each way of having them once, and each way of sharing a stream out.
KEPT = [("in the process", False), ("workers", True), ("persistent workers", False), ("own ranges", False)]


@pytest.mark.parametrize(
    ("name", "by_worker"), [pytest.param(*one, marks=() if one in KEPT else slow) for one in STREAMS]
)
def test_streams_are_shared_in_the_batches_of_one_process(name: str, by_worker: bool) -> None:
    ranks = _serving(_streamed, OPTIONS[name], by_worker)
    alone = _seeded(_streamed, OPTIONS[name], by_worker)
    for epoch in range(2):
        assert _together([rank[epoch] for rank in ranks]) == alone[epoch]
    assert alone[0] != alone[1]


def _serving(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    return on_ranks(_seeded, function, *arguments)


def _ends(samples: int, drop_last: bool) -> tuple[list[int], int]:
    loader = DataLoader(**rt.shard_training(Stream(samples), batch_size=4, drop_last=drop_last))
    return [len(batch) for batch in loader], sum(1 for _ in loader)


@pytest.mark.parametrize("samples", [1, 7, 8, 9])
@pytest.mark.parametrize("drop_last", [False, True])
def test_ragged_streams_end_on_all_ranks_together(samples: int, drop_last: bool) -> None:
    first, second = on_ranks(_ends, samples, drop_last)
    assert first == second
    assert first[1] == (samples // 4 if drop_last else -(-samples // 4))


def test_only_streams_are_shared_as_streams() -> None:
    with pytest.raises(TypeError, match="no TensorDataset"):
        rt.shard_iterable(_data())  # type: ignore[arg-type]


def _looked_at_alone() -> list[list[int]]:
    """Nobody waits for who looks at the order of the samples: rank 0 may do so alone."""
    sampler = rt.DistributedSamplerWrapper(range(4))
    first = rt.call_on_main_process(lambda: list(sampler))
    return [first, list(sampler)]


def test_rank_zero_may_go_through_samples_alone() -> None:
    assert on_ranks(_looked_at_alone) == [[[0, 2], [0, 2]], [[0, 2], [1, 3]]]


def _two_stages(kind: str) -> list[list[int]]:
    """Orders of epochs 0 and 1, of 0 once more before a step, and of 0 when a second stage begins to count."""
    sampler: Any = rt.TrainingSampler(_data()) if kind == "plain" else rt.DistributedSamplerWrapper(Shuffled(24))
    net = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    found = []
    for epoch, steps in ((0, 0), (0, 3), (1, 3), (0, 3)):
        sampler.set_epoch(epoch)
        found.append(list(sampler))
        for _ in range(steps):
            optimizer.step()
    return found


@pytest.mark.parametrize("kind", ["plain", "own"])
def test_epochs_that_are_counted_from_the_beginning_again(kind: str) -> None:
    both = [sorted([*one, *other]) for one, other in zip(*on_ranks(_two_stages, kind), strict=True)]
    assert both == [list(range(24))] * 4
    first, again, second, later = on_ranks(_two_stages, kind)[0]
    assert first == again
    assert len({tuple(first), tuple(second), tuple(later)}) == 3


# ---- rounds, and loaders side by side

MADE: dict[str, Callable[[], Any]] = {
    "plain": lambda: rt.TrainingSampler(_data()),
    "own": lambda: rt.DistributedSamplerWrapper(Shuffled(24)),
    "batches": lambda: rt.DistributedBatchSampler(BatchSampler(RandomSampler(range(24)), 4, False)),
    "stream": lambda: rt.shard_iterable(Stream(24)),
}


class _Rounds:
    """What is trained, in rounds that each make for themselves what chooses the samples."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1)
        self.orders: list[list[Any]] = []

    def turn(self, *epochs: int | None) -> None:
        chooser = MADE[self.kind]()
        for epoch in epochs:
            if epoch is not None:
                chooser.set_epoch(epoch)
            self.orders.append([*chooser])
            torch.rand(1 + rt.rank())  # as a loader draws for its workers, and each rank for its samples
            self.optimizer.step()


def _in_rounds(kind: str, rounds: list[tuple[int | None, ...]]) -> list[list[Any]]:
    torch.manual_seed(5)
    trained = _Rounds(kind)
    for epochs in rounds:
        trained.turn(*epochs)
    return trained.orders


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("rounds", [[(0, 1), (0, 1)], [(None,), (None,), (None,)]], ids=["told", "not told"])
def test_rounds_that_make_their_loaders_have_orders_of_their_own(
    kind: str, rounds: list[tuple[int | None, ...]]
) -> None:
    ranks = on_ranks(_in_rounds, kind, rounds)
    assert ranks[0] != ranks[1]
    for orders in zip(*ranks, strict=True):
        dealt = [[index] if isinstance(index, int) else index for order in orders for index in order]
        assert sorted(index for batch in dealt for index in batch) == list(range(24))
    assert len({str(order) for order in ranks[0]}) == len(ranks[0])


@pytest.mark.parametrize("kind", MADE)
def test_a_loader_that_each_epoch_makes_goes_on_where_a_run_is_resumed(kind: str) -> None:
    """The epoch alone says its order, however many steps were taken before."""
    whole = on_ranks(_in_rounds, kind, [(0,), (1,), (2,), (3,)])[1]
    assert whole[2:] == on_ranks(_in_rounds, kind, [(2,), (3,)])[1]


def _beside(kind: str, first: int) -> list[tuple[list[Any], list[Any]]]:
    torch.manual_seed(5)
    trained = _Rounds(kind)
    pair = MADE[kind](), MADE[kind]()
    found = []
    for epoch in range(first, 3):
        for chooser in pair:
            chooser.set_epoch(epoch)
        found.append(([*pair[0]], [*pair[1]]))
        trained.optimizer.step()
    return found


@pytest.mark.parametrize("kind", MADE)
def test_two_loaders_side_by_side_pair_no_sample_with_itself(kind: str) -> None:
    first, second = on_ranks(_beside, kind, 0)
    assert all(one != other for orders in (first, second) for one, other in orders)
    if kind != "stream":  # which counts its passes by itself
        assert first[1:] == on_ranks(_beside, kind, 1)[0]  # resumed


def _seeded_anew(kind: str, seeds: list[int]) -> list[list[list[Any]]]:
    """A training for each seed, as one that compares rates of learning has them."""
    found = []
    for seed in seeds:
        torch.manual_seed(seed)
        trained = _Rounds(kind)
        trained.turn(0, 1)
        trained.turn(0, 1)
        found.append(trained.orders)
    return found


@pytest.mark.parametrize("kind", ["plain", "own"])
def test_a_training_whose_seed_is_set_back_has_the_same_orders_once_more(kind: str) -> None:
    first, other, again = on_ranks(_seeded_anew, kind, [5, 6, 5])[1]
    assert first == again != other
    assert on_ranks(_seeded_anew, kind, [6])[1] == [other]
