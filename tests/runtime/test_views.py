"""Other views of a DataLoader, by rank."""

from __future__ import annotations

from typing import Any

import distify_runtime as rt
import pytest
import torch
from ranks import on_ranks
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)


class Doubling(DataLoader[Any]):
    """A loader class of the script's own."""

    def __iter__(self) -> Any:
        return (2 * batch for (batch,) in super().__iter__())


def _loader(**options: Any) -> DataLoader[Any]:
    return Doubling(TensorDataset(torch.arange(options.pop("samples", 10))), batch_size=4, **options)


def _batches(loader: DataLoader[Any]) -> list[list[int]]:
    batches = [(batch // 2).tolist() for batch in loader]
    assert len(batches) == len(loader)
    return batches


def _views(options: dict[str, Any]) -> dict[str, list[list[int]]]:
    torch.manual_seed(rt.rank())
    training = rt.training_loader(_loader(**options))
    rt.set_epoch(training, 3)
    evaluation = rt.evaluation_loader(_loader(**options))
    assert rt.evaluation_loader(evaluation) is evaluation
    return {
        "training": _batches(training),
        "again": _batches(rt.evaluation_loader(training)),
        "evaluation": _batches(evaluation),
        "whole of training": _batches(rt.whole_loader(training)),
        "whole of evaluation": _batches(rt.whole_loader(evaluation)),
        "whole": _batches(rt.whole_loader(_loader(**options))),
    }


@pytest.mark.parametrize("shuffle", [True, False])
def test_views_on_two_ranks(shuffle: bool) -> None:
    options = {"samples": 11, "shuffle": shuffle}
    first, second = on_ranks(_views, options)
    alone = _views(options)
    together = [sorted([*a, *b]) for a, b in zip(first["training"], second["training"], strict=True)]
    assert together[:2] == [sorted(batch) for batch in alone["training"]][:2]  # the last one is padded
    for name in ("again", "evaluation"):
        samples = [index for one in (first, second) for batch in one[name] for index in batch]
        assert sorted(samples) == list(range(11))
    for name in ("whole of training", "whole of evaluation", "whole"):
        assert first[name] == second[name] == alone[name]
        assert [len(batch) for batch in first[name]] == [4, 4, 3]
        assert sorted(index for batch in first[name] for index in batch) == list(range(11))
    ordered = [list(range(4)), list(range(4, 8)), list(range(8, 11))]
    assert (first["whole of training"] == ordered) is not shuffle
    assert first["whole of evaluation"] == ordered


def _of_split_batches() -> list[list[int]]:
    data = TensorDataset(torch.arange(10))
    loader = Doubling(data, batch_sampler=rt.ShardedBatchSampler(data, 4))
    assert len(_batches(loader)[0]) == 2
    return _batches(rt.whole_loader(loader))


def test_whole_of_split_batches() -> None:
    assert on_ranks(_of_split_batches) == [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]] * 2


def _dropping() -> tuple[int, int]:
    training = rt.training_loader(_loader(drop_last=True, shuffle=True))
    return len(_batches(training)), len(_batches(rt.whole_loader(training)))


def test_last_batch_that_is_dropped_stays_so() -> None:
    assert on_ranks(_dropping) == [(2, 2), (2, 2)]


def test_view_leaves_its_loader_alone() -> None:
    loader = _loader()
    before = dict(loader.__dict__)
    rt.evaluation_loader(loader)
    rt.training_loader(loader)
    assert loader.__dict__ == before


def test_epochs() -> None:
    plain = _loader()
    rt.set_epoch(plain, 3)
    assert isinstance(plain.sampler, SequentialSampler)
    training = rt.training_loader(plain)
    assert isinstance(training.sampler, DistributedSampler)
    rt.set_epoch(training, 3)
    rt.reshuffle(training)
    assert training.sampler.epoch != 3


def test_whole_view_draws_what_a_shuffling_loader_draws() -> None:
    """What the script draws after it has looked at its training data is what it drew before."""
    drawn = []
    for view in (lambda loader: loader, lambda loader: rt.whole_loader(rt.training_loader(loader))):
        torch.manual_seed(4)
        list(view(_loader(shuffle=True)))
        drawn.append(torch.rand(1).item())
    assert drawn[0] == drawn[1]


def _evaluated(own: bool) -> list[list[list[int]]]:
    """Orders of a whole loader: twice before a step, once by rank 0 alone after the first, once after the second."""
    sampler = WeightedRandomSampler([1.0] * 40, 40) if own else None
    loader = rt.whole_loader(_loader(samples=40, sampler=sampler, shuffle=None if own else True))
    net = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    found = [_batches(loader), _batches(loader)]
    optimizer.step()
    if rt.is_main_process():
        _batches(loader)
    optimizer.step()
    return [*found, _batches(loader)]


@pytest.mark.parametrize("own", [True, False])
def test_an_evaluation_draws_anew_once_steps_were_taken(own: bool) -> None:
    first, second = on_ranks(_evaluated, own)
    assert first == second
    assert first[0] == first[1] != first[2]


def test_samples_chosen_by_the_script() -> None:
    """A sampler goes on choosing; who makes whole batches cannot be evaluated in shares."""
    data = TensorDataset(torch.arange(10))
    chosen: DataLoader[Any] = DataLoader(data, sampler=WeightedRandomSampler([1.0] * 10, 10))
    batched: DataLoader[Any] = DataLoader(data, batch_sampler=BatchSampler(SequentialSampler(data), 3, False))
    made: DataLoader[Any] = DataLoader(data, batch_size=None)
    assert isinstance(rt.training_loader(chosen).sampler, rt.DistributedSamplerWrapper)
    assert isinstance(rt.evaluation_loader(chosen).sampler, rt.UnpaddedSampler)
    assert isinstance(rt.training_loader(batched).batch_sampler, rt.DistributedBatchSampler)
    for view, loader in ((rt.evaluation_loader, batched), (rt.training_loader, made), (rt.evaluation_loader, made)):
        with pytest.raises(SystemExit):
            view(loader)
    assert len(rt.whole_loader(chosen)) == len(chosen)
    assert list(rt.whole_loader(batched).batch_sampler) == list(batched.batch_sampler)
    assert rt.whole_loader(made) is made


def _passes(passes: int, state: torch.Tensor | None) -> tuple[list[list[int]], torch.Tensor]:
    """Orders of a run that begins, or goes on from a state of random numbers; and the state behind them."""
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.arange(24)), 4, shuffle=True)
    training = rt.training_loader(loader)
    if state is not None:
        torch.set_rng_state(state)
    rt.seed_ranks_apart()
    orders = []
    for _ in range(passes):
        torch.rand(1 + rt.rank())
        rt.reshuffle(training)
        orders.append([int(one) for (batch,) in training for one in batch])
    return orders, torch.get_rng_state()


