"""What a rule is, and what it works with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import field
from functools import cached_property

import libcst as cst

from distify_codemods import claims, file_events, own_tests, refusals, tree
from distify_codemods.backends import RUNTIME, Backend
from distify_codemods.decisions import Blocked, Decisions, concurrent, own_figures
from distify_codemods.decisions.own_figures import OwnFigures
from distify_codemods.events import Event, Here, Kind
from distify_codemods.facts import Facts
from distify_codemods.file_names import Names, into_a_handle
from distify_codemods.interpreter.frames import CALLED, Frame
from distify_codemods.opened import written_in_place
from distify_codemods.origins import Origin
from distify_codemods.plan import By, Plan, Rewrite
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.results import Finding, Level, Options, Place, Strategy
from distify_codemods.rules.barriers import Barrier
from distify_codemods.rules.either import Either
from distify_codemods.rules.examples import Example
from distify_codemods.twins import Others, twin_path

READINGS = "READ01"
#: The rules of what a process has to do with files and with the world outside.
OUTSIDE = frozenset("DATA03 SAVE01 LOAD01 OUT03 OUT04 OUT05 PATH01 NET01 MEET01".split())
_STATEMENTS = (cst.SimpleStatementLine, cst.BaseCompoundStatement)
ENGINE = "hvd"  # what everybody calls Horovod
MAIN_FIRST = "with {rt}.main_process_first():"


@dataclass(frozen=True)
class Rule:
    code: str
    name: str
    why: str  # what goes wrong without it
    safety: str  # when it is applied, and when it is not
    run: Callable[[Context], None]
    examples: tuple[Example, ...] = ()
    limits: str = ""
    pitfalls: tuple[int, ...] = ()
    shared: str = ""  # why it is not needed where forward passes alone are shared; empty: it is asked there, too


@dataclass(eq=False)
class Context:
    """What a rule sees (facts, decisions) and where it writes (plans, findings). Rules do not see each other."""

    decisions: Decisions
    backend: Backend
    plans: dict[Module, Plan]
    options: Options
    findings: list[Finding] = field(default_factory=list)
    aliases: dict[tuple[Module, str], str] = field(default_factory=dict)
    taken: dict[Module, set[str]] = field(default_factory=dict)
    rule: Rule | None = None
    left_alone: list[tuple[Module, cst.CSTNode, str]] = field(default_factory=list)  # would need a person else
    barriers: list[Barrier] = field(default_factory=list)  # where files are waited for
    read_in_passes: dict[Event, frozenset[Event]] = field(default_factory=dict)  # by `workers.written_for`
    as_before: dict[Origin, bool] = field(default_factory=dict)  # what `disk.is_as_before` has found out
    met_in: set[cst.CSTNode] | None = None  # by `turns`
    blocked_at: list[tuple[Module, cst.CSTNode]] = field(default_factory=list)  # by rules of `OUTSIDE`
    in_the_way: tuple[Finding, ...] = ()  # what sharded data would need a person for
    against: tuple[Finding, ...] = ()  # what speaks against the sharded data that are asked for

    def anew(self, decisions: Decisions) -> Context:
        """The same question, of which nothing is written yet, with other facts."""
        return Context(
            decisions, self.backend, {}, self.options, in_the_way=self.in_the_way, against=self.against,
        )  # fmt: skip

    @property
    def shares_forwards(self) -> bool:
        """Whether ranks share forward passes alone, and all else of the script runs on each of them as it stands."""
        return self.decisions.strategy is Strategy.SHARED

    @property
    def facts(self) -> Facts:
        return self.decisions.facts

    @property
    def entry(self) -> Module:
        return self.facts.program.entry

    @property
    def output(self) -> str:
        """Where the converted script goes, if it does not stay where it is."""
        return self.options.output or twin_path(self.entry.path)

    def plan(self, module: Module) -> Plan:
        if module not in self.plans:
            self.plans[module] = Plan(module)
        return self.plans[module]

    # ---- findings

    def applied(self, message: str, module: Module | None = None, node: cst.CSTNode | None = None) -> None:
        self._find(Level.APPLIED, message, module, node)

    def not_needed(self, message: str) -> None:
        self._find(Level.NOT_NEEDED, message, None, None)

    def not_needed_if_known(self, message: str) -> None:
        """Of what any call may do: with the first that is not known, if there is one."""
        self.not_needed(f"{message}{self.unless}")

    @cached_property
    def unless(self) -> str:
        """What to add to a claim about all calls: the first that is not known, if there is one."""
        return claims.unless(self.facts)

    def advice(self, message: str, module: Module | None = None, node: cst.CSTNode | None = None) -> None:
        self._find(Level.ADVICE, message, module, node)

    def advice_at(self, message: str, place: Place | None) -> None:
        assert self.rule is not None
        self.findings.append(Finding(Level.ADVICE, self.rule.code, self.rule.name, message, place))

    def needs_you(self, message: str, module: Module, node: cst.CSTNode, fix: str = "") -> None:
        self._find(Level.BLOCKING, message, module, node, fix)

    def tell_blocked(self) -> None:
        """What decisions leave to a person for the sake of this rule."""
        for one in self.decisions.blocked:
            if one.code == self.code:
                self.blocked(one)

    def blocked(self, one: Blocked) -> None:
        self.needs_you(one.message, one.module, one.node, one.fix)

    def _find(self, level: Level, message: str, module: Module | None, node: cst.CSTNode | None, fix: str = "") -> None:
        assert self.rule is not None
        place = module.place(node) if module is not None and node is not None else None
        if level is Level.BLOCKING and node in self.facts.run.unused:
            level, fix = Level.ADVICE, ""
            message = f"where a constant of the script does not let it come: {message}"
        if module is not None and node is not None and self._is_left_alone(level, module, node, message):
            return
        if level is Level.BLOCKING and self.code in OUTSIDE and module is not None and node is not None:
            self.blocked_at.append((module, node))
        finding = Finding(level, self.rule.code, self.rule.name, message, place, fix)
        if finding not in self.findings:
            self.findings.append(finding)

    def _is_left_alone(self, level: Level, module: Module, node: cst.CSTNode, message: str) -> bool:
        """Whether a comment of the user's takes the finding back; the rule of readings tells what was not done."""
        statement = module.skipped(node)
        if statement is None or self.code == READINGS:
            return False
        if level is Level.BLOCKING:
            self.left_alone.append((module, statement, message))
            return True
        noted = self.plan(module).left_alone.get(statement, ())
        return level is Level.APPLIED and any(change.code == self.code for change in noted)

    def editable(self, module: Module, node: cst.CSTNode, what: str) -> bool:
        """Whether the edit falls into a file as its author wrote it; says so where it does not."""
        if not refusals.was_converted(module):
            return True
        self.needs_you(
            f"{what}, in a file that was converted for another script",
            module, node, "convert both scripts from the files as they were",
        )  # fmt: skip
        return False

    @cached_property
    def others(self) -> Others:
        return Others(self.facts.program)

    @cached_property
    def named_writers(self) -> list[Event]:
        return file_events.named_writers(self.facts)

    @property
    def own_figures(self) -> OwnFigures:
        """Of training whose batches are shared out: which figures stay one rank's."""
        return own_figures.of(self.decisions)

    def writes(self, event: Event) -> bool:
        """Whether a file is written, by a table or by its own word."""
        return event.number in self.writing

    @cached_property
    def writing(self) -> dict[int, Event]:
        """The events that write files, by their numbers."""
        found = self.facts.run.events
        written = {
            *self.named_writers, *file_events.fetched_by_connections(self.facts), *written_in_place(self.facts),
        }  # fmt: skip
        return {one.number: one for one in found if file_events.writes(one) or one in written}

    @cached_property
    def files_written(self) -> list[Event]:
        """Those of them by which there is another file, or another content, than before."""
        return [event for event in self.writing.values() if not into_a_handle(event)]

    @cached_property
    def names(self) -> Names:
        return Names(self.facts)

    @cached_property
    def either(self) -> Either:
        return Either(self.facts)

    # ---- names of what is imported

    def rt(self, module: Module) -> str:
        return self.imported(module, "rt", f"import {RUNTIME} as {{name}}", 0)

    def engine(self, module: Module) -> str:
        statement = self.backend.engine
        return self.imported(module, ENGINE, statement, 1) if statement else ""

    def wrapper(self, module: Module) -> str:
        return self.imported(module, "DistributedDataParallel", self.backend.imports_for_wrap, 2)

    def sampler(self, module: Module) -> str:
        return self.imported(module, "DistributedSampler", self.backend.imports_for_sampler, 3)

    def shadow_print(self, module: Module, above: cst.CSTNode | None) -> None:
        self.plan(module).add_import(f"from {RUNTIME} import rank_zero_print as print", 1, above)

    def imported(self, module: Module, wanted: str, statement: str, order: int) -> str:
        key = (module, wanted)
        own = None if key in self.aliases else _own_name(module, statement)
        if own is not None:
            self.aliases[key] = own
        elif key not in self.aliases:
            name = self.fresh(module, wanted)
            text = statement.format(name=name)
            if name != wanted and "{name}" not in statement:
                text = f"{statement} as {name}"
            self.plan(module).add_import(text, order)
            self.aliases[key] = name
        return self.aliases[key]

    def fresh(self, module: Module, wanted: str) -> str:
        """A name that the file does not use yet."""
        if module not in self.taken:
            attributes = {id(node.attr) for node in module.nodes if isinstance(node, cst.Attribute)}
            self.taken[module] = {
                node.value for node in module.nodes if isinstance(node, cst.Name) and id(node) not in attributes
            }
        taken = self.taken[module]
        name, number = wanted, 2
        while name in taken:
            name, number = f"{wanted}_{number}", number + 1
        taken.add(name)
        return name

    # ---- edits that several rules spell

    def put_into(self, module: Module, node: cst.BaseExpression, call: str, reason: str) -> None:
        """An expression is given to a function of the runtime: `call` is "name({})", with what else that is given."""
        self.plan(module).replace(node, call_of(f"{self.rt(module)}.{call}"), self.code, reason)

    def runs_beside(self, module: Module, node: cst.CSTNode) -> Event | None:
        """What starts the function that a node is in beside the script, where no rank can meet another."""
        around = (node, *module.enclosing(node))
        function = next((one for one in around if isinstance(one, (cst.FunctionDef, cst.Lambda))), None)
        return concurrent.beside(self.facts).get(function) if function is not None else None

    def _can_hear(self, module: Module, node: cst.CSTNode) -> bool:
        """Whether all ranks can hear of rank 0 there; else says who is to see to it."""
        start = self.runs_beside(module, node)
        if start is not None:
            self.needs_you(
                f"all ranks are to have here what rank 0 has, and cannot meet in what `{start.name}` runs beside the "
                f"script (line {start.module.place(start.node).line})",
                module, node, "do it before that is started, and hand over what came of it",
            )  # fmt: skip
        return start is None

    def tell(self, module: Module, node: cst.BaseExpression, reason: str) -> bool:
        """All ranks take what rank 0 has there. Gives whether they can."""
        if not self._can_hear(module, node):
            return False
        self.plan(module).tell(node, call_of(f"{self.rt(module)}.from_main_process({{}})"), self.code, reason)
        return True

    def call_for_all(self, module: Module, node: cst.Call, reason: str) -> bool:
        """Rank 0 alone makes a call, and all ranks hear what came of it. Gives whether they can."""
        if not self._can_hear(module, node):
            return False
        rewrite = given_to(f"{self.rt(module)}.call_on_main_process")
        self.plan(module).tell(node, rewrite, self.code, reason, By.CALL)
        return True

    def call_alone(self, module: Module, node: cst.Call, reason: str, share: str = "") -> None:
        """Rank 0 alone makes a call; the others have something in its place. `share`: what all are to hear of it."""
        rewrite = call_of(f"{self.rt(module)}.main_process_only({{}}{share})")
        self.plan(module).hand_over(node.func, rewrite, self.code, reason)

    def text(self, module: Module, code: str) -> cst.BaseExpression:
        return cst.parse_expression(code, module.tree.config_for_parsing)

    def is_on_main(self, module: Module, node: cst.CSTNode) -> bool:
        """Whether rank 0 alone will come here, where no rank may wait for another."""
        guarded = any(map(self.plan(module).comes_alone, (node, *module.enclosing(node))))
        return guarded or own_tests.lets_one_come(self.facts, module, node)

    def comes_on_main(self, event: Event) -> bool:
        """Whether an event happens where rank 0 alone comes, also in a function that it alone calls."""
        around = ((here.frame.module, here.node) for here in event.here.up() if not here.arm)
        return self.is_on_main(event.module, event.node) or any(self.is_on_main(*place) for place in around)

    def takes_turns(self, event: Event) -> bool:
        """Whether ranks come here one after the other, rank 0 first: they must not wait for each other in there."""
        around = ((self.plan(here.frame.module).guards.get(here.node)) for here in event.here.up() if not here.arm)
        return any(guard is not None and guard.header.startswith("with ") for guard in around)

    def above_file_tests(
        self, event: Event, below: Collection[cst.CSTNode], above: Callable[[cst.CSTNode], bool] = lambda _: False,
        start: tuple[Module, cst.CSTNode] | None = None, leaves: Callable[[Here], bool] = lambda _: False,
    ) -> tuple[Module, cst.CSTNode]:  # fmt: skip
        """The event's statement, with its file; under a test of what files there are, the test as well.

        Another rank may look after rank 0 is done: a collective must not hang on what it finds.
        `below`: what the place must not come above, whatever it hangs on: with what ranks are to have done before
        they meet. `above`: which other statements around it the place is to be above. `start`: a statement around it
        that the place is to be above in any case. `leaves`: which calls it is to be above as well.
        """
        place: tuple[Module, cst.CSTNode] | None = None
        left = False  # whether not every rank gets as far as the function that the place is in
        for here in event.here.up():
            node = here.node
            if start is not None and place is None:
                place = start if node is start[1] and not here.arm else None
                continue
            if place is not None and node in below:
                break
            if here.arm == CALLED and place is not None:
                left = self._may_have_left_further_out(event, here, below) or leaves(here)
                if not left:
                    break
            if here.arm:
                continue
            whole = isinstance(node, (cst.BaseSmallStatement, *_STATEMENTS)) and (left or place is None)
            if whole or (place is not None and (above(node) or self.asks_the_disk(node))):
                place, left = (here.frame.module, node), False
        return place or start or (event.module, event.module.statement(event.node))

    def _may_have_left_further_out(self, event: Event, call: Here, below: Collection[cst.CSTNode]) -> bool:
        """Whether the called function may have been left by then, or one that calls it, and the place can be above."""
        for here in call.up():
            if here.node in below and here is not call:
                return False
            if here.arm == CALLED and self.may_have_left(event, here.frame):
                return True
        return False

    def may_have_left(self, event: Event, frame: Frame, counts: Callable[[cst.CSTNode], bool] = lambda _: True) -> bool:
        """Whether the function may return before an event because of what files there are, by a branch that counts."""
        return any(
            one.here.frame is frame
            and one.before(event)
            and any(
                self.asks_the_disk(here.node) and counts(here.node) for here in one.here.up() if here.frame is frame
            )
            for one in self.facts.of_kind(Kind.LEAVE)
        )

    def asks_the_disk(self, node: cst.CSTNode) -> bool:
        """Whether it is a branch on what files there are."""
        return isinstance(node, cst.If) and "file" in self.facts.value(node.test).sources

    @property
    def code(self) -> str:
        """Of the rule that is under way."""
        assert self.rule is not None
        return self.rule.code


