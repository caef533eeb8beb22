"""What differs from rank to rank: values, tests, rates, and whether all ranks come to a place alike."""

from __future__ import annotations

from typing import NamedTuple

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import CallChain, Obj
from distify_codemods.answers import answered_once
from distify_codemods.decisions.caught import may_be_caught
from distify_codemods.decisions.handed_on import handed_on
from distify_codemods.decisions.marks import with_evidence
from distify_codemods.decisions.names import bound_by
from distify_codemods.decisions.own_streams import has_a_stream_of_its_own
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, dealt_by, wrapped
from distify_codemods.inside import core, root
from distify_codemods.interpreter.frames import Frame
from distify_codemods.interpreter.holding import any_item
from distify_codemods.interpreter.ranks import RANK
from distify_codemods.libraries import effects, torch_optim
from distify_codemods.objects import External, Parameters, Sequence
from distify_codemods.ordered import Ordered
from distify_codemods.origins import CHANCE, SIGNAL, Choice, Draw, Dropped, Kept, Share, Verdict
from distify_codemods.scale import Scale
from distify_codemods.values import SIZE, Value

_BY_CHANCE = "depends on chance"
#: What comes of it is a process's own.
OF_THE_PROCESS: Ordered[Obj | str] = Ordered(["time", SIGNAL, "machine"])
#: What keeps something of the run for later.
_KEEPING = frozenset([*effects.CHECKPOINTS, *(f"shutil.{name}" for name in ("copy", "copy2", "copyfile", "move"))])


def differs(facts: Facts, event: Event) -> str:
    """Why the outcome of a test is a rank's own, though it does not ask which rank it is."""
    test = getattr(event.node, "test", None)
    if isinstance(test, cst.BaseExpression) and _asks_whether_any(facts, test):
        return ""
    why = why_different(facts, event.value.sources - RANK)
    drawn = why == _BY_CHANCE and isinstance(test, cst.BaseExpression) and _is_drawn_before_training(facts, test)
    return "" if drawn else why


def _is_drawn_before_training(facts: Facts, node: cst.BaseExpression) -> bool:
    """Whether all random numbers that it depends on are drawn where the ranks draw alike: data, made at the start."""
    seen = with_evidence(facts)
    sources = seen.value(node).sources
    if not seen.training_loops or _is_dropped(seen, sources):
        return False
    sites = {one.site for one in sources if isinstance(one, Draw)}
    drawing = [event for event in seen.run.events if event.node in sites]
    return bool(sites) and sites == {event.node for event in drawing} and not any(
        _in_training_run(seen, event) or has_a_stream_of_its_own(event) for event in drawing
    )  # fmt: skip


def _asks_whether_any(facts: Facts, test: cst.BaseExpression) -> bool:
    """`len(x) == 0`, `not len(x)`, `seen > 0`: a share has samples if its batch has some."""
    while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test = test.expression
    if isinstance(test, cst.BooleanOperation):
        sides = (test.left, test.right)
        return all(_asks_whether_any(facts, one) or not why_different(facts, facts.value(one).sources) for one in sides)
    if not isinstance(test, cst.Comparison):
        return _is_a_size(facts.value(test))
    bounds = [facts.value(one.comparator).constant() for one in test.comparisons]
    return bounds == [0] and _is_a_size(facts.value(test.left))


def _is_a_size(value: Value) -> bool:
    judged = any(isinstance(one, Verdict) for one in value.objs)  # `len(x) == 8`
    return value.objs == SIZE or (value.scale is Scale.COUNT and not judged)


def of_batches(sources: Ordered[Obj | str]) -> Ordered[Obj]:
    """What deals out the batches that a value depends on, or that were written into it: `matrix[t, p] += 1`."""
    return dealt_by(sources) | [loader for one in sources if isinstance(one, Kept) for loader in one.of]


def of_own_batches(facts: Facts, sources: Ordered[Obj | str]) -> bool:
    """Whether a value depends on batches that each rank has for itself: those of training, not of an evaluation."""
    training = facts.training_loaders
    return any(loader in training or isinstance(loader, Share) for loader in of_batches(sources))


def is_of_an_evaluation(facts: Facts, node: cst.BaseExpression) -> bool:
    """Whether it is made of batches, and of none that a rank has for itself: another one by chance alone."""
    value = facts.value(node)
    sources = value.sources | entries(value)
    return bool(of_batches(sources)) and not of_own_batches(facts, sources)


