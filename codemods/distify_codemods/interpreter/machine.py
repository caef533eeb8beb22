"""The state of an abstract run, and its statements.

Both arms of a branch are taken and joined; a loop's body is taken again when what was known at its head
has changed. Local functions are followed at each call, so that their objects and events know by which chain
of calls they came about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import libcst as cst

from distify_codemods import tree
from distify_codemods.events import Event, Here, Kind
from distify_codemods.interpreter import (
    aging,
    attributes,
    contexts,
    cuts,
    definitions,
    expressions,
    files,
    forms,
    imports,
    iteration,
    kinds,
    operators,
    pooling,
    sparing,
    state,
    summaries,
    targets,
    turns,
    unused,
    ways,
)
from distify_codemods.interpreter.trial import NOTHING_TRIED, Hooks, Trial
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.program import Module, Program
from distify_codemods.values import (
    AT_THE_TOP,
    NOTHING,
    ON_A_WAY,
    Arguments,
    CallChain,
    Class,
    Const,
    External,
    Function,
    Obj,
    Ref,
    Turn,
    Value,
    join,
)

CALLED = "call"
BEHIND = "behind"  # what comes after a branch, as if it were an arm
MOST_STATEMENTS = 60_000
Key = TypeVar("Key")
DEEPEST = 30
PASSES_OF_A_LOOP = 3


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
    exits: list[dict[str, Value]] = field(default_factory=list)  # environments at break and continue
    function: Function | None = None
    defines: Class | None = None  # whose body is run
    at_yield: Callable[[Value], None] | None = None  # of a context manager: what is done under `with`
    drawn: Ordered[External] = EMPTY  # loaders that batches were taken from
    turns: dict[Turn, Frame] = field(default_factory=dict)
    parted: bool = False  # ranks may have left it, or one of its loops, at different times
    left: list[pooling.Fresh] = field(default_factory=list)  # what was set anew where it returned

    @property
    def scope(self) -> Frame:
        """Where functions that are defined here look for names: a class's own are not seen."""
        return self.parent if self.defines is not None and self.parent is not None else self

    def turn(self, loop: cst.CSTNode, number: int) -> Frame:
        """The same activation and the same names, in one turn of a loop: a calling context of its own."""
        turn = Turn(loop, number)
        if turn not in self.turns:
            self.turns[turn] = replace(self, context=self.context.then(turn), turns={})
        return self.turns[turn]


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
        found = [event for kind in kinds for event in self._by_kind.get(kind, ())]
        return sorted(found, key=lambda event: event.number) if len(kinds) > 1 else found

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
    def _by_kind(self) -> dict[Kind, list[Event]]:
        found: dict[Kind, list[Event]] = {}
        for event in self.events:
            found.setdefault(event.kind, []).append(event)
        return found


_EXITS = ("builtins.SystemExit", "builtins.KeyboardInterrupt")