def ways_to(events: Iterable[Event]) -> set[cst.CSTNode]:
    """The statements that events happen in, up through the calls."""
    return {here.node for one in events for here in one.here.up()}


def _own_name(module: Module, statement: str) -> str | None:
    """What the file calls the thing already that `from source import thing` would bring, or `import library as …`."""
    if "{name}" in statement:
        return _own_name_of_library(module, statement.split()[1])
    wanted = tree.code_of(cst.parse_statement(statement))
    lines = [line for line in module.tree.body if isinstance(line, cst.SimpleStatementLine)]
    for one in (one for line in lines for one in line.body):
        if isinstance(one, cst.ImportFrom) and not isinstance(one.names, cst.ImportStar):
            for alias in one.names:
                thing = one.with_changes(names=[cst.ImportAlias(alias.name)])
                if f"{tree.code_of(thing)}\n" == wanted:
                    own = alias.asname.name if alias.asname else alias.name
                    return own.value if isinstance(own, cst.Name) else None
    return None


def _own_name_of_library(module: Module, library: str) -> str | None:
    lines = [line for line in module.tree.body if isinstance(line, cst.SimpleStatementLine)]
    for one in (one for line in lines for one in line.body):
        for alias in one.names if isinstance(one, cst.Import) else ():
            own = alias.asname.name if alias.asname else alias.name
            if tree.code_of(alias.name) == library and isinstance(own, cst.Name):
                return own.value
    return None


