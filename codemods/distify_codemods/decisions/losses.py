"""Losses that are no means over samples, and what of them must be computed over the batches of all ranks.

The average over ranks of a mean is the mean. That of a ratio of sums (a mean over the tokens that are not padding), or
of a root, is not; but of what a rank has before it divides or bends, there are sums and means over all ranks. Which
expressions these are is asked of a run in which numbers keep in mind where they stopped being means, and whether
the loss is right once they are reduced is tried out.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Ref
from distify_codemods.batches import dealt_by, deciding
from distify_codemods.decisions.base import LossForm, LossReduction
from distify_codemods.decisions.differing import why_different
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.interpreter import Reducing
from distify_codemods.libraries.torch_losses import takes_reduction
from distify_codemods.libraries.torch_tensors import MEAN
from distify_codemods.objects import External, Mapping, Sequence
from distify_codemods.origins import Lost, Shape, Verdict
from distify_codemods.scale import LOST, PER_SAMPLE, Scale

_ROUNDS = 4  # what is left of a loss once its inner sums are reduced may need more of it
_SUMS = frozenset({Scale.SUM, Scale.COUNT})
_NO_NUMBERS = (Sequence, Mapping, Shape)
Found = dict[cst.CSTNode, LossReduction]


def decide_losses(facts: Facts) -> tuple[Facts, tuple[LossReduction, ...]]:
    """The facts with the losses reduced that can be, and the expressions that are."""
    if not lost(facts):
        return facts, ()
    chosen: Found = {}
    for _ in range(_ROUNDS):
        traced = _with(facts, chosen, traced=True)
        found = {node: one for event in lost(traced) for node, one in _sought(traced, event) if node not in chosen}
        if not found:
            break
        chosen |= found
    while chosen:
        tried = _with(facts, chosen, traced=True)
        useless = _useless(tried, chosen)
        if not useless:
            return _with(facts, chosen), tuple(chosen.values())
        chosen = {node: one for node, one in chosen.items() if node not in useless}
    return facts, ()


def propagated(facts: Facts) -> Iterator[Event]:
    """The backward passes that each rank does for its share of a batch."""
    for event in facts.backwards:
        dealt = dealt_by(event.receiver.sources)
        if dealt and not all(map(facts.left_alone, dealt)):
            yield event


def _with(facts: Facts, chosen: Found, traced: bool = False) -> Facts:
    return facts.tried(reducing=Reducing(frozenset(chosen), traced))


def lost(facts: Facts) -> list[Event]:
    """Backward passes of what is no mean or sum over samples, as far as is seen."""
    return [event for event in propagated(facts) if event.receiver.scale in LOST]


# ---- what is sought


def _sought(facts: Facts, event: Event) -> Iterator[tuple[cst.CSTNode, LossReduction]]:
    for source in event.receiver.sources:
        if isinstance(source, Lost) and source.site is not None and source.module is not None:
            for node, form in _operands(facts, source.site):
                yield node, LossReduction(source.module, node, form)


def _compared(facts: Facts, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Of a verdict, `loss > 1`, what it is about: of verdicts there is no mean."""
    if not any(isinstance(obj, Verdict) for obj in facts.value(node).objs):
        return [node]
    if isinstance(node, cst.Comparison):
        sides = (node.left, *(one.comparator for one in node.comparisons))
        return [part for side in sides for part in _compared(facts, side)]
    return []


def _operands(facts: Facts, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, LossForm]]:
    """What of an operation has a sum or a mean over all ranks."""
    if isinstance(node, cst.Call):
        form = _whole(facts, node)
        if form is not None:
            yield node, form
            return
        operands: list[cst.BaseExpression] = [argument.value for argument in node.args if not argument.star]
        if isinstance(node.func, cst.Attribute):
            operands.append(node.func.value)
        additive = False
    elif isinstance(node, cst.BinaryOperation):
        operands, additive = [node.left, node.right], isinstance(node.operator, (cst.Add, cst.Subtract))
    elif isinstance(node, cst.AugAssign):
        operands, additive = [node.value], isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign))
        line = facts.module_of(node).parents.get(node)
        alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
        if additive and alone and facts.value(node).scale in _SUMS:
            yield node, LossForm.SUM
    else:
        return
    operands = [part for one in operands for part in _compared(facts, one)]
    additive = additive and not any(facts.value(operand).scale in PER_SAMPLE for operand in operands)
    for operand in operands:
        value = facts.value(operand)
        scale = Scale.UNKNOWN if any(isinstance(obj, _NO_NUMBERS) for obj in value.objs) else value.scale
        if scale in _SUMS:
            yield operand, LossForm.SUM
        elif scale is Scale.MEAN and not additive:
            yield operand, LossForm.MEAN


def _whole(facts: Facts, call: cst.Call) -> LossForm | None:
    """A mean with weights of torch's own."""
    if facts.value(call).scale is not Scale.WEIGHTED:
        return None
    callees = facts.value(call.func).objs
    if callees and all(isinstance(obj, (External, Ref)) and takes_reduction(obj.name) for obj in callees):
        return LossForm.CRITERION
    given: cst.BaseExpression | None = None
    if callees and all(isinstance(obj, Ref) and obj.name == MEAN for obj in callees) and len(call.args) == 1:
        given = call.args[0].value
    elif isinstance(call.func, cst.Attribute) and call.func.attr.value == "mean" and not call.args:
        given = call.func.value
    ragged = given is not None and facts.value(given).scale is Scale.RAGGED
    return LossForm.ENTRIES if ragged else None


