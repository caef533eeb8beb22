"""Where two readings are possible: each with its place, both readings, and what settles it. Nothing is picked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Turn
from distify_codemods.decisions import roles
from distify_codemods.decisions.base import Blocked
from distify_codemods.decisions.differing import reached_alike
from distify_codemods.decisions.names import loader_expression
from distify_codemods.decisions.training_sums import training_sums
from distify_codemods.events import Event, Kind
from distify_codemods.facts import (
    BatchLoop,
    Facts,
    Loader,
    Optimizer,
    drawn_from,
    given_to,
    loaders_in,
    loaders_of,
    stepping,
)
from distify_codemods.inside import core
from distify_codemods.libraries.torch_nn import is_loss
from distify_codemods.naming import brief
from distify_codemods.objects import External, Instance
from distify_codemods.parameters import has_none
from distify_codemods.settled import called, is_module

CODE = "READ01"
_COMMENT = "write `# distify: not-a-model` behind that line"


def doubts(facts: Facts) -> Iterator[Blocked]:
    for optimizer in facts.optimizers:
        if not optimizer.not_models:
            yield from _unknown_parameters(facts, optimizer)
            yield from _shared_parts(facts, optimizer)
    yield from _unknown_steppers(facts)
    yield from _training_by_a_flag(facts)
    yield from _figures_of_both(facts)


# ---- models


def _unknown_parameters(facts: Facts, optimizer: Optimizer) -> Iterator[Blocked]:
    """`SGD(library.groups(net))`: of what are these the parameters?"""
    candidates = may_train(facts, optimizer)
    if not candidates or _is_answered(facts, candidates):
        return
    calls = [brief(one.site) for one in optimizer.unknown if one.site is not None]
    origin = f"come from `{calls[0]}`" if calls else "cannot be followed"
    message = f"parameters of this optimizer {origin}: they may be those of {_either(facts, candidates)}, or not"
    yield _doubt(facts, optimizer.made, message, candidates)


def may_train(facts: Facts, optimizer: Optimizer) -> list[Obj]:
    """The models that an optimizer may train besides those that are seen in its arguments."""
    found = list(dict.fromkeys(obj for one in optimizer.unknown for obj in _behind(facts, one)))
    if found or optimizer.models:
        return found
    known = {model for one in facts.optimizers for model in one.models}
    return [obj for obj in _trained_by_loops(facts) if obj not in known]


def may_be_trained(facts: Facts) -> Iterator[Obj]:
    """What optimizers, or what may be one, may train besides those models that are seen in their arguments."""
    kept = facts.settled.not_models
    for optimizer in facts.optimizers:
        yield from (obj for obj in may_train(facts, optimizer) if not optimizer.not_models and obj not in kept)
    for _, _, candidates in _steppers(facts):
        yield from (obj for obj in candidates if obj not in kept)


def _behind(facts: Facts, obj: External) -> Iterator[Obj]:
    """The modules that a call of something unknown was made on, or given."""
    site = obj.site
    if isinstance(site, cst.Call) and isinstance(site.func, cst.Attribute):
        yield from (core(one) for one in facts.value(site.func.value).objs if is_module(core(one)))
    if obj.arguments is not None:
        yield from (one for one in given_to(obj.arguments) if is_module(one))


def _trained_by_loops(facts: Facts) -> list[Obj]:
    """Modules that training loops call with gradients recorded, and that have anything to be trained."""
    forwards = (event for event in facts.of_kind(Kind.FORWARD) if event.grad and facts.in_training(event))
    inside = {core(obj) for event in forwards for obj in event.receiver.objs}
    return [obj for obj in called(facts.run) if obj in inside and not has_none(obj)]


def _shared_parts(facts: Facts, optimizer: Optimizer) -> Iterator[Blocked]:
    """A trained part that two models have: which of them is to be wrapped?"""
    for whole in optimizer.wholes:
        if not _is_answered(facts, whole):
            owners = _either(facts, whole, "and of")
            message = f"what this optimizer trains is part of {owners}: either may be the model"
            yield _doubt(facts, optimizer.made, message, whole)


def _unknown_steppers(facts: Facts) -> Iterator[Blocked]:
    """`library.create_optimizer(net)` with a `step()`: an optimizer, or not?"""
    for event, made, candidates in _steppers(facts):
        if not _is_answered(facts, candidates):
            message = (
                f"`{brief(event.node)}` at {event.module.place(event.node)} may be the step of an optimizer of "
                f"{_either(facts, candidates)}, which is made here, or of something that trains nothing"
            )
            yield _doubt(facts, made, message, candidates)


def _steppers(facts: Facts) -> Iterator[tuple[Event, Event, list[Obj]]]:
    """What may be steps of optimizers, each with where that is made, and the models that it is given."""
    known = {optimizer.obj for optimizer in facts.optimizers}
    made = {event.value.single(): event for event in facts.of_kind(Kind.CALL, Kind.METHOD)}
    done: set[Obj] = set()
    for event in facts.of_kind(Kind.METHOD):
        for obj in stepping(event) if facts.in_training(event) else ():
            if obj in known or obj in done or obj not in made or obj in facts.settled.not_models:
                continue
            if not isinstance(obj, External) or obj.arguments is None or obj.name.startswith("torch."):
                continue
            given = list(dict.fromkeys(given_to(obj.arguments)))
            candidates = [one for one in given if is_module(one) and one not in facts.models]
            if candidates and not known & set(given):
                done.add(obj)
                yield event, made[obj], candidates


def to_be_named(facts: Facts) -> str:
    """How the user says that what training calls is trained, where no optimizer is seen that has its parameters."""
    called = (event for event in facts.of_kind(Kind.FORWARD) if facts.in_training(event))
    objs = dict.fromkeys(core(obj) for event in called for obj in event.receiver.objs)
    modules = [
        one for one in objs if isinstance(one, Instance) or (isinstance(one, External) and not is_loss(one.name))
    ]
    return _joined(_options(facts, modules)) if modules and not facts.models else ""


def _is_answered(facts: Facts, candidates: Iterable[Obj]) -> bool:
    answers = facts.settled
    return any(obj in answers.models for obj in candidates) or all(obj in answers.not_models for obj in candidates)


def _doubt(facts: Facts, event: Event, message: str, candidates: Iterable[Obj]) -> Blocked:
    named = _joined(_options(facts, candidates))
    return Blocked(CODE, event.module, event.node, message, f"{named} if it trains that; else {_COMMENT}")


def _options(facts: Facts, models: Iterable[Obj]) -> list[str]:
    options = (f"--model {_argument(facts.names.of(obj))}" for obj in facts.names.in_order(models))
    return list(dict.fromkeys(options))


# ---- loaders


def mixed_loaders(facts: Facts, loop: BatchLoop) -> Blocked:
    """A loop over one loader or another, with a backward pass in it."""
    message = f"this loop runs over {_either(facts, loop.loaders)}: it may train on each of them, or on some only"
    return Blocked(CODE, loop.module, loop.node, message, _which(facts, loop.loaders))


def trains_on_each(facts: Facts, loop: BatchLoop) -> bool:
    """Whether each turn of a loop trains, and its loaders, made in several places, have one name: they are its own."""
    over = loop.passing.iter if loop.passing is not None else None
    if not isinstance(over, cst.Name) or set(loop.trained) != set(loop.loaders) or _flags(facts, loop):
        return False
    first = min((event.number for event in facts.backwards if event.inside(loop.event)), default=0)
    if any(event.number < first and event.inside(loop.event) for event in facts.of_kind(Kind.LEAVE)):
        return False  # perhaps before it trains
    if not all(_is_made_alike(facts, loader) for loader in facts.loaders if loader.obj in loop.loaders):
        return False
    calls = {loader.obj: loader.call for loader in facts.loaders}
    named = [_given(loop, bound) for bound in loop.module.flow(over).reaching(over)]
    return bool(named) and set(named) == {calls.get(obj) for obj in loop.loaders}


def _is_made_alike(facts: Facts, loader: Loader) -> bool:
    """Whether no rank may have made another in its place: in an attempt, or by a test of its own."""
    tried = any(isinstance(here.node, (cst.Try, cst.TryStar)) for here in loader.made.here.up())
    return not tried and reached_alike(facts, loader.made)


def _given(loop: BatchLoop, bound: cst.CSTNode) -> cst.CSTNode | None:
    """The call of `loader = DataLoader(…)`"""
    parents = loop.module.parents
    given = parents.get(parents[bound]) if isinstance(parents.get(bound), cst.AssignTarget) else None
    return given.value if isinstance(given, cst.Assign) and len(given.targets) == 1 else None


def _which(facts: Facts, loaders: Iterable[External]) -> str:
    options = [f"--train-loader {_argument(facts.names.of(one))}" for one in facts.names.in_order(loaders)]
    return f"name those that it trains on: {_joined(list(dict.fromkeys(options)))}"


def _training_by_a_flag(facts: Facts) -> Iterator[Blocked]:
    """A loop that trains if something is set: in a function that is called for several loaders, or by itself."""
    told = facts.settled.train_loaders
    loops: dict[cst.CSTNode, list[BatchLoop]] = {}
    for loop in facts.training_loops:
        loops.setdefault(loop.node, []).append(loop)
    for same in loops.values():
        loaders = list(dict.fromkeys(loader for loop in same for loader in loop.loaders))
        if any(loader in told for loader in loaders) or any(loop.alternates for loop in same):
            continue
        if len(loaders) > 1:
            yield from _of_several(facts, same, loaders)
        elif any(roles.doubtful(facts, loop) for loop in same):
            yield roles.two_purposes(same[0])


def _of_several(facts: Facts, same: list[BatchLoop], loaders: list[External]) -> Iterator[Blocked]:
    tests = [test for loop in same for test in _flags(facts, loop)]
    differ = len({test.value.objs for test in tests}) > 1 or any(not test.value.objs for test in tests)
    doubtful = any(roles.doubtful(facts, loop) for loop in same)
    if tests and (doubtful or (differ and _told_apart(facts, same)) or any(map(_reads_the_mode, tests))):
        flag, loop = tests[0], same[0]
        test = flag.node.test if isinstance(flag.node, (cst.If, cst.While)) else flag.node
        message = (
            f"this loop runs over {_either(facts, loaders)}, and trains where `{brief(test)}` "
            f"({flag.module.place(flag.node)}) holds: it may train on each of them, or on some only"
        )
        yield Blocked(CODE, loop.module, loop.node, message, _which(facts, loaders))
    elif doubtful:
        yield roles.two_purposes(same[0])


def _flags(facts: Facts, loop: BatchLoop) -> list[Event]:
    """The tests inside the loop that a backward pass of its batches hangs on, unless it happens either way."""
    mine = [
        event for event in facts.backwards
        if event.inside(loop.event) and drawn_from(event.receiver.sources) & set(loop.loaders)
    ]  # fmt: skip
    arms = [event.here.conditions() - loop.event.here.conditions() for event in mine]
    taken = {(node, arm) for one in arms for node, arm, _ in one}
    both = {node for node, arm in taken if arm == "body" and (node, "orelse") in taken}
    open_ones = [{node for node, _, _ in one} - both for one in arms]
    if not open_ones or not all(open_ones):
        return []
    nodes = set().union(*open_ones)
    return [
        event for event in facts.of_kind(Kind.TEST)
        if event.node in nodes and event.inside(loop.event) and not loaders_of(event.value.sources)
    ]  # fmt: skip


def _told_apart(facts: Facts, loops: list[BatchLoop]) -> bool:
    """Whether the calls and turns that lead to the loop differ in more than in their loaders."""
    return len({tuple(_rest(facts, step) for step in loop.event.here.frame.context) for loop in loops}) > 1


def _rest(facts: Facts, step: cst.CSTNode | Turn) -> object:
    if not isinstance(step, cst.Call):
        return step
    return tuple(tree.code_of(one.value) for one in step.args if not loaders_in(facts.value(one.value)))


def _reads_the_mode(test: Event) -> bool:
    """`if model.training:` says something else in each call."""
    node = test.node.test if isinstance(test.node, cst.If) else test.node
    return isinstance(node, cst.Attribute) and node.attr.value == "training"


def _figures_of_both(facts: Facts) -> Iterator[Blocked]:
    for loop in facts.training_loops:
        if shared_loader(facts, loop) is None and training_sums(facts, loop) is not None:
            message = (
                "figures are summed up here over the batches of one loader or another: those of the training loader "
                "are a rank's share, those of the other all"
            )
            yield Blocked(CODE, loop.module, loop.node, message, "give the loader a name before the loop")


def shared_loader(facts: Facts, loop: BatchLoop) -> str | None:
    """The loader of a training loop that also runs over others, as written there; empty where it runs over no others.

    None where it has no name.
    """
    same = [one for one in facts.training_loops if one.node is loop.node]
    if all(set(one.trained) == set(one.loaders) for one in same):
        return ""
    begun = next((one for one in facts.beginnings if one.event.node is loop.node), None)
    return loader_expression(facts, loop.event, begun.expression, loop.loaders) if begun else None


# ---- words


def _either(facts: Facts, objs: Iterable[Obj], word: str = "or") -> str:
    return f" {word} ".join(dict.fromkeys(map(facts.names.with_place, facts.names.in_order(objs))))


def _joined(options: list[str]) -> str:
    return ", ".join(options[:-1]) + (" or " if len(options) > 1 else "") + options[-1]


def _argument(name: str) -> str:
    return name if name.replace(".", "").isidentifier() else f"'{name}'" if "'" not in name else f'"{name}"'
