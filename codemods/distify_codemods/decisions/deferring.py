"""Figures that training keeps in meters and lists, and that the ranks put together only where they are looked at.

A rank adds up what it has of its share, and the mean of what the ranks have added up is what one process has: as long
as nothing but sums, products with what is alike on all ranks, and means come of it. So the ranks need not meet for each
figure, but once before a statement that looks at it, for all figures there; and once after the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.base import Averaging, Deferral, Putting
from distify_codemods.decisions.log_records import log_records
from distify_codemods.decisions.looking import Looking
from distify_codemods.decisions.places import Place, Places, places_of
from distify_codemods.decisions.put_into import put_into
from distify_codemods.decisions.sinks import Kind as Sinks
from distify_codemods.decisions.sinks import sinks
from distify_codemods.events import Event, Kind
from distify_codemods.facts import BatchLoop, Facts
from distify_codemods.libraries import meters
from distify_codemods.objects import Class, External, Instance, Mapping
from distify_codemods.objects import Sequence as Items
from distify_codemods.origins import Verdict
from distify_codemods.records import dataclass
from distify_codemods.scale import Scale
from distify_codemods.values import Value

CODE = "METRIC01"
#: What is a sum over the ranks' samples once it is multiplied by their number, and then averaged.
_LINEAR = frozenset({Scale.MEAN, Scale.SUM, Scale.COUNT})
#: What a method of a meter may do with a figure and leave it what it says of the batch, which its value tells.
_PLAIN_METHODS = frozenset("append appendleft extend item detach cpu clone float double to tolist size".split())
_DISPLAYS = (cst.List, cst.Tuple, cst.Dict)
_FUNCTIONS = (cst.FunctionDef, cst.Lambda)
_SET = (Sinks.STORED, Sinks.COUNTED)

#: The facts of the program with all figures put together but some.
Without = Callable[[Collection[cst.CSTNode]], Facts]


def deferrals(facts: Facts, averages: Sequence[Averaging], without: Without) -> list[Deferral]:
    """`facts`: with all of these figures put together where they are handed over."""
    found: list[Deferral] = []
    for loop in {loop.node: loop for loop in facts.training_loops}.values():
        held = [
            one for one in _held(facts, loop, averages) if _is_plain(facts, loop, one) and not _shows(facts, loop, one)
        ]  # fmt: skip
        if held and _may_wait(facts, loop):
            before = without({one.node for each in held for one in each.averages})
            deferral = _Loop(before, facts, loop, held).deferral()
            if deferral is not None:
                found.append(replace(deferral, alike=_alike(facts, deferral, averages, without)))
    return found


def _alike(facts: Facts, deferral: Deferral, averages: Sequence[Averaging], without: Without) -> tuple[Averaging, ...]:
    """Figures that need not be put together, being made of what is at that place."""
    module = deferral.loop.module
    looked = [
        one for one in averages
        if one.code == CODE and one.module is module and one not in deferral.averages
        and any(node in deferral.before for node in (module.statement(one.node), *module.enclosing(one.node)))
    ]  # fmt: skip
    if not looked:
        return ()
    trial = without({one.node for one in looked})
    return tuple(one for one in looked if not trial.shares_of_training(trial.value(one.node)))


@dataclass(eq=False)
class _Held:
    """What figures are handed over to in a loop: the expression, and the statements that hand over."""

    name: cst.BaseExpression
    statements: list[cst.CSTNode] = field(default_factory=list)
    averages: list[Averaging] = field(default_factory=list)

    @property
    def calls(self) -> list[cst.CSTNode]:
        """Where what it is does something with the figures, by a method or where an attribute of it is set."""
        smalls = [one.body[0] for one in self.statements if isinstance(one, cst.SimpleStatementLine)]
        return [one.target if isinstance(one, cst.AugAssign) else one.value for one in smalls
                if isinstance(one, (cst.AugAssign, cst.Expr))]  # fmt: skip

    @property
    def text(self) -> str:
        return tree.code_of(self.name)


def _held(facts: Facts, loop: BatchLoop, averages: Sequence[Averaging]) -> list[_Held]:
    found: dict[str, _Held] = {}
    loops = {one.node for one in facts.training_loops}
    for one in sorted(averages, key=lambda one: one.module.place(one.node).line):
        around = one.module.enclosing(one.node)
        if one.code != CODE or one.module is not loop.module or loop.node not in around:
            continue
        statement = one.module.statement(one.node)
        inner = next(node for node in around if node in loops or isinstance(node, _FUNCTIONS))
        name = _holder(statement)
        if inner is loop.node and name is not None and one.node not in tree.walk(name):
            held = found.setdefault(tree.code_of(name), _Held(name))
            held.averages.append(one)
            if statement not in held.statements:
                held.statements.append(statement)
    return list(found.values())


def _holder(statement: cst.CSTNode) -> cst.BaseExpression | None:
    """`meter` of `meter.update(...)`, `meter.sum += ...` and `meter["sum"] += ...`, in a line of its own."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    small, found = statement.body[0], None
    if (
        isinstance(small, cst.Expr)
        and isinstance(small.value, cst.Call)
        and isinstance(small.value.func, cst.Attribute)
    ):
        found = small.value.func.value
    elif isinstance(small, cst.AugAssign) and isinstance(small.operator, cst.AddAssign):
        found = small.target.value if isinstance(small.target, (cst.Attribute, cst.Subscript)) else None
    return found if found is not None and tree.dotted(found) else None


