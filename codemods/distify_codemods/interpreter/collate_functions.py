"""Functions in a `collate_fn`, those of the script: each is followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Ref
from distify_codemods.interpreter import collate_calls as calls
from distify_codemods.interpreter import collate_names as names
from distify_codemods.interpreter.collate_forms import (
    CONST,
    EACH,
    UNKNOWN,
    Form,
    Kind,
    Named,
    Unseen,
    columns,
    either,
    listed,
)
from distify_codemods.interpreter.collating import Body
from distify_codemods.libraries import collating as table
from distify_codemods.objects import Bound, Class, External, Function, Instance, Partial
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_DEEPEST = 5


def form_of(machine: Machine, collate: Value) -> Form:
    """What it returns for a list of samples; UNKNOWN where that is not seen."""
    try:
        return _called(machine, Form(Kind.CONST, value=collate), [listed(EACH)], {}, 0)
    except Unseen as given_up:
        return UNKNOWN if given_up.sort is None else Form(Kind.UNKNOWN, sort=given_up.sort)


def _run(machine: Machine, function: Function, given: list[Form], named: Named, depth: int) -> Form:
    """What a function of the script returns. Raises Unseen."""
    node = function.node
    if node is None or depth > _DEEPEST:
        raise Unseen

    def call(callee: Form, given: list[Form], named: Named) -> Form:
        return _called(machine, callee, given, named, depth)

    body = Body(machine, function, names.bound(machine, node.params, given, named), call)
    if isinstance(node, cst.Lambda):
        return body.evaluate(node.body)
    if node.asynchronous is not None or any(isinstance(one, cst.Yield) for one in tree.walk(node.body)):
        raise Unseen
    body.block(node.body)
    if not body.ended:
        body.returned.append(CONST)
    result = body.returned[0]
    for other in body.returned[1:]:
        result = either(result, other)
    return result


def _called(machine: Machine, callee: Form, given: list[Form], named: Named, depth: int) -> Form:
    """What a function returns, of the script or of a library. Raises Unseen."""
    only = callee.value.single() if callee.kind is Kind.CONST else None
    if isinstance(only, Function):
        return _run(machine, only, given, named, depth + 1)
    if isinstance(only, Bound) and only.function is not None:
        own = names.known(callee.value.of([only.receiver])) if only.receiver is not None else CONST
        return _run(machine, only.function, [own, *given], named, depth + 1)
    if isinstance(only, Partial) and only.function is not None and only.arguments is not None:
        if only.arguments.star is not None or only.arguments.double_star is not None:
            raise Unseen
        first = [names.known(one) for one in only.arguments.positional]
        more = {name: names.known(one) for name, one in only.arguments.keywords.items()}
        return _called(machine, names.known(only.function), [*first, *given], {**more, **named}, depth)
    if isinstance(only, Instance):
        method = names.attribute(machine, callee, "__call__")
        if isinstance(method.value.single(), Bound):
            return _called(machine, method, given, named, depth)
    if isinstance(only, External) and only.name in table.PADS_PARTS and [one.kind for one in given] == [Kind.LISTED]:
        return columns(Form(Kind.ROWS, padded=True))
    if isinstance(only, Ref):
        return calls.of_library(only.name, given, named)
    return calls.unknown([*given, *named.values()], isinstance(only, Class))
