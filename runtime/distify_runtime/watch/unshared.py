"""Steps that every rank computes by itself, though ranks are to share forward passes: a line that shares a model
stands in another branch than the one that is run, all that training calls of it is something else, or nothing of what
it is given can be shared.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from distify_runtime.output import note
from distify_runtime.sight import is_hidden
from distify_runtime.watch.watching import Watching

#: So many steps one after the other, with nothing shared in their course, are told.
_STEPS = 20

_since = 0
_reasons: Callable[[], str] = str


def reasons_are(reasons: Callable[[], str]) -> None:
    """reasons: why what was called, and could have been shared, was not; empty where nothing such was called."""
    global _reasons
    _reasons = reasons


def a_pass_is_shared() -> None:
    """In training; what an evaluation shares makes no step faster."""
    global _since
    if torch.is_grad_enabled():
        _since = 0


def check(_: Watching) -> None:
    """After each step of an optimizer."""
    global _since
    _since += 1
    if _since == _STEPS and is_hidden():
        _say()


@functools.cache  # once, however often training comes by here
def _say() -> None:
    why = _reasons()
    advice = ". Share the model that is trained here, once it is made: rt.data_parallel(model)"
    note(
        f"no forward pass has been shared in the course of {_STEPS} steps: every rank does all of the work here, which "
        f"is right, but no faster than one process{f' ({why})' if why else advice}"
    )
