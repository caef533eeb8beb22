"""Steps that each take one and the same graph whole: no node can be computed without its neighbours."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import Blocked
from distify_codemods.decisions.training_calls import in_training
from distify_codemods.events import Event, Here, Kind
from distify_codemods.facts import Facts
from distify_codemods.interpreter.frames import Frame
from distify_codemods.libraries import computing
from distify_codemods.objects import External
from distify_codemods.origins import CHANCE

CODE = "SHARE01"


def of_one_graph(facts: Facts) -> Iterator[Blocked]:
    """A graph that each step sees whole: nothing is left to share."""
    if any(event.name.startswith(computing.GRAPH_BATCHES) for event in facts.of_kind(Kind.CALL)) or facts.loaders:
        return
    for event in facts.of_kind(Kind.CALL, Kind.FORWARD):
        names = [event.name, *(obj.name for obj in event.receiver.objs if isinstance(obj, External))]
        is_of_graphs = any(name.startswith(computing.GRAPHS) and name not in computing.OF_EACH_NODE for name in names)
        if is_of_graphs and in_training(facts, event) and not _is_given_another(facts, event):
            yield Blocked(
                CODE, event.module, event.node,
                "each step takes one whole graph, of which no part can be computed without the others: ranks would "
                "all do the same work",
                "train on batches of subgraphs, as torch_geometric's NeighborLoader makes them",
            )  # fmt: skip
            return


def _is_given_another(facts: Facts, event: Event) -> bool:
    """Whether what a call is given is another thing in each step, seen from the loops around it inwards."""
    varying: set[str] = set()
    outer: tuple[Frame, set[str]] | None = None
    for frame, places in _frames(event):
        varying = _handed_on(frame, varying) if outer is not None else set()
        for place in places:
            if place.arm == "body" and isinstance(place.node, (cst.For, cst.While)):
                varying |= _of_each_turn(place.node)
        varying = _following(facts, frame, varying)
        outer = frame, varying
    return isinstance(event.node, cst.Call) and any(_reads(one.value, varying) for one in event.node.args)


def _frames(event: Event) -> Iterator[tuple[Frame, list[Here]]]:
    """The functions that execution is in there, outermost first, each with the places within it."""
    found: list[tuple[Frame, list[Here]]] = []
    for here in event.here.up():
        if found and found[-1][0] is here.frame:
            found[-1][1].append(here)
        else:
            found.append((here.frame, [here]))
    return reversed(found)


def _of_each_turn(loop: cst.For | cst.While) -> set[str]:
    """What a loop counts with."""
    counted = (inner.target for inner in tree.walk(loop.body) if isinstance(inner, cst.AugAssign))
    targets = [*counted, *([loop.target] if isinstance(loop, cst.For) else [])]
    return {name for target in targets for name in tree.target_names(target)}


def _handed_on(frame: Frame, varying: set[str]) -> set[str]:
    """The parameters of a function that it is given others for in each step."""
    call = frame.context[-1] if frame.context else None
    if not isinstance(frame.node, cst.FunctionDef) or not isinstance(call, cst.Call):
        return varying if frame.node is not None and not isinstance(frame.node, cst.FunctionDef) else set()
    names = [one.name.value for one in (*frame.node.params.posonly_params, *frame.node.params.params)]
    named = {*names, *(one.name.value for one in frame.node.params.kwonly_params)}
    others = [one for one in (frame.node.params.star_arg, frame.node.params.star_kwarg) if isinstance(one, cst.Param)]
    found: set[str] = set()
    for number, given in enumerate(call.args, int(names[:1] == ["self"])):
        if not _reads(given.value, varying):
            continue
        if given.star:
            found |= named
        elif given.keyword is not None and given.keyword.value in named:
            found.add(given.keyword.value)
        elif given.keyword is None and number < len(names):
            found.add(names[number])
        else:
            found |= {one.name.value for one in others}
    return found


def _following(facts: Facts, frame: Frame, varying: set[str]) -> set[str]:
    """With what is computed from it, or drawn, in this function."""
    found = set(varying)
    body = [inner for inner in tree.walk(frame.node) if isinstance(inner, (cst.Assign, cst.For, cst.NamedExpr))]
    while True:
        before = len(found)
        for inner in body:
            value = inner.iter if isinstance(inner, cst.For) else inner.value
            if _reads(value, found) or (not isinstance(inner, cst.For) and CHANCE in facts.value(value).sources):
                targets = [one.target for one in inner.targets] if isinstance(inner, cst.Assign) else [inner.target]
                found |= {name for target in targets for name in tree.target_names(target)}
        if len(found) == before:
            return found


def _reads(node: cst.CSTNode, names: set[str]) -> bool:
    return any(isinstance(inner, cst.Name) and inner.value in names for inner in tree.walk(node))
