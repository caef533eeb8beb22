"""Evaluation loops: sharded where every value that leaves them is understood, else replicated. Never in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import Gathering, Reduction
from distify_codemods.events import Event, Kind
from distify_codemods.facts import BatchLoop, Facts, loaders_in, loaders_of
from distify_codemods.interpreter.library import IMPURE, PURE
from distify_codemods.values import PER_SAMPLE, Bound, Const, External, Function, Scale, Value, core


@dataclass(frozen=True)
class Refusal:
    """Why an evaluation loop cannot be sharded in some way."""

    why: str


def sums(facts: Facts, loop: BatchLoop) -> Reduction | Refusal:
    """Each sample on one rank, and the loop's sums all-reduced after it."""
    common = _never(facts, loop)
    if common:
        return Refusal(common)
    effect = next(_effects(facts, loop), None)
    if effect is not None:
        place = effect.module.place(effect.node)
        return Refusal(f"line {place.line} uses running figures while the loop is under way")
    if _length_is_used(facts, loop):
        return Refusal("the number of batches is used")
    accumulators: list[str] = []
    for statement in _flat(loop.node.body):
        problem = _of_statement(facts, loop, statement, accumulators)
        if problem:
            return Refusal(problem)
    if not accumulators:
        return Refusal("no sum leaves the loop")
    scope = _scope(loop)
    for name in accumulators:
        if not _starts_at_zero(facts, loop, name):
            return Refusal(f"`{name}` is not seen to start at zero")
        if _reads(loop.node.body, name) > _updates(loop.node.body, name):
            return Refusal(f"`{name}` is read inside the loop")
    index = _index_name(loop)
    if index and _reads(loop.node.body, index):
        return Refusal("the number of the batch is used")
    left = _read_after(loop, scope, _bound_in(loop) - set(accumulators))
    if left:
        return Refusal(f"`{left}`, of the last batch, is used after the loop")
    return Reduction(loop, tuple(accumulators))


def training_sums(facts: Facts, loop: BatchLoop) -> Reduction | None:
    """Sums over samples that a training loop counts from zero, and that are used after it."""
    updates: dict[str, list[Scale]] = {}
    for statement in _flat(loop.node.body):
        for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            update = _update(small)
            if update is not None:
                updates.setdefault(update[0], []).append(facts.value(update[1]).scale)
    scope = _scope(loop)
    names = [
        name
        for name, scales in updates.items()
        if set(scales) <= {Scale.SUM, Scale.COUNT}
        and _assignments(loop, name) == len(scales)
        and _starts_at_zero(facts, loop, name)
        and _read_after(loop, scope, {name})
    ]
    return Reduction(loop, tuple(names)) if names else None


def _assignments(loop: BatchLoop, name: str) -> int:
    """How many statements of the loop bind a name, in whatever depth."""
    return sum(
        isinstance(node, (cst.AssignTarget, cst.AugAssign, cst.For, cst.AnnAssign))
        and name in tree.target_names(node.target)
        for node in tree.walk(loop.node.body)
    )


def gathers(facts: Facts, loop: BatchLoop) -> Gathering | Refusal:
    """Each batch split over the ranks, what the model returns gathered; the rest of the loop stays as it is."""
    common = _never(facts, loop)
    if common:
        return Refusal(common)
    if len(loop.loaders) != 1:
        return Refusal("it loops over several loaders")
    loader = loader_expression(facts, loop)
    if loader is None:
        return Refusal("the loader has no name here")
    statements = list(_flat(loop.node.body))
    forwards = [number for number, one in enumerate(statements) if _has_forward(loop, one)]
    inside = {event.node for event in loop.forwards}
    direct = [number for number in forwards if isinstance(statements[number], cst.SimpleStatementLine)]
    if not direct or direct != forwards or not inside:
        return Refusal("its forward pass is not a statement of the loop itself")
    last = forwards[-1]
    before = statements[: last + 1]
    for event in _effects(facts, loop):
        if any(_contains(statement, event, loop) for statement in before):
            return Refusal(f"line {event.module.place(event.node).line} already uses the batch before the forward pass")
    names = _needed(facts, loop, before)
    if isinstance(names, Refusal):
        return names
    return Gathering(loop, statements[last], tuple(names), loader)


# ---- what both need