class Machine:
    def __init__(
        self,
        program: Program,
        hooks: Hooks | None = None,
        trial: Trial = NOTHING_TRIED,
    ) -> None:
        self.program = program
        self.gathering = gathering = trial.gathering
        self.tracing = trial.tracing
        self.averaged = trial.averaged
        self.reducing = trial.reducing
        self.cutting = trial.cutting
        self.evidence = trial.evidence
        self.shared = trial.shared
        self.sparing = trial.sparing
        self.drop_data_parallel = trial.drop_data_parallel
        self.hooks: Hooks = {place: list(found) for place, found in (hooks or {}).items()}
        for place, hook in gathering.hooks if gathering else ():
            self.hooks.setdefault(place, []).append(hook)
        self.events: list[Event] = []
        self.draws: list[Event] = []  # those of them that take a batch
        self.values: dict[cst.CSTNode, Value] = {}
        self.objects: dict[tuple[object, ...], Obj] = {}
        self.givers: dict[cst.CSTNode, tuple[Value, Obj | None]] = {}  # whose method is called there (`evidence`)
        self.optimized: set[Obj] = set()  # modules whose parameters were asked for
        self.inside_models = 0  # how many forwards of modules are running
        self.through: dict[Obj, frozenset[cst.CSTNode]] = {}  # methods of libraries by which a thing came about
        self.temporary: set[Obj] = set()  # records that are made in the forward passes of modules
        self.summaries: dict[tuple[object, ...], Value] = {}  # of calls that left no trace
        self.repeated: dict[tuple[object, ...], summaries.Repeated] = {}
        self.helpers: dict[tuple[object, ...], summaries.Helper] = {}  # of a large program
        self.familiar: dict[tuple[object, ...], sparing.Familiar] = {}
        self.spared: dict[Function, int] = {}  # calls that were not followed, by what they call
        self.watched: list[Event] | None = None  # what happens in the call that is followed
        self.seen: dict[tuple[object, ...], Event] = {}
        self.traces: set[CallChain] = set()  # where what this call has changed or used was made: see `summaries`
        self.globals: dict[Module, Frame] = {}
        self.classes: list[Class] = []
        self.given: dict[Obj, Arguments] = {}  # what a library's base was initialised with
        self.modules: set[Obj] = set()  # objects that were asked for what only modules have
        self.frame: Frame
        self.here: Here
        self.grad = True
        self.control: Ordered[Obj | str] = EMPTY  # what the branches taken depend on
        self.parted = False  # ranks may go different ways, of which this is one
        self.outcomes: dict[tuple[cst.CSTNode, CallChain], set[bool | None]] = {}
        self.record = unused.Record()
        self.pooling = pooling.Pooling() if trial.evidence else None
        self.pending: list[tuple[Frame, str]] = []  # names of tensors that something of a batch was written into
        self.passing: dict[tuple[Obj, str], Value] = {}  # attributes that the `__init__` that runs will set anew
        self.saved: set[tuple[str, ...]] | None = None  # names that `torch.save` is given together, once asked for
        self.stores = 0  # how often an attribute, item or global came to hold something new
        self.statements = 0
        self.complete = True

    # ---- modules

    def module_frame(self, module: Module) -> Frame:
        frame = self.globals.get(module)
        if frame is None:
            frame = self.globals[module] = Frame(module.tree, module, AT_THE_TOP)
            self.run_frame(frame, module.tree.body)
        return frame

    def run_frame(self, frame: Frame, body: Sequence[cst.CSTNode]) -> None:
        outer = getattr(self, "frame", None), getattr(self, "here", None), self.grad
        parted = self.parted
        self.frame = frame
        self.here = Here(outer[1], frame.node, frame, CALLED)
        self.block(body)
        if outer[0] is not None and outer[1] is not None:
            self.frame, self.here, self.grad = outer[0], outer[1], outer[2]
        self.parted = parted

    # ---- events and objects

    def event(self, kind: Kind, node: cst.CSTNode, **details: object) -> Event:
        """Records an event once per place and chain of calls; a second pass over a loop adds what is new to it."""
        key = (kind, node, self.frame.context, details.get("name"))
        known = self.seen.get(key)
        if known is not None:
            for name in ("receiver", "value"):
                if name in details:
                    setattr(known, name, join(getattr(known, name), details[name]))  # type: ignore[arg-type]
            if known.names:
                merge(known.names, self.frame.env)
            if "arguments" in details:
                known.arguments = known.arguments.joined(details["arguments"])  # type: ignore[arg-type]
            self._happened(known)
            return known
        event = Event(kind, node, self.frame.module, self.here, len(self.events), grad=self.grad, **details)  # type: ignore[arg-type]
        if kind in (Kind.LOOP, Kind.PASS) or event.name in attributes.LOADERS:
            event.names = dict(self.frame.env)
        self.seen[key] = event
        self.events.append(event)
        if kind is Kind.DRAW:
            self.draws.append(event)
        self._happened(event)
        return event

    def _happened(self, event: Event) -> None:
        self.traces.update(summaries.traces_of(self, event))
        if self.watched is not None:
            self.watched.append(event)

    def made(self, kind: type[Obj], site: cst.CSTNode | None, /, *more: object, **fields: object) -> Obj:
        """The object of that kind made here: the same one each time this place is run in the same context."""
        key = (kind, site, self.frame.context, *more)
        obj = self.objects.get(key)
        if obj is None:
            obj = self.objects[key] = kind(site, self.frame.context, self.frame.module, **fields)  # type: ignore[arg-type]
        return obj

    # ---- names

    def lookup(self, name: str) -> Value:
        frame: Frame | None = self.frame
        while frame is not None:
            if name in frame.env and name not in frame.globals_declared and name not in frame.outer_declared:
                return frame.env[name]
            frame = frame.parent
        return self.module_frame(self.frame.module).env.get(name) or expressions.builtin(self, name)

    def tainted(self, value: Value) -> Value:
        """What is assigned in a branch depends on what the branch depends on."""
        value = ways.marked(self, value)
        return replace(value, sources=value.sources | self.control) if self.control else value

    def bind(self, name: str, value: Value) -> None:
        value = self.tainted(value)
        if name in self.frame.globals_declared:
            self.summaries.clear()
            self.keep(self.module_frame(self.frame.module).env, name, value)
            pooling.named(self, self.module_frame(self.frame.module).env, name, value)
        elif name in self.frame.outer_declared:
            self.summaries.clear()
            self.keep(self.holder(name).env, name, value)
            pooling.named(self, self.holder(name).env, name, value, lasting=True)
        else:
            self.frame.env[name] = value
            pooling.named(self, self.frame.env, name, value)
        if value.objs:
            frame = self.frame if name not in self.frame.globals_declared else self.module_frame(self.frame.module)
            known = frame.bound.get(name)
            frame.bound[name] = value if known is None else join(known, value)

    def holder(self, name: str) -> Frame:
        """The function around this one that has a name."""
        frame = self.frame.parent
        while frame is not None and name not in frame.env:
            frame = frame.parent
        return frame or self.frame

    def keep(self, table: dict[Key, Value], key: Key, value: Value, holder: Obj | None = None) -> None:
        """Adds to what an attribute, an item or a global may hold, in whatever order it is set and read.

        `holder`: whose attribute or item it is.
        """
        if holder is not None and pooling.kept(self, holder, table, key, value):
            return
        known = table.get(key)
        table[key] = value if known is None else join(known, value)
        self.stores += known is None or table[key] != known

    # ---- statements

    def block(self, body: Sequence[cst.CSTNode]) -> bool:
        """Runs statements in order; false when control never reaches their end."""
        for number, statement in enumerate(body):
            if self.statements >= MOST_STATEMENTS:
                self.complete = False
                return True
            self.statements += 1
            outer = self.here
            self.here = Here(outer, statement, self.frame)
            for hook in self.hooks.get((statement, False), ()):
                hook(self)
            falls_through = self.statement(statement)
            for hook in self.hooks.get((statement, True), ()):
                hook(self)
            self.here = outer
            if not falls_through:
                if isinstance(statement, cst.If):  # `if not SAVE: return`
                    self.record.leave_out(self, statement, BEHIND, body[number + 1 :])
                return False
            if isinstance(statement, cst.If):
                self.record.taken.add((statement, BEHIND))
        return True

    def arm(
        self,
        node: cst.CSTNode,
        arm: str,
        body: cst.BaseSuite | Sequence[cst.CSTNode],
        outcomes: frozenset[bool | None] | set[bool | None] = frozenset(),
    ) -> bool:
        outer = self.here
        self.here = Here(outer, node, self.frame, arm, outcomes)
        statements = body.body if isinstance(body, cst.BaseSuite) else body
        result = self.block(statements)
        self.here = outer
        return result

    def statement(self, node: cst.CSTNode) -> bool:
        handler = _STATEMENTS.get(type(node))  # by type: asking libcst's classes one after the other is dear
        return handler(self, node) if handler is not None else True

    def line(self, node: cst.SimpleStatementLine) -> bool:
        return self.block(node.body) if len(node.body) > 1 else self.statement(node.body[0])

    # ---- compound statements

    def branch(self, node: cst.If) -> bool:
        test = expressions.evaluate(self, node.test)
        known = operators.truth(test)
        outcomes = self.outcomes.setdefault((node, self.frame.context), set())
        outcomes.add(known)
        self.event(Kind.TEST, node, value=test)
        env = self.frame.env
        before, outer, parted = dict(env), self.control, self.parted
        self.parted = parted or (known is None and ways.may_part(test))
        self.control = outer | forms.decided(test.sources)
        self.control |= operators.choice(self, node, test) if known is None else ()
        kinds.refine(self, node.test, True)
        fresh = pooling.fresh(self)
        falls = self.either(node, "body", node.body.body, known, outcomes)
        ends = [pooling.fresh(self)] if falls else []
        pooling.go_on(self, fresh)
        after = dict(env) if falls else None
        env.clear()
        env.update(before)
        kinds.refine(self, node.test, False)
        orelse = node.orelse.body.body if isinstance(node.orelse, cst.Else) else [node.orelse] if node.orelse else []
        other = self.either(node, "orelse", orelse, None if known is None else not known, outcomes)
        pooling.go_on(self, *ends, *([pooling.fresh(self)] if other else []))
        self.control, self.parted = outer, parted
        if after is not None:
            merge(env, after, only_other=not other)
        return falls or other

    def either(
        self, node: cst.If, arm: str, body: Sequence[cst.CSTNode], known: bool | None, outcomes: set[bool | None]
    ) -> bool:
        """Takes an arm of a branch, if it is not known not to be."""
        if known is False:
            self.record.leave_out(self, node, arm, body)
            return False
        self.record.taken.add((node, arm))
        return self.arm(node, arm, body, outcomes) if body else True

    def loop(self, node: cst.For | cst.While) -> bool:
        over = expressions.evaluate(self, node.iter) if isinstance(node, cst.For) else NOTHING
        self.event(Kind.LOOP, node, value=over)
        items = turns.known(self, over, node) if isinstance(node, cst.For) else None
        with pooling.perhaps(self):
            if isinstance(node, cst.For) and items is not None:
                self.one_by_one(node, items)
            else:
                self.again_and_again(node, over)
        if node.orelse is not None:
            self.arm(node, "orelse", node.orelse.body)
        return not (isinstance(node, cst.While) and self.endless(node))

    def again_and_again(self, node: cst.For | cst.While, over: Value) -> None:
        """One turn stands for all; it is taken again until nothing new is known at its head."""
        frame, outer_exits = self.frame, self.frame.exits
        frame.exits = []
        iterator = iteration.begin(self, over, node, node.iter) if isinstance(node, cst.For) else NOTHING
        outer = self.here
        for _ in range(PASSES_OF_A_LOOP):
            state.next_batch(self, node)
            aging.next_turn(self, node)
            before, stores = dict(frame.env), self.stores
            self.here = Here(outer, node, frame, "body")
            if isinstance(node, cst.For):
                targets.assign(self, node.target, cuts.dealt(self, iteration.element_of(self, iterator, node), node))
            else:
                self.event(Kind.TEST, node, value=expressions.evaluate(self, node.test))
            self.here = outer
            parted, control = self.parted, self.control
            asked = over if isinstance(node, cst.For) else self.values[node.test]
            self.parted, self.control = parted or ways.turns_part(node, asked), control | files.of_the_disk(asked)
            self.arm(node, "body", node.body)
            self.parted, self.control = parted, control
            for env in (before, *frame.exits):
                merge(frame.env, env)
            if self.stores == stores and all(frame.env[name] == value for name, value in before.items()):
                break
        frame.exits = outer_exits

    def one_by_one(self, node: cst.For, items: Sequence[Value]) -> None:
        """Over a few known items each turn is a context of its own; names flow from one to the next."""
        frame = self.frame
        for number, item in enumerate(items):
            aging.next_turn(self, node)
            self.frame = frame.turn(node, number)
            self.frame.exits = []
            targets.assign(self, node.target, item)
            falls = self.arm(node, "body", node.body)
            for env in self.frame.exits:
                merge(frame.env, env, only_other=not falls)
                falls = True
            frame.parted |= self.frame.parted
            if not falls:
                break
        self.frame = frame

    def endless(self, node: cst.While) -> bool:
        """`while True` without a break never falls through; with one it does."""
        value = expressions.evaluate(self, node.test).constant()
        return value is True and not any(
            event.kind is Kind.LEAVE and event.name == "break" and any(here.node is node for here in event.here.up())
            for event in self.events
        )

    def with_block(self, node: cst.With) -> bool:
        grad = self.grad
        result = contexts.run(self, node)
        self.grad = grad
        return result

    def try_block(self, node: cst.Try | cst.TryStar) -> bool:
        before, fresh = dict(self.frame.env), pooling.fresh(self)
        falls = self.arm(node, "body", node.body)
        if falls and node.orelse is not None:
            falls = self.arm(node, "body", node.orelse.body)
        after = dict(self.frame.env)
        fresh &= pooling.fresh(self)  # what was set anew before it failed
        ends = [pooling.fresh(self)] if falls else []
        handlers: Sequence[cst.ExceptHandler | cst.ExceptStarHandler] = node.handlers
        for number, handler in enumerate(handlers):
            self.frame.env.clear()
            self.frame.env.update(before)
            merge(self.frame.env, after)
            ways.interrupted(self, before)
            if handler.name is not None:
                targets.assign(self, handler.name.name, NOTHING)
            parted, self.parted = self.parted, True
            pooling.go_on(self, fresh)
            goes_on = self.arm(node, f"handler {number}", handler.body)
            self.parted = parted
            if goes_on:
                merge(after, self.frame.env, only_other=not falls)
                falls = True
                ends.append(pooling.fresh(self))
        pooling.go_on(self, *ends)
        self.frame.env.clear()
        self.frame.env.update(after)
        if node.finalbody is not None:
            falls = self.arm(node, "finally", node.finalbody.body) and falls
        return falls

    def match(self, node: cst.Match) -> bool:
        subject = expressions.evaluate(self, node.subject)
        self.event(Kind.TEST, node, value=subject)
        env, parted = self.frame.env, self.parted
        self.parted = parted or ways.may_part(subject)
        before, after = dict(env), dict(env)
        for number, case in enumerate(node.cases):
            env.clear()
            env.update(before)
            for name in tree.walk(case.pattern):
                if isinstance(name, cst.MatchAs) and name.name is not None:
                    targets.assign(self, name.name, NOTHING)
            with pooling.perhaps(self):
                falls = self.arm(node, f"case {number}", case.body)
            if falls:
                merge(after, env)
        self.parted = parted
        env.clear()
        env.update(after)
        return True


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


