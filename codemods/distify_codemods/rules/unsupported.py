"""OTHER01: what distribution touches and no rule handles yet."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import cache, partial

import libcst as cst

from distify_codemods import refusals, scripted, tree
from distify_codemods.allocation import Const, Obj
from distify_codemods.decisions import concurrent, doubts, tensors_alone
from distify_codemods.decisions.base import Blocked
from distify_codemods.decisions.own_gradients import is_of_a_module
from distify_codemods.decisions.touching import parts_of
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Optimizer, dealt_by, drawn_from
from distify_codemods.inside import contained, root
from distify_codemods.libraries import distributed, python, torch_nn, torch_optim
from distify_codemods.libraries.torch_data import LOADERS
from distify_codemods.objects import External, Instance, Mapping, Method, Parameters, Passing, Sequence
from distify_codemods.origins import Zero
from distify_codemods.program import Module
from distify_codemods.results import Place
from distify_codemods.rules import raising
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import LeftAlone
from distify_codemods.tree import string
from distify_codemods.values import NOTHING, Value

CODE = "OTHER01"
_STARTS = "it starts processes of its own"
_CALLS = {
    distributed.SPAWN: _STARTS,
    python.STARTS_PROCESSES: _STARTS,
}


def run(context: Context) -> None:
    raising.advise(context)
    found = list(_problems(context))
    for problem in found:
        context.blocked(problem)
    compiled = _compiled(context)
    if not _turned_off(context) and not (found or compiled):
        context.not_needed_if_known("nothing else that distribution touches was found")


def _compiled(context: Context) -> bool:
    """Says where something was written into a function that TorchScript compiles: it would not be defined any more."""
    functions = scripted.compiled(context.facts)
    found = {
        function: (module, function)
        for module, plan in context.plans.items() for node in plan.touched() if functions
        for function in (node, *module.enclosing(node)) if function in functions
    }  # fmt: skip
    for module, function in found.values():
        context.needs_you(
            "TorchScript compiles this function, and takes none of what the conversion writes into it",
            module, function, "leave it to Python: take `torch.jit.script` away",
        )  # fmt: skip
    return bool(found)


def _problems(context: Context) -> Iterator[Blocked]:
    facts, entry = context.facts, context.entry
    if not (facts.run.complete if context.shares_forwards else facts.run.exact):
        yield Blocked(CODE, entry, entry.tree, refusals.TOO_LARGE)
    if not context.shares_forwards:  # else each rank has the whole gradients of whatever else is trained
        alone = tensors_alone.of_tensors(facts)
        for optimizer in facts.optimizers:
            yield from _of_no_module(context, optimizer) if optimizer not in alone else ()
        yield from itertools.islice(_by_hand(context), 1)
    left = {distributed.SPAWN} if facts.calls(distributed.GROUP) else set()
    found = {event.node: event for event in facts.calls(*(_CALLS.keys() - left))}
    found |= {event.node: event for event in concurrent.computing_processes(facts)}
    for event in found.values():
        what, fix = _CALLS.get(event.name, _STARTS), "start one process per GPU with `distify run`"
        yield Blocked(CODE, event.module, event.node, what, fix)
    for one in facts.program.unreadable:
        yield Blocked(CODE, entry, entry.tree, f"{one.path} is imported and cannot be read: {one.message}")


def _of_no_module(context: Context, optimizer: Optimizer) -> Iterator[Blocked]:
    """Parameters whose gradients nothing would average."""
    call, module = optimizer.made.node, optimizer.made.module
    added = [
        event.node for event in context.facts.of_kind(Kind.METHOD)
        if event.name == torch_optim.ADDS_PARAMETERS and optimizer.obj in event.receiver.objs
    ]  # fmt: skip
    given = [one.args[0].value for one in (call, *added) if isinstance(one, cst.Call) and one.args]
    given = given if optimizer.models else []
    free = (_free(context, one) or (one if _holds_free(context, one) else None) for one in given)
    alone = next((one for one in free if one is not None), None)
    if not optimizer.models and not optimizer.not_models and not doubts.may_train(context.facts, optimizer):
        yield Blocked(
            CODE, module, call,
            "this optimizer's parameters belong to no module that is seen, so their gradients would not be averaged",
            "make them parameters of a `torch.nn.Module`, call that, and give it `module.parameters()`",
        )  # fmt: skip
    if alone is not None:
        what = "this parameter belongs to no module, so its gradient would not be averaged"
        yield Blocked(CODE, module, alone, what, "make it a parameter of the model")


def _by_hand(context: Context) -> Iterator[Blocked]:
    facts = context.facts
    doubted = any(blocked.code == doubts.CODE for blocked in context.decisions.blocked)
    for event in facts.backwards if not (facts.optimizers or facts.models or doubted) else ():
        if dealt_by(event.receiver.sources) or drawn_from(event.receiver.sources):
            named = doubts.to_be_named(facts)
            what = "parameters are updated by hand, without an optimizer"
            if named:
                what = "no optimizer is seen that has the parameters of what is called here"
            fix = f", or say what is trained: {named}" if named else ""
            yield Blocked(CODE, event.module, event.node, what, f"use an optimizer of torch.optim{fix}")


def _turned_off(context: Context) -> bool:
    """Training and figures where a constant of the script does not let it come: decisions have not seen them."""
    places: dict[cst.If, Module] = {}
    trains: set[cst.If] = set()
    is_set, turned_off = cache(partial(_is_set, context)), context.facts.run.machine.record.turned_off
    for event in context.facts.run.events:
        if event.unused and _is_of_training(event):
            for here in event.here.up():
                left_out = (here.node, here.arm) in turned_off  # and no test in a function that is called from there
                if isinstance(here.node, cst.If) and left_out and here.node.test not in context.facts.run.unused:
                    if is_set(here.node.test):
                        places.setdefault(here.node, here.frame.module)
                        trains |= {here.node} if _is_made(event) or context.facts.in_training(event) else set()
                    break
    for first, *more in _by_constant(context, places):
        also = _also([places[one].place(one) for one in more])
        context.advice(
            f"`{tree.code_of(first.test)}` is decided by a constant{also}, and what it turns off "
            f"{'is a part of training' if trains.intersection([first, *more]) else 'works on batches'}: "
            "files and output are converted there, the rest is not; set it and convert again before you use it",
            places[first], first,
        )  # fmt: skip
    brought = context.facts.run.machine.record.brought
    training = {branch: [one for one in brought[branch] if _has_training(one)] for branch in brought}
    for branch, files in training.items():
        if files and branch not in places and is_set(branch.test):
            module = context.facts.module_of(branch)
            places[branch] = module
            context.advice(
                f"`{tree.code_of(branch.test)}` is decided by a constant, and what it turns off brings "
                f"{files[0].path}, which trains: nothing is converted there; set it and convert again before you "
                "use it",
                module, branch,
            )  # fmt: skip
    return bool(places)


def _by_constant(context: Context, branches: Iterable[cst.If]) -> list[list[cst.If]]:
    """The branches that go together: whoever sets one constant decides all that ask for it."""
    groups: list[tuple[set[cst.CSTNode | None], list[cst.If]]] = []
    for branch in branches:
        asked, together = {obj.site for obj in _constants(context, branch.test)}, [branch]
        apart = []
        for sites, group in groups:
            if sites.isdisjoint(asked):
                apart.append((sites, group))
            else:
                asked, together = sites | asked, [*group, *together]
        groups = [*apart, (asked, together)]
    return [group for _, group in groups]


def _also(places: list[Place]) -> str:
    """Where else the same constant decides."""
    shown = [str(one) for one in places[:_SHOWN]]
    shown += [f"{len(places) - _SHOWN} more"] if len(places) > _SHOWN else []
    *most, last = shown or [""]
    return f" (and so is what stands at {', '.join(most)}{' and ' if most else ''}{last})" if shown else ""


_SHOWN = 3  # places of one finding


def _has_training(module: Module) -> bool:
    called = (node.func for node in module.nodes if isinstance(node, cst.Call))
    return any(isinstance(one, cst.Attribute) and one.attr.value == "backward" for one in called)


#: Whose constants nobody changes to have another arm taken: defaults, arguments, and what something is compared with.
_NOT_SET = (cst.Param, cst.Arg, cst.Comparison, cst.ComparisonTarget, type(None))

_WORKED_OUT = (cst.Comparison, cst.BooleanOperation, cst.UnaryOperation)


def _is_set(context: Context, test: cst.BaseExpression) -> bool:
    return any(True for _ in _constants(context, test))


def _constants(context: Context, test: cst.BaseExpression) -> Iterator[Const]:
    """Those that are set somewhere, to be changed there: they are no arguments, and no parameters' defaults, but for
    those of settings."""
    for obj in (obj for node in tree.walk(test) for obj in context.facts.value(node).objs):
        if (
            isinstance(obj, Const)
            and obj.module is not None
            and not isinstance(obj.site, _WORKED_OUT)
            and _is_to_be_changed(obj.module, obj.site or test)
        ):
            yield obj


def _is_to_be_changed(module: Module, constant: cst.CSTNode) -> bool:
    holder = module.parents.get(constant)
    return not isinstance(holder, _NOT_SET) or (isinstance(holder, cst.Param) and _is_a_setting(module, holder))


def _is_a_setting(module: Module, param: cst.Param) -> bool:
    """`def __init__(self, amp=True)`, of a class that holds what it is given and does nothing else."""
    around = next((one for one in module.enclosing(param) if isinstance(one, cst.ClassDef)), None)
    named = [one.name.value for one in tree.walk(around) if isinstance(one, cst.FunctionDef)] if around else []
    return named == ["__init__"]


def _is_of_training(event: Event) -> bool:
    """Whether it makes models, losses, loaders or optimizers, or works on batches."""
    if event.kind is Kind.PRINT:
        return False
    return _is_made(event) or any(dealt_by(value.sources) for value in (event.receiver, *event.arguments.all()))


def _is_made(event: Event) -> bool:
    made = event.kind is Kind.CALL and (event.name in LOADERS or event.name.startswith((torch_optim.OWN, torch_nn.OWN)))
    own = (obj.of for obj in event.value.objs if isinstance(obj, Instance) and event.kind is Kind.CALL)
    return made or any(one is not None and one.derives_from(torch_nn.MODULE) for one in own)


def _free_in_a_group(context: Context, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """`{"params": scale}`: a group may be of one."""
    value = context.facts.value(node)
    one = isinstance(node, cst.Name) and not value.objs and not value.open
    return node if one else _free(context, node)


def _free(context: Context, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """A parameter in a list given to an optimizer that is of no module."""
    if isinstance(node, cst.BinaryOperation):
        return _free(context, node.left) or _free(context, node.right)
    if isinstance(node, cst.Dict):
        groups = [one for one in node.elements if isinstance(one, cst.DictElement) and string(one.key) == "params"]
        return next((free for one in groups if (free := _free_in_a_group(context, one.value)) is not None), None)
    if not isinstance(node, (cst.List, cst.Tuple)):
        return None
    for element in node.elements:
        value = context.facts.value(element.value)
        if isinstance(element, cst.StarredElement) or isinstance(element.value, (cst.Dict, cst.Call)):
            free = _free(context, element.value)
        else:
            known = any(isinstance(obj, (Parameters, Method, Mapping)) for obj in contained(value))
            free = None if known or is_of_a_module(context.facts, element.value) else element.value
        if free is not None:
            return free
    return None


def _holds_free(context: Context, given: cst.BaseExpression) -> bool:
    """Whether there are parameters in it that are of no model: `scales.values()`, a list that was made before."""
    loose = [obj for obj in _parameters_in(context.facts.value(given)) if any(map(_is_of_parameters, _wholes(obj)))]
    parts = [part for model in context.facts.models for part in parts_of(model)] if loose else []
    held = {obj for part in parts for value in part.attributes.values() for obj in contained(value)}
    return any(held.isdisjoint(_wholes(obj)) for obj in loose) or _holds_tensors(
        context, context.facts.value(given), set()
    )


def _holds_tensors(context: Context, given: Value, seen: set[Obj]) -> bool:
    """Whether something in a list that an optimizer is given is, or may be, a tensor that no module is seen to have."""
    inside: list[Value] = []
    for obj in given.objs - seen:
        seen.add(obj)
        if isinstance(obj, Sequence):
            if any(one.open or not one.objs for one in _unseen_parts(context, obj) if one is not NOTHING):
                return True
            inside += obj.parts()
        elif isinstance(obj, Mapping):
            inside.append(obj.items["params"] if "params" in obj.items else obj.any())
        elif isinstance(obj, Passing):
            inside += [one for one in (obj.over, *obj.zipped) if one is not None]
    return any(_holds_tensors(context, one, seen) for one in inside)


def _unseen_parts(context: Context, listed: Sequence) -> Iterable[Value]:
    """But for those that are spelled as parameters of a module: `[model.scale]`."""
    spelled = listed.site.elements if isinstance(listed.site, (cst.List, cst.Tuple)) else ()
    if spelled and listed.element is None and all(is_of_a_module(context.facts, one.value) for one in spelled):
        return ()
    return listed.parts()


def _parameters_in(value: Value) -> Iterator[Obj]:
    """What may be a parameter: of a group what stands under `params`, and no setting."""
    seen: set[Obj] = set()
    left = [value]
    while left:
        for obj in left.pop().objs - seen:
            seen.add(obj)
            groups = [obj.items.get("params")] if isinstance(obj, Mapping) else []
            if isinstance(obj, Mapping) and groups == [None]:
                groups = [obj.any()]
            left += [one for one in groups if one is not None]
            if not isinstance(obj, Mapping):
                inside = contained(Value(obj.alone)) if isinstance(obj, Passing) else [obj]
                yield from (one for one in inside if isinstance(one, (External, Method, Zero)))
                left += obj.parts() if isinstance(obj, Sequence) else []


def _wholes(obj: Obj) -> list[Obj]:
    """It, and what it is a part of, or whose method gave it."""
    given = obj.receiver if isinstance(obj, (External, Method)) else None
    return [obj, root(obj), *(given.objs if given is not None else ())]


def _is_of_parameters(obj: Obj) -> bool:
    return isinstance(obj, Zero) or (isinstance(obj, External) and obj.name.startswith(torch_nn.PARAMETER))


RULE = Rule(
    code=CODE,
    name="everything else",
    why="What is not handled must be said, not passed over.",
    safety="Always left to a person.",
    run=run,
    pitfalls=(40,),
    examples=(
        LeftAlone(
            model="weights = torch.zeros(4, 1, requires_grad=True)",
            optimizer="optimizer = torch.optim.SGD([weights], lr=0.1)",
            loss="loss = nn.functional.mse_loss(x @ weights, y)",
        ),
        LeftAlone(),
    ),
)
