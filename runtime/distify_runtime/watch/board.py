"""What ranks leave for each other in the store: each rank its own, and nobody waits."""

from __future__ import annotations

import json
from typing import Any

from torch._C._distributed_c10d import Store


class Board:
    """Values that JSON can tell, by topic and rank. `store`: of this process alone, which nothing else waits in."""

    def __init__(self, store: Store, rank: int, ranks: int) -> None:
        self._store = store
        self.rank = rank
        self.ranks = ranks

    def post(self, topic: str, value: Any) -> None:
        """Put this rank's value there, or in the place of the one before."""
        self._store.set(self._key(topic, self.rank), json.dumps(value))

    def everyone(self, topic: str) -> list[Any] | None:
        """What all ranks have left, by rank; None where one has not yet."""
        keys = [self._key(topic, rank) for rank in range(self.ranks)]
        if not self._store.check(keys):
            return None
        return [json.loads(self._store.get(key)) for key in keys]

    def present(self, topic: str) -> dict[int, Any]:
        """What ranks have left, of those that have left anything."""
        everyone = self.everyone(topic)
        if everyone is not None:
            return dict(enumerate(everyone))
        found = {}
        for rank in range(self.ranks):
            key = self._key(topic, rank)
            if self._store.check([key]):
                found[rank] = json.loads(self._store.get(key))
        return found

    def forget(self, topic: str) -> None:
        """What all ranks have left there."""
        for rank in range(self.ranks):
            self._store.delete_key(self._key(topic, rank))

    def append(self, topic: str, value: Any) -> None:
        """Put a value behind those of all ranks."""
        self._store.set(f"distify/watch/{topic}/{self._store.add(f'distify/watch/{topic}', 1) - 1}", json.dumps(value))

    def appended(self, topic: str, after: int) -> list[Any]:
        """Those behind the first `after`, as far as they are there."""
        found: list[Any] = []
        for number in range(after, self._store.add(f"distify/watch/{topic}", 0)):
            key = f"distify/watch/{topic}/{number}"
            if not self._store.check([key]):
                break
            found.append(json.loads(self._store.get(key)))
        return found

    @staticmethod
    def _key(topic: str, rank: int) -> str:
        return f"distify/watch/{topic}/of/{rank}"
