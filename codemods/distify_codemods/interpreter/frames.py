"""Activations of functions and of modules: the names of each, and where it was called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import CallChain, Turn
from distify_codemods.objects import Class, External, Function
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.reads import NUMBERS
from distify_codemods.records import dataclass
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.module import Module

CALLED = "call"
DEEPEST = 30
Fresh = frozenset[tuple[int, object]]  # attributes and items that were set anew (see `pooling`)


@dataclass(eq=False)
class Frame:
    """One activation of a function, or of a module."""

    node: cst.CSTNode
    module: Module
    context: CallChain
    parent: Frame | None = None  # the closure
    env: dict[str, Value] = field(default_factory=dict)
    bound: dict[str, Value] = field(default_factory=dict)  # all that a name has ever been bound to
    globals_declared: set[str] = field(default_factory=set)
    outer_declared: set[str] = field(default_factory=set)  # nonlocal
    returned: list[Value] = field(default_factory=list)
    yielded: list[Value] = field(default_factory=list)
    sent: Value = NOTHING  # what `yield` gives: `generator.send(value)`
    exits: list[dict[str, Value]] = field(default_factory=list)  # environments at break and continue
    function: Function | None = None
    defines: Class | None = None  # whose body is run
    at_yield: Callable[[Value], None] | None = None  # of a context manager: what is done under `with`
    drawn: Ordered[External] = EMPTY  # loaders that batches were taken from
    turns: dict[Turn, Frame] = field(default_factory=dict)
    parted: bool = False  # ranks may have left it, or one of its loops, at different times
    left: list[Fresh] = field(default_factory=list)  # what was set anew where it returned
    caller: Frame | None = None
    given: dict[str, cst.BaseExpression] = field(default_factory=dict)  # what the caller's text gives parameters
    number: int = field(default_factory=NUMBERS.__next__)

    @property
    def scope(self) -> Frame:
        """Where functions that are defined here look for names: a class's own are not seen."""
        return self.parent if self.defines is not None and self.parent is not None else self

    def is_of_another(self, name: str) -> bool:
        """Whether a name is declared to be one of the module, or of a function around."""
        return name in self.globals_declared or name in self.outer_declared

    def turn(self, loop: cst.CSTNode, number: int) -> Frame:
        """The same activation and the same names, in one turn of a loop: a calling context of its own."""
        turn = Turn(loop, number)
        if turn not in self.turns:
            self.turns[turn] = replace(self, context=self.context.then(turn), turns={})
        return self.turns[turn]


def merge(env: dict[str, Value], other: dict[str, Value], only_other: bool = False) -> None:
    """Joins `other` into `env`, as where two ways meet; with `only_other`, the first way does not get here."""
    if only_other:
        env.clear()
        env.update(other)
        return
    for name, value in other.items():
        mine = env.get(name)
        if mine is not value:
            env[name] = value if mine is None else join(mine, value)
