"""The two streams of random numbers: one that all ranks share, and one of each rank's own."""

from __future__ import annotations

import itertools
import pickle
import random
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import torch
from torch import nn

from distify_runtime import accelerators, communicator, unseeded
from distify_runtime.environment import is_alone, rank
from distify_runtime.meeting import collective
from distify_runtime.members import modules_of
from distify_runtime.watch import randomness as streams

#: What rank 0 leaves for the others has a number, the same on every rank, by which they find it.
_calls = itertools.count()

#: Ranks that part anew do not get the streams again that they had.
_partings = itertools.count()

#: Whether ranks draw apart by now.
_apart = False

T = TypeVar("T")


@collective
def common_seed() -> int:
    """A seed that all ranks share, below 2**31: rank 0's `torch.initial_seed()`. Every rank has to call it.

    Rank 0 leaves it for the others and waits for nobody: a broadcast would hang inside `main_process_first`,
    where the samplers of downloaded datasets are made.
    """
    return int(told_by_main(str(torch.initial_seed() % 2**31)))


def common_place() -> tuple[int, str]:
    """The same seed, and where rank 0's streams are."""
    seed, place = told_by_main(f"{torch.initial_seed() % 2**31} {streams.positions()}").split(" ", 1)
    return int(seed), place


def seed_from_here() -> int:
    """A seed below 2**31 that all ranks share, another one wherever rank 0's torch has drawn since. As `common_seed`.

    Of torch's stream alone: the seeds of the others may be the operating system's, where a script sets that of torch.
    """
    here = told_by_main(f"{torch.initial_seed()} {streams.torchs_position()}")
    return random.Random(here).getrandbits(31)


def told_by_main(text: str) -> str:
    """Rank 0's text, on every rank."""
    if is_alone():
        return text
    store, key = communicator.store(), next_key()
    if rank() != 0:
        return str(store.get(key).decode())
    store.set(key, text)
    return text


def next_key() -> str:
    """A key of the store, the same on every rank that comes here as often as the others."""
    return f"distify/common/{next(_calls)}"


@collective
def seed_ranks_apart(*models: Any) -> None:
    """Give each rank random numbers of its own from here on, for augmentation, dropout and noise.

    Rank 0 goes on with the stream it has, so that a world of one is left alone; those of the others follow from where
    that is, so that a run which is resumed with its state does not draw the noise of its beginning once more. To be
    called again where the script has set a seed, which would have the ranks draw alike. Every rank has to call it.
    models: if any are given, only torch's draws inside their forward passes become the rank's own, and everything else
    goes on being drawn alike on all ranks: batches that a script chooses by itself. Modules, and lists and
    dictionaries of them.
    """
    if models:
        _seed_apart_inside(list(modules_of(models)))
        return
    global _apart
    streams.are(streams.Streams.APART)
    common, parting = seed_from_here(), next(_partings)
    _apart = not is_alone()
    seed = random.Random(f"{common}/{rank()}/{parting}").getrandbits(31)
    if rank() == 0:
        return
    torch.manual_seed(seed)
    random.seed(seed)
    if numpy := _imported_numpy():
        numpy.random.seed(seed)


class _OwnStream:
    """torch's random numbers of one rank, exchanged for the common ones while a model runs."""

    def __init__(self, seed: int) -> None:
        self.state = self._swapped_for_seed(seed)
        self.depth = 0

    @staticmethod
    def _swapped_for_seed(seed: int) -> tuple[torch.Tensor, torch.Tensor | None]:
        common = _torch_state()
        torch.manual_seed(seed)
        own = _torch_state()
        _set_torch_state(common)
        return own

    def enter(self, *_: object) -> None:
        if self.depth == 0:
            self._swap()
        self.depth += 1

    def leave(self, *_: object) -> None:
        self.depth -= 1
        if self.depth == 0:
            self._swap()

    def _swap(self) -> None:
        present = _torch_state()
        _set_torch_state(self.state)
        self.state = present


