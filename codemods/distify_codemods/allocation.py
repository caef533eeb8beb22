"""Abstract objects, by where and by which chain of calls they were made: what roles belong to, never to names."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.ordered import Ordered
from distify_codemods.reads import NUMBERS, Table
from distify_codemods.records import dataclass

if TYPE_CHECKING:
    from distify_codemods.module import Module
    from distify_codemods.values import Value


@dataclass(frozen=True)
class Turn:
    """One turn of a loop or comprehension over a few known items."""

    loop: cst.CSTNode
    number: int


class CallChain(tuple["cst.CSTNode | Turn", ...]):
    """How execution got to a function's body or a turn of a loop: calls and turns, outermost first.

    A part of the key of all objects and events: its hash is kept.
    """

    _hash: int

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = super().__hash__()
            return self._hash

    def then(self, step: cst.CSTNode | Turn) -> CallChain:
        return CallChain((*self, step))


AT_THE_TOP = CallChain()


@dataclass(eq=False, repr=False)
class Obj:
    """An abstract object: where it was made (`site`) and by which chain of calls (`context`)."""

    site: cst.CSTNode | None
    context: CallChain = AT_THE_TOP
    module: Module | None = None
    attributes: Table[str, Value] = field(default_factory=Table)
    number: int = field(default_factory=NUMBERS.__next__)  # in the order of making
    alone: Ordered[Obj] = field(init=False)  # the set of this object only: the same one for each value that is it

    def __post_init__(self) -> None:
        self.alone = Ordered([self])

    def __repr__(self) -> str:
        return f"{type(self).__name__} {getattr(self, 'name', '')}".strip()


@dataclass(eq=False, repr=False)
class Ref(Obj):
    """Something of a library, by its full name: `torch.nn.Linear`."""

    name: str = ""


@dataclass(eq=False, repr=False)
class Const(Obj):
    value: object = None
