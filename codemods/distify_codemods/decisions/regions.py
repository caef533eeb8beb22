"""The part of a training step that needs the whole batch: from the last forward pass on, in one function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.base import Layout, path
from distify_codemods.decisions.names import bound_by
from distify_codemods.decisions.taken_apart import is_closed
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, dealt_by
from distify_codemods.interpreter.frames import Frame
from distify_codemods.objects import Mapping, Sequence
from distify_codemods.origins import Flattened, Labelled, Numbered, Regrouped, Views
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import Value

_LOOPS = (cst.For, cst.While)
_DIMENSIONS = {Scale.SAMPLES: 0, Scale.TURNED: 1}


class Impossible(Exception):
    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(eq=False)
class Region:
    module: Module
    function: cst.CSTNode  # or the module's tree
    statement: cst.CSTNode  # with the last forward pass
    units: list[cst.BaseExpression]  # in the statement: calls that return what the models made of the samples
    backward: Event
    forwards: list[Event]
    before: dict[str, Value] = field(default_factory=dict)  # names to gather before the statement
    after: dict[str, Value] = field(default_factory=dict)
    values: dict[cst.BaseExpression, Value] = field(default_factory=dict)  # expressions to gather
    numbers: list[str] = field(default_factory=list)  # names of numbers of samples
    counts: list[cst.BaseExpression] = field(default_factory=list)  # expressions that are numbers of samples
    layouts: dict[str | cst.BaseExpression, Layout] = field(default_factory=dict)


# ---- forward passes


def last_forwards(facts: Facts, backward: Event) -> list[Event]:
    """The forward passes after which no other comes before the backward pass; in exclusive branches, one of each."""
    found = forwards_before(facts, backward)
    if not found:
        raise Impossible("no forward pass of a trained model was seen that returns one entry per sample")
    return [one for one in found if not any(one.before(other) and not _exclude(one, other) for other in found)]


def forwards_before(facts: Facts, backward: Event) -> list[Event]:
    around = backward.loops()[:1]
    nodes = {event.node for event in facts.forwards}
    found = [
        event for event in facts.of_kind(Kind.FORWARD)
        if event.node in nodes and event.grad and event.before(backward)
        and all(event.inside_of(one) for one in around)
        and not nodes & set(event.here.frame.context)
        and is_per_sample(facts.value(event.node))
    ]  # fmt: skip
    earlier = [one.number for one in facts.backwards if one.before(backward) and one is not backward]
    since = [event for event in found if event.number > max(earlier, default=-1)]
    return since or found


def _exclude(one: Event, other: Event) -> bool:
    """Whether the two are in different arms of one branch."""
    arms = {(node, context): arm for node, arm, context in one.here.conditions()}
    return any(arms.get((node, context), arm) != arm for node, arm, context in other.here.conditions())


# ---- where it begins


def region_of(facts: Facts, backward: Event, last: Event, around: bool) -> Region:
    """`around`: after the branch that the forward pass is in, not inside of it."""
    forwards = [one for one in forwards_before(facts, backward) if one is last or one.before(last)]
    frames = _frames(last)
    shared = [frame for frame in frames if frame in _frames(backward)]
    frame = shared[0] if shared else frames[-1]
    while True:
        statement = path(last, frame)[-1]
        units = [_unit(one, statement) for one in forwards]
        mine = list(dict.fromkeys(one for one in units if one is not None))
        if all(is_per_sample(facts.value(one)) for one in mine):
            break
        inner = frames[frames.index(frame) - 1] if frames.index(frame) else None
        if inner is None or any(inner not in _frames(one) for one in forwards):
            raise Impossible("the models are called in more than one function")
        frame = inner
    if around:
        statement = _branch_around(frame, last, backward) or statement
        mine = []
    else:
        mine += _others(facts, frame, statement, mine)
    module = frame.module
    return Region(module, frame.node, statement, mine, backward, forwards)


def _others(
    facts: Facts, frame: Frame, statement: cst.CSTNode, units: list[cst.BaseExpression]
) -> list[cst.BaseExpression]:
    """What models that are not trained make of the samples in the statement: a teacher, which may draw, too."""
    inside = set(tree.walk(statement))
    around = {one for unit in units for one in (unit, *frame.module.enclosing(unit), *tree.walk(unit))}
    passes = [one.node for one in facts.of_kind(Kind.FORWARD) if one.here.frame is frame and one.node in inside]
    found = [one for one in passes if isinstance(one, cst.Call) and one not in around]
    found = [one for one in dict.fromkeys(found) if is_shared(facts.value(one)) and is_per_sample(facts.value(one))]
    return [one for one in found if not any(other is not one and one in tree.walk(other) for other in found)]


def _frames(event: Event) -> list[Frame]:
    return list(dict.fromkeys(here.frame for here in event.here.up()))


def _unit(forward: Event, statement: cst.CSTNode) -> cst.BaseExpression | None:
    """The forward pass as a call in the statement: itself, or what leads to it."""
    inside = set(tree.walk(statement))
    chain = [forward.node, *reversed(forward.here.frame.context)]
    return next((one for one in chain if isinstance(one, cst.BaseExpression) and one in inside), None)


def _branch_around(frame: Frame, last: Event, backward: Event) -> cst.CSTNode | None:
    own = path(backward, frame)
    branches = [one for one in path(last, frame) if isinstance(one, cst.If) and one not in own]
    return branches[0] if branches else None


# ---- what is gathered


def fill(facts: Facts, region: Region, names: dict[str, Value]) -> None:
    """Finds what of the batch is used from the statement on. `names`: what the names hold after it."""
    flow = region.module.flow(region.statement)
    in_units = {node.value for unit in region.units for node in flow.reads(unit)}
    outside = [node for node in flow.reads(region.statement) if not _within(region, node)]
    outside = [node for node in outside if not _is_made_before(region, node)]
    computes = isinstance(region.statement, cst.SimpleStatementLine) and not _hands_on(region, names)
    if computes:
        region.values.update({unit: facts.value(unit) for unit in region.units})
        for node in outside:
            _use(facts, region, node, node.value in in_units)
    known = {*region.before, *region.numbers}
    for name, value in names.items():
        if name in known or not is_shared(value) or not (nodes := _reads_after(region, name)):
            continue
        if computes and name in bound_by(region.statement):
            continue  # made from what is gathered
        if value.scale is Scale.COUNT:
            region.numbers.append(name)
        elif value.scale in PER_SAMPLE and not _is_only_counted(facts, region, nodes):
            region.after[name] = value
    _lay_out(region, _size_in_scope(region, names))


def _is_only_counted(facts: Facts, region: Region, nodes: Iterable[cst.Name]) -> bool:
    """Whether nothing but the size is read of something: the samples of all are counted then."""
    sizes = [_size_of(region.module, node) for node in nodes]
    if not all(sizes):
        return False
    region.counts += [one for one in sizes if one is not None and facts.value(one).scale is Scale.COUNT]
    return True


def _size_in_scope(region: Region, names: dict[str, Value]) -> str:
    """How many samples a rank has, by what has a row for each."""
    taken = {*region.before, *region.after}
    for name, value in names.items():
        plain = not value.objs and not _marks_of(value, Views, Regrouped, Flattened)
        if plain and name not in taken and value.scale in _DIMENSIONS and dimension_of(value) is not None:
            return f"{name}.size(1)" if value.scale is Scale.TURNED else f"len({name})"
    return ""


def _is_made_before(region: Region, node: cst.Name) -> bool:
    """Whether an earlier part of the very line gives the name its value: `z = net(x); loss = f(z)`."""
    line = region.statement
    around = set(region.module.enclosing(node))
    part = (
        next((one for one in line.body if one in around), None) if isinstance(line, cst.SimpleStatementLine) else None
    )
    return part is not None and node.value in region.module.flow(line).set_between(line, part)


def _use(facts: Facts, region: Region, node: cst.Name, also_inside: bool) -> None:
    """A name in the very statement that calls the models and computes with what they return."""
    value = facts.value(node)
    if not is_shared(value):
        return
    size = _size_of(region.module, node)
    if size is not None:
        if facts.value(size).scale is Scale.COUNT:
            region.counts.append(size)
    elif value.scale is Scale.COUNT and also_inside:
        region.counts.append(node)
    elif value.scale is Scale.COUNT:
        region.numbers.append(node.value)
    elif value.scale in PER_SAMPLE:
        if also_inside:
            region.values[node] = value
        else:
            region.before[node.value] = value


def _hands_on(region: Region, names: dict[str, Value]) -> bool:
    """Whether the statement only gives names to what it makes of each sample."""
    statement = region.statement
    assert isinstance(statement, cst.SimpleStatementLine)
    if not all(isinstance(one, (cst.Assign, cst.AnnAssign)) for one in statement.body):
        return False
    stored = bound_by(statement)
    return bool(stored) and all(
        name in names and (not is_shared(names[name]) or dimension_of(names[name]) is not None) for name in stored
    )


def _within(region: Region, node: cst.CSTNode) -> bool:
    around = [node, *region.module.enclosing(node)]
    return any(unit in around for unit in region.units)


def is_shared(value: Value) -> bool:
    return bool(dealt_by(value.sources)) or any(is_shared(part) for part in parts_of(value))


def parts_of(value: Value) -> Iterator[Value]:
    for obj in value.objs:
        if isinstance(obj, Sequence):
            yield from obj.items or ((obj.element,) if obj.element is not None else ())
        elif isinstance(obj, Mapping):
            yield obj.any()


def is_per_sample(value: Value) -> bool:
    """Whether all that is of the batch in a value has entries for each sample, along whichever dimension."""
    parts = [part for part in parts_of(value) if is_shared(part)]
    return all(map(is_per_sample, parts)) if parts else dimension_of(value) is not None


def dimension_of(value: Value) -> int | None:
    """Along which dimension a rank's samples lie, in each part of the value; None where something else is in it."""
    parts = list(parts_of(value))
    if parts:
        found = {dimension_of(part) for part in parts if is_shared(part)}
        return found.pop() if len(found) == 1 else None
    holds_a_mean = any(isinstance(one, Labelled) for one in value.sources)
    if not dealt_by(value.sources) or holds_a_mean or any(map(is_closed, value.objs)):
        return None
    return _DIMENSIONS.get(value.scale)


