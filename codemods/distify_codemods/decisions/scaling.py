"""What a larger global batch asks of a script: `--scale linear` and `--scale none`, where each rank keeps its batch.

Each rank then computes what one process would have computed of a batch of its own, and gradients are averaged: N
steps of one process in one. So losses, shapes and BatchNorm are right as they are, whatever they say about a batch.
Other things are not: rates (N steps in one), and whatever counts steps, of which an epoch has N times fewer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from distify_codemods import directives, tree
from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.batches import dealt_by
from distify_codemods.decisions import optimizer_rules
from distify_codemods.decisions.base import Blocked, Dealing, Decisions, Rate, Sharding, WarmUp
from distify_codemods.events import Event, Here, Kind
from distify_codemods.facts import Facts, Optimizer
from distify_codemods.libraries import python, torch_optim
from distify_codemods.objects import External, Function, Mapping, Setting
from distify_codemods.origins import LENGTH
from distify_codemods.values import Value

CODE = "RATE01"
_KEEP = "keep the global batch (--scale global)"


def decide_scaling(decisions: Decisions) -> None:
    """For ranks that keep their batches; the decisions on everything else are made."""
    decisions.blocked += [*_uncut(decisions), *_counted_in_batches(decisions)]
    if decisions.facts.program.options.scale != "linear":
        return
    facts = decisions.facts
    decisions.rates = tuple(_rates(facts))
    decisions.blocked += [*_no_rule(facts), *_by_hand(facts), *_counted_steps(facts)]
    if facts.program.options.warmup_epochs:
        found = [one for optimizer in facts.optimizers for one in _warm_ups(facts, optimizer)]
        decisions.warm_ups = tuple(dict.fromkeys(one for one in found if isinstance(one, WarmUp)))
        decisions.blocked += dict.fromkeys(one for one in found if isinstance(one, Blocked))


# ---- batches that do not come from a loader of samples


def _uncut(decisions: Decisions) -> Iterator[Blocked]:
    for one in decisions.slicings:
        yield Blocked(
            "DATA04", one.module, one.node,
            "this batch is cut by hand, alike on all ranks, and each takes its share: the global batch cannot grow",
            f"{_KEEP}, or put the data into a Dataset and loop over a DataLoader",
        )  # fmt: skip
    for loader in decisions.loaders:
        if loader.sharding is Sharding.TRAINING and loader.dealing is Dealing.EXAMPLES:
            yield Blocked(
                "DATA01", loader.module, loader.node,
                "this iterator makes batches for all ranks, and each takes its share: the global batch cannot grow",
                _KEEP,
            )  # fmt: skip


def _counted_in_batches(decisions: Decisions) -> Iterator[Blocked]:
    """Reckoning with the batch size that means all samples of a step: those of a rank are N times fewer."""
    facts, sizes = decisions.facts, _batch_sizes(decisions)
    for module in facts.run.frames if sizes else ():
        for node in facts.run.values:
            if not isinstance(node, cst.BinaryOperation) or node not in module.parents:
                continue
            left, right = facts.value(node.left), facts.value(node.right)
            divides = isinstance(node.operator, (cst.Divide, cst.FloorDivide)) and sizes & right.objs
            figure = isinstance(node.operator, cst.Multiply) and any(
                sizes & one.objs and dealt_by(other.sources) for one, other in ((left, right), (right, left))
            )
            if divides or figure:
                yield Blocked(
                    "BATCH01", module, node,
                    "this reckons with the batch size, of which each rank takes one in every step: what it counts is "
                    "another number on several ranks",
                    "count steps by len(loader), and samples by the size of the batch itself",
                )  # fmt: skip


def _batch_sizes(decisions: Decisions) -> set[Obj]:
    training = (one for one in decisions.loaders if one.sharding is Sharding.TRAINING)
    given = (obj for one in training for size in one.batch_sizes for obj in size.objs)
    return {obj for obj in given if isinstance(obj, (Const, Setting))}


# ---- rates


def _rates(facts: Facts) -> Iterator[Rate]:
    """One for each call that makes an optimizer, in however many contexts."""
    rates: dict[cst.CSTNode, Rate] = {}
    for optimizer in facts.optimizers:
        made = optimizer.made
        told = _told(facts, optimizer)
        rule = told or optimizer_rules.rule_of(optimizer.obj)
        if rule is None or not isinstance(made.node, cst.Call):
            continue
        one = Rate(made.module, made.node, optimizer_rules.name_of(optimizer.obj), rule, bool(told))
        known = rates.get(made.node)
        if known is not None and known.rule is not one.rule:
            one = replace(one, name=f"{known.name} or {one.name}", rule=optimizer_rules.AT_RUN_TIME)
        rates[made.node] = one
    return iter(rates.values())


def _told(facts: Facts, optimizer: Optimizer) -> optimizer_rules.ScalingRule | None:
    word = facts.settled.rates.get(optimizer.obj)
    return _WORDS[word] if word is not None else None


_WORDS = {
    directives.RATE_LINEAR: optimizer_rules.LINEAR,
    directives.RATE_SQUARE_ROOT: optimizer_rules.SQUARE_ROOT,
}


def _no_rule(facts: Facts) -> Iterator[Blocked]:
    for optimizer in facts.optimizers:
        made = optimizer.made
        if _told(facts, optimizer) or optimizer_rules.rule_of(optimizer.obj) is not None:
            continue
        name = optimizer_rules.name_of(optimizer.obj)
        yield Blocked(
            CODE, made.module, made.node,
            f"no rule is known for how the learning rate of {name} grows with the batch"
            f"{optimizer_rules.why_not(optimizer.obj)}",
            f"settle it with `# distify: {directives.RATE_LINEAR}`, `# distify: {directives.RATE_SQUARE_ROOT}` or "
            f"`# distify: skip` (as it is) on this line, or {_KEEP}",
        )  # fmt: skip


def _by_hand(facts: Facts) -> Iterator[Blocked]:
    for event in dict.fromkeys(facts.by_hand.values()):
        yield Blocked(
            CODE, event.module, event.node,
            "parameters are updated here without an optimizer, whose learning rate could be scaled",
            f"train it with torch.optim.SGD, or {_KEEP}",
        )  # fmt: skip


# ---- what counts steps


def _counted_steps(facts: Facts) -> Iterator[Blocked]:
    yield from _loops_over_steps(facts)
    yield from _schedules_of_steps(facts)
    yield from _rates_set_by_step(facts)


def _loops_over_steps(facts: Facts) -> Iterator[Blocked]:
    """With batches N times as large, as many steps are N times the training."""
    for loop in facts.training_loops:
        if not loop.shares and loop.passing is None and LENGTH not in loop.event.value.sources:
            yield Blocked(
                CODE, loop.module, loop.node,
                "this loop seems to end after a number of steps, in which N ranks see N times as many samples",
                f"count epochs, or let the number of steps follow from len(loader); or {_KEEP}",
            )  # fmt: skip


def _schedules_of_steps(facts: Facts) -> Iterator[Blocked]:
    schedules = {
        obj: event
        for event in facts.of_kind(Kind.CALL)
        for obj in event.value.objs
        if isinstance(obj, External) and torch_optim.is_schedule(obj.name)
    }
    found: dict[Event, Event] = {}
    for event in facts.of_kind(Kind.METHOD):
        if event.name == "step" and facts.in_training(event):
            found.update(
                (schedules[obj], event) for obj in event.receiver.objs
                if obj in schedules and not _follows(facts, [*schedules[obj].arguments.all(), *event.arguments.all()])
            )  # fmt: skip
    for made, event in found.items():
        yield Blocked(
            CODE, made.module, made.node,
            f"this schedule takes a step with each batch ({event.module.place(event.node)}), of which an epoch has "
            "N times fewer on N ranks: by the numbers that it is given, it would be too late",
            f"let its numbers follow from len(loader), or step it once in an epoch; or {_KEEP}",
        )  # fmt: skip


def _follows(facts: Facts, given: list[Value]) -> bool:
    """Whether the length of a loader goes into it, be it in a function that it is given."""
    for value in given:
        if LENGTH in value.sources:
            return True
        for obj in value.objs:
            parts = tree.walk(obj.node) if isinstance(obj, Function) and obj.node is not None else ()
            if any(LENGTH in seen.sources for part in parts for seen in _read(facts, obj, part)):
                return True
    return False


def _read(facts: Facts, function: Obj, part: cst.CSTNode) -> Iterator[Value]:
    """What a part of a function is, also where it was never called."""
    yield facts.value(part)
    scope = function.closure if isinstance(function, Function) and isinstance(part, cst.Name) else None
    while scope is not None and isinstance(part, cst.Name):
        if part.value in scope.env:
            yield scope.env[part.value]
            return
        scope = scope.parent


def _rates_set_by_step(facts: Facts) -> Iterator[Blocked]:
    done: set[cst.CSTNode] = set()
    for event in facts.of_kind(Kind.STORE):
        node = event.node
        if event.name != "[]" or not isinstance(node, cst.Subscript) or node in done or not _is_rate(facts, event):
            continue
        if LENGTH not in event.value.sources and facts.in_training(event):
            done.add(node)
            yield Blocked(
                CODE, event.module, node,
                "the learning rate is set here with each batch, of which an epoch has N times fewer on N ranks",
                f"let it follow from len(loader), or set it once in an epoch; or {_KEEP}",
            )  # fmt: skip


def _is_rate(facts: Facts, event: Event) -> bool:
    """`group["lr"]`: of an optimizer, for all that is seen."""
    assert isinstance(event.node, cst.Subscript)
    (element,) = event.node.slice if len(event.node.slice) == 1 else (None,)
    index = element.slice if element is not None else None
    if not isinstance(index, cst.Index) or facts.value(index.value).constant() != "lr":
        return False
    return not any(isinstance(obj, Mapping) and "params" not in obj.items for obj in event.receiver.objs)


# ---- warm-up


def _warm_ups(facts: Facts, optimizer: Optimizer) -> Iterator[WarmUp | Blocked]:
    """The outermost loop that an optimizer lives through."""
    epochs = facts.program.options.warmup_epochs
    before = optimizer.made.turns
    batches = {loop.node for loop in facts.training_loops}
    for step in facts.steps:
        values = (step.receiver, *step.arguments.positional)
        loops = [here for here in step.loops() if here.node not in before]
        if not loops or not any(optimizer.obj in value.objs for value in values):
            continue
        outermost = loops[-1]
        if isinstance(outermost.node, cst.For):
            place = _iterated(facts, outermost.node)
            yield WarmUp(outermost.frame.module, place, epochs, outermost.node in batches)
        elif isinstance(outermost.node, cst.While):
            yield _endless(outermost)


def _iterated(facts: Facts, loop: cst.For) -> cst.BaseExpression:
    """What has a length: `enumerate` has none."""
    node = loop.iter
    while isinstance(node, cst.Call) and node.args and not node.args[0].star:
        callee = facts.value(node.func).single()
        if not (isinstance(callee, Ref) and callee.name == python.COUNTS):
            break
        node = node.args[0].value
    return node


def _endless(loop: Here) -> Blocked:
    return Blocked(
        CODE, loop.frame.module, loop.node,
        "how long this loop runs is not known before it ends, and a warm-up must not take more than a fifth of it",
        f"loop over range(epochs), or leave the warm-up away (--warmup-epochs 0); or {_KEEP}",
    )  # fmt: skip