def entries(value: Value) -> Ordered[Obj | str]:
    """What the numbers in a list depend on."""
    return any_item(value.of(obj for obj in value.objs if isinstance(obj, Sequence))).sources


def why_different(facts: Facts, sources: Ordered[Obj | str]) -> str:
    if sources & RANK:
        return "depends on the rank"
    if not facts.run.trial.shared and of_own_batches(facts, sources):
        return "depends on the training loss or batch of one rank"
    if "time" in sources:
        return "depends on the time"
    if SIGNAL in sources:
        return "depends on when a signal comes"
    if "machine" in sources:
        return "depends on the process or machine"
    if (CHANCE in sources or _is_dropped(facts, sources)) and facts.backwards and not facts.run.trial.draws_alike:
        return _BY_CHANCE
    return ""


def _is_dropped(facts: Facts, sources: Ordered[Obj | str]) -> bool:
    """Whether something in it is dropped at random outside of training, since no model is ever made to evaluate.

    In a pass over data that each rank makes whole, all ranks draw alike (`whole_passes.py`).
    """
    sites = {one.site for one in sources if isinstance(one, Dropped)}
    if not sites or facts.run.trial.shared:
        return False
    if any(event.name == "eval" or event.arguments.first.constant() is False for event in _modes(facts)):
        return False
    training = {here.node for loop in facts.training_loops for here in loop.event.here.up()}
    dropping = [event for event in facts.run.events if event.node in sites]
    return any({here.node for here in event.here.loops} <= training for event in dropping)


@answered_once
def _modes(facts: Facts) -> list[Event]:
    return [event for event in facts.of_kind(Kind.METHOD) if event.name in ("eval", "train")]


#: The last event that touches the other ranks, or what is kept of the run, in an arm of a branch.
Guarded = dict[tuple[cst.CSTNode, CallChain], int]


@answered_once
def guarded(facts: Facts) -> Guarded:
    return {
        (here.node, here.frame.context): event.number
        for event in facts.run.events if _consequence(facts, event)
        for here in event.here.up() if here.arm
    }  # fmt: skip


def matters(facts: Facts, test: Event, behind: Guarded) -> bool:
    """Whether what it decides touches the other ranks, or what is kept of the run; `behind`: what is `guarded`."""
    if test.node in handed_on(facts).nodes:
        return True
    handing = test.here.frame.node in _of_batches_to_come(facts).generators  # it may have begun before any training
    if not facts.training_loops or not (handing or _in_training_run(facts, test)):
        return False
    if behind.get((test.node, test.here.frame.context), -1) > test.number:
        return True
    return isinstance(test.node, cst.While) or any(
        isinstance(source, Choice) and source.site is test.node
        for backward in facts.backwards for source in backward.receiver.sources
    )  # fmt: skip


def _in_training_run(facts: Facts, test: Event) -> bool:
    first = min((loop.event for loop in facts.training_loops), key=lambda event: event.number)
    return not first.turns.isdisjoint(test.turns) or test.number >= first.number or isinstance(test.node, cst.While)


def _consequence(facts: Facts, event: Event) -> bool:
    if event in facts.backwards or event in facts.steps or _hands_on(facts, event):
        return True
    if event.kind is Kind.FORWARD:
        shared = facts.run.trial.shared and facts.is_of_a_model(event)
        return shared or (bool(wrapped(event.receiver)) and event.grad)
    if event.kind is Kind.CALL:
        return event.name in _KEEPING or any(one.obj in event.value.objs for one in facts.optimizers)
    if event.kind is Kind.METHOD:
        asks = event.name in ("state_dict", "load_state_dict")
        if (asks and facts.is_of_a_model(event)) or _changes_training(facts, event):
            return True
        return event.name == "step" or event.name in effects.CHECKPOINT_METHODS
    if event.kind is Kind.STORE:
        return _changes_training(facts, event)
    if event.kind is Kind.LEAVE:
        return may_be_caught(facts, event) if event.name == "raise" else _ends_training(facts, event)
    return event.kind is Kind.LOOP and any(loop.event.node is event.node for loop in facts.loops)


#: What makes another thing of a model, an optimizer or a parameter, for the steps to come.
_CHANGING = frozenset(
    "train eval apply add_param_group zero_grad requires_grad_ requires_grad register_buffer add_module".split()
)


