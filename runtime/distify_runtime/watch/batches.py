"""Where a wrapped model trains, each rank has samples of its own: batches that are the same on two ranks, look after
look, are those of a loader that nobody shares out.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.utils import _pytree

from distify_runtime.watch.parameters import sums
from distify_runtime.watch.verdict import of_ranks, say_once
from distify_runtime.watch.watching import Steps, Watching

#: Looks after which it is no chance.
_ENOUGH = 3
#: What a rank is given in one step may be large: so many passes of it are looked at.
_MOST = 8

_watching: Watching | None = None
_given: list[list[int]] = []
#: What ranks that were given the same as rank 0 at each look so far were given, by optimizer and rank; on rank 0.
_alike: dict[int, dict[int, list[Any]]] = defaultdict(dict)


def watch(watching: Watching) -> None:
    global _watching
    _watching = watching


def before_pass(given: tuple[Any, ...]) -> None:
    """given: what the model is called with."""
    if _watching is None or len(_given) >= _MOST or not _watching.next_is_due():
        return
    # what has a gradient has been computed by another model, of what that was given: it is no batch of its own
    leaves = [one for one in _pytree.tree_leaves(given) if isinstance(one, Tensor) and not one.requires_grad]
    leaves = [one for one in leaves if _tells_samples_apart(one)]
    _given.append(sums(leaves) if leaves else [])


def _tells_samples_apart(given: Tensor) -> bool:
    """Not what has one row again and again: ones, or noise that was made the same for each sample."""
    return given.dim() == 0 or len(given) < 2 or bool((given != given[:1]).any())


def behind_pass(error: Exception | None, outputs: Any) -> None:
    pass


def look(watching: Watching, optimizer: Optimizer, steps: Steps) -> None:
    global _given
    given, _given = _given, []
    number, when = steps.number, steps.taken

    def judge(everyone: list[Any]) -> str:
        _note(everyone, number, when)
        return ""

    if given:
        watching.exchange(f"batches/{number}/{when}", given, judge)


def _note(everyone: list[Any], optimizer: int, step: int) -> None:
    """Says it once. One model may be given the same each time, such as the places of a grid: that is no batch."""
    mine, alike = everyone[0], _alike[optimizer]
    for rank, given in enumerate(everyone[1:], 1):
        before = alike.setdefault(rank, [])
        if before and before[-1] is None:
            continue
        before.append(mine if given == mine else None)
    found = [rank for rank, looks in alike.items() if len(looks) >= _ENOUGH and _are_batches(looks)]
    if found:
        say_once(
            "batches",
            f"rank 0 and {of_ranks(found)} have been given the same batches up to step {step}: their samples are not "
            "shared out, and more ranks do the same work again",
        )


def _are_batches(looks: list[Any]) -> bool:
    return looks[-1] is not None and all(one not in looks[:at] for at, one in enumerate(looks))