_HOLE = "_distify_"
_NO_ARGUMENTS = (cst.Tuple, cst.NamedExpr, cst.Yield)  # would be several, or a keyword
_LAST = (cst.NamedExpr, cst.Lambda, cst.IfExp)  # what binds least
#: What needs brackets as a part of what.
_IN_BRACKETS: dict[type[cst.CSTNode] | None, tuple[type[cst.BaseExpression], ...]] = {
    cst.IfExp: _LAST,
    cst.BooleanOperation: _LAST,
    cst.BinaryOperation: (*_LAST, cst.BooleanOperation, cst.Comparison, cst.UnaryOperation, cst.BinaryOperation),
}


def call_of(pattern: str) -> Rewrite:
    """A rewrite that puts the present expression into a call, "f({})", or another expression."""

    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        call = cst.parse_expression(pattern.format(_HOLE))
        hole = next(node for node in tree.walk(call) if isinstance(node, cst.Name) and node.value == _HOLE)
        around = next((type(node) for node in tree.walk(call) if hole in tree.children(node)), None)
        if isinstance(updated, _IN_BRACKETS.get(around, _NO_ARGUMENTS)) and not updated.lpar:
            updated = tree.bracketed(updated)
        result = call.deep_replace(hole, updated)
        assert isinstance(result, cst.BaseExpression)
        return result

    return rewrite


