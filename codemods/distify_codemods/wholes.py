"""Pieces of a script that one rank goes through as they stand, whatever they do: a cache that the script fills, say."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.events import Event, Here, Kind
from distify_codemods.program import Module
from distify_codemods.records import dataclass

if TYPE_CHECKING:
    from distify_codemods.facts import Facts


@dataclass(frozen=True)
class Whole:
    """A call that rank 0 alone makes for all, or a branch that ranks come to one after the other, rank 0 first."""

    module: Module
    node: cst.Call | cst.If
    here: Here
    waits: bool = False  # whether other ranks may still be reading what is written in it

    @cached_property
    def _nodes(self) -> frozenset[cst.CSTNode]:
        """What is evaluated in it; of a call not what is given to it, which every rank evaluates."""
        return frozenset([self.node] if isinstance(self.node, cst.Call) else tree.walk(self.node))

    def holds(self, event: Event) -> bool:
        """Whether an event happens in it, also in functions that are called there."""
        return event.node in self or not self._nodes.isdisjoint(event.here.frame.context)

    def __contains__(self, node: cst.CSTNode) -> bool:
        """Whether a node stands in it."""
        return isinstance(self.node, cst.If) and node in self._nodes

    def makes(self, obj: Obj) -> bool:
        """Whether an object is made in it."""
        own = isinstance(self.node, cst.If) and obj.site in self._nodes
        return own or not self._nodes.isdisjoint(obj.context)


def without(facts: Facts, wholes: tuple[Whole, ...]) -> Facts:
    """What the ranks do together: of what happens in these, all that is left is that they begin."""
    events: list[Event] = []
    for event in facts.run.events:
        within = next((one for one in wholes if one.holds(event)), None)
        if within is None:
            events.append(event)
        elif not events or events[-1].node is not within.node:
            events.append(Event(Kind.ATTRIBUTE, within.node, within.module, within.here, event.number))
    return replace(facts, run=replace(facts.run, events=events), wholes=wholes)


def asked_in_one(facts: Facts, site: cst.CSTNode | None) -> bool:
    """Whether a question is asked nowhere but in these: all ranks have there what comes of it."""
    return bool(facts.wholes) and site is not None and not facts.run.at(site)
