"""What steps leave in a tensor, and the loss of a later one depends on, is the same on all ranks.

A running mean that is changed in place, a memory of features, a scale: where each rank puts its own samples' there, the
losses of the next steps are not those of one process, though parameters stay alike.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from typing import Any, cast

from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils import _pytree
from torch.utils._python_dispatch import _get_current_dispatch_mode

from distify_runtime.watch.following import Following, Read
from distify_runtime.watch.verdict import of_ranks
from distify_runtime.watch.watching import Watching

#: Steps behind which it is followed for a while what is computed, and how far apart later ones are.
_BEHIND, _EVERY = (2, 10, 100), 1000
#: An optimizer takes so many steps meanwhile, unless it takes few: one changes it, the next one reads it.
_STEPS, _MOST_STEPS = 3, 30

#: A read as it is told: where it was written and read, its shape, its sums, and what counts as none of a difference.
_Told = tuple[str, str, list[int], list[float], float]
_Place = tuple[str, str, tuple[int, ...]]


class Kept:
    """Of one rank."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._following = Following()
        self._is_followed = False  # in these steps
        self._is_entered = False
        self._losses: set[int] = set()  # the reads that they depend on
        self._until: dict[int, int] = {}  # by optimizer: the steps that it has to take
        self._last = 0
        self._hook = register_optimizer_step_pre_hook(lambda *_: self._leave())

    def took_a_batch(self) -> None:
        if self._is_entered:
            self._following.next_batch()

    def before_backward(self, losses: Any) -> None:
        if self._is_entered:
            tensors = (one for one in _pytree.tree_leaves(losses) if isinstance(one, Tensor))
            self._losses |= self._following.depends(tensors)
            self._leave()

    def after_backward(self) -> None:
        self._enter()

    def after_step(self, watching: Watching) -> None:
        taken = {one.number: one.taken for one in watching.optimizers.values()}
        if self._is_followed:
            if watching.steps >= self._last or all(taken.get(one, end) >= end for one, end in self._until.items()):
                self._tell()
            else:
                self._following.next_step()
        if not self._is_followed and (watching.steps in _BEHIND or watching.steps % _EVERY == 0):
            self._is_followed = _is_free()
            self._until = {number: steps + _STEPS for number, steps in taken.items()}
            self._last = watching.steps + _MOST_STEPS
            self._following.next_steps()
        self._enter()

    def end(self) -> None:
        self._hook.remove()
        self._is_followed = False
        self._leave()

    def _tell(self) -> None:
        self._is_followed = False
        told = [_told(self._following.reads[one]) for one in sorted(self._losses)]
        self._losses.clear()
        self._watching.exchange(f"kept/{self._watching.steps}", told, _judge)

    # ---- torch has one stack of such modes, which the script may use, too

    def _enter(self) -> None:
        if self._is_followed and not self._is_entered and _is_free():
            cast(Any, self._following).__enter__()
            self._is_entered = True

    def _leave(self) -> None:
        if self._is_entered and _get_current_dispatch_mode() is self._following:
            cast(Any, self._following).__exit__(None, None, None)
            self._is_entered = False


def _is_free() -> bool:
    """Whether nobody else watches, and nothing has been compiled, which would be run otherwise."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return _get_current_dispatch_mode() is None and not (dynamo and dynamo.counters["frames"])


# ---- what all ranks have told


def _told(read: Read) -> _Told:
    return read.written_at, read.read_at, list(read.shape), read.sums.tolist(), read.precision


def _judge(everyone: list[Any]) -> str:
    """Only what all have read is compared, in the order of each place's reads."""
    by_place = [_by_place(told) for told in everyone]
    for place, mine in by_place[0].items():
        for at, own in enumerate(mine):
            other = [rank for rank, found in enumerate(by_place) if _differs(own, found.get(place, []), at)]
            if other:
                return _said(*place, other)
    return ""


def _by_place(told: list[Any]) -> dict[_Place, list[Any]]:
    found = defaultdict[_Place, list[Any]](list)
    for written, read, shape, *sums in told:
        found[written, read, tuple(shape)].append(sums)
    return found


def _differs(own: Any, others: list[Any], at: int) -> bool:
    """By more than rounding, of numbers that are as large as these."""
    if at >= len(others):
        return False
    (mine, precision), (theirs, _) = own, others[at]
    if not all(map(math.isfinite, (*mine, *theirs))):
        return False
    apart = max(abs(one - other) for one, other in zip(mine, theirs, strict=True))
    return bool(apart > math.sqrt(precision) * mine[-1])


def _said(written: str, read: str, shape: tuple[int, ...], ranks: list[int]) -> str:
    where = f" ({read})" if read else ""
    changed = f", which is changed in place at {written}," if written else ", which is changed in place,"
    return (
        f"the loss depends on what earlier steps have left in a tensor of shape {shape}{where}{changed} and "
        f"{of_ranks(ranks)} {'has' if len(ranks) == 1 else 'have'} other numbers there than rank 0: what each rank's "
        "own samples left, so that the steps are not those of one process. Average what is put there over the ranks "
        "(rt.all_reduce_mean), or convert with --strategy shared"
    )


# ---- one for the process, as torch calls it


_kept: Kept | None = None


def watch(watching: Watching) -> None:
    global _kept
    _kept = Kept(watching)
    watching.after_each.append(_kept.after_step)


def took_a_batch() -> None:
    if _kept is not None:
        _kept.took_a_batch()


def before_backward(losses: Any) -> None:
    """losses: what a backward pass begins at."""
    if _kept is not None:
        _kept.before_backward(losses)


def after_backward() -> None:
    if _kept is not None:
        _kept.after_backward()


def stop() -> None:
    if _kept is not None:
        _kept.end()