def constant(machine: Machine, node: cst.CSTNode, value: object) -> Value:
    return Value(machine.made(Const, node, value=value).alone)


def run(program: Program, hooks: Hooks | None = None, trial: Trial = NOTHING_TRIED) -> Run:
    """Runs the program from its entry, and follows what `trial` asks for."""
    if program.on_run is not None:
        program.on_run()
    machine = Machine(program, hooks, trial)
    machine.module_frame(program.entry)
    return Run(machine.events, machine.values, machine.globals, machine.complete, machine.outcomes, machine, trial)


# ---- simple statements


def _assign(machine: Machine, node: cst.Assign) -> bool:
    value = expressions.evaluate(machine, node.value)
    for target in node.targets:
        targets.assign(machine, target.target, value)
    return True


def _annotated(machine: Machine, node: cst.AnnAssign) -> bool:
    if node.value is not None:
        targets.assign(machine, node.target, expressions.evaluate(machine, node.value))
    return True


def _return(machine: Machine, node: cst.Return) -> bool:
    value = machine.tainted(expressions.evaluate(machine, node.value)) if node.value else _no_value(machine)
    machine.frame.returned.append(value)
    machine.frame.left.append(pooling.fresh(machine))
    machine.frame.parted |= machine.parted
    machine.event(Kind.LEAVE, node, name="return")
    return False


