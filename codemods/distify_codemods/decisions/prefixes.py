"""What the original reaches, saves or loads through `nn.DataParallel`."""

from __future__ import annotations

import libcst as cst

from distify_codemods.events import Kind
from distify_codemods.facts import Facts
from distify_codemods.values import Wrapped


def reached_through(facts: Facts) -> frozenset[cst.CSTNode]:
    """`.module` on nn.DataParallel."""
    return frozenset(
        event.node
        for event in facts.of_kind(Kind.ATTRIBUTE)
        if event.name == "module" and any(isinstance(obj, Wrapped) for obj in event.receiver.objs)
    )


def prefixed(facts: Facts) -> dict[cst.CSTNode, bool]:
    """Where the original saves or loads the state of a model in nn.DataParallel: its keys begin with `module.`"""
    found: dict[cst.CSTNode, bool] = {}
    for event in facts.of_kind(Kind.METHOD):
        if event.name in ("state_dict", "load_state_dict"):
            parallel = [isinstance(obj, Wrapped) for obj in event.receiver.objs]
            if any(parallel):
                found[event.node] = all(parallel) and found.get(event.node, True)
            elif event.node in found:
                found[event.node] = False
    return found