def _never(facts: Facts, loop: BatchLoop) -> str:
    """Why the loop must see all samples on every rank, whatever it computes."""
    models = {core(obj) for event in loop.forwards for obj in event.receiver.objs}
    modes = [
        event for event in facts.of_kind(Kind.METHOD)
        if event.name in ("train", "eval") and event.number < loop.event.number
        and any(core(obj) in models for obj in event.receiver.objs)
    ]  # fmt: skip
    for model in models:
        last = next(
            (event for event in reversed(modes) if any(core(obj) is model for obj in event.receiver.objs)), None
        )
        if last is None or last.name != "eval" or not last.dominates(loop.event):
            return "its model is not seen to be in eval mode"
        if last.arguments.positional or last.arguments.keywords:
            return "its model's mode is computed"
    if any(
        event.kind is Kind.METHOD and event.name == "train" and event.inside(loop.event) for event in facts.run.events
    ):
        return "its model changes to train mode inside"
    for event in facts.of_kind(Kind.TEST):
        if event.value.sources & {"random", "time"} and event.inside(loop.event) and _steers(facts, loop, event):
            return "what it does depends on chance or time"
    return ""


def _steers(facts: Facts, loop: BatchLoop, test: Event) -> bool:
    """Whether a branch decides what the loop itself does, and not merely what is shown."""
    if test.here.frame is loop.event.here.frame:
        return True
    return any(here.node is test.node and here.arm for event in loop.forwards for here in event.here.up())


def _effects(facts: Facts, loop: BatchLoop) -> Iterator[Event]:
    """What the loop does beside computing with names: printing, storing, appending, leaving, unknown calls."""
    models = set(facts.models)
    calls = {event.node for event in loop.forwards}
    for event in facts.run.events:
        if not event.inside(loop.event):
            continue
        if event.kind in (Kind.CALL, Kind.METHOD) and calls & set(event.here.frame.context):
            continue  # the model's own arithmetic
        if event.kind is Kind.CALL:
            known = event.name.startswith((*PURE, "local.")) and event.name not in IMPURE
            if not known and not _makes_no_difference(event):
                yield event
        elif event.kind is Kind.METHOD:
            own = [obj for obj in event.receiver.objs if not isinstance(obj, Const)]
            if own and not any(core(obj) in models for obj in own) and not _computes(event):
                yield event
        elif (
            event.kind in (Kind.PRINT, Kind.STORE)
            or (event.kind is Kind.TEST and loaders_of(event.value.sources))
            or (
                event.kind is Kind.LEAVE
                and (event.here.frame is loop.event.here.frame or event.name in ("exit", "raise"))
            )
        ):
            yield event


def _makes_no_difference(event: Event) -> bool:
    return event.name.startswith(("tqdm.", "contextlib.")) or event.name.endswith((".no_grad", ".autocast"))


def _computes(event: Event) -> bool:
    """Methods that return something new and change nothing."""
    return event.name in _COMPUTING or all(isinstance(obj, (Bound, Function)) for obj in event.receiver.objs)


_COMPUTING = frozenset(
    [
        "to",
        "cuda",
        "cpu",
        "float",
        "double",
        "half",
        "item",
        "numpy",
        "size",
        "dim",
        "tolist",
        "format",
        "join",
        "keys",
        "values",
        "items",
        "get",
        "copy",
    ]
)


def _length_is_used(facts: Facts, loop: BatchLoop) -> bool:
    return any(
        set(loaders_in(value)) & set(loop.loaders)
        for event in facts.calls("builtins.len")
        for value in event.arguments.all()[:1]
    )


