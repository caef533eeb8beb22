"""The order of a sampler of the script's own, dealt out over the ranks in training."""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sized
from typing import Any, cast

import torch
from torch.utils.data import DistributedSampler, RandomSampler, Sampler

from distify_runtime import communicator
from distify_runtime.batch import keeps_batch_size
from distify_runtime.environment import is_alone, rank, world_size
from distify_runtime.meeting import collective
from distify_runtime.output import note
from distify_runtime.proxy import Proxy
from distify_runtime.randomness import common_seed, drawn_alike, told_by_main
from distify_runtime.taken import Epochs, steps_taken
from distify_runtime.watch.samples import dealt_from

#: So many indices are drawn at once: random streams are put in place and back for each draw. Endless samplers have
#: no length to go by.
_AT_ONCE = 1024

#: Each wrapper has a number, the same on every rank, under which the ranks compare what it draws.
_numbers = itertools.count()


class _Shared(Proxy):
    """Draws from a sampler what all ranks draw, in an order that follows from a common seed and the epoch."""

    _own = frozenset({"epoch", "seed", "drop_last", "_passes", "_number", "_noted", "_epochs"})

    def __init__(self, inner: Iterable[Any], seed: int, epoch: int) -> None:
        super().__init__(inner)
        self.seed = seed
        self.epoch = epoch
        self._number = next(_numbers)
        self._passes: Counter[int] = Counter()

    def _drawn(self, at_once: int) -> Iterator[list[Any]]:
        """Raises RuntimeError where this rank draws something else than another does."""
        key = f"distify/order/{self._number}/{self.epoch}/{self._passes[self.epoch]}"
        self._passes[self.epoch] += 1
        digest, due = 0, 1
        number = 0
        for number, block in enumerate(drawn_alike(self._inner, self.seed + self.epoch, at_once), 1):
            digest = zlib.crc32(repr(block).encode(), digest)
            if number == due:
                self._compare(f"{key}/{number}", digest)
                due *= 2
            yield block
        self._compare(f"{key}/end", zlib.crc32(repr(number).encode(), digest))

    def _compare(self, key: str, digest: int) -> None:
        """Whoever comes first leaves its digest for the others. Nobody waits: one rank may pass more often."""
        if is_alone():
            return
        first = communicator.store(waits=False).compare_set(key, "", str(digest))
        if int(first) != digest:
            raise RuntimeError(
                f"{type(self._inner).__name__} draws other samples on rank {rank()} than on another rank: "
                f"seed what it draws from alike on all ranks"
            )


class _Trained(_Shared):
    """Its epochs are told."""

    def __init__(self, inner: Iterable[Any]) -> None:
        self._epochs = Epochs()
        super().__init__(inner, self._epochs.seed, self._epochs.before_any)

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next pass is drawn for."""
        self.epoch = self._epochs.of(epoch)
        if hasattr(self._inner, "set_epoch"):
            self._inner.set_epoch(epoch)


@collective
class TrainingSampler(DistributedSampler[Any]):
    """torch's DistributedSampler, from the common seed, but that a pass is filled up with its last samples.

    torch fills up with the first ones, which the last batch of one process does not have. Here that batch counts
    some of its samples twice; one of a single sample, or of as many as divide the ranks, is the same mean.
    Draws from the global stream as a RandomSampler does, for what is drawn after it, and deals out, as that does, what
    the dataset holds when a pass begins.
    generator: what the script shuffles by, set to where rank 0's is: the orders are those that a RandomSampler draws
    from it, and epochs change nothing.
    """

    def __init__(
        self, dataset: Sized, shuffle: bool = True, drop_last: bool = False, generator: torch.Generator | None = None
    ) -> None:
        self._epochs = Epochs()
        super().__init__(cast(Any, dataset), num_replicas=1, rank=0, shuffle=shuffle, seed=self._epochs.seed)
        self.epoch = self._epochs.before_any
        self.leaves_out = drop_last  # torch's own `drop_last` is about one process here
        self.drawn = RandomSampler(dataset, generator=generator) if shuffle and generator is not None else None
        if generator is not None:
            state = bytes.fromhex(told_by_main(bytes(generator.get_state().tolist()).hex()))
            generator.set_state(torch.tensor(list(state), dtype=torch.uint8))
        missing = -len(dataset) % world_size()
        if missing and not drop_last:
            note(f"{len(dataset)} samples do not divide by {world_size()} ranks: the last batch repeats {missing}")

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next pass is drawn for."""
        super().set_epoch(self._epochs.of(epoch))

    def __iter__(self) -> Iterator[Any]:
        if self.shuffle and self.drawn is None:
            torch.empty((), dtype=torch.int64, device="cpu").random_(generator=torch.default_generator)
        self.num_samples = self.total_size = len(cast(Sized, self.dataset))
        with torch.device("cpu"):  # torch's own draws on the default device, from a generator of the CPU's
            order = [*(super().__iter__() if self.drawn is None else self.drawn)]
        dealt_from(self, order, self.shuffle)
        return iter(dealt_evenly(order, self.leaves_out))

    def __len__(self) -> int:
        return shares_of(len(cast(Sized, self.dataset)), self.leaves_out)