def _no_value(machine: Machine) -> Value:
    """`return` gives None: on which way is all that matters of it."""
    return Value(sources=Ordered([ON_A_WAY])) if machine.parted else NOTHING


def _raise(machine: Machine, node: cst.Raise) -> bool:
    raised = expressions.evaluate(machine, node.exc) if node.exc else NOTHING
    ends = any(isinstance(obj, (Ref, External)) and obj.name in _EXITS for obj in raised.objs)
    machine.event(Kind.LEAVE, node, name="exit" if ends else "raise")
    return False


def _leave_loop(machine: Machine, node: cst.Break | cst.Continue) -> bool:
    machine.frame.exits.append(dict(machine.frame.env))
    machine.frame.parted |= machine.parted
    machine.event(Kind.LEAVE, node, name="break" if isinstance(node, cst.Break) else "continue")
    return False


def _delete(machine: Machine, node: cst.Del) -> bool:
    parts = node.target.elements if isinstance(node.target, cst.Tuple) else ()
    for gone in [part.value for part in parts] or [node.target]:
        if isinstance(gone, (cst.Attribute, cst.Subscript)):
            expressions.evaluate(machine, gone)
    return True


def _and_on(handler: Callable[[Machine, Any], object]) -> Callable[[Machine, Any], bool]:
    """Of a statement that control always goes on from."""

    def handled(machine: Machine, node: Any) -> bool:
        handler(machine, node)
        return True

    return handled


