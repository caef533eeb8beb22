"""Libraries of which is known what they do to a batch, and marks on values that others had a part in.

A run that looks for evidence (`Trial.evidence`) marks values with where something unknown was called, and where entries
of samples became one number. Marks are sources, so that they flow on with the values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.inside import contained, core, root, values_in
from distify_codemods.interpreter import collated, pooling
from distify_codemods.libraries import computing, downloads, outside, torch_losses, torch_tensors
from distify_codemods.objects import Arguments, External, Instance, Method
from distify_codemods.ordered import EMPTY
from distify_codemods.origins import CHANCE, Draw, Foreign, Played, Reduction, Unseen
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def followed(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    """The value of an expression, with marks for what is not known of it."""
    if isinstance(node, cst.Call):
        value = _called(machine, value, node)
    if value.scale is not Scale.UNKNOWN or any(isinstance(one, (Foreign, Unseen)) for one in value.sources):
        return value
    if not any(machine.values.get(one, NOTHING).scale in PER_SAMPLE for one in _operands(node)):
        return value
    return value.adding([machine.mark(Unseen, node, told=_is_of_a_library(machine, node))])


def _operands(node: cst.CSTNode) -> list[cst.BaseExpression]:
    if isinstance(node, cst.BinaryOperation):
        return [node.left, node.right]
    if isinstance(node, cst.AugAssign):
        return [node.target, node.value]
    if isinstance(node, cst.Call):
        owner = [node.func.value] if isinstance(node.func, cst.Attribute) else []
        return [*owner, *(argument.value for argument in node.args)]
    return [node.value] if isinstance(node, (cst.Subscript, cst.Attribute)) else []


def _is_of_a_library(machine: Machine, node: cst.CSTNode) -> bool:
    """A call of a library beside torch and NumPy: it takes each sample by itself, unless the tables say more."""
    callees = machine.values.get(node.func, NOTHING).objs if isinstance(node, cst.Call) else EMPTY
    names = [obj.name for obj in map(core, callees) if isinstance(obj, (External, Ref))]
    return bool(names) and not any(map(torch_tensors.computes, names))


def _called(machine: Machine, value: Value, node: cst.Call) -> Value:
    """Marked if something unknown is called, or one number is made of samples."""
    callee = machine.values.get(node.func, NOTHING)
    value = collated.of_graphs(machine, collated.packed(machine, callee, value, node), node, callee)
    name = next((name for obj in callee.objs if (name := _unknown(machine, obj, node))), "")
    if not callee.objs:
        name = "?"
    marks: list[Obj | str] = [machine.mark(Foreign, node, name, name=name)] if name else []
    if value.scale in (Scale.MEAN, Scale.SUM) and _of_samples(machine, node):
        marks.append(machine.mark(Reduction, node))
    return value.adding(marks) if marks else value


def drawn(machine: Machine, value: Value, arguments: Arguments, node: cst.CSTNode, certain: bool = False) -> Value:
    """What a library returned, marked if the random numbers in it were drawn here, and not given to it.

    certain: it draws, whatever it is given.
    """
    if not certain and any(CHANCE in one.sources for given in arguments.all() for one in values_in(given)):
        return value
    mark = machine.mark(Draw, node)
    pooling.drawn(machine, mark)
    return value.adding([mark])


def played(machine: Machine, name: str, obj: Obj | None, value: Value, node: cst.CSTNode) -> Value:
    """What a function or method returned, marked if that may be a game's answer to a move."""
    whole = f"{obj.name}.{name}" if isinstance(obj, External) else name
    known = whole.startswith(outside.SIMULATORS)
    asked = whole is not name and name in ("reset", "step") and not is_known(whole)
    return value.adding([machine.made(Played, node, obj, of=None if known else obj)]) if known or asked else value


def is_known(name: str) -> bool:
    return name.startswith(computing.LIBRARIES) or name in torch_losses.FUNCTIONS