_own_stream: _OwnStream | None = None


def _seed_apart_inside(models: list[nn.Module]) -> None:
    global _own_stream
    seed = common_seed() + 1 + rank()
    if is_alone():
        return
    _own_stream = _own_stream or _OwnStream(seed)
    for model in models:
        model.register_forward_pre_hook(_own_stream.enter)
        model.register_forward_hook(_own_stream.leave, always_call=True)


def _torch_state() -> tuple[torch.Tensor, torch.Tensor | None]:
    return torch.get_rng_state(), accelerators.random_state()


def _set_torch_state(state: tuple[torch.Tensor, torch.Tensor | None]) -> None:
    torch.set_rng_state(state[0])
    accelerators.set_random_state(state[1])


@collective
def seed_ranks_alike() -> None:
    """Let every rank draw what rank 0 draws from here on, from torch, `random` and (if imported) numpy. A collective.

    Rank 0 goes on with the stream it has: what is drawn now, the split of the next fold say, is what it would have
    drawn by itself.
    """
    global _apart
    if is_alone():
        return
    _apart = False
    streams.are(streams.Streams.UNKNOWN)
    state = communicator.broadcast_object(random_state() if rank() == 0 else None)
    if rank() != 0:
        set_random_state(state)
    if rank() == 1 and state["hash"] != hash("distify"):
        text = "each rank orders sets of strings by hashes of its own: start all ranks with PYTHONHASHSEED=0"
        print(f"distify: {text}", file=sys.stderr)


def draws_apart() -> bool:
    """Whether each rank has a stream of its own by now."""
    return _apart


def drawn_alike(items: Iterable[T], seed: int, at_once: int) -> Iterator[list[T]]:
    """The items in lists of `at_once`, drawn from random numbers that follow from `seed` alone.

    On every rank the same, whatever its own random numbers are; and those go on as if nothing had been drawn.
    """
    stream: Iterator[T] | None = None
    state: dict[str, Any] = {}
    while True:
        outside = host_state()
        try:
            if stream is None:
                seed_host(seed)
                stream = iter(items)
            else:
                set_host_state(state)
            with unseeded.as_drawn():
                block = list(itertools.islice(stream, at_once))
            state = host_state()
        finally:
            set_host_state(outside)
        if block:
            yield block
        if len(block) < at_once:
            return


def random_state() -> dict[str, Any]:
    """Where the streams of this rank are."""
    on_accelerator = accelerators.random_state()
    return {"seed": torch.initial_seed(), "accelerator": on_accelerator, "hash": hash("distify"), **host_state()}


class DrawnByOne:
    """What one rank draws alone, all have drawn: made by each rank before, and told to the others behind."""

    def __init__(self) -> None:
        self._before = streams.positions()

    def told(self) -> bytes:
        """Of the rank that was alone: where its streams are now, if they have moved."""
        return pickle.dumps((self._before, random_state()) if streams.positions() != self._before else None)

    def follow(self, told: bytes) -> None:
        """Of the others: go on where that rank does, if they were where it was before."""
        moved = pickle.loads(told)
        if moved is not None and moved[0] == self._before:
            set_random_state(moved[1])


def set_random_state(state: dict[str, Any]) -> None:
    torch.manual_seed(state["seed"])
    accelerators.set_random_state(state["accelerator"])
    set_host_state(state)


def host_state() -> dict[str, Any]:
    """Where the streams of the CPU are. Asks nothing of a GPU, which a loader's worker processes must not touch."""
    numpy = _imported_numpy()
    return {
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": numpy.random.get_state() if numpy else None,
    }


def set_host_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    numpy = _imported_numpy()
    if numpy and state["numpy"] is not None:
        numpy.random.set_state(state["numpy"])


def seed_host(seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    if numpy := _imported_numpy():
        numpy.random.seed(seed % 2**32)


def _imported_numpy() -> Any:
    """numpy if something has imported it, else None: what is not imported has no stream to look after."""
    return sys.modules.get("numpy")
