"""A step whose gradients have come by another way than those before, or before which a model was changed, is looked at
closely: where averaging is a line or a wrap, it is forgotten, or gone around, from some step on.
"""

from __future__ import annotations

from distify_runtime.watch import uneven

_averaged = 0
_by_line = False
_changes = 0


def averaged(gradients: int) -> None:
    """So many have been averaged by a line."""
    global _averaged, _by_line
    _averaged += gradients
    _by_line = True


def is_averaged_by_a_line() -> bool:
    """Whether gradients have been averaged by a line, or by an optimizer, and not by a wrap alone."""
    return _by_line


def changed() -> None:
    """Some module has been moved, cast, or given other parameters or layers."""
    global _changes
    _changes += 1


def taken() -> tuple[int, bool, int]:
    """To be asked once in each step. It is the same in each where nothing has become of the script's course."""
    global _averaged
    found = _averaged, uneven.passes() > 0, _changes
    _averaged = 0
    return found
