"""Where the batch size is more than an argument of a loader: it shapes tensors in the training loop."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import arguments, tree
from distify_codemods.allocation import Const, Obj
from distify_codemods.decisions.base import Blocked, Decisions, Division, Link, LoaderDecision, Sharding
from distify_codemods.decisions.marks import as_it_stands
from distify_codemods.events import Event, Kind
from distify_codemods.facts import dealt_by
from distify_codemods.libraries import drawing, python, torch_data, torch_tensors
from distify_codemods.naming import brief
from distify_codemods.objects import External, Sequence, Setting
from distify_codemods.program import Module
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import Value, join

_SHAPING = frozenset(["view", "reshape", "expand", "repeat", "new", "new_zeros", "new_ones", "new_full", "new_empty"])


def decide_divisions(decisions: Decisions) -> None:
    for decision in decisions.loaders:
        if decision.sharding is not Sharding.TRAINING:
            continue
        if not decision.batch_sizes:
            continue
        value = join(*decision.batch_sizes)
        objs: set[Obj] = {obj for obj in value.objs if isinstance(obj, (Const, Setting, External))}
        used = sized_by(decisions, objs)
        if used is None:
            continue
        division = _division(decisions, value, used) if _is_alone(decision) else None
        elsewhere = _other_use(decisions, division) if division is not None else None
        if division is not None and elsewhere is not None:
            module, node = elsewhere
            decisions.blocked.append(
                Blocked(
                    "BATCH01",
                    module,
                    node,
                    f"the batch size is reckoned with here and also shapes a tensor (line {division.used}): one "
                    f"means the "
                    "global batch, the other a rank's share",
                    "shape tensors by the batch itself, e.g. inputs.size(0)",
                )
            )
            continue
        if division is None:
            decisions.blocked.append(
                Blocked(
                    "BATCH01",
                    used.module,
                    used.node,
                    "the batch size shapes a tensor here, and is not defined in one place where it could be divided",
                    "use the size of the batch itself, e.g. inputs.size(0)",
                )
            )
        elif division not in decisions.divisions:
            decisions.divisions += (division,)


def links(decisions: Decisions) -> Iterator[Link]:
    """What takes or makes as many of something else in a step as a batch has samples: `range(size)`, `choices(pool,
    k=size)`. It would stay as it is."""
    if decisions.divisions or decisions.facts.program.options.per_rank_batch:
        return
    values = [size for one in decisions.loaders if one.sharding is Sharding.TRAINING for size in one.batch_sizes]
    sizes: set[Obj] = {obj for value in values for obj in value.objs if isinstance(obj, (Const, Setting))}
    for event in decisions.facts.of_kind(Kind.CALL, Kind.METHOD) if sizes else ():
        given = event.arguments.all()
        counts = event.name in drawing.OF_NUMBERS or (event.name == python.RANGE and len(given) == 1)
        if counts and decisions.facts.in_training(event) and any(sizes & value.objs for value in given):
            yield Link(
                event.module, event.node,
                f"`{brief(event.node)}` counts as many as the whole batch has samples, on each rank",
                "`len(x)` of the batch itself counts a rank's own",
            )  # fmt: skip


def sized_by(decisions: Decisions, sizes: set[Obj]) -> Event | None:
    """Where in training a tensor has one of these sizes."""
    return next((event for event in _shaping(decisions) if _depends(event, sizes)), None) or _met(decisions, sizes)


def _is_alone(decision: LoaderDecision) -> bool:
    """Whether dividing where the size is defined would change no other loader's batches, and none twice."""
    named = "batch_size" in arguments.bound(decision.node, torch_data.PARAMETERS)
    starred = any(arg.star == "**" for arg in decision.node.args)
    return named and not starred and not decision.told_when_it_runs and not decision.when


def _other_use(decisions: Decisions, division: Division) -> tuple[Module, cst.CSTNode] | None:
    """Arithmetic with the batch size, in anything but what is shown or shapes a tensor."""
    for module in decisions.facts.run.frames:
        for node in decisions.facts.run.values:
            if not isinstance(node, cst.BinaryOperation) or node not in module.parents:
                continue
            operands = (decisions.facts.value(node.left), decisions.facts.value(node.right))
            if any(division.obj in value.objs for value in operands) and not _harmless(module, node):
                return module, node
            if division.obj in operands[1].objs | operands[1].sources and _is_of_figures(decisions, node):
                return module, node
    return None