def _is_plain(facts: Facts, loop: BatchLoop, held: _Held) -> bool:
    """Whether all ranks come to each statement, and all that it hands over is put together, as means and sums."""
    places = places_of(facts)
    value = facts.value(held.name)
    root = next(node for node in tree.walk(held.name) if isinstance(node, cst.Name)).value
    if root in {name for node in tree.walk(loop.node) for name in tree.bound_names(node)}:
        return False
    for one in held.averages:
        statement = one.module.statement(one.node)
        if not _is_handed_over(one, statement):
            return False
        rules_it_out = one.how is Putting.GATHERED or one.parts or places.evaluates(one.node)
        if rules_it_out or places.of(one.module, statement) is not Place.INSIDE:
            return False
    known = (
        bool(value.objs) and not value.open and all(isinstance(obj, (Instance, Items, Mapping)) for obj in value.objs)
    )
    return known and not _is_kept_in_a_class(facts, value)


def _is_kept_in_a_class(facts: Facts, value: Value) -> bool:
    """`Meter.values.append(...)`, `cls.total += ...`: what all meters of a class have in common, none of them holds."""
    classes = [one for obj in value.objs if isinstance(obj, Instance) and obj.of for one in obj.of.ancestors()]
    held = {obj for one in classes for attribute in one.attributes.values() for obj in attribute.objs}
    if not held.isdisjoint(put_into(facts)):
        return True
    targets = (one for sink in sinks(facts) if sink.kind in _SET for one in tree.assigned(sink.node))
    holders = (one.value for one in targets if isinstance(one, (cst.Attribute, cst.Subscript)))
    return any(not facts.value(one).objs.isdisjoint(classes) for one in holders)


def _shows(facts: Facts, loop: BatchLoop, held: _Held) -> bool:
    """Whether anything is printed or logged while it is handed a figure: that would be each rank's own."""
    logged = [event for sink in sinks(facts) if sink.kind is Sinks.LOGGED for event in facts.run.at(sink.node)]
    shown = [*logged, *facts.of_kind(Kind.PRINT), *log_records(facts)]
    statements = set(held.statements)
    return any(here.node in statements for event in shown if event.inside(loop.event) for here in event.here.up())


def _is_handed_over(one: Averaging, statement: cst.CSTNode) -> bool:
    """Whether a figure is handed over as it is, or in a list or dictionary that is written down there."""
    for node in one.module.enclosing(one.node):
        if isinstance(node, (cst.AugAssign, cst.Expr)):
            return True
        call = isinstance(node, cst.Call) and isinstance(one.module.parents[node], cst.Expr)
        if not call and not isinstance(node, (cst.Arg, cst.BaseElement, cst.BaseDictElement, *_DISPLAYS)):
            return False
    return False


def _may_wait(facts: Facts, loop: BatchLoop) -> bool:
    """Whether whoever begins the loop comes to its end, or looks at nothing on the way out."""
    module, function = loop.module, loop.module.function(loop.node)
    inside = [node for node in tree.walk(function) if module.function(node) is function or node is function]
    if any(isinstance(node, (cst.Yield, cst.Await)) for node in inside) or isinstance(loop.node.orelse, cst.Else):
        return False
    tried = any(isinstance(here.node, (cst.Try, cst.TryStar)) for here in loop.event.here.up())
    return not tried and module.skipped(loop.node) is None and loop.node not in places_of(facts).evaluation_loops


