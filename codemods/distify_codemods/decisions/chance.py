"""Where chance decides what a model computes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions import one_number, row_counts, streams
from distify_codemods.decisions.base import Link
from distify_codemods.directives import DRAW_ALIKE
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, dealt_by
from distify_codemods.inside import contained
from distify_codemods.interpreter import forms
from distify_codemods.libraries import drawing, python
from distify_codemods.libraries import forms as forms_of_libraries
from distify_codemods.naming import brief
from distify_codemods.objects import External
from distify_codemods.origins import CHANCE, Draw
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.results import OptionError
from distify_codemods.scale import PER_SAMPLE, Scale

_HOW_MANY = "since random numbers may say how many entries there are"
_ONE_NUMBER = "one number that is compared at once, as in `random.random() < 0.1`, is rank 0's for all"


def decided_by_chance(facts: Facts) -> Iterator[Link]:
    """Layers that are left out at random: for the whole batch in one process, for its share on each rank."""
    for module, test in _tests(facts):
        by_samples = bool(dealt_by(facts.value(test).sources))
        whole = "and by the samples of the whole batch" if by_samples else "for the whole batch at once"
        said = _said_of(module, test)
        asked = said.value if isinstance(said, (cst.Assign, cst.AnnAssign)) else said
        drawn_there = isinstance(asked, cst.Comparison) and isinstance(asked.left, cst.Call)
        goes_on = isinstance(module.parents[test], cst.For) or _asks_how_many(said)
        counts = f"{_HOW_MANY}, " if goes_on and forms.is_drawn(facts.value(test)) else ""
        perhaps = "perhaps " if counts else ""
        yield Link(
            module, test,
            f"`{brief(said)}` {perhaps}decides by chance what the model computes, {counts}{whole}: ranks would decide "
            "apart",
            "" if by_samples or drawn_there else _ONE_NUMBER,
        )  # fmt: skip
    for common in _said(facts):
        node = common.expression or common.statement
        yield Link(
            common.module, node, f"`# distify: {DRAW_ALIKE}` says that this is one draw for the whole batch",
            "without the comment, each rank would draw here for its own samples",
        )  # fmt: skip


def _said_of(module: Module, test: cst.BaseExpression) -> cst.CSTNode:
    """A test as it is to be told: of a name that is given its value in one place, that."""
    bound = module.flow(test).reaching(test) if isinstance(test, cst.Name) else []
    if len(bound) != 1 or isinstance(bound[0], cst.Param):
        return test
    given = next((one for one in module.enclosing(bound[0]) if not isinstance(one, cst.AssignTarget)), test)
    return given if isinstance(given, (cst.Assign, cst.AnnAssign)) else test


def _asks_how_many(node: cst.CSTNode) -> bool:
    """`x.shape[1] > 1`, `len(x) > 1`"""
    asked = {one.attr.value for one in tree.walk(node) if isinstance(one, cst.Attribute)}
    called = {one.func.value for one in tree.walk(node) if isinstance(one, cst.Call) and isinstance(one.func, cst.Name)}
    return not asked.isdisjoint(forms_of_libraries.SIZES) or python.LENGTH.removeprefix("builtins.") in called


def drawn_for_batches(facts: Facts) -> Iterator[Link]:
    """`batch = augment(batch)` in the loop: one draw for all samples of the batch."""
    for event in facts.of_kind(Kind.FORWARD):
        given = any(value.scale in PER_SAMPLE for value in event.arguments.all())
        if given and facts.in_training(event) and any(map(_draws_once, event.receiver.objs)):
            yield Link(
                event.module, event.node,
                f"`{brief(event.node)}` draws once for all samples of a batch: each rank would draw again for its own",
                "drawn in the data set, for each sample, it would not matter which rank does",
            )  # fmt: skip


def _draws_once(obj: Obj, around: tuple[Obj, ...] = ()) -> bool:
    if not isinstance(obj, External) or obj in around:
        return False
    parts = [part for value in obj.arguments.all() for part in contained(value)] if obj.arguments is not None else []
    return drawing.draws_once(obj.name) or any(_draws_once(part, (*around, obj)) for part in parts)


def _tests(facts: Facts) -> Iterator[tuple[Module, cst.BaseExpression]]:
    """What decides in models by random numbers."""
    functions: dict[cst.CSTNode, Module] = {}
    turns = facts.training_turns
    for event in facts.run.events:
        if event.grad and facts.in_a_model(event) and any(map(event.inside, turns)):
            functions.setdefault(event.here.frame.node, event.module)
    for function, module in functions.items():
        picked: set[cst.CSTNode] = set()  # lists that are known to be what chance left of others
        for node in tree.walk(function):
            tests = [one.test for one in node.ifs] if isinstance(node, cst.CompFor) else []
            tests += [node.test] if isinstance(node, (cst.If, cst.While, cst.IfExp)) else []
            tests = [one for one in tests if any(_is_drawn(facts, part) for part in _looked_at(facts, one))]
            if tests and isinstance(node, cst.CompFor):
                picked.add(module.parents[node])
            if isinstance(node, cst.For) and forms.counts_by_chance(facts.value(node.iter)):
                tests += [node.iter] if not any(obj.site in picked for obj in facts.value(node.iter).objs) else []
            yield from ((module, one) for one in tests)


def _is_drawn(facts: Facts, node: cst.BaseExpression) -> bool:
    return CHANCE in facts.value(node).sources


#: What is asked of a tensor without looking at its numbers; how many there are may itself be drawn.
_KIND = frozenset(
    "dim ndim device dtype is_cuda requires_grad training isinstance hasattr is_tensor is_floating_point "
    "ndimension".split()
)


def _looked_at(facts: Facts, test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The parts of a test whose numbers decide: not `noise is None`, nor `x.shape[0] > 1`."""
    if not _is_drawn(facts, test):
        return  # nothing random, or rank 0's for all
    if isinstance(test, cst.Comparison):
        if not any(isinstance(one.operator, (cst.Is, cst.IsNot)) for one in test.comparisons):
            for one in (test.left, *(each.comparator for each in test.comparisons)):
                yield from _looked_at(facts, one)
    elif isinstance(test, cst.BooleanOperation):
        yield from (*_looked_at(facts, test.left), *_looked_at(facts, test.right))
    elif isinstance(test, cst.UnaryOperation):
        yield from _looked_at(facts, test.expression)
    else:
        asked = {node.attr.value for node in tree.walk(test) if isinstance(node, cst.Attribute)}
        asked |= {
            node.func.value
            for node in tree.walk(test)
            if isinstance(node, cst.Call) and isinstance(node.func, cst.Name)
        }
        if not asked & _KIND:
            yield test