#: Beside these a product needs no brackets.
_LOOSER = (cst.Add, cst.Subtract, cst.Multiply)


def times(module: Module, node: cst.CSTNode, factor: str) -> Rewrite:
    """A rewrite of an expression that multiplies it, where it stands in another one."""
    around = module.parents.get(node)
    tight = isinstance(around, cst.BinaryOperation) and not isinstance(around.operator, _LOOSER)
    tight = tight or isinstance(around, (cst.Attribute, cst.Subscript, cst.Call, cst.UnaryOperation))
    return call_of(f"({{}} * {factor})" if tight else f"{{}} * {factor}")


def instead(new: cst.BaseExpression) -> Rewrite:
    """A rewrite that puts another expression in the place of the present one."""
    return lambda _: new


def given_to(name: str) -> Rewrite:
    """`f(a)` becomes `name(f, a)`."""

    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        assert isinstance(updated, cst.Call)
        return _with_first(updated, name, updated.func)

    return rewrite


def path_given_to(name: str) -> Rewrite:
    """`path.open(mode)` becomes `name(path, mode)`."""

    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        assert isinstance(updated, cst.Call)
        assert isinstance(updated.func, cst.Attribute)
        return _with_first(updated, name, updated.func.value.with_changes(lpar=(), rpar=()))

    return rewrite


def _with_first(call: cst.Call, name: str, argument: cst.BaseExpression) -> cst.Call:
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")) if call.args else cst.MaybeSentinel.DEFAULT
    return call.with_changes(func=cst.parse_expression(name), args=[cst.Arg(argument, comma=comma), *call.args])


def attribute_of(name: str) -> Rewrite:
    """`x` becomes `x.name`, in brackets where that needs them."""

    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        simple = isinstance(updated, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or updated.lpar
        if not simple:
            updated = tree.bracketed(updated)
        return cst.Attribute(updated, cst.Name(name))

    return rewrite


def outside_with(module: Module, statement: cst.CSTNode) -> cst.CSTNode:
    """A loop that is the last statement under `with torch.no_grad():` is followed by what comes after that."""
    block = module.block(statement)
    holder = module.parents.get(block)
    while isinstance(holder, cst.With) and block.body[-1] is statement:
        statement = holder
        block = module.block(statement)
        holder = module.parents.get(block)
    return statement