@dataclass(eq=False)
class _Loop:
    """`facts`: with the figures of the loop as each rank has them. `after`: with them put together."""

    facts: Facts
    after: Facts
    loop: BatchLoop
    held: list[_Held]

    @cached_property
    def looking(self) -> Looking:
        objects = {one.text: frozenset(self._inside(self.facts, one) or ()) for one in self.held}
        return Looking(self.facts, self.loop, objects)

    def deferral(self) -> Deferral | None:
        held = {one.text: one for one in self.held}
        while held:
            names = [one for one in held if self._is_linear(held[one])]
            statements = {node: held[name].text for name in names for node in held[name].statements}
            found = self.looking.places(names, statements)
            wrong = (held.keys() - set(names)) | found.always | self._not_reached_by_all(found.before)
            if not wrong:
                averages = tuple(one for each in held.values() for one in each.averages)
                after = tuple(name for name in held if self.looking.is_looked_at_later(name))
                return Deferral(self.loop, averages, tuple(held), found.before, after)
            for name in wrong:
                del held[name]
        return None

    def _not_reached_by_all(self, before: dict[cst.CSTNode, list[str]]) -> set[str]:
        """What would be put together where one rank may come and another not."""
        lonely = (node for node in before if self._places.of(self.loop.module, node) is not Place.INSIDE)
        return {name for node in lonely for name in before[node]}

    @cached_property
    def _places(self) -> Places:
        return Places(self.after, early=True)

    def _is_linear(self, held: _Held) -> bool:
        """Whether what comes of the figures, and what is done with them on the way, is sums and means."""
        inside, together = self._inside(self.facts, held), self._inside(self.after, held)
        if inside is None or together is None or self.looking.is_known_elsewhere(held.text):
            return False
        if any(self.after.shares_of_training(value) for value in _kept(self.after, together)):
            return False
        if not all(map(self._is_mean, _kept(self.facts, inside))):
            return False
        below = [event for event in self.facts.run.events if self._is_below(event, held)]
        functions = {event.here.frame.node for event in below}
        return all(self._is_quiet(event, inside) for event in below) and not any(
            self._is_told_apart(node) for one in functions for node in tree.walk(one)
        )

    def _is_mean(self, value: Value) -> bool:
        if not self.facts.shares_of_training(value):
            return True
        return value.scale in _LINEAR and not value.mask and not any(isinstance(obj, Verdict) for obj in value.objs)

    def _is_told_apart(self, node: cst.CSTNode) -> bool:
        """Texts, verdicts and whole parts of figures, of which no mean is made."""
        cut = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Modulo, cst.FloorDivide))
        if not cut and not isinstance(node, (cst.FormattedString, cst.Comparison)):
            return False
        return bool(self.facts.shares_of_training(self.facts.value(node)))

    def _inside(self, facts: Facts, held: _Held) -> set[Obj] | None:
        """The objects in which it keeps its numbers; None where it holds others, too."""
        found: set[Obj] = set()
        left = list(facts.value(held.name).objs)
        while left:
            obj = left.pop()
            if obj in found:
                continue
            of_a_class = isinstance(obj, Instance) and obj.base is None and _is_plain_class(obj.of)
            known = isinstance(obj, External) and obj.name in meters.CONTAINERS
            if of_a_class or known or _is_a_container(facts, obj):
                found.add(obj)
                left += [inner for value in _parts(obj) for inner in value.objs]
            elif isinstance(obj, (External, Instance, Items, Mapping)):
                return None
        return found

    def _is_below(self, event: Event, held: _Held) -> bool:
        """Whether it happens in a method that figures are handed over to."""
        return any(node in held.calls for node in event.here.frame.context)

    def _is_quiet(self, event: Event, inside: Collection[Obj]) -> bool:
        given = [event.value, *event.arguments.all()]
        if event.kind is Kind.STORE:
            return any(obj in inside for obj in event.receiver.objs)
        if event.kind is Kind.ATTRIBUTE or not any(map(self.facts.shares_of_training, (*given, event.receiver))):
            return event.kind is not Kind.PRINT
        if event.kind is Kind.METHOD:
            return event.name in _PLAIN_METHODS
        return event.kind is Kind.CALL and event.name in meters.CALLS


def _is_a_container(facts: Facts, obj: Obj) -> bool:
    """A list, dictionary or tuple that the script writes down: nothing that has no places, as sets have none."""
    if isinstance(obj.site, cst.Call):
        made = {str(getattr(one, "name", "")) for one in facts.value(obj.site.func).objs}
        return bool(made) and made <= meters.CONTAINERS
    return isinstance(obj, (Items, Mapping)) and isinstance(obj.site, (*_DISPLAYS, cst.ListComp, cst.DictComp))


def _kept(facts: Facts, inside: Collection[Obj]) -> Iterator[Value]:
    """What objects hold, and all that is put there."""
    for obj in inside:
        yield from _parts(obj)
    for event in facts.of_kind(Kind.STORE):
        if any(obj in inside for obj in event.receiver.objs):
            yield event.value


def _is_plain_class(cls: Class | None) -> bool:
    return cls is not None and set(cls.libraries) <= meters.BASES


def _parts(obj: Obj) -> Iterator[Value]:
    yield from obj.attributes.values()
    if isinstance(obj, Items):
        yield from obj.parts()
    elif isinstance(obj, Mapping):
        yield from (*obj.items.values(), *([obj.rest] if obj.rest is not None else []))
