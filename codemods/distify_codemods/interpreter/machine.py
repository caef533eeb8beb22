"""The state of an abstract run: what it has seen, made and named.

Local functions are followed at each call, so that their objects and events know by which chain of calls they came
about. What is evaluated calls, and what is called evaluates: the parts of the interpreter come to each other through
here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import libcst as cst

from distify_codemods import reads
from distify_codemods.allocation import AT_THE_TOP, CallChain, Const, Obj
from distify_codemods.events import Event, Here, Kind
from distify_codemods.interpreter import (
    calls,
    classes,
    expressions,
    functions,
    imports,
    library,
    pooling,
    repeated,
    sparing,
    statements,
    storages,
    summaries,
    targets,
    unused,
    ways,
)
from distify_codemods.interpreter.frames import CALLED, Frame, merge
from distify_codemods.interpreter.other_names import Place
from distify_codemods.interpreter.trial import NOTHING_TRIED, SPARING, Trial
from distify_codemods.libraries import python, torch_data
from distify_codemods.objects import Arguments, Class, Function
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.program import Module, Program
from distify_codemods.reads import Marks, Table
from distify_codemods.values import NOTHING, Value, join, join_two

BEHIND = "behind"  # what comes after a branch, as if it were an arm
MOST_STATEMENTS = 60_000
MOST_SPARINGLY = 500_000  # of a run that leaves out calls, and of what is converted in any case
Key = TypeVar("Key")
Made = TypeVar("Made", bound=Obj)


class Machine:
    def __init__(self, program: Program, trial: Trial = NOTHING_TRIED) -> None:
        self.program = program
        self.most = _most(program, trial)
        self.gathering = gathering = trial.gathering
        self.tracing = trial.tracing
        self.averaged = trial.averaged
        self.before_averaging: dict[cst.CSTNode, Value] = {}  # what each of them is, all others being averaged
        self.whole = trial.whole
        self.reducing = trial.reducing
        self.cutting = trial.cutting
        self.evidence = trial.evidence
        self.asks_for_samples = trial.samples
        self.tries = replace(trial, shared=False, sparing=False, drop_data_parallel=False, hooks=()) != NOTHING_TRIED
        self.shared = trial.shared
        self.tells_draws = trial.shared or trial.evidence  # whether values tell where random numbers were drawn
        self.sparing = trial.sparing
        self.drop_data_parallel = trial.drop_data_parallel
        self.data_parallel = False  # whether the script wraps anything in it
        self.unwrapped: Marks[Obj] = Marks()  # what such a wrap was given, and is: its own `module`
        self.hooks: dict[tuple[cst.CSTNode, bool], list[Callable[[Machine], None]]] = {}
        for place, hook in (*trial.hooks, *(gathering.hooks if gathering else ())):
            self.hooks.setdefault(place, []).append(hook)
        self.events: list[Event] = []
        self.declaring: list[Event] = []  # those by which options are declared, or given defaults
        self.draws: list[Event] = []  # those of them that take a batch
        self.registered = set[tuple[Obj, str]]()  # modules, and what their buffers and parts are called
        self.tallied = set[cst.CSTNode]()  # names of tables that a turn makes, where they are filled: see `tallies`
        self.values: Table[cst.CSTNode, Value] = Table()
        self.objects: dict[tuple[object, ...], Any] = {}  # `Obj`s, by kind and place
        self.made_at: dict[Obj, Here] = {}  # where a run first came to make each of them
        self.literals: dict[tuple[object, ...], Value] = {}
        self.givers: Table[cst.CSTNode, tuple[Value, Obj | None]] = Table()  # whose method is called there (`evidence`)
        self.optimized: Marks[Obj] = Marks()  # modules whose parameters were asked for
        self.inside_models = 0  # how many forwards of modules are running
        self.through: Table[Obj, frozenset[cst.CSTNode]] = Table()  # methods of libraries by which a thing came about
        self.temporary: Marks[Obj] = Marks()  # records that are made in the forward passes of modules
        self.summaries: Table[tuple[object, ...], summaries.Summary] = Table()  # of calls that left no trace
        self.followed: dict[tuple[object, ...], repeated.Followed] | None = {}  # None: when the run is over
        self.helpers: dict[tuple[object, ...], summaries.Helper] = {}  # of a large program
        self.familiar: dict[tuple[object, ...], sparing.Familiar] = {}
        self.spared: dict[Function, int] = {}  # calls that were not followed, by what they call
        self.watched: list[Event] | None = None  # what happens in the call that is followed
        self.seen: dict[tuple[object, ...], Event] = {}
        self.traces: set[CallChain] = set()  # where what this call has changed or used was made: see `summaries`
        self.globals: dict[Module, Frame] = {}
        self.classes: list[Class] = []
        self.commands: Table[Obj, Value] = Table()  # functions that are made known to a command line, by what runs them
        self.batch_sizes: Marks[Obj] = Marks()  # the literals and settings that loaders are given
        self.options: Marks[cst.CSTNode] = Marks()  # parameters that are given what stands in the command line
        self.given: Table[Obj, Arguments] = Table()  # what a library's base was initialised with
        self.modules: Marks[Obj] = Marks()  # objects that were asked for what only modules have
        self.frame: Frame
        self.here: Here
        self.grad = True
        self.control: Ordered[Obj | str] = EMPTY  # what the branches taken depend on
        self.samples_decide: Value | None = None  # what a batch has of one sample, by which a branch is taken
        self.parted = False  # ranks may go different ways, of which this is one
        self.outcomes: dict[tuple[cst.CSTNode, CallChain], set[bool | None]] = {}
        self.record = unused.Record()
        self.pooling = pooling.Pooling() if trial.evidence else None
        self.storages = storages.Storages() if trial.evidence else None
        self.interrupting = False  # what runs is called at a time of its own: see `interrupts`
        self.comprehending: tuple[Here, ...] = ()  # comprehensions of which a turn is followed
        self.choosing: tuple[Here, ...] = ()  # statements that call one of several things, of which one is followed
        self.interrupted: Marks[Obj] = Marks()  # of libraries, that are set then
        self.anything: Marks[Obj] = Marks()  # objects and classes in which something was set under names not known
        self.set_at_any_time: dict[tuple[int, str], Value] = {}  # names, by their tables
        self.named: dict[tuple[Obj, str], Place] = {}  # what attributes were given, by the text
        self.pending: dict[tuple[int, str], Frame] = {}  # names of tensors that something of a batch was written into
        self.unbound: Marks[str] = Marks()  # names that are asked for, or may be, before this turn has bound them
        self.passing: Table[tuple[Obj, str], Value] = Table()  # attributes that the `__init__` that runs will set anew
        self.saved: set[tuple[str, ...]] | None = None  # names that `torch.save` is given together, once asked for
        self.happened: Table[str, int] = Table(draws=0, breaks=0, pending=0, classes=0)  # how much there is of it
        self.stores = 0  # how often an attribute, item or global came to hold something new
        self.statements = 0
        self.repeated = 0  # statements of calls that were made again, and did the same
        self.complete = True

    @property
    def size(self) -> int:
        """How large a program is: its statements, once for each time that one is reached."""
        return self.statements + self.repeated

    # ---- modules

    def module_frame(self, module: Module) -> Frame:
        frame = self.globals.get(module)
        if frame is None:
            frame = self.globals[module] = Frame(module.tree, module, AT_THE_TOP, env=Table())
            with reads.once():  # not when the call that came to it is made again
                self.run_frame(frame, module.tree.body)
            imports.bind_to_package(self, module)
        return frame

    def run_frame(self, frame: Frame, body: Sequence[cst.CSTNode]) -> bool:
        """False when control never reaches the end of the body."""
        outer = getattr(self, "frame", None), getattr(self, "here", None), self.grad
        parted, decide = self.parted, self.samples_decide
        self.frame, self.samples_decide = frame, None
        self.here = Here(outer[1], frame.node, frame, CALLED)
        falls_through = self.block(body)
        if outer[0] is not None and outer[1] is not None:
            self.frame, self.here, self.grad = outer[0], outer[1], outer[2]
        self.parted, self.samples_decide = parted, decide
        return falls_through

    # ---- events and objects

    def event(self, kind: Kind, node: cst.CSTNode, **details: Any) -> Event:
        """Records an event once per place and chain of calls; a second pass over a loop adds what is new to it."""
        key = (kind, node, self.frame.context, details.get("name"))
        known = self.seen.get(key)
        if known is not None:
            self._joined(known, **details)
            return known
        event = Event(kind, node, self.frame.module, self.here, len(self.events), grad=self.grad, **details)
        if kind in (Kind.LOOP, Kind.PASS) or event.name in torch_data.LOADERS:
            event.names = dict(self.frame.env)
        self.seen[key] = event
        self.events.append(event)
        if kind is Kind.METHOD and event.name in python.OF_OPTIONS:
            self.declaring.append(event)
        if kind is Kind.DRAW:
            self.draws.append(event)
            self.count("draws")
        if event.name == "break" and kind is Kind.LEAVE:
            self.count("breaks")
        self._happened(event, event.receiver, event.value)
        return event

    def _joined(
        self,
        known: Event,
        receiver: Value = NOTHING,
        value: Value = NOTHING,
        arguments: Arguments | None = None,
        **others: Any,
    ) -> None:
        """An event has happened again; the others of its fields stay what they are."""
        before = known.value
        known.receiver, known.value = join_two(known.receiver, receiver), join_two(before, value)
        if known.kind is Kind.DRAW and known.value is not before:
            self.count("draws")
        if known.names:
            merge(known.names, self.frame.env)
        if arguments is not None:
            known.arguments = known.arguments.joined(arguments)
        self._happened(known, receiver, value)

    def count(self, what: str) -> None:
        self.happened.grow(what, dict.__getitem__(self.happened, what) + 1)

    def _happened(self, event: Event, receiver: Value, value: Value) -> None:
        """receiver, value: of this time."""
        if event.kind not in summaries.TRACELESS:
            self.traces.update(summaries.traces_of(self, event, receiver, value))
        if self.watched is not None:
            self.watched.append(event)

    def made(self, kind: type[Made], site: cst.CSTNode | None, /, *more: object, **fields: object) -> Made:
        """The object of that kind made here: the same one each time this place is run in the same context."""
        key = (kind, site, self.frame.context, *more)
        obj: Made | None = self.objects.get(key)
        if obj is None:
            obj = self.objects[key] = kind(site, self.frame.context, self.frame.module, **fields)  # type: ignore[arg-type]
            self.made_at[obj] = self.here
        elif self.pooling is not None and obj in self.pooling.ended:
            pooling.made_anew(self.pooling, obj)
        return obj

    def mark(
        self, kind: type[Made], site: cst.CSTNode, /, *more: object, module: Module | None = None, **fields: object
    ) -> Made:
        """A source that says what was done here, in whichever context: there is one for each place.

        module: that of `site`, where that is not in what is being run.
        """
        key = (kind, site, AT_THE_TOP, *more)
        obj: Made | None = self.objects.get(key)
        if obj is None:
            module = module or self.frame.module
            obj = self.objects[key] = kind(site, AT_THE_TOP, module, **fields)  # type: ignore[arg-type]
        return obj

    # ---- names

    def lookup(self, name: str) -> Value:
        frame: Frame | None = self.frame
        while frame is not None:
            if frame is not self.frame and type(frame.env) is dict:
                reads.note_outer(frame, name, frame.env.get(name, reads.MISSING))
            if name in frame.env and not frame.is_of_another(name):
                return frame.env[name]
            frame = frame.parent
        known = self.module_frame(self.frame.module).env.get(name)
        if known is None:
            self.unbound.add(name)
        return known or imports.builtin(self, name)

    def tainted(self, value: Value) -> Value:
        """What is assigned in a branch depends on what the branch depends on."""
        value = ways.marked(self, value)
        if self.samples_decide is not None and value.are_literals:
            value = ways.of_each(value, self.samples_decide)
        return value.adding(self.control) if self.control else value

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
            if self.set_at_any_time:
                value = join(value, self.set_at_any_time.get((id(self.frame.env), name), value))
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
        return frame or self.frame.parent or self.frame

    def keep(self, table: dict[Key, Value], key: Key, value: Value, holder: Obj | None = None) -> None:
        """Adds to what an attribute, an item or a global may hold, in whatever order it is set and read.

        `holder`: whose attribute or item it is.
        """
        if holder is not None and pooling.kept(self, holder, table, key, value):
            return
        known = dict.get(table, key)
        whole = value if known is None else join(known, value)
        dict.__setitem__(table, key, whole)  # it holds all that was there, and more
        reads.note_kept(table, key, whole)
        if self.interrupting:
            self.set_at_any_time[id(table), str(key)] = value
        self.stores += known is None or whole != known

    # ---- statements

    def block(self, body: Sequence[cst.CSTNode]) -> bool:
        """Runs statements in order; false when control never reaches their end."""
        for number, statement in enumerate(body):
            if self.statements >= self.most:
                self.complete = False
                return True
            self.statements += 1
            outer = self.here
            self.here = Here(outer, statement, self.frame)
            self._hooked(statement, False)
            falls_through = self.statement(statement)
            self._hooked(statement, True)
            self.here = outer
            if not falls_through:
                if isinstance(statement, cst.If):  # `if not SAVE: return`
                    self.record.leave_out(self, statement, BEHIND, body[number + 1 :])
                return False
            if isinstance(statement, cst.If):
                self.record.taken.add((statement, BEHIND))
        return True

    def _hooked(self, statement: cst.CSTNode, after: bool) -> None:
        for hook in self.hooks.get((statement, after), ()) if self.hooks else ():
            reads.uncertain()
            hook(self)

    def arm(
        self,
        node: cst.CSTNode,
        arm: str,
        body: cst.BaseSuite | Sequence[cst.CSTNode],
        outcomes: frozenset[bool | None] | set[bool | None] = frozenset(),
    ) -> bool:
        outer = self.here
        self.here = Here(outer, node, self.frame, arm, outcomes)
        result = self.block(body.body if isinstance(body, cst.BaseSuite) else body)
        self.here = outer
        return result

    def statement(self, node: cst.CSTNode) -> bool:
        handler = statements.HANDLERS.get(type(node))  # by type: asking libcst's classes one after the other is dear
        return handler(self, node) if handler is not None else True

    # ---- how its parts come to each other: none of them imports this module

    evaluate = expressions.evaluate
    assign = targets.assign
    attribute = classes.attribute
    call = calls.call
    call_object = calls.call_object
    call_reference = library.call_reference
    call_back = functions.call_back
    invoke = functions.invoke
    send = functions.send

    def literal(self, node: cst.CSTNode | None, value: object) -> Value:
        """The same value each time, where it is the same object: most expressions are what they were."""
        key = (node, self.frame.context, value, type(value))
        known = self.literals.get(key)
        if known is None:
            known = self.literals[key] = Value(self.made(Const, node, value, type(value), value=value).alone)
        return known


def _most(program: Program, trial: Trial) -> int:
    """How many statements a run may have: of one that only tells whether sharded data are right, what is left."""
    if trial == NOTHING_TRIED:
        return MOST_STATEMENTS
    return MOST_SPARINGLY if trial == SPARING or trial.shared else program.options.budget - program.statements
