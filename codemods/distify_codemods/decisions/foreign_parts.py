"""Models of libraries inside of a trained one: whether a training step is seen to use all of their parameters.

DistributedDataParallel waits for each parameter that gets gradients. Which of them those are is not to be seen from
outside: a model of transformers has a pooler whether or not a script takes what it gives.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.touching import parts_of
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core
from distify_codemods.interpreter.graph import marks_of, modules_behind
from distify_codemods.libraries import standard, torch_nn, using
from distify_codemods.objects import External
from distify_codemods.values import Value

#: What may be asked of tensors, too: no choice among what a model returns.
_OF_TENSORS = frozenset("shape size dtype device ndim data grad T mT H is_cuda requires_grad".split())


#: What may be asked of a layer that says nothing about its use.
ABOUT = frozenset(
    "parameters named_parameters state_dict apply train eval to cuda requires_grad_ extend append".split()
)


def not_seen_to_be_used(facts: Facts, model: Obj, forward: Event, inside: list[Event]) -> Iterator[External]:
    """Parts, or the model itself, of which a step may leave something without gradients, as far as can be seen."""
    behind = modules_behind(facts.value(forward.node))
    for part in parts_of(model):
        if not isinstance(part, External) or not _may_be_a_model(part.name):
            continue
        calls = [one for one in (forward, *inside) if one.kind is Kind.FORWARD and _is_about(one, part)]
        methods = [one for one in inside if one.kind is Kind.METHOD and _is_about(one, part) and one.name not in ABOUT]
        if not (calls and part in behind) and not (methods and using.is_model(part.name)):
            continue  # no gradients flow through it; what is no model has methods, too
        called = (core(obj) for one in calls for obj in one.receiver.objs)  # another one, in other runs
        whole = not methods and all(one is part for one in called if part in _outwards(one))
        if not whole or not all(_needs_all(facts, part, call) for call in calls):
            yield part


def _may_be_a_model(name: str) -> bool:
    if name.startswith("torch."):
        return using.is_model(name)  # torch's own layers are judged one by one
    none = name.startswith(torch_nn.NO_MODULES) or torch_nn.has_none(name) or standard.computes(name)
    return not none and using.may_be_model(name)


def _is_about(event: Event, part: External) -> bool:
    """A call of it, of a method of its own, or of something in it."""
    return any(one is part for obj in event.receiver.objs for one in _outwards(core(obj)))


def _outwards(obj: Obj | None) -> Iterator[Obj]:
    while obj is not None:
        yield obj
        obj = obj.whole if isinstance(obj, External) else None


def _needs_all(facts: Facts, part: External, call: Event) -> bool:
    taken, made = set(_taken(facts, call)), _without_wrappers(part)
    pooler = made.arguments.get(using.WITHOUT_POOLER) if made.arguments is not None else None
    return using.needs_all(made.name, taken, pooler is not None and pooler.constant() is False)


def _without_wrappers(part: External) -> External:
    """The model that something of a library was made around, where that adds to it and takes nothing away."""
    given = part.arguments.get("model", 0) if part.arguments is not None and using.is_around(part.name) else None
    only = given.single() if given is not None else None
    inner = core(only) if only is not None else None
    return _without_wrappers(inner) if isinstance(inner, External) and inner is not part else part


def _taken(facts: Facts, call: Event) -> Iterator[str | int]:
    """What is taken of what a call returns: `.logits`, `["out"]`, `[0]`."""
    result = facts.value(call.node)
    for event in facts.of_kind(Kind.ATTRIBUTE):
        if event.name not in _OF_TENSORS and not _is_called(event) and _is_of(event.receiver, result):
            yield event.name
    for module in dict.fromkeys(one.module for one in facts.of_kind(Kind.FORWARD)):
        for node in (one for one in tree.walk(module.tree) if isinstance(one, cst.Subscript)):
            key = _key(facts, node)
            if key is not None and _is_of(facts.value(node.value), result):
                yield key


def _is_called(event: Event) -> bool:
    """`result.mean(1)`: a tensor's method, which takes all of it."""
    around = next(iter(event.module.enclosing(event.node)), None)
    return isinstance(around, cst.Call) and around.func is event.node


def _is_of(value: Value, result: Value) -> bool:
    """Whether it is what a call returned, or is made of that without another call of a library's module."""
    marks, mine = marks_of(value), marks_of(result)
    further = (mark.of for mark in marks if mark not in mine)
    return bool(mine) and all(mark in marks for mark in mine) and not any(isinstance(one, External) for one in further)


def _key(facts: Facts, node: cst.Subscript) -> str | int | None:
    index = node.slice[0].slice if len(node.slice) == 1 else None
    key = facts.value(index.value).constant() if isinstance(index, cst.Index) else None
    return key if isinstance(key, (str, int)) else None
