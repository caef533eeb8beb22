"""What is said of models that every rank computes whole: one line for each, however many of its parts are so, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from distify_runtime.output import note

_MOST_NAMES = 3  # of parts that are computed whole for one reason
_IS_WHOLE = "computed on whole batches by every rank"

#: By the name of a model: the parts of it that are computed whole, and why; and what is said of itself.
_parts: dict[str, dict[str, list[str]]] = {}
_heads: dict[str, tuple[str, Sequence[str]]] = {}
#: Of these models some part of a part that is computed whole is shared in its place.
_deeper: set[str] = set()
_open = 0


def say(model: str, part: str, why: str, instead: Sequence[str]) -> None:
    """That this part of a model is computed whole, or, where `part` is empty, the model itself: at once, or when the
    call is over that it is found in. instead: the names of what is shared in its place."""
    if part:
        _parts.setdefault(model, {}).setdefault(why, []).append(part)
        _deeper.update([model] if instead else [])
    else:
        _heads[model] = f"{model} is {_IS_WHOLE}: {why}", instead
    if not _open:
        _say_all()


@contextmanager
def told_together() -> Iterator[None]:
    """What is found in a call of a model, which its parts are called in, is said in one line."""
    global _open
    _open += 1
    try:
        yield
    finally:
        _open -= 1
        if not _open and (_heads or _parts):
            _say_all()


def _say_all() -> None:
    for model in {**_heads, **_parts}:
        of_parts = "; ".join(f"{_listed(names)}: {why}" for why, names in _parts.get(model, {}).items())
        if model not in _heads:
            note(f"{model}: parts of it are {_IS_WHOLE} ({of_parts})")
            continue
        head, instead = _heads[model]
        found = {name for names in _parts.get(model, {}).values() for name in names}
        if instead and found.issuperset(instead) and model not in _deeper:
            note(f"{head}; so are its parts ({of_parts})")
        else:
            named = f"; its parts are shared in its place: {', '.join(instead)}" if instead else ""
            note(f"{head}{named}" + (f"; but some of them are computed whole, too ({of_parts})" if of_parts else ""))
    for table in (_heads, _parts, _deeper):
        table.clear()


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