def _lay_out(region: Region, size: str) -> None:
    """How the samples lie in what is gathered. `size`: their number."""
    gathered: dict[str | cst.BaseExpression, Value] = {}
    gathered.update(region.before.items())
    gathered.update(region.after.items())
    gathered.update(region.values.items())
    if not gathered:
        raise Impossible("nothing of the batch is used after the forward pass")
    for key, value in gathered.items():
        region.layouts[key] = _layout(value, size)
    _tell_plain(region, gathered)
    sure = {region.layouts[key] for key, value in gathered.items() if not _is_regrouped(value)}
    calls = [region.before, region.after]  # one call checks that there are as many samples in each value
    for names in calls:
        sure_here = {region.layouts[key] for key in names if not _is_regrouped(gathered[key])}
        for key in names:
            if _is_regrouped(gathered[key]) and region.layouts[key] not in sure_here:
                raise Impossible(_REGROUPED)
    if any(_is_regrouped(value) for value in region.values.values()) or not (sure or calls):
        raise Impossible(_REGROUPED)


_REGROUPED = "rows are regrouped before the forward pass, so that their order is not known"


def _tell_plain(region: Region, gathered: dict[str | cst.BaseExpression, Value]) -> None:
    """What a model makes of a batch has a row for each sample; gathered beside another value, that is checked."""
    for names in (region.before, region.after):
        if any(region.layouts[key] == Layout() and not _is_regrouped(gathered[key]) for key in names):
            for key in names:
                if region.layouts[key].samples and not region.layouts[key].by_step:
                    region.layouts[key] = Layout()


