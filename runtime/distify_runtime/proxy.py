"""What stands in for an object of the script, and is it in all but what distribution changes."""

from __future__ import annotations

from typing import Any


class Proxy:
    """Attributes that are not its own are read from, and set on, the object that it stands in for.

    A script may look at the weights of its sampler, or set the range of its data set in a worker: it means its own.
    """

    _own: frozenset[str] = frozenset()
    _inner: Any

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "_inner", inner)

    @property
    def wrapped(self) -> Any:
        return self._inner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_inner":  # being copied or unpickled: there is nothing inside yet
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._own:
            object.__setattr__(self, name, value)
        else:
            setattr(self._inner, name, value)