# ---- where ranks share forward passes, and draw apart inside of them


@dataclass(frozen=True)
class Common:
    """A draw for the whole batch, to be made alike on all ranks: by its statement, or by an expression above that."""

    module: Module
    statement: cst.CSTNode
    expression: cst.BaseExpression | None  # None: the whole statement


def draws_for_all(facts: Facts) -> Iterator[Common]:
    """Draws in models that decide what is computed, or that are one number for all samples."""
    tests = [test for _, test in _tests(facts)]
    deciding = {one.site for test in tests for one in facts.value(test).sources if isinstance(one, Draw)}
    branches = [facts.module_of(test).parents[test] for test in tests]
    chosen = set(streams.choices(facts))
    found: dict[cst.CSTNode, Common] = {one.statement: one for one in _said(facts)}
    for event in facts.of_kind(Kind.CALL, Kind.METHOD):
        drawn = event in chosen or streams.draws_by_itself(event)
        if not drawn or not facts.in_a_model(event) or not facts.in_training(event):
            continue
        under = any(here.node in branches and here.arm for here in event.here.up())
        one = event in chosen or one_number.is_one_number(event)
        if (one or event.node in deciding or under) and not _of_a_sample(facts, event):
            place = _place(facts, event)
            if place is not None:
                found.setdefault(place.statement, place)
    yield from found.values()


def _said(facts: Facts) -> Iterator[Common]:
    """What comments say is drawn alike: a statement, or what a compound one asks in its header. Raises OptionError."""
    for module in facts.program.modules.values():
        for directive in module.directives:
            if directive.word != DRAW_ALIKE:
                continue
            about = directive.about
            if isinstance(about, cst.SimpleStatementLine):
                yield Common(module, about, None)
            elif isinstance(about, cst.If) and not tree.is_elif(module.parents, about):
                yield Common(module, about, about.test)
            elif isinstance(about, cst.For):
                yield Common(module, about, about.iter)
            else:
                raise OptionError(
                    f"{module.path}:{directive.line}: `# distify: {DRAW_ALIKE}` is about a line that draws, an `if` or "
                    "a `for`"
                )


def _of_a_sample(facts: Facts, event: Event) -> bool:
    """Whether it is drawn for samples, or only where some of them say so."""
    tests = [here.node.test for here in event.here.up() if here.arm and isinstance(here.node, (cst.If, cst.While))]
    by_batch = any(dealt_by(facts.value(test).sources) for test in tests)
    of_samples = event.value.scale is not Scale.CONST or row_counts.has_a_row_for_each_given(facts, event)
    return by_batch or of_samples or streams.for_each_sample(facts, event)


def _place(facts: Facts, event: Event) -> Common | None:
    """What to make alike: as much around the draw as calls no module."""
    module, node = event.module, event.node
    calls = {one.node for one in facts.of_kind(Kind.FORWARD)}
    statement = module.statement(node)
    best: cst.BaseExpression | None = None
    below = False  # on the line of a compound statement's header, but not in that
    for outer in (node, *module.enclosing(node)):
        if isinstance(outer, (cst.BaseComp, cst.Lambda)) or calls.intersection(tree.walk(outer)):
            break
        below = below or isinstance(outer, cst.SimpleStatementSuite)
        if outer is statement and (below or isinstance(statement, cst.SimpleStatementLine)):
            return Common(module, statement, None)
        if isinstance(outer, cst.BaseExpression):
            best = outer
    parent = module.parents.get(statement)
    is_elif = isinstance(statement, cst.If) and isinstance(parent, cst.If)
    if best is None or below or is_elif or isinstance(statement, cst.While):
        return None
    return Common(module, statement, best)
