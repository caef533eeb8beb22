"""Sets that are gone through in the order in which they were put together: the same in every process.

A plain set of objects is gone through by their addresses, one of words by the seed of their hashes. Whatever is chosen,
written or run in such an order differs from one conversion to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

Item = TypeVar("Item", covariant=True)
Other = TypeVar("Other")

_keys: Any = dict.keys
_fill: Any = dict.update

if TYPE_CHECKING:

    class _Set(AbstractSet[Item]):
        def __contains__(self, item: object) -> bool: ...
        def __iter__(self) -> Iterator[Item]: ...
        def __len__(self) -> int: ...
else:
    _Set = dict


class Ordered(_Set[Item]):
    """A set that does not change and keeps an order: `Ordered([b, a, b])` is b, a. Equal to any set of the same.

    It is kept as the keys of a dictionary that it is itself: to go through it, to look up and to count is done in C.
    """

    __slots__ = ("alike", "told")
    told: tuple[bool, Any]  # what `values` knows of all in it, once it was asked
    alike: frozenset[object]  # and what `summaries` knows

    def __init__(self, items: InOrder[Item] = ()) -> None:
        _fill(self, dict.fromkeys(items))

    def __hash__(self) -> int:
        return hash(frozenset(self))

    def __eq__(self, other: object) -> bool:
        return self is other or bool(_keys(self) == (_keys(other) if isinstance(other, Ordered) else other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __ge__(self, other: AbstractSet[object]) -> bool:
        return self is other or bool(_keys(self) >= _set(other))

    def __le__(self, other: AbstractSet[object]) -> bool:
        return bool(_keys(self) <= _set(other))

    def __gt__(self, other: AbstractSet[object]) -> bool:
        return bool(_keys(self) > _set(other))

    def __lt__(self, other: AbstractSet[object]) -> bool:
        return bool(_keys(self) < _set(other))

    def isdisjoint(self, other: Iterable[object]) -> bool:
        return bool(_keys(self).isdisjoint(other))

    def __or__(self, other: InOrder[Other]) -> Ordered[Item | Other]:  # type: ignore[override]
        """One of the two where it has all that the other has: most of what is joined is the same."""
        if not isinstance(other, Ordered):
            return Ordered(chain(self, other))
        if not other or self is other:
            return self
        if len(self) >= len(other):
            if _keys(self) >= _keys(other):
                return self
        elif _keys(self) <= _keys(other):
            return other
        both: Ordered[Item | Other] = _both(self, other)
        return both

    if not TYPE_CHECKING:
        __ior__ = __or__

    def __and__(self, other: AbstractSet[object]) -> Ordered[Item]:
        return Ordered(item for item in self if item in other)

    def __sub__(self, other: AbstractSet[object]) -> Ordered[Item]:
        return Ordered(item for item in self if item not in other)

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
            if whole is part or (len(whole) >= len(part) and _keys(whole) >= _keys(part)):
                continue
            if len(whole) < len(part) and _keys(whole) <= _keys(part):
                whole, owned = part, False
            elif owned:
                _fill(whole, part)
            else:
                whole, owned = _both(whole, part), True
        return whole

    # With a plain set on the left, the result is one, too.

    def __ror__(self, other: AbstractSet[Other]) -> set[Item | Other]:  # type: ignore[misc]
        return {*other, *self}

    def __rand__(self, other: AbstractSet[Other]) -> set[Other]:  # type: ignore[misc]
        found: set[Other] = set(other) & _keys(self)
        return found

    def __rsub__(self, other: AbstractSet[Other]) -> set[Other]:  # type: ignore[misc]
        found: set[Other] = set(other) - _keys(self)
        return found


def _both(one: Any, other: Any) -> Any:
    both = Ordered.__new__(Ordered)
    _fill(both, one)  # without hashing each again
    _fill(both, other)
    return both


def _set(other: object) -> object:
    return _keys(other) if isinstance(other, Ordered) else other


#: What has an order: no plain set is made an ordered one.
InOrder: TypeAlias = Iterator[Item] | Sequence[Item] | Ordered[Item] | KeysView[Item]

EMPTY: Ordered[NoReturn] = Ordered()