def _flat(body: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    """The statements of a loop's body, those under `with` among them."""
    for statement in body.body:
        if isinstance(statement, cst.With):
            yield from _flat(statement.body)
        elif isinstance(statement, cst.BaseSmallStatement):
            yield cst.SimpleStatementLine([statement])
        else:
            yield statement


def _contains(statement: cst.CSTNode, event: Event, loop: BatchLoop) -> bool:
    return any(here.node is statement and here.frame is loop.event.here.frame for here in event.here.up())


def _has_forward(loop: BatchLoop, statement: cst.CSTNode) -> bool:
    return any(_contains(statement, event, loop) for event in loop.forwards)


def _of_statement(facts: Facts, loop: BatchLoop, statement: cst.CSTNode, accumulators: list[str]) -> str:
    """Adds the sums that a statement updates; returns why it is not understood."""
    if not isinstance(statement, cst.SimpleStatementLine):
        for inner in tree.walk(statement):
            if isinstance(inner, (cst.AugAssign, cst.For, cst.While)):
                return f"line {loop.module.place(statement).line} counts under a condition or in a loop of its own"
        return ""
    for small in statement.body:
        update = _update(small)
        if update is None:
            if isinstance(small, cst.AugAssign):
                return f"line {loop.module.place(small).line} is no plain sum"
            continue
        name, added = update
        value = facts.value(added)
        if value.scale not in (Scale.SUM, Scale.COUNT):
            what = value.scale.value if value.scale is not Scale.UNKNOWN else "a value that cannot be followed"
            return f"`{name}` adds up {what} (line {loop.module.place(small).line})"
        if name not in accumulators:
            accumulators.append(name)
    return ""


def _update(small: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
    """`name += added` or `name = name + added`."""
    if (
        isinstance(small, cst.AugAssign)
        and isinstance(small.operator, cst.AddAssign)
        and isinstance(small.target, cst.Name)
    ):
        return small.target.value, small.value
    if isinstance(small, cst.Assign) and len(small.targets) == 1 and isinstance(small.targets[0].target, cst.Name):
        name, value = small.targets[0].target.value, small.value
        if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
            for own, added in ((value.left, value.right), (value.right, value.left)):
                if isinstance(own, cst.Name) and own.value == name:
                    return name, added
    return None


# ---- names


def _reads(body: cst.CSTNode, name: str) -> int:
    """How often a name is read: also as the operand of its own update."""
    written = sum(
        isinstance(node, cst.AssignTarget) and name in tree.target_names(node.target) for node in tree.walk(body)
    )
    attributes = sum(isinstance(node, cst.Attribute) and node.attr.value == name for node in tree.walk(body))
    keywords = sum(
        isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == name
        for node in tree.walk(body)
    )
    return (
        sum(isinstance(node, cst.Name) and node.value == name for node in tree.walk(body))
        - written
        - attributes
        - keywords
    )


def _updates(body: cst.CSTNode, name: str) -> int:
    return sum((_update(node) or ("",))[0] == name for node in tree.walk(body))


def _index_name(loop: BatchLoop) -> str:
    """`i` of `for i, batch in enumerate(loader)`."""
    call = loop.node.iter
    numbered = isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "enumerate"
    target = loop.node.target
    if numbered and isinstance(target, (cst.Tuple, cst.List)) and isinstance(target.elements[0].value, cst.Name):
        return target.elements[0].value.value
    return ""


def _bound_in(loop: BatchLoop) -> set[str]:
    return set(tree.target_names(loop.node.target)) | _bound_by(loop.node.body)


def _bound_by(node: cst.CSTNode) -> set[str]:
    names: set[str] = set()
    for inner in tree.walk(node):
        if isinstance(inner, (cst.AssignTarget, cst.AugAssign, cst.For, cst.AnnAssign, cst.NamedExpr)):
            names.update(tree.target_names(inner.target))
        elif isinstance(inner, cst.AsName):
            names.update(tree.target_names(inner.name))
    return names


def _scope(loop: BatchLoop) -> cst.CSTNode:
    for node in loop.module.enclosing(loop.node):
        if isinstance(node, (cst.FunctionDef, cst.Module)):
            return node
    return loop.module.tree


def _read_after(loop: BatchLoop, scope: cst.CSTNode, names: set[str]) -> str:
    """A name whose first occurrence after the loop is a read; in an outer loop, the next turn comes after too."""
    body = set(tree.walk(loop.node))
    order = [node for node in tree.walk(scope) if isinstance(node, cst.Name) and node.value in names]
    positions = loop.module.positions
    end = positions[loop.node].end
    stores = {
        name for node in tree.walk(scope)
        if isinstance(node, (cst.AssignTarget, cst.For, cst.AsName, cst.CompFor))
        for name in _target_nodes(node)
    }  # fmt: skip
    first: dict[str, cst.Name] = {}
    for node in order:
        place = positions[node].start
        if node not in body and (place.line, place.column) > (end.line, end.column):
            first.setdefault(node.value, node)
    parents = loop.module.parents
    for name, node in first.items():
        parent = parents[node]
        if isinstance(parent, cst.Attribute) and parent.attr is node:
            continue
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            continue
        if node not in stores:
            return name
    return ""


def _target_nodes(node: cst.CSTNode) -> Iterator[cst.Name]:
    target = node.name if isinstance(node, cst.AsName) else node.target  # type: ignore[attr-defined]
    for inner in tree.walk(target):
        if isinstance(inner, cst.Name):
            yield inner


def _starts_at_zero(facts: Facts, loop: BatchLoop, name: str) -> bool:
    """The last assignment above the loop, on the way to it, is a zero."""
    statement: cst.CSTNode = loop.node
    while True:
        block = loop.module.block(statement)
        siblings = list(block.body)
        for earlier in reversed(siblings[: siblings.index(statement)]):
            if name in _bound_by(earlier):
                return isinstance(earlier, cst.SimpleStatementLine) and _is_zero(facts, earlier, name)
        holder = loop.module.parents.get(block)
        if not isinstance(holder, cst.With):
            return False
        statement = holder


def _is_zero(facts: Facts, line: cst.SimpleStatementLine, name: str) -> bool:
    for small in reversed(line.body):
        if isinstance(small, cst.Assign):
            for target in small.targets:
                value = _assigned(target.target, small.value, name)
                if value is not None:
                    return facts.value(value).is_zero or _zeros(facts, value)
    return False


def _assigned(target: cst.BaseExpression, value: cst.BaseExpression, name: str) -> cst.BaseExpression | None:
    if isinstance(target, cst.Name):
        return value if target.value == name else None
    if isinstance(target, (cst.Tuple, cst.List)) and isinstance(value, (cst.Tuple, cst.List)):
        for one, other in zip(target.elements, value.elements, strict=False):
            found = _assigned(one.value, other.value, name)
            if found is not None:
                return found
    return None


def _zeros(facts: Facts, value: cst.BaseExpression) -> bool:
    return any(event.node is value for event in facts.calls("torch.zeros", "numpy.zeros"))


# ---- gathering


def loader_expression(facts: Facts, loop: BatchLoop) -> str | None:
    """The expression of the loader inside `enumerate(tqdm(loader))`, or a name that holds it."""
    loaders = set(loop.loaders)
    node: cst.BaseExpression = loop.node.iter
    while isinstance(node, cst.Call) and node.args:
        node = node.args[0].value
    if tree.is_plain(node) and set(facts.value(node).objs) & loaders:
        return tree.code_of(node)
    env = loop.event.here.frame.env
    return next((name for name, value in env.items() if value.objs and set(value.objs) <= loaders), None)


def _needed(facts: Facts, loop: BatchLoop, before: Sequence[cst.CSTNode]) -> list[str] | Refusal:
    """The per-sample names made up to the forward pass that are used after it."""
    made: dict[str, Value] = {}
    for target in [loop.node.target, *(_targets(before))]:
        for inner in tree.walk(target):
            if isinstance(inner, cst.Name):
                made[inner.value] = facts.value(inner)
    carried = _carried_over(loop, before, set(made))
    if carried:
        return Refusal(f"`{carried}` carries over from one batch to the next")
    later = _text_after(loop, before[-1])
    scope = _scope(loop)
    names = []
    for name, value in made.items():
        if name == _index_name(loop) or not (_read_in(later, name) or _read_after(loop, scope, {name})):
            continue
        if not loaders_of(value.sources) and value.scale is Scale.CONST:
            continue
        if value.scale not in PER_SAMPLE or any(isinstance(obj, External) for obj in value.objs):
            return Refusal(f"`{name}` is not one entry per sample")
        names.append(name)
    if any(isinstance(small, cst.AugAssign) for one in before for small in tree.walk(one)):
        return Refusal("something is counted before the forward pass")
    return names if names else Refusal("nothing of the forward pass is used")


def _carried_over(loop: BatchLoop, before: Sequence[cst.CSTNode], names: set[str]) -> str:
    """A name that is read before it is assigned in the same turn."""
    assigned = set(tree.target_names(loop.node.target))
    for statement in before:
        targets = {id(name) for target in _targets([statement]) for name in tree.walk(target)}
        for node in tree.walk(statement):
            if isinstance(node, cst.Name) and id(node) not in targets and node.value in names - assigned:
                parent = loop.module.parents.get(node)
                if not (isinstance(parent, cst.Attribute) and parent.attr is node):
                    return node.value
        assigned |= _bound_by(statement)
    return ""


def _targets(statements: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    for statement in statements:
        for node in tree.walk(statement):
            if isinstance(node, cst.AssignTarget):
                yield node.target


def _text_after(loop: BatchLoop, statement: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes of the loop's body that come after a statement of it."""
    positions = loop.module.positions
    end = positions[statement].end
    return [
        node for node in tree.walk(loop.node.body)
        if isinstance(node, cst.Name)
        and (positions[node].start.line, positions[node].start.column) >= (end.line, end.column)
    ]  # fmt: skip


def _read_in(nodes: Sequence[cst.CSTNode], name: str) -> bool:
    return any(isinstance(node, cst.Name) and node.value == name for node in nodes)