# ---- what is tried out


def _useless(facts: Facts, chosen: Found) -> set[cst.CSTNode]:
    """What is not right where it stands, or serves a loss that is not mended by it."""
    reduced: dict[cst.CSTNode, list[Event]] = {}
    for event in facts.of_kind(Kind.REDUCED):
        reduced.setdefault(event.node, []).append(event)
    found = {node for node in chosen if not _fits(facts, chosen[node], reduced.get(node, []))}
    for event in lost(facts):
        found |= {node for node in chosen if _serves(facts, reduced.get(node, []), event)}
    return found


def _serves(facts: Facts, reduced: list[Event], backward: Event) -> bool:
    """Whether a backward pass may propagate what was reduced: both are in the same training loop."""
    loops = [loop.event for loop in facts.training_loops if backward.inside(loop.event)]
    return any(one.inside(loop) for one in reduced for loop in loops)


_SCALES = {
    LossForm.SUM: _SUMS,
    LossForm.MEAN: frozenset({Scale.MEAN}),
    LossForm.CRITERION: frozenset({Scale.WEIGHTED}),
    LossForm.ENTRIES: frozenset({Scale.WEIGHTED}),
}


def _fits(facts: Facts, one: LossReduction, reduced: list[Event]) -> bool:
    """Whether all ranks come here with a share of a training batch each time that gradients are recorded."""
    recorded = [event for event in reduced if event.grad]
    return bool(recorded) and all(
        event.value.scale in _SCALES[one.form]
        and _of_training(facts, event)
        and _together(facts, event)
        and facts.in_training(event)
        for event in recorded
    )


def _of_training(facts: Facts, event: Event) -> bool:
    """Whether it is of batches of training alone, whatever others have decided that they are trained on."""
    dealt = set(dealt_by(event.value.sources))
    others = {one for one in dealt if isinstance(one, External)} - set(facts.training_loaders)
    return bool(dealt - others) and others <= set(deciding(facts.run, event))


def _together(facts: Facts, event: Event) -> bool:
    """No rank comes here without the others, or more often: it would wait for them for ever."""
    loops = [loop.node for loop in facts.loops]
    for here in event.here.up():
        node = here.node
        if not here.arm or here.is_decided:
            continue
        if isinstance(node, (cst.If, cst.While)) and node not in loops and _differs(facts, node.test):
            return False
        if isinstance(node, cst.For) and node not in loops and _is_of_batches(facts, node.iter):
            return False
    if _others_may_have_left(facts, event):
        return False
    calls = (call for call in event.here.frame.context if isinstance(call, cst.CSTNode))
    return all(_is_evaluated(facts, node) for node in (event.node, *calls))


def _is_evaluated(facts: Facts, node: cst.CSTNode) -> bool:
    """Whether each rank that runs the statement of an expression evaluates the expression, and as often."""
    inner = node
    for around in facts.module_of(node).enclosing(node):
        if isinstance(around, cst.IfExp) and around.test is not inner and _differs(facts, around.test):
            return False
        if isinstance(around, cst.BooleanOperation) and around.right is inner and _differs(facts, around.left):
            return False
        if isinstance(around, cst.BaseComp) and any(_is_apart(facts, one) for one in _loops_of(around)):
            return False
        inner = around
    return True


def _others_may_have_left(facts: Facts, event: Event) -> bool:
    """Whether a test that a rank decides for itself leads away before this is reached."""
    frames = {here.frame for here in event.here.up()}
    return any(
        one.kind is Kind.LEAVE and one.here.frame in frames and one.name != "raise" and one.before(event)
        and any(
            isinstance(here.node, cst.If) and here.frame is one.here.frame and not here.is_decided
            and here.arm and _differs(facts, here.node.test)
            for here in one.here.up()
        )
        for one in facts.run.events
    )  # fmt: skip


def _loops_of(node: cst.BaseComp) -> Iterator[cst.CompFor]:
    over: cst.CompFor | None = node.for_in
    while over is not None:
        yield over
        over = over.inner_for_in


def _is_apart(facts: Facts, over: cst.CompFor) -> bool:
    """Whether a comprehension takes other turns on each rank: of what is in its batch, or by a test of that."""
    return _is_of_batches(facts, over.iter) or any(_differs(facts, one.test) for one in over.ifs)


def _differs(facts: Facts, test: cst.BaseExpression) -> bool:
    return bool(why_different(facts, facts.value(test).sources))


def _is_of_batches(facts: Facts, over: cst.BaseExpression) -> bool:
    """A loop over the samples, or over what was found in them, is another one on each rank."""
    value = facts.value(over)
    counted = any(facts.value(node).scale in (*PER_SAMPLE, Scale.COUNT) for node in tree.walk(over)
                  if isinstance(node, cst.BaseExpression))  # fmt: skip
    return counted or bool(dealt_by(value.sources) and value.scale is not Scale.CONST)
