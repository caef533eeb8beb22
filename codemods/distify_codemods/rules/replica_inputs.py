"""Where nn.DataParallel goes, whether the script relies on its moving of a model's inputs to the GPU."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.events import Event, Kind
from distify_codemods.facts import wrapped
from distify_codemods.inside import core
from distify_codemods.program import Module
from distify_codemods.rules.base import Context
from distify_codemods.values import Value

_MOVES = frozenset({"to", "cuda"})


def are_moved(context: Context, model: Value) -> bool:
    """Whether all that the model is called with is seen to be moved by the script, or its wrap still moves it."""
    models = {core(obj) for obj in model.objs}
    return all(
        _is_placed(context, event.module, argument.value)
        for event in context.facts.of_kind(Kind.FORWARD)
        if models & {core(obj) for obj in event.receiver.objs} and not _is_by_wrap(event)
        for argument in (event.node.args if isinstance(event.node, cst.Call) else ())
    )


def _is_by_wrap(event: Event) -> bool:
    """Training goes by DistributedDataParallel, which moves inputs, too; evaluation goes to the model inside."""
    return event.grad and bool(wrapped(event.receiver))


def _is_placed(context: Context, module: Module, given: cst.BaseExpression) -> bool:
    """A constant, what another model returns, what is moved right there; or a name that is moved in this function."""
    if isinstance(given, (cst.BaseNumber, cst.BaseString)) or _moves(given):
        return True
    if isinstance(given, cst.Call) and any(e.node is given for e in context.facts.of_kind(Kind.FORWARD)):
        return True
    scope, names = module.lines_around(given), {tree.code_of(given)}
    while isinstance(given, cst.Subscript):  # an entry of what is moved as a whole
        given = given.value
        names.add(tree.code_of(given))
    assigned = (one for one in tree.walk(scope) if isinstance(one, (cst.Assign, cst.AnnAssign)))
    return bool(names & {"None", "True", "False"}) or any(
        not names.isdisjoint(_targets(one)) and _places(context, one) for one in assigned
    )


def _places(context: Context, assigned: cst.Assign | cst.AnnAssign) -> bool:
    value, forwards = assigned.value, context.facts.of_kind(Kind.FORWARD)
    return value is not None and (_moves(value) or any(event.node is value for event in forwards))


def _moves(value: cst.CSTNode) -> bool:
    """`x.to(device)`, `x.cuda()`, `torch.randn(8, device=device)`, anywhere in it."""
    return any(_is_move(one) for one in tree.walk(value) if isinstance(one, cst.Call))


def _is_move(call: cst.Call) -> bool:
    if "device" in tree.keywords(call):
        return True
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _MOVES:
        return False
    given = [argument.value for argument in call.args]
    is_cast = any(isinstance(one, cst.Attribute) and tree.code_of(one.value) == "torch" for one in given)
    return call.func.attr.value == "cuda" or len(given) > 1 or not is_cast  # `x.to(torch.float32)`


def _targets(assigned: cst.Assign | cst.AnnAssign) -> Iterator[str]:
    for target in tree.targets(assigned):
        if isinstance(target, (cst.Tuple, cst.List)):
            yield from (tree.code_of(one.value) for one in target.elements)
        else:
            yield tree.code_of(target)
