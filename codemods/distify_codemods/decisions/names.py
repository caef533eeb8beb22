"""Names in a loop over batches: what binds, reads and adds up to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.events import Event
from distify_codemods.facts import BatchLoop, Facts
from distify_codemods.inside import to_library
from distify_codemods.libraries.progress import BARS
from distify_codemods.libraries.torch_data import LOADERS
from distify_codemods.libraries.torch_tensors import ZEROS
from distify_codemods.objects import External, Passing


def flat(facts: Facts, loop: BatchLoop) -> Iterator[cst.CSTNode]:
    """The statements of a loop's body, those under `with` among them, and under tests that hold in this context."""
    yield from _flat(facts, loop, loop.node.body)


def _flat(facts: Facts, loop: BatchLoop, body: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    for statement in body.body:
        if isinstance(statement, cst.With):
            yield from _flat(facts, loop, statement.body)
        elif isinstance(statement, cst.If) and (outcome := facts.outcome(statement, loop.event)) is not None:
            if outcome:
                yield from _flat(facts, loop, statement.body)
            elif isinstance(statement.orelse, cst.Else):
                yield from _flat(facts, loop, statement.orelse.body)
            elif statement.orelse is not None:
                yield statement.orelse
        elif isinstance(statement, cst.BaseSmallStatement):
            yield cst.SimpleStatementLine([statement])
        else:
            yield statement


def update_of(small: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
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


def updates(body: cst.CSTNode, name: str) -> int:
    return sum((update_of(node) or ("",))[0] == name for node in tree.walk(body))


def index_name(loop: BatchLoop) -> str:
    """`i` of `for i, batch in enumerate(loader)`."""
    if not isinstance(loop.node, cst.For):
        return ""
    call, target = loop.node.iter, loop.node.target
    numbered = isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "enumerate"
    if numbered and isinstance(target, (cst.Tuple, cst.List)) and isinstance(target.elements[0].value, cst.Name):
        return target.elements[0].value.value
    return ""


def bound_in(loop: BatchLoop) -> set[str]:
    return bound_by(loop.node.body) | targets_of(loop)


def targets_of(loop: BatchLoop) -> set[str]:
    return set(tree.target_names(loop.node.target)) if isinstance(loop.node, cst.For) else set()


def bound_by(node: cst.CSTNode) -> set[str]:
    return {name for inner in tree.walk(node) for name in tree.bound_names(inner)}


def read_after(loop: BatchLoop, names: Iterable[str]) -> str:
    """A name that something reads with the value of the loop's last turn; not the loop itself, begun once more."""
    inside, flow = set(tree.walk(loop.node)), loop.module.flow(loop.node)
    found: dict[cst.CSTNode, str] = {}
    for name in names:
        found.update((node, name) for node in flow.reads_after(loop.node, name) if node not in inside)
    return next((found[node] for node in loop.module.nodes if node in found), "") if found else ""


def starts_at_zero(facts: Facts, loop: BatchLoop, name: str) -> bool:
    """Whether each time that the loop is begun, a zero is what the name was bound to last."""
    bound = loop.module.flow(loop.node).reaching_loop(loop.node, name)
    return bool(bound) and all(_is_zero(facts, loop.module.statement(node), name) for node in bound)


def _is_zero(facts: Facts, statement: cst.CSTNode, name: str) -> bool:
    for small in reversed(statement.body) if isinstance(statement, cst.SimpleStatementLine) else ():
        if isinstance(small, cst.Assign):
            for target in small.targets:
                value = assigned(target.target, small.value, name)
                if value is not None:
                    return facts.value(value).is_zero or zeros(facts, value)
    return False


def assigned(target: cst.BaseExpression, value: cst.BaseExpression, name: str) -> cst.BaseExpression | None:
    if isinstance(target, cst.Name):
        return value if target.value == name else None
    if isinstance(target, (cst.Tuple, cst.List)) and isinstance(value, (cst.Tuple, cst.List)):
        for one, other in zip(target.elements, value.elements, strict=False):
            found = assigned(one.value, other.value, name)
            if found is not None:
                return found
    return None


def zeros(facts: Facts, value: cst.BaseExpression) -> bool:
    return any(event.node is value for event in facts.calls(*ZEROS))


def loader_node(facts: Facts, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The expression of the loader inside `enumerate(tqdm(loader))`, also if that was given a name."""
    value = facts.value(node)
    if any(isinstance(one, External) and one.name in LOADERS for one in map(to_library, value.objs)):
        return node
    if isinstance(node, cst.Call):
        return loader_node(facts, node.args[0].value) if node.args else None
    made = {obj.site for obj in value.objs if isinstance(obj, Passing)}
    site = made.pop() if len(made) == 1 else None
    return loader_node(facts, site) if isinstance(site, cst.Call) and site is not node else None


def _bar_with_a_name(facts: Facts, event: Event, iterated: cst.BaseExpression) -> cst.Call | None:
    """The progress bar that is iterated, made in this function: unlike `iter`, it reads only in the loop."""
    made = {obj.site for obj in facts.value(iterated).objs if isinstance(obj, Passing)}
    for one in facts.calls(*BARS):
        if made == {one.node} and one.here.frame.node is event.here.frame.node and isinstance(one.node, cst.Call):
            return one.node
    return None


def loader_expression(
    facts: Facts, event: Event, iterated: cst.BaseExpression, loaders: Collection[External]
) -> str | None:
    """The expression of the loader inside `enumerate(tqdm(loader))`, or a name that holds it where it is iterated."""
    node = _bar_with_a_name(facts, event, iterated) or iterated
    while isinstance(node, cst.Call) and node.args:
        node = node.args[0].value
    if tree.is_plain(node) and {*map(to_library, facts.value(node).objs)} & set(loaders):
        return tree.code_of(node)
    env = {**event.here.frame.env, **event.names}
    named = [one.target for one in tree.walk(iterated) if isinstance(one, cst.NamedExpr)]
    bound_here = {name for target in named for name in tree.target_names(target)}
    names = (name for name, value in env.items() if value.objs and {*map(to_library, value.objs)} <= set(loaders))
    return next((name for name in names if name not in bound_here), None)