def _layout(value: Value, size: str) -> Layout:
    dimension = dimension_of(value)
    if dimension is None:
        raise Impossible("something that is used after the forward pass is no tensor with an entry for each sample")
    marks = marks_of(value)
    if any(isinstance(mark, Numbered) for mark in marks):
        raise Impossible("numbers of samples are counted out before the forward pass")
    views = [mark for mark in marks if isinstance(mark, Views)]
    if len(views) > 1 or (views and _is_regrouped(value)):
        raise Impossible("samples are put behind each other in a way whose order is not known")
    flattened = [mark for mark in marks if isinstance(mark, Flattened)] if dimension == 0 else []
    by_step = {mark.by_step for mark in flattened}
    if len(by_step) > 1 or (flattened and (views or not size)):
        raise Impossible(_REGROUPED)
    if flattened:
        return Layout(samples=size, by_step=by_step.pop())
    return Layout(dimension, views[0].count or _call(views[0])) if views else Layout(dimension)


def _is_regrouped(value: Value) -> bool:
    return _marks_of(value, Regrouped)


def _marks_of(value: Value, *kinds: type[Obj]) -> bool:
    return any(isinstance(mark, kinds) for mark in marks_of(value))


def marks_of(value: Value) -> set[object]:
    found: set[object] = set(value.sources)
    for part in parts_of(value):
        found |= marks_of(part)
    return found


def _call(view: Views) -> cst.Call:
    assert isinstance(view.site, cst.Call)
    return view.site


# ---- text


def _reads_after(region: Region, name: str) -> list[cst.Name]:
    """Where a name is read after the statement, in the same turn of the innermost loop or the same call."""
    module = region.module
    around = module.enclosing(region.statement)
    scope = next(one for one in around if isinstance(one, (*_LOOPS, cst.FunctionDef, cst.Module)))
    inside = set(tree.walk(scope.body)) if not isinstance(scope, cst.Module) else set(tree.walk(scope))
    turn = scope if isinstance(scope, _LOOPS) else None
    return [one for one in module.flow(region.statement).reads_after(region.statement, name, turn) if one in inside]


def _size_of(module: Module, node: cst.Name) -> cst.BaseExpression | None:
    """`len(x)`, `x.size(0)`, `x.shape[0]`: all that is read of the name is its size."""
    parent = module.parents[node]
    if isinstance(parent, cst.Arg):
        call = module.parents[parent]
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "len":
            return call
    if isinstance(parent, cst.Attribute) and parent.value is node:
        around = module.parents[parent]
        if parent.attr.value == "size" and isinstance(around, cst.Call) and around.args:
            return around
        if parent.attr.value == "shape" and isinstance(around, cst.Subscript):
            return around
        if parent.attr.value in ("device", "dtype"):
            return parent
    return None
