"""Samples that come from something that is played, in each process in its own way."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.decisions import outside
from distify_codemods.decisions.base import Blocked
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import made_of
from distify_codemods.libraries.outside import SIMULATORS
from distify_codemods.libraries.torch_data import OF_WORKERS
from distify_codemods.objects import External, Method
from distify_codemods.origins import Played
from distify_codemods.program import Module
from distify_codemods.unfollowed import unfollowed

#: What is left to do then leaves nothing to convert.
FIX = "distribute it with a library for reinforcement learning, or run one copy per seed"


def environment(facts: Facts) -> Event | None:
    """A step of something that is played: of a library's object that is reset and stepped with an action, or that is
    known to be played.
    """
    return next(iter(_games(facts).values()), None) or outside.simulated(facts)


def _games(facts: Facts) -> dict[Obj, Event]:
    """The objects that are reset and given moves, each with where it is given one."""
    steps: dict[Obj, Event] = {}
    resets: set[Obj] = set()
    for event in facts.of_kind(Kind.METHOD):
        others = [obj for obj in event.receiver.objs if isinstance(obj, (External, Method))]
        if event.name == "reset":
            resets.update(others)
        elif event.name == "step" and event.arguments.positional:
            steps.update(dict.fromkeys(others, event))
    return {obj: event for obj, event in steps.items() if obj in resets}


def for_training(facts: Facts) -> Iterator[tuple[Module, cst.CSTNode]]:
    """Where samples of training loaders are played, be it by the data set itself, or losses without a loader."""
    games = _games(facts)
    given = [value for loader in facts.training_loaders if loader.arguments for value in loader.arguments.all()]
    for value in made_of([*given, *(backward.receiver for backward in facts.backwards)]):
        for one in value.sources:
            if isinstance(one, Played) and one.module and one.site and (one.of is None or one.of in games):
                yield one.module, one.site
    asked = [one for one in unfollowed(facts) if one.by is not None and one.by.name.startswith(OF_WORKERS)]
    resets = any(one.name == ".reset" for one in asked)
    for call in asked:
        if call.name.startswith(SIMULATORS) or (resets and call.name == ".step" and call.node.args):
            yield call.module, call.node


def blocked(code: str, module: Module, node: cst.CSTNode, why: str = ", and each in another way") -> Blocked:
    what = f"the samples come from an environment that each rank would play by itself{why}"
    return Blocked(code, module, node, what, FIX)
