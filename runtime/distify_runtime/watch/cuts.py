"""Batches that a script makes by itself: ranks take their shares of them, so that all ranks have to hold the same."""

from __future__ import annotations

import math
import sys
from typing import Any

import torch
from torch.utils import _pytree

from distify_runtime.watch.frames import line_of_script
from distify_runtime.watch.verdict import of_ranks
from distify_runtime.watch.watching import Watching

#: How far two ranks' sums may be apart, in parts of the sum of the numbers' sizes: each may round what it computes.
_ROUNDED = 1e-4

_watching: Watching | None = None
_looked = 0


def watch(watching: Watching) -> None:
    global _watching
    _watching = watching


def before_cut(batch: Any) -> None:
    """batch: what a share is taken of, before a step that is looked at closely."""
    global _looked
    if _watching is None or not _watching.next_is_due():
        return
    found = [one for one in map(_sums, _pytree.tree_leaves(batch)) if one is not None]
    _looked += 1
    if found:
        where = line_of_script(sys._getframe())
        _watching.exchange(f"cuts/{_looked}", found, lambda everyone: _differing(everyone, where))


def _sums(leaf: Any) -> tuple[int, float, float, float] | None:
    """How many numbers, their sum, that by their places, and how far these may be off; None where they are none."""
    try:
        given = torch.as_tensor(leaf, device="cpu").detach()
        numbers = given.to(torch.float64).flatten()
    except (TypeError, ValueError, RuntimeError):
        return None
    placed = numbers @ torch.linspace(1, 2, len(numbers), dtype=torch.float64, device="cpu")
    near = _ROUNDED * numbers.abs().sum().item() if given.is_floating_point() else 0.0
    return len(numbers), numbers.sum().item(), placed.item(), near


def _differing(everyone: list[Any], where: str) -> str:
    found = [rank for rank, sums in enumerate(everyone) if not _are_same(sums, everyone[0])]
    if not found:
        return ""
    holding = f"{of_ranks(found)} {'holds' if len(found) == 1 else 'hold'} another batch than rank 0"
    return (
        f"{holding}{f' at {where}' if where else ''}, where each takes its share of what all ranks are to hold alike: "
        "what the batch comes from is drawn, asked for or read by each rank for itself (rank 0's answer is everybody's "
        "by rt.from_main_process)"
    )


def _are_same(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(map(_is_same, one, other))


def _is_same(one: Any, other: Any) -> bool:
    (count, *sums, near), (counted, *others, _) = one, other
    if count != counted:
        return False
    if not all(map(math.isfinite, (*sums, *others))):
        return all(map(math.isfinite, sums)) == all(map(math.isfinite, others))
    return all(abs(mine - theirs) <= near + 1e-9 for mine, theirs in zip(sums, others, strict=True))