_STATEMENTS: dict[type[cst.CSTNode], Callable[[Machine, Any], bool]] = {
    cst.SimpleStatementLine: Machine.line,
    cst.Expr: _and_on(lambda machine, node: expressions.evaluate(machine, node.value)),
    cst.Assign: _assign,
    cst.AnnAssign: _annotated,
    cst.AugAssign: _and_on(targets.augment),
    cst.Import: _and_on(imports.execute),
    cst.ImportFrom: _and_on(imports.execute),
    cst.Global: _and_on(
        lambda machine, node: machine.frame.globals_declared.update(item.name.value for item in node.names)
    ),
    cst.Nonlocal: _and_on(
        lambda machine, node: machine.frame.outer_declared.update(item.name.value for item in node.names)
    ),
    cst.Return: _return,
    cst.Raise: _raise,
    cst.Break: _leave_loop,
    cst.Continue: _leave_loop,
    cst.Del: _delete,
    cst.Assert: _and_on(
        lambda machine, node: machine.event(Kind.ASSERT, node, value=expressions.evaluate(machine, node.test))
    ),
    cst.If: Machine.branch,
    cst.For: Machine.loop,
    cst.While: Machine.loop,
    cst.With: Machine.with_block,
    cst.Try: Machine.try_block,
    cst.TryStar: Machine.try_block,
    cst.FunctionDef: _and_on(definitions.define),
    cst.ClassDef: _and_on(definitions.define),
    cst.Match: Machine.match,
}
