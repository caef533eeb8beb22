"""What the graph of a shared pass reaches, by way of its copies and its part of the batch or past them, and which
operations are in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from torch import Tensor

#: The operations by which a graph enters a shared pass, and those by which it leaves one.
ENTRANCES = frozenset({"_CopyBackward", "_SplitBackward"})
EXITS = frozenset({"_GatherBackward", "_SumAllBackward"})
#: What sums over the ranks in a backward pass, inside of the shared one.
_SUM, _NORMALISED = "_SumBackward", "_NormaliseBackward"


def flows(tensor: Tensor) -> bool:
    """Whether gradients can be asked of it. A view that is made under `no_grad` says so for its parameter, wrongly."""
    base = tensor._base
    return tensor.requires_grad and (tensor.grad_fn is not None or base is None or not base.requires_grad)


#: What computes nothing. Which of them there are may follow from where the numbers of a tensor lie in memory.
_LAYOUTS = frozenset(
    f"{name}Backward{number}"
    for name in (
        "Alias AsStrided Clone Contiguous Expand Permute Reshape ReshapeAlias Squeeze T ToCopy Transpose UnsafeView "
        "Unsqueeze View"
    ).split()
    for number in range(5)
)
#: A kind of operation: its name, the dimension that it goes along if it has one, and what it takes its inputs from.
Operation = tuple[str, str, tuple[str, ...]]


class Computed:
    """What has computed these outputs, between them and where their pass begins, as far as gradients flow; which
    buffers it has written; and whether tensors were given hooks in it, by which gradients may be other ones.

    `course`: a number for the operations in their order, by which most passes are known again. past: the leaves that
    `leaves_past` is about.
    """

    def __init__(self, outputs: Iterable[Tensor], written: Iterable[str] = (), hooks: bool = False) -> None:
        self._nodes = list(_walked(outputs, ENTRANCES))
        self._besides: list[Operation] = [*(("write", name, ()) for name in written), *[("hook", "", ())] * hooks]
        self.course = hash((*map(_kind, self._nodes), *self._besides))

    @property
    def past(self) -> dict[int, Tensor]:
        return _leaves(self._nodes)

    @property
    def operations(self) -> frozenset[Operation]:
        """A loop has the same ones, however often it turns; how a tensor lies in memory makes no other one."""
        found = {
            (*_kind(node), tuple(sorted({one.name() for one in _computed_before(node)})))
            for node in self._nodes
            if node.name() not in _LAYOUTS
        }
        return frozenset(found.union(self._besides))


def _kind(node: Any) -> tuple[str, str]:
    """What a node is, and the dimensions that it goes along, if it has any."""
    name = node.name()
    if name not in _told_by:
        _told_by[name] = tuple(one for one in _DIMENSIONS if hasattr(node, one))
    return name, " ".join([str(getattr(node, one)) for one in _told_by[name]])


#: Where a node keeps them; and which of these the nodes of a name have.
_DIMENSIONS = ("_saved_dim", "_saved_dims", "_saved_dimension")
_told_by: dict[str, tuple[str, ...]] = {}


def leaves_past(outputs: Iterable[Tensor], inputs: Iterable[Tensor] = ()) -> dict[int, Tensor]:
    """Leaves that gradients of these outputs flow to without coming through a copy, a split or an input, by identity.

    inputs: which may have been computed themselves, as parameters are that `functional_call` is given.
    """
    nodes = _walked(outputs, ENTRANCES, {one.grad_fn for one in inputs if one.grad_fn is not None})
    return _leaves(nodes)


def behind(one: Tensor, other: Tensor) -> bool:
    """Whether gradients of the other flow back to this one."""
    if one.grad_fn is not None:
        return any(node is one.grad_fn for node in _walked([other], frozenset()))
    return any(getattr(node, "variable", None) is one for node in _walked([other], frozenset()))


def kinds_of_nodes(outputs: Iterable[Tensor], end_at: frozenset[str] = frozenset()) -> set[str]:
    """The names of what computed these outputs, as far as gradients flow, up to and with some."""
    return {node.name() for node in _walked(outputs, end_at)}


def sums_reached(outputs: Sequence[Tensor]) -> list[int]:
    """Of each output, which of the sums inside of a pass a backward pass from it comes by: their places, as bits.

    One inside of a checkpoint that is entered anew is not seen.
    """
    found: dict[Any, int] = {None: 0}
    left: list[tuple[Any, tuple[Any, ...] | None]] = [(one.grad_fn, None) for one in outputs]
    while left:  # a node twice: before what follows it, and behind that
        node, followers = left.pop()
        if followers is not None:
            for one in followers:
                found[node] |= found[one]
        elif node not in found:
            name = node.name()
            found[node] = _place_inside(name, node)
            if name not in ENTRANCES:
                followers = tuple(one for one, _ in node.next_functions)
                left.append((node, followers))
                left += ((one, None) for one in followers if one not in found)
    return [found[one.grad_fn] for one in outputs]


def _leaves(nodes: Iterable[Any]) -> dict[int, Tensor]:
    leaves = [leaf for node in nodes if (leaf := getattr(node, "variable", None)) is not None]
    return {id(leaf): leaf for leaf in leaves}


def _computed_before(node: Any) -> Iterator[Any]:
    """What gives a node its inputs, past what only lays them out anew; nothing of what was before the shared pass."""
    left = [] if node.name() in ENTRANCES else [follower for follower, _ in node.next_functions]
    while left:
        one = left.pop()
        if one is not None and one.name() in _LAYOUTS:
            left += [follower for follower, _ in one.next_functions]
        elif one is not None:
            yield one


def _place_inside(name: str, node: Any) -> int:
    """As a bit; 0 for what is no sum."""
    if name == _SUM:
        return 1 << int(node.tag.place)
    return 1 << int(getattr(node.total, "place", 0)) if name == _NORMALISED else 0


def _walked(outputs: Iterable[Tensor], end_at: frozenset[str], known: Iterable[Any] = ()) -> Iterator[Any]:
    seen: set[Any] = set(known)
    left: list[Any] = [one.grad_fn for one in outputs if one.grad_fn is not None]
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        if node.name() not in end_at:
            left += [follower for follower, _ in node.next_functions if follower is not None]
