"""MODEL03: where the script reaches into a model, it gets the model, not the wrap."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions import modes
from distify_codemods.decisions.past_the_wrap import TRANSPARENT
from distify_codemods.events import Event, Kind
from distify_codemods.facts import wrapped
from distify_codemods.inside import contained, core
from distify_codemods.libraries import checkpoints, python
from distify_codemods.libraries.parallel import FUNCTIONAL, REPLICATES
from distify_codemods.objects import Mapping, Parameters, Sequence, Wrapped
from distify_codemods.plan import Rewrite
from distify_codemods.program import Module
from distify_codemods.rules.base import Context, Rule, attribute_of, call_of
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.rules.other_scripts import inside_wrap
from distify_codemods.values import Value

CODE = "MODEL03"
_REASON = "the model itself, not its wrap"
_DISPLAYS = (cst.Dict, cst.List, cst.Tuple)
_EVALUATION = "evaluation calls the model itself: the wrap would wait for the other ranks"


def run(context: Context) -> None:
    places: dict[cst.BaseExpression, tuple[Module, str]] = {}
    training: dict[cst.BaseExpression | None, list[Event]] = {}
    for event in context.facts.of_kind(Kind.FORWARD):
        if wrapped(event.receiver) and _trains(context, event):
            training.setdefault(event.receiver_node, []).append(event)
    saved = False
    calls: set[cst.CSTNode] = set()  # what a call is given is known over all of its contexts
    for event in context.facts.run.events:
        if event.kind in (Kind.CALL, Kind.PRINT) and not event.name.startswith("local."):
            if event.node in calls:
                continue
            calls.add(event.node)
            saved = _unwrap_what_is_saved(context, event) or saved
        for node, reason in _places(context, event):
            places.setdefault(node, (event.module, reason))
    for module in context.facts.run.frames:
        places.update((one, (module, _REASON)) for node in module.nodes for one in _shown(node))
    places = {node: place for node, place in places.items() if wrapped(context.facts.value(node))}
    for node, (module, reason) in places.items():
        if not context.editable(module, node, "a trained model is reached into"):
            continue
        if node in training:
            _by_each(context, module, node, training[node])
        else:
            context.plan(module).replace(node, _inside(context, module, node), CODE, reason)
    if places or saved:
        context.applied("state, attributes and evaluation go to the model inside the wrap")
    else:
        context.not_needed("the script itself never reaches into a trained model")


def _inside(context: Context, module: Module, node: cst.BaseExpression) -> Rewrite:
    """`.module`; where another model comes by that is not wrapped, what is inside of a wrap if there is one."""
    if all(isinstance(obj, Wrapped) for obj in context.facts.value(node).objs):
        return inside_wrap(context, module, node)
    return call_of(f"{context.rt(module)}.unwrap({{}})")


def _shown(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """What becomes a part of a text: `f"{model}"`, `"%s" % model`, `"{}".format(model)`."""
    if isinstance(node, cst.FormattedStringExpression):
        return [node.expression]
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo) and _is_text(node.left):
        return [one.value for one in node.right.elements] if isinstance(node.right, cst.Tuple) else [node.right]
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "format":
        return [one.value for one in node.args] if _is_text(node.func.value) else []
    return []


def _is_text(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString))


def _in_train_mode(context: Context, event: Event) -> bool:
    """Whether each turn of training is seen to begin with `model.train()`, if the model is ever put into eval mode."""
    found = modes.modes(context.facts, {core(obj) for obj in event.receiver.objs})
    if all(modes.trains(one) for one in found):
        return True
    last = next((one for one in reversed(found) if one.before(event)), None)
    turns = [here.node for here in event.loops()]
    loops = [loop.node for loop in context.facts.training_loops]
    around = [node for node in turns if node not in loops]
    return (
        last is not None
        and modes.trains(last) is True
        and last.dominates(event)
        and (not around or any(here.node is around[0] for here in last.here.up()))
    )


def _by_mode(inside: Rewrite) -> Rewrite:
    """`(model if model.training else model.module)`, `(model if model.training else rt.unwrap(model))`"""

    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        return tree.bracketed(cst.IfExp(test=attribute_of("training")(updated), body=updated, orelse=inside(updated)))

    return rewrite


def _by_each(context: Context, module: Module, node: cst.BaseExpression, passes: list[Event]) -> None:
    """What trains and evaluates in one line, by the mode that the model is in."""
    if all(_in_train_mode(context, event) for event in passes):
        reason = "this line trains and evaluates: the wrap is for training"
        context.plan(module).replace(node, _by_mode(_inside(context, module, node)), CODE, reason)
    else:
        context.needs_you(
            "this line trains and evaluates, and the model's mode does not tell which",
            module, node, "call `model.train()` before each pass of training, or use two lines",
        )  # fmt: skip


def _places(context: Context, event: Event) -> list[tuple[cst.BaseExpression, str]]:
    inner, node = event.receiver_node, event.node
    if node in context.decisions.walked:
        return []  # as what is inside of nn.DataParallel is inside of the wrap
    if event.kind is Kind.LOOP and isinstance(node, cst.For) and wrapped(event.value):
        return [(node.iter, _REASON)]
    if event.kind in (Kind.CALL, Kind.PRINT) and isinstance(node, cst.Call) and not event.name.startswith("local."):
        given = node.args if event.name not in (*FUNCTIONAL, *REPLICATES, *python.HANDS_ON) else ()
        return [(one, _REASON) for argument in given for one in _models_in(context, argument.value)]
    if inner is None or not wrapped(event.receiver):
        return []
    if event.kind is Kind.FORWARD:
        return [] if _trains(context, event) else [(inner, _EVALUATION)]
    reaches = event.kind is Kind.STORE or (event.kind is Kind.ATTRIBUTE and not _is_as_before(context, event))
    return [(inner, _REASON)] if reaches else []


def _is_as_before(context: Context, event: Event) -> bool:
    """An attribute that the wrap has, too; `.module` of nn.DataParallel, and keys that begin with `module.`."""
    through = context.decisions.reached_through.get(event.node, False)
    return through or event.name in TRANSPARENT or _keeps_prefix(context, event)


def _keeps_prefix(context: Context, event: Event) -> bool:
    call = event.module.parents.get(event.node)
    return call is not None and context.decisions.prefixed.get(call, False)


def _trains(context: Context, event: Event) -> bool:
    """Whether a forward pass may lead to a backward pass: gradients are recorded, and it is in no evaluation."""
    if not event.grad:
        return False
    if context.facts.in_training(event):
        return not any(event in loop.forwards for loop in context.facts.evaluation_loops)
    return False


def _models_in(context: Context, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The wrapped model that is given to a library: itself, or in a dictionary or list that is made for it.

    What is made elsewhere may be there to train with: it keeps its wraps.
    """
    value: Value = context.facts.value(node)
    if wrapped(value) and not any(isinstance(obj, Parameters) for obj in value.objs):
        return [node]
    inside = {id(one) for one in tree.walk(node)}
    return [
        element.value
        for obj in contained(value)
        if isinstance(obj, (Mapping, Sequence)) and isinstance(obj.site, _DISPLAYS) and id(obj.site) in inside
        for element in obj.site.elements
        if wrapped(context.facts.value(element.value))
    ]


