"""What an abstract run of a program has seen."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from distify_codemods import reads
from distify_codemods.allocation import CallChain
from distify_codemods.events import Event, Kind
from distify_codemods.interpreter.frames import Frame
from distify_codemods.interpreter.machine import Machine
from distify_codemods.interpreter.trial import NOTHING_TRIED, SPARING, Trial
from distify_codemods.program import Module, Program
from distify_codemods.records import dataclass
from distify_codemods.values import Value


@dataclass(eq=False)
class Run:
    """What one abstract run has seen."""

    events: list[Event]
    values: dict[cst.CSTNode, Value]  # of every expression, over all contexts
    frames: dict[Module, Frame]
    complete: bool  # false when the program was too large to be followed to its end
    outcomes: dict[tuple[cst.CSTNode, CallChain], set[bool | None]]  # of branches; None: not known
    machine: Machine
    trial: Trial = NOTHING_TRIED
    unused: frozenset[cst.CSTNode] = frozenset()  # where it comes by no way, as its constants are

    @property
    def exact(self) -> bool:
        """Whether each call was followed, or known to do what another one did."""
        return self.complete and not self.trial.sparing

    def by_kind(self, *kinds: Kind) -> list[Event]:
        """The events of some kinds, in order."""
        found = self._by_kinds.get(kinds)
        if found is None:
            found = [event for kind in kinds for event in self._by_kind.get(kind, ())]
            found.sort(key=lambda event: event.number)
            self._by_kinds[kinds] = found
        return found.copy()

    def at(self, node: cst.CSTNode) -> list[Event]:
        """The events of a node, in order."""
        return self._by_node.get(node, [])

    @cached_property
    def _by_node(self) -> dict[cst.CSTNode, list[Event]]:
        found: dict[cst.CSTNode, list[Event]] = {}
        for event in self.events:
            found.setdefault(event.node, []).append(event)
        return found

    @cached_property
    def _by_kinds(self) -> dict[tuple[Kind, ...], list[Event]]:
        return {}

    @cached_property
    def _by_kind(self) -> dict[Kind, list[Event]]:
        found: dict[Kind, list[Event]] = {}
        for event in self.events:
            found.setdefault(event.kind, []).append(event)
        return found


def _about(program: Program, trial: Trial) -> int:
    """How many runs there will be: sharing forward passes takes two, and seldom does all take more than eight."""
    before = len(program.followed) + (trial == SPARING)  # the one that did not come to its end
    return before + 2 if trial.shared or trial.sparing else 8


def run(program: Program, trial: Trial = NOTHING_TRIED) -> Run:
    """Runs the program from its entry, and follows what `trial` asks for."""
    if program.on_run is not None:
        program.on_run(_about(program, trial))
    machine = Machine(program, trial)
    reads.NOW.reads = None
    machine.module_frame(program.entry)
    machine.followed = None
    program.statements += machine.statements
    return Run(machine.events, machine.values, machine.globals, machine.complete, machine.outcomes, machine, trial)
