"""What a call is given beside tensors, and may write into: a cache that it fills, a list, a record of the script's."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from torch import nn

from distify_runtime.shared.containers import base_of, held_in, refill

_MOST = 2000  # objects that are looked at
_MOST_ITEMS = 1000  # of a container: longer ones are data


class Given:
    """The containers and objects in a value, and what they hold at one time."""

    def __init__(self, value: Any) -> None:
        self._held = [(one, held_in(one)) for one in _holders(value)]

    def put_back(self) -> bool:
        """All of them as they were. Whether any was not."""
        written = [refill(one, before) for one, before in self._held]
        return any(written)


def _holders(value: Any) -> Iterator[Any]:
    """Containers, and the attributes of objects that are no modules; each once."""
    left, met = deque([value]), dict[int, Any]()
    while left and len(met) < _MOST:
        one = left.popleft()
        if id(one) in met or isinstance(one, type | nn.Module):
            continue
        met[id(one)] = one
        if type(one) is tuple:
            left.extend(one)
        elif base_of(one):
            if len(one) <= _MOST_ITEMS:
                yield one
                left.extend(one.values() if isinstance(one, dict) else one)
        elif type(getattr(one, "__dict__", None)) is dict:
            left.append(vars(one))