def _changes_training(facts: Facts, event: Event) -> bool:
    if event.name not in _CHANGING:
        return False
    optimizers = {one.obj for one in facts.optimizers}
    objs = [obj for inner in tree.inwards(event.receiver_node) for obj in facts.value(inner).objs]
    objs += event.receiver.objs
    return any(isinstance(one, Parameters) or one in optimizers or core(root(one)) in facts.models for one in objs)


def _ends_training(facts: Facts, event: Event) -> bool:
    """`break`, `continue` and `return` where a training or evaluation loop goes on, or would have begun, where its
    batches are taken and handed on, or before a step."""
    if event.name == "exit":
        return True
    places = _of_batches_to_come(facts)
    if event.name == "return":
        return event.here.frame.node in places.functions or places.steps.get(event.here.frame, -1) > event.number
    loops = [here.node for here in event.here.up() if isinstance(here.node, (cst.For, cst.While)) and here.arm]
    return bool(loops) and (loops[0] in places.around or (event.name == "break" and _leaves_a_name(event, loops[0])))


def _leaves_a_name(event: Event, loop: cst.For | cst.While) -> bool:
    """`for t in (1, 2, 4): if loss / t < 1: break`, where `t` is read behind the loop."""
    flow, inside = event.module.flow(loop), set(tree.walk(loop))
    names = bound_by(loop.body) | set(tree.target_names(loop.target) if isinstance(loop, cst.For) else ())
    return any(node not in inside for name in names for node in flow.reads_after(loop, name))


class _Places(NamedTuple):
    """Where batches are taken, handed on and used."""

    functions: frozenset[cst.CSTNode]
    generators: frozenset[cst.CSTNode]  # those that hand them on
    around: frozenset[cst.CSTNode]  # all that these places are in
    steps: dict[Frame, int]  # the last of what steps are made of, in each call that leads there


@answered_once
def _of_batches_to_come(facts: Facts) -> _Places:
    handing = [event for event in facts.of_kind(Kind.DRAW, Kind.YIELD) if _hands_on(facts, event)]
    events = [*(loop.event for loop in facts.loops), *handing]
    functions = frozenset(event.here.frame.node for event in events)
    generators = frozenset(event.here.frame.node for event in handing if event.kind is Kind.YIELD)
    around = {here.node for event in events for here in event.here.up()} | {loop.node for loop in facts.loops}
    made = sorted((*facts.backwards, *facts.steps), key=lambda event: event.number)
    steps = {here.frame: event.number for event in made for here in event.here.up()}
    return _Places(functions, generators, frozenset(around), steps)


def _hands_on(facts: Facts, event: Event) -> bool:
    """Whether a batch of training is taken from its loader here, or handed out by a generator."""
    if event.kind is Kind.DRAW:
        return not facts.training_loaders.isdisjoint(event.value.objs)
    if event.kind is not Kind.YIELD:
        return False
    of_one = of_own_batches(facts, event.value.sources | entries(event.value))
    return of_one or event.here.frame.node in handed_on(facts).nodes


def rate_differs(facts: Facts, event: Event) -> str:
    """Why the learning rate that is set here is a rank's own."""
    if event.kind is Kind.STORE:
        target = event.node
        if event.name == "[]" and isinstance(target, cst.Subscript) and isinstance(target.slice[0].slice, cst.Index):
            key = target.slice[0].slice.value
            if isinstance(key, cst.SimpleString) and key.evaluated_value == "lr":
                return why_different(facts, event.value.sources)
        return ""
    schedulers = [obj for obj in event.receiver.objs if isinstance(obj, External) and torch_optim.is_schedule(obj.name)]
    if event.name == "step" and schedulers and event.arguments.positional:
        return why_different(facts, event.arguments.positional[0].sources)
    return ""


def reached_alike(facts: Facts, event: Event) -> bool:
    """Whether all ranks come to a place equally often: no branch or loop around it is a rank's own."""
    for here in event.here.up():
        if event.kind is Kind.TEST and here.node is event.node:
            continue  # all that go on after the test of a loop have come out of it alike
        around = here.node.iter if isinstance(here.node, cst.For) else getattr(here.node, "test", None)
        if here.arm and isinstance(around, cst.BaseExpression) and why_different(facts, facts.value(around).sources):
            return False
    return True