def test_a_run_that_is_resumed_goes_on_with_the_orders_that_it_would_have_had() -> None:
    whole = [orders for orders, _ in on_ranks(_passes, 4, None)]
    (first, state), (other, _) = on_ranks(_passes, 2, None)
    later = [orders for orders, _ in on_ranks(_passes, 2, state)]
    assert [first, other] == [orders[:2] for orders in whole]
    assert later == [orders[2:] for orders in whole]
    assert all(sorted(one + two) == list(range(24)) for one, two in zip(*whole, strict=True))
    assert len({tuple(order) for order in whole[0]}) == 4


def _by_generator() -> list[list[int]]:
    """Two passes over a loader that is given a generator, and one that is told its sampler's arguments."""
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(TensorDataset(torch.arange(12)), 4, shuffle=True, generator=generator)
    training = rt.training_loader(loader)
    told = DataLoader(**rt.shard_training(loader.dataset, 4, shuffle=True, generator=generator))
    return [[int(one) for (batch,) in passed for one in batch] for passed in (training, training, told)]


def _by_a_generator_without_a_seed() -> list[int]:
    generator = torch.Generator()
    generator.seed()
    loader = DataLoader(TensorDataset(torch.arange(12)), 4, shuffle=True, generator=generator)
    return [int(one) for (batch,) in rt.training_loader(loader) for one in batch]


def test_a_generator_is_where_that_of_rank_zero_is() -> None:
    one, other = on_ranks(_by_a_generator_without_a_seed)
    assert sorted(one + other) == list(range(12))


def test_a_generator_draws_the_orders_of_one_process() -> None:
    ranks = on_ranks(_by_generator)
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(TensorDataset(torch.arange(12)), 4, shuffle=True, generator=generator)
    alone = [[int(one) for (batch,) in loader for one in batch] for _ in range(3)]
    assert [[one for pair in zip(*both, strict=True) for one in pair] for both in zip(*ranks, strict=True)] == alone


def _whole_between() -> list[list[int]]:
    """A pass of training, one over the whole, and one of training."""
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(TensorDataset(torch.arange(12)), 4, shuffle=True, generator=generator)
    training = rt.training_loader(loader)
    return [
        [int(one) for (batch,) in each for one in batch] for each in (training, rt.whole_loader(training), training)
    ]


def test_a_whole_pass_draws_from_the_generator_as_in_one_process() -> None:
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(TensorDataset(torch.arange(12)), 4, shuffle=True, generator=generator)
    first, whole, last = ([int(one) for (batch,) in loader for one in batch] for _ in range(3))
    ranks = on_ranks(_whole_between)
    assert [one[1] for one in ranks] == [whole, whole]
    assert sorted(ranks[0][0] + ranks[1][0]) == sorted(first)
    assert [ranks[0][2], ranks[1][2]] == [last[::2], last[1::2]]


def _trained_and_looked_at() -> list[tuple[list[int], list[int]]]:
    """Of epochs over ten samples of which a pass leaves two out: this rank's in training, and what is looked at."""
    torch.manual_seed(0)
    training = rt.training_loader(DataLoader(TensorDataset(torch.arange(10)), 4, shuffle=True, drop_last=True))
    found = []
    for epoch in range(6):
        rt.set_epoch(training, epoch)
        passes = [[int(one) for (batch,) in each for one in batch] for each in (training, rt.whole_loader(training))]
        found.append((passes[0], passes[1]))
    return found


def test_what_a_training_pass_leaves_out_may_be_looked_at() -> None:
    one, other = on_ranks(_trained_and_looked_at)
    assert [looked for _, looked in one] == [looked for _, looked in other]
    trained = [{*mine, *others} for (mine, _), (others, _) in zip(one, other, strict=True)]
    assert all(len(each) == len(set(looked)) == 8 for each, (_, looked) in zip(trained, one, strict=True))
    assert any(each != set(looked) for each, (_, looked) in zip(trained, one, strict=True))
