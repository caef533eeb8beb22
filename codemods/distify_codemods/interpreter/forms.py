"""What the form of a thing depends on: how many entries a tensor or a list has, not what they are.

Numbers drawn at random have a form of their own, which is not drawn: a batch of random crops is as long as the script
says. So a value with the source "random" has a second one, `BY_CHANCE`, where the random numbers may also say how many
there are: a slice up to one of them, what a mask of them picks out, a list that grows in turns they decide upon. What
is not known to leave the form alone, has it. A crop may be shorter at the end of the data (`CUT_OFF`); crops that are
stacked are not. A list has the sources of its items: of one that the script writes down or fills item by item, it is
told apart whether it has drawn forms in it, or a drawn number of items.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.libraries import forms as known
from distify_codemods.libraries.python import NUMBERS
from distify_codemods.objects import Arguments, External, Passing, Sequence
from distify_codemods.ordered import Ordered
from distify_codemods.origins import (
    BY_CHANCE,
    CHANCE,
    COMPUTED,
    CUT_OFF,
    OUTCOME,
    SEVERAL,
    Cut,
    Draw,
    Dropped,
    Outlived,
    Paired,
    Placed,
    Pooled,
    Share,
    Single,
)
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_BY_NUMBERS = frozenset({CHANCE, BY_CHANCE, CUT_OFF, OUTCOME})
#: What is said of the entries, and not of how many there are.
_OF_ENTRIES = (Dropped, Share, Cut, Pooled, Outlived, Single, Placed, Paired)
_OF_FORM = frozenset({BY_CHANCE, CUT_OFF})
#: Lists of which all is seen that says how many items they have.
_WRITTEN_DOWN = (cst.List, cst.Tuple, cst.ListComp, cst.GeneratorExp)
#: What calling a module calls.
_CALLED = frozenset({"forward", "__call__"})
#: Among the sources of a value: it comes out of a module that is trained.
OUTPUT = "output"


def sources_of(value: Value) -> Ordered[Obj | str]:
    """What the form depends on, but for the number of samples. It is the same on all ranks."""
    drawn = counts_by_chance(value)
    return Ordered(
        one for one in value.sources
        if not isinstance(one, _OF_ENTRIES) and one not in (OUTPUT, COMPUTED, SEVERAL)
        and (drawn or not (one in _BY_NUMBERS or isinstance(one, Draw)))
    )  # fmt: skip


def counting(value: Value) -> Ordered[Obj | str]:
    """What the number of its samples depends on: a share has fewer of them than its batch."""
    return sources_of(value) | [one for one in value.sources if isinstance(one, Share)]


def of_related(value: Value) -> Value:
    """The size of what has no entry for each sample; where it relates samples, they may say it: `one_hot(labels)`."""
    by_samples = value.scale is Scale.COUPLED
    return Value(scale=Scale.UNKNOWN if by_samples else Scale.CONST, sources=sources_of(value))


def emptied(value: Value) -> Ordered[Obj | str]:
    """What is left of its sources where other numbers are put into it: it has a row for each of the same samples."""
    return sources_of(value) | [one for one in value.sources if isinstance(one, (Share, Cut))]


def beside_the_count(shape: Value) -> Ordered[Obj | str]:
    """What the other numbers of a shape depend on, which a share has in common with its batch."""
    return Ordered(one for one in shape.sources if not isinstance(one, Share))


def is_drawn(value: Value) -> bool:
    """Whether random numbers say how many entries it has."""
    return not value.sources.isdisjoint(_OF_FORM)


def counts_by_chance(value: Value) -> bool:
    """Whether random numbers say how many there are to go through; of a list, whatever its items are."""
    only = value.single()
    if not is_drawn(value) or value.open:
        return is_drawn(value)
    if isinstance(only, Passing) and only.over is not None and not only.partial:
        return counts_by_chance(only.over)
    return only.drawn if isinstance(only, Sequence) and isinstance(only.site, _WRITTEN_DOWN) else True


def of_its_kind(value: Value) -> Ordered[Obj | str]:
    """What says of which kind it is, and how many dimensions it has: not its numbers, nor how many they are."""
    return Ordered(one for one in value.sources if one not in _BY_NUMBERS and not isinstance(one, Draw))


def settled(machine: Machine, value: Value) -> Value:
    """What a module is made with, once it is made: to be drawn was an event, and all ranks drew the same."""
    if not _is_making(machine):
        return value
    return value.with_sources(of_its_kind(value))


def _is_making(machine: Machine) -> bool:
    """Whether this is in the `__init__` of an object that no forward pass and no turn of a loop around it makes."""
    making = False
    for here in machine.here.up():
        name = here.frame.node.name.value if isinstance(here.frame.node, cst.FunctionDef) else ""
        making = making or name == "__init__"
        if name in _CALLED or (not making and here.arm and isinstance(here.node, (cst.For, cst.While))):
            return False
    return making


def _is_random(value: Value) -> bool:
    return CHANCE in value.sources


def by_chance(value: Value) -> Value:
    """The same, with a form that was drawn, too."""
    drawn = _is_random(value) and BY_CHANCE not in value.sources
    return value.adding([BY_CHANCE]) if drawn else value


def of(value: Value, *drawn: Value) -> Value:
    """The same, with a form that is one of these random numbers."""
    found = Ordered(one for each in drawn for one in each.sources if one == CHANCE or isinstance(one, Draw))
    return by_chance(value.adding(found)) if found else value


def decided(sources: Ordered[Obj | str]) -> Ordered[Obj | str]:
    """What is done under a test depends on these, and so does the form of what is made there."""
    return sources | [BY_CHANCE] if CHANCE in sources else sources


def of_places(test: Value) -> list[Obj | str]:
    """What a test says of the places of samples in their batch: `if i % 2: continue`"""
    return [one for one in test.sources if isinstance(one, (Placed, Paired))]


def compared(value: Value) -> Value:
    """The outcome of a comparison: what it picks out of something else is as long as chance says."""
    return value.adding([OUTCOME]) if _is_random(value) else value


def called(name: str, arguments: Arguments, value: Value, receiver: Value | None = None) -> Value:
    """What a function, or a method of `receiver`, gave. `name`: the full one, or that of the method."""
    if not _is_random(value):
        return value
    last = name.rsplit(".", 1)[-1].rstrip("_")
    if receiver is not None and last in known.OF_A_KIND:
        return value.with_sources(of_its_kind(value))
    if last in known.OF_EQUAL_LENGTH and any(isinstance(obj, Sequence) for obj in arguments.first.objs):
        value = value.with_sources(value.sources - {CUT_OFF})
    if last in known.TRUTHS or _as_truths(arguments):
        value = compared(value)
    return value if _keeps_form(name, last, arguments, receiver) else by_chance(value)


def applied(module: External, value: Value) -> Value:
    """What a module of a library made of what it was given."""
    return value if module.name.startswith(known.MODULES) else by_chance(value)


def _keeps_form(name: str, last: str, arguments: Arguments, receiver: Value | None) -> bool:
    if name in known.OF_NUMBERS or name.startswith("math."):
        return True
    if name in known.OF_SAID_LENGTH:
        return _draws_so_many_numbers(arguments)
    owners = [name] if receiver is None else [obj.name for obj in receiver.objs if isinstance(obj, External)]
    foreign = not all(one.startswith(known.LIBRARIES) for one in owners)
    if foreign or last in known.BY_VALUES or (last == "where" and len(arguments.all()) < 2):
        return False
    if last in known.ALIKE_IN_FORM:
        return True
    makes = receiver is None and (name.startswith(known.DRAWING) or last in known.BY_SIZES)
    makes = makes or last.endswith("Tensor")
    given = arguments.all()
    return not any(_is_random(one) for one in (given if makes or receiver is not None else given[1:]))


def _draws_so_many_numbers(arguments: Arguments) -> bool:
    """`random.sample(range(10), 3)`: of things that are no numbers, each may have a form of its own."""
    over, sizes = arguments.first, (*arguments.positional[1:], *arguments.keywords.values())
    numbers = bool(over.objs) and all(isinstance(one, External) and one.name in NUMBERS for one in over.objs)
    return numbers and not over.open and not is_drawn(over) and not any(map(_is_random, sizes))


def _as_truths(arguments: Arguments) -> bool:
    """`noise.to(torch.bool)`"""
    names = (obj.name for value in arguments.all() for obj in value.objs if isinstance(obj, Ref))
    return any(name in known.TRUE_OR_FALSE for name in names)


# ---- parts


def part(machine: Machine, node: cst.Subscript, keys: list[Value], value: Value) -> Value:
    """`data[i : i + length]` is as long as said, but at the end; `data[:i]` is not, nor is what a mask picks out."""
    for element, key in zip(node.slice, keys, strict=True):
        if not _is_random(key):
            continue
        moved = isinstance(element.slice, cst.Slice) and _is_moved(machine, element.slice)
        counted = isinstance(element.slice, cst.Index) and not key.sources & {OUTCOME, BY_CHANCE} and not key.mask
        if moved:
            value = value.adding([CUT_OFF])
        elif not counted:
            value = of(value, key)
            _has_a_drawn_number(machine, value)
    return value


def _is_moved(machine: Machine, cut: cst.Slice) -> bool:
    """Whether a slice begins somewhere by chance, and ends a given number of entries behind that."""
    if cut.lower is None or cut.upper is None:
        return False
    upper, lower = _said(machine, cut.upper), cut.lower
    if not isinstance(upper, cst.BinaryOperation) or not isinstance(upper.operator, cst.Add):
        return False
    steps = [cut.step] if cut.step is not None else []
    for start, length in ((upper.left, upper.right), (upper.right, upper.left)):
        if start.deep_equals(lower):
            return not any(_is_random(machine.values.get(one, NOTHING)) for one in (length, *steps))
    return False


def _said(machine: Machine, node: cst.BaseExpression) -> cst.BaseExpression:
    """What a name was given, where there is one place for that."""
    if not isinstance(node, cst.Name):
        return node
    given = _given(machine.frame.node).get(node.value, [])
    only = given[0] if len(given) == 1 else None
    return only.value if isinstance(only, cst.Assign) and len(only.targets) == 1 else node


@lru_cache(maxsize=4096)
def _given(scope: cst.CSTNode) -> dict[str, list[cst.CSTNode]]:
    """What gives each name a value."""
    found: dict[str, list[cst.CSTNode]] = {}
    for one in tree.walk(scope):
        if isinstance(one, (cst.Assign, cst.AugAssign, cst.AnnAssign, cst.NamedExpr)):
            targets = [each.target for each in one.targets] if isinstance(one, cst.Assign) else [one.target]
            named = {name.value: None for each in targets for name in tree.walk(each) if isinstance(name, cst.Name)}
            for name in named:
                found.setdefault(name, []).append(one)
    return found


# ---- lists


def added(machine: Machine, value: Value) -> Value:
    """What is put into a list, in turns of which chance may say how many there are."""
    drawn = _is_random(value) and any(_turns_by_chance(machine, here.node) for here in machine.here.loops)
    return by_chance(value) if drawn else value


def resized(machine: Machine, lists: Value, by: Value = NOTHING) -> None:
    """Items are put into lists or taken out here. `by`: what there are as many of."""
    function = machine.frame.node
    ends = leaving(function) if isinstance(function, cst.FunctionDef) else ()
    tests = (machine.values.get(test, NOTHING) for test in ends)
    by_chance = CHANCE in machine.control or any(map(_is_random, tests)) or counts_by_chance(by)
    if by_chance or any(_turns_by_chance(machine, here.node) for here in machine.here.loops):
        _has_a_drawn_number(machine, lists)


def _has_a_drawn_number(machine: Machine, value: Value) -> None:
    for obj in value.objs:
        if isinstance(obj, Sequence) and not obj.drawn:
            obj.drawn = True
            machine.stores += 1


def _is_a_drawn_number(value: Value) -> bool:
    return BY_CHANCE in value.sources and counts_by_chance(value)


def _turns_by_chance(machine: Machine, loop: cst.CSTNode) -> bool:
    if isinstance(loop, cst.For) and _is_a_drawn_number(machine.values.get(loop.iter, NOTHING)):
        return True
    if isinstance(loop, cst.While) and _is_random(machine.values.get(loop.test, NOTHING)):
        return True
    return any(_is_random(machine.values.get(test, NOTHING)) for test in leaving(loop))


@lru_cache(maxsize=4096)
def leaving(loop: cst.CSTNode) -> tuple[cst.BaseExpression, ...]:
    """The tests upon which a turn, a loop or a function ends early."""
    tests = (one for one in tree.walk(loop) if isinstance(one, cst.If))
    ends = (cst.Break, cst.Continue, cst.Return)
    return tuple(one.test for one in tests if any(isinstance(inner, ends) for inner in tree.walk(one)))


def comprehended(machine: Machine, node: cst.CompFor, value: Value) -> Value:
    """A list that is as long as what it goes over, but where tests leave some out."""
    tests = [machine.values.get(one.test, NOTHING) for one in node.ifs]
    over = machine.values.get(node.iter, NOTHING)
    why = [one for one in tests if _is_random(one)] + ([over] if _is_a_drawn_number(over) else [])
    inner = node.inner_for_in
    if why:
        _has_a_drawn_number(machine, value)
    value = comprehended(machine, inner, value) if inner is not None else value
    return of(value, *why)
