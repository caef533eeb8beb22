"""Sets that are gone through in the order in which they were put together: the same in every process.

A plain set of objects is gone through by their addresses, one of words by the seed of their hashes. Whatever is chosen,
written or run in such an order differs from one conversion to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, NoReturn, TypeAlias, TypeVar

Item = TypeVar("Item", covariant=True)
Other = TypeVar("Other")


class Ordered(AbstractSet[Item]):
    """A set that does not change and keeps an order: `Ordered([b, a, b])` is b, a. Equal to any set of the same."""

    __slots__ = ("_items", "told")
    told: tuple[bool, Any]  # what `values` knows of all in it, once it was asked

    def __init__(self, items: InOrder[Item] = ()) -> None:
        self._items = dict.fromkeys(items)

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Ordered):
            return self is other or self._items.keys() == other._items.keys()
        return super().__eq__(other)

    def __ge__(self, other: AbstractSet[object]) -> bool:
        return self._items.keys() >= other

    def __le__(self, other: AbstractSet[object]) -> bool:
        return self._items.keys() <= other

    def __or__(self, other: InOrder[Other]) -> Ordered[Item | Other]:  # type: ignore[override]
        """One of the two where it has all that the other has: most of what is joined is the same."""
        if not isinstance(other, Ordered):
            return Ordered(chain(self._items, other))
        mine, others = self._items, other._items
        if not others or mine is others:
            return self
        if len(mine) >= len(others):
            if mine.keys() >= others.keys():
                return self
        elif mine.keys() <= others.keys():
            return other
        both: Ordered[Any] = Ordered.__new__(Ordered)
        both._items = {**mine, **others}  # without hashing each again
        return both

    def __and__(self, other: AbstractSet[object]) -> Ordered[Item]:
        return Ordered(item for item in self._items if item in other)

    def __sub__(self, other: AbstractSet[object]) -> Ordered[Item]:
        return Ordered(item for item in self._items if item not in other)

    def union(self, *others: InOrder[Other]) -> Ordered[Item | Other]:
        result: Ordered[Item | Other] = self
        for other in others:
            result = result | other
        return result

    @staticmethod
    def of_all(parts: Sequence[Ordered[Item]]) -> Ordered[Item]:
        """`parts[0] | parts[1] | …` without making a set for each step: a step copies all that came before."""
        whole, owned = parts[0], False
        for part in parts[1:]:
            mine, others = whole._items, part._items
            if mine is others or (len(mine) >= len(others) and mine.keys() >= others.keys()):
                continue
            if len(mine) < len(others) and mine.keys() <= others.keys():
                whole, owned = part, False
            elif owned:
                mine.update(others)
            else:
                whole, owned = Ordered.__new__(Ordered), True
                whole._items = {**mine, **others}
        return whole

    # With a plain set on the left, the result is one, too.

    def __ror__(self, other: AbstractSet[Other]) -> set[Item | Other]:  # type: ignore[misc]
        return {*other, *self._items}

    def __rand__(self, other: AbstractSet[Other]) -> set[Other]:  # type: ignore[misc]
        return set(other) & self._items.keys()

    def __rsub__(self, other: AbstractSet[Other]) -> set[Other]:  # type: ignore[misc]
        return set(other) - self._items.keys()


#: What has an order: no plain set is made an ordered one.
InOrder: TypeAlias = Iterator[Item] | Sequence[Item] | Ordered[Item] | KeysView[Item]

EMPTY: Ordered[NoReturn] = Ordered()