def _unwrap_what_is_saved(context: Context, event: Event) -> bool:
    """`torch.save(state)`, with a wrapped model somewhere in what is saved."""
    node = event.node
    if event.name not in checkpoints.WHOLE or not isinstance(node, cst.Call) or not node.args or node.args[0].star:
        return False
    saved = node.args[0].value
    value = context.facts.value(saved)
    if not any(isinstance(obj, Wrapped) and obj.ours for obj in contained(value)):
        return False
    if wrapped(value) or _models_in(context, saved) or not context.editable(event.module, saved, "a model is saved"):
        return False
    context.put_into(event.module, saved, "unwrap({})", _REASON)
    return True


RULE = Rule(
    code=CODE,
    name="inside the model",
    why="A wrapped model's state has `module.` before every key and none of the model's own attributes; an evaluation "
    "forward through the wrap waits for ranks that are not evaluating.",
    safety="After the wrap, everything but the training forward goes to `.module`; where the same line sees "
    "wrapped and plain "
    "models, to `unwrap(model)`.",
    run=run,
    shared="no model is wrapped, so that nothing is to be reached through",
    pitfalls=(10, 11, 17, 29),
    examples=(
        Example(
            end="""
              model.eval()
              with torch.no_grad():
            -     print(model(torch.ones(1, 4)), model.weight)
            +     print(model.module(torch.ones(1, 4)), model.module.weight)
            - print(model.state_dict())
            + print(model.module.state_dict())
            """
        ),
        LeftAlone(epoch="model.train()", end="print(sum(p.numel() for p in model.parameters()))"),
    ),
)
