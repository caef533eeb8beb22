"""What a run of the program does, in order: the raw material of facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import AT_THE_TOP, CallChain, Obj
from distify_codemods.objects import Arguments
from distify_codemods.records import dataclass
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.frames import Frame
    from distify_codemods.module import Module


class Kind(Enum):
    __hash__ = object.__hash__  # members are compared by identity, and Enum hashes their names anew each time

    ARGUMENTS_PARSED = "the command line is read"
    CALL = "a library is called"
    METHOD = "a method of something of a library, or of a model, is called"
    FORWARD = "an object is called like a function"
    OWN = "a method of a module of the script's own is called"
    ATTRIBUTE = "an attribute is read"
    STORE = "an attribute is set"
    LOOP = "a loop is entered"
    PASS = "a pass over a loader begins"
    DRAW = "a batch is taken from a loader"
    YIELD = "a generator hands out a value"
    TEST = "a branch is decided"
    LEAVE = "a loop, function or program is left early"
    GRADIENT = "gradients are taken without a backward pass"
    PRINT = "text goes to the screen"
    ASSERT = "something is asserted"
    REDUCED = "a number is taken over all ranks"
    SHARE = "a rank keeps its part of a batch"


#: What is taken to run when it is reached: loops too.
_RUN_ONCE = (cst.For, cst.While, cst.With, cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.Module)


@dataclass(eq=False)
class Here:
    """A place of the execution: a statement, in an arm of another, …, in a frame, called from a statement, …"""

    parent: Here | None
    node: cst.CSTNode
    frame: Frame
    arm: str = ""  # "body", "orelse", …; empty for the statement itself
    outcomes: frozenset[bool | None] | set[bool | None] = frozenset()  # of the branch, in all passes; None: not known

    @property
    def parent_context(self) -> CallChain:
        """By which chain of calls the statement was reached that this is an arm of."""
        return self.parent.frame.context if self.parent is not None else AT_THE_TOP

    def up(self) -> Iterator[Here]:
        here: Here | None = self
        while here is not None:
            yield here
            here = here.parent

    @cached_property
    def loops(self) -> tuple[Here, ...]:
        """The loops around it, across calls, innermost first."""
        outer = self.parent.loops if self.parent is not None else ()
        is_turn = self.arm == "body" and isinstance(self.node, (cst.For, cst.While))
        return (self, *outer) if is_turn else outer

    @property
    def is_of_one_branch(self) -> bool:
        """An arm of a branch that is come to once: of its arms, a run takes one."""
        return bool(self.arm) and isinstance(self.node, cst.If) and not self.loops

    @property
    def is_decided(self) -> bool:
        """An arm that is taken whenever its branch is reached."""
        return len(self.outcomes) == 1 and None not in self.outcomes

    def conditions(self) -> frozenset[tuple[cst.CSTNode, str, CallChain]]:
        """The arms of branches and handlers that execution is in; loops are taken to run."""
        return frozenset(
            (here.node, here.arm, here.frame.context)
            for here in self.up()
            if here.arm
            and not here.is_decided
            and not (isinstance(here.node, _RUN_ONCE) and here.arm in ("body", "call"))
        )


@dataclass(eq=False)
class Event:
    kind: Kind
    node: cst.CSTNode
    module: Module
    here: Here
    number: int  # the order of events
    name: str = ""  # of the library's function, the method or attribute; of the statement that leaves
    receiver: Value = NOTHING
    receiver_node: cst.BaseExpression | None = None
    value: Value = NOTHING  # the result, what is stored or what is decided upon
    arguments: Arguments = field(default_factory=Arguments)
    grad: bool = True  # gradients are recorded here
    unused: bool = False  # a constant of the script turns it off
    names: dict[str, Value] = field(default_factory=dict)  # what a function's names hold here, at loops and loaders

    def inside(self, loop: Event) -> bool:
        """Whether it happens in the body of a loop, also in functions called from there."""
        around = self.here.loops if isinstance(loop.node, (cst.For, cst.While)) else self.here.up()
        return any(
            here.node is loop.node and here.arm == "body" and here.parent_context == loop.here.frame.context
            for here in around
        )

    def inside_of(self, place: Here) -> bool:
        """Whether it happens in the same arm of a statement, also in functions called from there."""
        return any(
            here.node is place.node and here.arm == place.arm and here.frame.context == place.frame.context
            for here in self.here.up()
        )

    def before(self, other: Event) -> bool:
        return self.number < other.number

    def dominates(self, other: Event) -> bool:
        """Whenever `other` happens, this has happened before."""
        return self.before(other) and self.here.conditions() <= other.here.conditions()

    def loops(self) -> tuple[Here, ...]:
        """The loops around it, across calls, innermost first."""
        return self.here.loops

    @property
    def turns(self) -> set[cst.CSTNode]:
        """The loops around it as nodes."""
        return {here.node for here in self.here.loops}

    @property
    def in_a_maker(self) -> bool:
        """Whether it happens in the course of an `__init__`."""
        functions = (here.node for here in self.here.up() if isinstance(here.node, cst.FunctionDef))
        return any(one.name.value == "__init__" for one in functions)

    def about(self, *objs: Obj) -> bool:
        return any(obj in self.receiver.objs for obj in objs)
