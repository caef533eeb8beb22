"""Forward passes that print or write, which would be of parts of a batch, and once more where a pass is checked; and
those that keep something in some passes only, of which the first, which is checked, tells nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Turn
from distify_codemods.answers import answered_once
from distify_codemods.decisions.kept_by_models import kept
from distify_codemods.decisions.log_records import shown_records
from distify_codemods.decisions.places import places_of
from distify_codemods.decisions.sinks import Kind as Sinks
from distify_codemods.decisions.sinks import sinks
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core
from distify_codemods.interpreter.frames import Frame
from distify_codemods.libraries import python
from distify_codemods.objects import Passing, Sequence
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.settled import is_module
from distify_codemods.tree import is_docstring

_LINE = cst.SimpleStatementLine


@dataclass(frozen=True)
class WritingPass:
    """A forward pass, or a hook, and what in it prints, writes or keeps something."""

    module: Module
    function: cst.FunctionDef | None  # None: there is no line in which it could say so
    writes: tuple[Module, cst.CSTNode]
    does: str
    unused: bool = False  # a constant turns off all that does

    def first(self, facts: Facts) -> cst.CSTNode | None:
        """The line of the function before which it can say so: the first that may come to it."""
        lines = [line for line in self.function.body.body if not is_docstring(line)] if self.function else []
        module, node = self.writes
        around = [*itertools.takewhile(lambda one: one is not self.function, (node, *module.enclosing(node)))]
        statements = [one for one in reversed(around) if isinstance(one, cst.BaseCompoundStatement | _LINE)]
        inside = bool(statements) and statements[0] in lines
        off = [one for one in (statements if inside else lines) if self.unused and one in facts.run.unused]
        return next(iter((*off, *lines)), None)


def writing_passes(facts: Facts) -> list[WritingPass]:
    """Each by its function once."""
    found: dict[cst.CSTNode, WritingPass] = {}
    for frame, module, node, does, unused in (*_writing(facts), *_taking(facts), *_keeping_now_and_then(facts)):
        plain = isinstance(frame.node, cst.FunctionDef) and isinstance(frame.node.body, cst.IndentedBlock)
        function = frame.node if plain and isinstance(frame.node, cst.FunctionDef) else None
        if frame.node not in found or (found[frame.node].unused and not unused):
            found[frame.node] = WritingPass(frame.module, function, (module, node), does, unused)
    return list(found.values())


_Found = tuple[Frame, Module, cst.CSTNode, str, bool]


def _writing(facts: Facts) -> Iterator[_Found]:
    in_models = places_of(facts).in_models
    logged = {sink.node for sink in sinks(facts) if sink.kind is Sinks.LOGGED}
    writes = [event for event in facts.of_kind(Kind.CALL, Kind.METHOD) if event.node in logged]
    events = (*facts.of_kind(Kind.PRINT), *shown_records(facts), *writes)
    inside = [event for event in events if event.module.function(event.node) in in_models]
    entered = _calls(facts) if inside else set()
    for event in inside:
        if (frame := _pass_around(entered, event)) is not None:
            yield frame, event.module, event.node, "prints or writes in a forward pass", event.unused


def _taking(facts: Facts) -> Iterator[_Found]:
    """`next(self.turns)`: a pass that is checked takes more than once, and no iterator can be taken back."""
    in_models = places_of(facts).in_models
    inside = [one for one in takes_of_before(facts) if one.module.function(one.node) in in_models]
    entered = _calls(facts) if inside else set()
    for event in inside:
        if (frame := _pass_around(entered, event)) is not None:
            yield frame, event.module, event.node, "takes something from an iterator in a forward pass", event.unused


@answered_once
def takes_of_before(facts: Facts) -> list[Event]:
    """What takes one item from an iterator that was there before its function was called, which each call moves on."""
    methods = (one for one in facts.of_kind(Kind.METHOD) if _takes_one(one))
    return [one for one in (*facts.calls(python.TAKES_ONE), *methods) if _is_of_before(one)]


def _takes_one(event: Event) -> bool:
    """`turns.__next__()`; of other methods, those of what is seen to be an iterator: `send` may be a connection's."""
    seen = event.name == "__next__" or any(isinstance(obj, (Sequence, Passing)) for obj in event.receiver.objs)
    return seen and event.name in python.NEXT_METHODS


def _is_of_before(event: Event) -> bool:
    """`next(turns)`, `next(self.turns)`"""
    node = event.node
    if not isinstance(node, cst.Call):
        return False
    plain = node.args[0].value if node.args and not node.args[0].star else None
    taken = event.receiver_node if event.kind is Kind.METHOD else plain
    if isinstance(taken, cst.Name):
        function = event.module.function(node)
        bound = event.module.flow(taken).reaching(taken)
        return not any(event.module.function(one) is function and not isinstance(one, cst.Param) for one in bound)
    return isinstance(taken, (cst.Attribute, cst.Subscript))


def _keeping_now_and_then(facts: Facts) -> Iterator[_Found]:
    """Under a test of something else than the mode, or in a function of which it is not seen when it is called."""
    places = {node: module for module, node in kept(facts)}
    functions = {module.function(node) for node, module in places.items()}
    entered, frames, used = _calls(facts) if places else set(), dict[cst.CSTNode, Frame](), set[cst.CSTNode]()
    for event in facts.run.events if places else ():
        function = event.here.frame.node
        if function in functions and (frame := _pass_around(entered, event)) is not None:
            frames.setdefault(function, frame)
            used |= {function} if not event.unused else set()
    for node, module in places.items():
        frame = frames.get(module.function(node))
        if frame is not None and (frame.node is not module.function(node) or _is_under_a_test(facts, module, node)):
            off = node in facts.run.unused or module.function(node) not in used
            yield frame, module, node, "keeps something in some forward passes", off


def _calls(facts: Facts) -> set[cst.CSTNode]:
    return {event.node for event in facts.of_kind(Kind.FORWARD)}


def _pass_around(entered: Collection[cst.CSTNode], event: Event) -> Frame | None:
    """The forward pass in which something happens: the innermost, as it was called."""
    for frame in (here.frame for here in event.here.up()):
        calls = [one for one in frame.context if not isinstance(one, Turn)]
        if calls and calls[-1] in entered:
            return frame
    return None


def _is_under_a_test(facts: Facts, module: Module, node: cst.CSTNode) -> bool:
    """Also behind one that leaves the function before: `if self.fast: return self.body(x)`."""
    around = [*itertools.takewhile(lambda one: not isinstance(one, cst.FunctionDef), module.enclosing(node))]
    tests = [one for one in around if isinstance(one, cst.If)]
    function, place = module.function(node), {node, *around}
    for block in tree.walk(function) if isinstance(function, cst.FunctionDef) else ():
        if isinstance(block, cst.IndentedBlock):
            here = next((at for at, one in enumerate(block.body) if one in place), 0)
            tests += [one for one in block.body[:here] if isinstance(one, cst.If) and _leaves(one)]
    return any(not _is_of_the_mode(facts, one.test) for one in tests)


def _leaves(test: cst.If) -> bool:
    return any(isinstance(one, cst.Return) for one in tree.walk(test))


def _is_of_the_mode(facts: Facts, test: cst.BaseExpression) -> bool:
    """`if self.training`, `if not self.training`: it is checked in either mode."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _is_of_the_mode(facts, test.expression)
    of = facts.value(test.value).objs if isinstance(test, cst.Attribute) and test.attr.value == "training" else ()
    return bool(of) and all(is_module(core(one)) for one in of)