def _is_of_figures(decisions: Decisions, node: cst.BinaryOperation) -> bool:
    """`correct / batch_size`, also where it is shown: what is added up over the ranks is of the whole batch."""
    divides = isinstance(node.operator, (cst.Divide, cst.FloorDivide))
    return divides and bool(dealt_by(as_it_stands(decisions.facts).value(node.left).sources))


def _harmless(module: Module, node: cst.CSTNode) -> bool:
    for holder in module.enclosing(node):
        if isinstance(holder, cst.Call):
            name = tree.dotted(holder.func) or tree.code_of(holder.func)
            last = name.rsplit(".", 1)[-1]
            return last in ("print", "format", *_SHAPING) or last in torch_tensors.OF_SIZES
        if isinstance(holder, (cst.FormattedStringExpression, cst.BaseStatement)):
            return isinstance(holder, cst.FormattedStringExpression)
    return False


def _shaping(decisions: Decisions) -> list[Event]:
    return [
        event for event in decisions.facts.of_kind(Kind.CALL, Kind.METHOD)
        if (torch_tensors.makes_by_sizes(event.name) or (event.kind is Kind.METHOD and event.name in _SHAPING))
        and decisions.facts.in_training(event)
    ]  # fmt: skip


def _met(decisions: Decisions, objs: set[Obj]) -> Event | None:
    """Where the batch meets a tensor of that size that was made before the loop: noise, a hidden state."""
    facts = decisions.facts
    for event in facts.of_kind(Kind.FORWARD, Kind.CALL, Kind.METHOD):
        given = event.arguments.all()
        for value in list(given):
            for obj in value.objs:
                if isinstance(obj, Sequence) and obj.items is not None:
                    given += obj.items
        given += [facts.value(node) for argument in _operands(event) for node in argument]
        batch = any(value.scale in PER_SAMPLE and dealt_by(value.sources) for value in given)
        sized = any(value.scale is Scale.CONST and objs & value.sources for value in given)
        if ((batch and sized) or _is_drawn_anew(event, objs)) and facts.in_training(event):
            return event
    return None


def _is_drawn_anew(event: Event, objs: set[Obj]) -> bool:
    """`noise.normal_()`, of a tensor that was made with as many rows as a batch has."""
    drawn = event.kind is Kind.METHOD and event.name in drawing.METHODS and event.name.endswith("_")
    return drawn and event.receiver.scale is Scale.CONST and bool(objs & event.receiver.sources)


def _operands(event: Event) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The sides of `x + noise` among the arguments of a call."""
    arguments = event.node.args if isinstance(event.node, cst.Call) else ()
    return [(arg.value.left, arg.value.right) for arg in arguments if isinstance(arg.value, cst.BinaryOperation)]


def _depends(event: Event, objs: set[Obj]) -> bool:
    given = [*event.arguments.positional, *event.arguments.keywords.values()]
    for value in list(given):
        for obj in value.objs:
            if isinstance(obj, Sequence):
                given += obj.items or ()
    return any(objs & (value.objs | value.sources) for value in given)


_DISPLAYS = (cst.Element, cst.Tuple, cst.List, cst.DictElement, cst.Dict)


def _is_named(module: Module, site: cst.CSTNode) -> bool:
    """`batch_size = 8`, `batch_size, epochs = 8, 2`, `config = {"batch_size": 8}`: a literal that is written once."""
    around: cst.CSTNode | None = site
    while around is site or isinstance(around, _DISPLAYS):
        around = module.parents.get(around)
    return isinstance(around, (cst.Assign, cst.AnnAssign))


def _division(decisions: Decisions, value: Value, used: Event) -> Division | None:
    obj = value.single()
    line = used.module.place(used.node).line
    if isinstance(obj, Const) and obj.site is not None and obj.module is not None and _is_named(obj.module, obj.site):
        return Division(obj.module, obj.site, "", obj, line)
    if isinstance(obj, Setting):
        parsed = [event for event in decisions.facts.of_kind(Kind.ARGUMENTS_PARSED) if event.node is obj.site]
        for event in parsed:
            parent = event.module.parents.get(event.node)
            if isinstance(parent, cst.Assign) and tree.dotted(parent.targets[0].target):
                name = f"{tree.dotted(parent.targets[0].target)}.{obj.name}"
                return Division(event.module, event.module.statement(event.node), name, obj, line)
    return None