def dealt_evenly(samples: list[Any], drop_last: bool) -> list[Any]:
    """This rank's samples: every `world_size`-th. Those left over at the end are repeated, or left out."""
    ranks = world_size()
    left = len(samples) % ranks
    if left and drop_last:
        samples = samples[:-left]
    elif left:
        samples = [*samples, *itertools.islice(itertools.cycle(samples[-left:]), ranks - left)]
    return samples[rank() :: ranks]


def shares_of(samples: int, drop_last: bool) -> int:
    """How many of so many samples each rank has."""
    return samples // world_size() if drop_last else -(-samples // world_size())


@collective
class SharedOrder(_Shared, Sampler[Any]):
    """The indices of another sampler, the same on all ranks, and others once steps were taken: for evaluation."""

    def __init__(self, inner: Iterable[Any]) -> None:
        super().__init__(inner, common_seed(), steps_taken())

    def __iter__(self) -> Iterator[Any]:
        self.epoch = steps_taken()
        for block in self._drawn(_AT_ONCE):
            yield from block

    def __len__(self) -> int:
        return len(self._inner)


@collective
class DistributedSamplerWrapper(_Trained, Sampler[Any]):
    """Deals out the indices of another sampler: each rank gets every `world_size`-th of one common order.

    N ranks with batches of B/N see the batches that one process with batches of B sees. Where they do not divide,
    it repeats at most N-1 of the last indices, or with `drop_last` leaves them out.
    """

    def __init__(self, sampler: Iterable[Any], drop_last: bool = False) -> None:
        super().__init__(sampler)
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[Any]:
        for block in self._drawn(_AT_ONCE * world_size()):
            yield from dealt_evenly(block, self.drop_last)

    def __len__(self) -> int:
        return shares_of(len(self._inner), self.drop_last)


@collective
class DistributedBatchSampler(_Trained, Sampler[list[Any]]):
    """Deals out the batches of another batch sampler: of each, every rank gets every `world_size`-th index.

    A batch that does not divide is filled up with its own first indices, so that no rank is left without. Where ranks
    keep the batch size of the script, they get whole batches instead, in turn; the first ones fill up the last turn.
    """

    def __init__(self, batch_sampler: Iterable[list[Any]]) -> None:
        super().__init__(batch_sampler)
        self._noted = False

    def __iter__(self) -> Iterator[list[Any]]:
        if keeps_batch_size():
            yield from self._whole_batches()
            return
        for (batch,) in self._drawn(1):
            yield share_of_batch(batch, self)

    def _whole_batches(self) -> Iterator[list[Any]]:
        first: list[Any] = []
        for batches in self._drawn(world_size()):
            first = first or batches
            batches += [*itertools.islice(itertools.cycle(first), world_size() - len(batches))]
            yield list(batches[rank()])

    def __len__(self) -> int:
        batches = len(self._inner)
        return -(-batches // world_size()) if keeps_batch_size() else batches


def share_of_batch(batch: Iterable[Any], owner: Any) -> list[Any]:
    """This rank's samples of a batch. `owner` remembers that a batch which does not divide has been spoken of."""
    samples, ranks = list(batch), world_size()
    rest = len(samples) % ranks
    if rest:
        if not owner._noted:
            owner._noted = True
            note(
                f"a batch of {len(samples)} does not divide by {ranks} ranks: it repeats {ranks - rest} of its samples"
            )
        samples += [*itertools.islice(itertools.cycle(samples), ranks - rest)]
    return samples[rank() :: ranks]