def _unknown(machine: Machine, obj: Obj, call: cst.Call) -> str:
    """What it is called, if it is not known what a call of it does to a batch."""
    if isinstance(obj, Ref):
        return "" if is_known(obj.name) else obj.name
    if isinstance(obj, External):
        return "" if obj.whole is None and computing.is_a_layer(obj.name) else _unknown_module(obj, call)
    if isinstance(obj, Method) and obj.name not in computing.PLAIN:
        whole = root(obj)
        if isinstance(whole, External) and (giver := _owner(machine, whole)) is not None:
            return _unseen_base(giver)
        if isinstance(whole, External) and not is_known(whole.name) and not _takes_samples(whole, call):
            return f"{whole.name}.{obj.name}"
        if _is_kept(obj, call):
            return obj.name
    if isinstance(obj, Instance) and obj.of is not None:
        own = {name for one in obj.of.ancestors() for name in one.attributes}
        return "" if own & {"forward", "__call__"} else _unseen_base(obj)
    return ""


def _is_kept(method: Method, call: cst.Call) -> bool:
    """`self.block(x)` after `self.block = net[0].conv`: what an unknown thing has under a name, called by another."""
    unknown = method.receiver is None or not method.receiver.objs
    return unknown and not (isinstance(call.func, cst.Attribute) and call.func.attr.value == method.name)


def _owner(machine: Machine, made: External) -> Obj | None:
    """The object of the script's own that gave it by a method which its class only inherits, if any."""
    site = made.site.func if isinstance(made.site, cst.Call) else None
    callee = machine.values.get(site, NOTHING) if site is not None else NOTHING
    if site is None or not callee.objs:
        return None
    known = machine.givers.get(site)
    if known is None or known[0] is not callee:  # it may be asked of each of thousands of strings
        receivers = [one.receiver for one in callee.objs if isinstance(one, Method) and one.receiver is not None]
        owners = (core(one) for receiver in receivers for one in receiver.objs)
        owner = next((one for one in owners if isinstance(one, Instance) and one.of is not None), None)
        known = machine.givers[site] = callee, owner
    return known[1]


def _unseen_base(obj: Obj) -> str:
    bases = sorted(obj.of.libraries) if isinstance(obj, Instance) and obj.of is not None else []
    return next((name for name in bases if not is_known(name)), "")


def _takes_samples(obj: External, call: cst.Call) -> bool:
    """`model.forward(x)` of a module that is known."""
    return obj.name.startswith(computing.MODULES) and not _unknown_module(obj, call)


def _unknown_module(obj: External, call: cst.Call, around: tuple[Obj, ...] = ()) -> str:
    if obj in around:  # `model = copy.deepcopy(model)` in a loop
        return ""
    if obj.name in computing.PASSING and obj.arguments is not None:
        inside = (core(one) for value in obj.arguments.all() for one in contained(value))
        found = (_unknown_module(one, call, (*around, obj)) for one in inside if isinstance(one, External))
        return next((name for name in found if name), "")
    if obj.whole is not None and isinstance(whole := core(obj.whole), External):
        return _unknown_module(whole, call, (*around, obj))
    if _is_from_torchvision(obj):
        return ""
    if obj.name.startswith(computing.OF_LABELS):
        each = computing.has_a_label_for_each_sample(obj.name)
        return obj.name if may_be_given_labels(call) and not each else ""
    return "" if obj.name.startswith(computing.MODULES) and not obj.name.startswith(computing.OTHERS) else obj.name


def may_be_given_labels(call: cst.CSTNode) -> bool:
    """Whether a model of transformers computes the loss itself, or may, since it is not seen what it is given."""
    return is_given_unseen(call) or bool(_keywords(call) & computing.LABELS)


def is_given_unseen(call: cst.CSTNode) -> bool:
    """`model(**batch)`, and nothing by name that says what is in it."""
    stars = isinstance(call, cst.Call) and any(arg.star for arg in call.args)
    return stars and not _keywords(call) & computing.LABELS


def _keywords(call: cst.CSTNode) -> set[str]:
    return set(tree.keywords(call))


def _is_from_torchvision(obj: External) -> bool:
    origin = obj.arguments.get("repo_or_dir", 0) if obj.name == downloads.HUB and obj.arguments is not None else None
    return origin is not None and str(origin.constant()).startswith("pytorch/vision")


def _of_samples(machine: Machine, call: cst.Call) -> bool:
    """Whether a call is given, or made on, something with an entry for each sample."""
    given = [argument.value for argument in call.args]
    given += [call.func.value] if isinstance(call.func, cst.Attribute) else []
    return any(machine.values.get(node, NOTHING).scale in PER_SAMPLE for node in given)
