"""DEVICE01: a device that is named on the command line, or in a file, may have a number: the rank's own is meant."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from enum import Enum

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.answers import answered_once
from distify_codemods.arguments import bound
from distify_codemods.command_line import declarations, integers
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core, root
from distify_codemods.libraries import checkpoints, devices, torch_nn
from distify_codemods.libraries.quiet import is_quiet
from distify_codemods.naming import brief
from distify_codemods.objects import External, Instance, Method, Sequence, Setting
from distify_codemods.rules.base import Context
from distify_codemods.scale import Scale
from distify_codemods.scripted import is_compiled
from distify_codemods.values import Value

_REASON = "`cuda:1` on the command line means `cuda`, the rank's own GPU"
_WHERE_USED = "`cuda:1` means `cuda`, the rank's own GPU, wherever it is named"


def run(context: Context) -> bool:
    """Whether any device is named so."""
    named: dict[str, Event] = {}
    whole = integers(context.facts)
    uses = [(event, node, _options(context, node) - whole.keys()) for event, node in uses_of_devices(context)]
    for event, _, names in uses:
        for name in names if _are_devices(context, names) else ():
            named.setdefault(name, event)
    found = {name: _declare(context, name) for name in named}
    told = set[str]()
    for event, node, names in uses:
        unknown = any(found.get(name, _Taken.NOT_SEEN) is _Taken.NOT_SEEN for name in names)
        if (unknown or _is_not_seen(context, event, node)) and not is_edited(context, event, node):
            _mend(context, event, node, told)
    return bool(told) or any(one is not _Taken.NO_NUMBER for one in found.values())


def _are_devices(context: Context, names: set[str]) -> bool:
    """Whether what one place may be given are devices: not all options there are, which a loop has put into a table."""
    defaults = (
        one.arguments.keywords.get("default", Value()).constant()
        for name in (names if len(names) > 1 else ())
        for one in declarations(context.facts, name)
    )
    return all(devices.may_name_one(default) for default in defaults)


class _Taken(Enum):
    """What an option that names a device takes."""

    NO_NUMBER = "devices without a number"
    DECLARED = "a number, which its declaration takes off"
    NOT_SEEN = "that is not seen, or nothing that can be added to"


def uses_of_devices(context: Context) -> Iterator[tuple[Event, cst.BaseExpression]]:
    """What is given where a device may stand, each place once; but in what takes no call of the runtime."""
    told: set[cst.CSTNode] = set()
    for event in context.facts.of_kind(Kind.CALL, Kind.METHOD):
        for node in devices_of(event):
            if node not in told and not is_compiled(context.facts, event.module, node):
                told.add(node)
                yield event, node


def _options(context: Context, node: cst.BaseExpression) -> set[str]:
    """The options of the command line that a device may be."""
    names = {obj.name for obj in context.facts.value(node).objs if isinstance(obj, Setting)}
    return names | {name for name in (_parsed(context, node),) if name}


def _is_not_seen(context: Context, event: Event, node: cst.BaseExpression) -> bool:
    value = context.facts.value(node)
    if value.number or (event.name == devices.DEVICE and not value.objs):
        return True  # a number, if nothing else: of a list of GPUs that was read out of a text
    return any(
        _is_read(context.facts, obj) for part in _giving(context, event, node) for obj in context.facts.value(part).objs
    )


def is_edited(context: Context, event: Event, node: cst.CSTNode) -> bool:
    return bool(context.plan(event.module).expressions.get(node))


def _mend(context: Context, event: Event, node: cst.BaseExpression, told: set[str]) -> None:
    """Takes the number off where the device is used, since nobody sees where it is named."""
    if not context.editable(event.module, node, "a device is named"):
        return
    context.put_into(event.module, node, "device_kind({})", _WHERE_USED)
    text = tree.code_of(node)
    if text not in told:
        context.applied(f"`{brief(node)}` means the rank's own GPU, whatever its number", event.module, node)
    told.add(text)


def devices_of(event: Event) -> Iterator[cst.BaseExpression]:
    """The arguments of a call that are devices, or may be."""
    given = event.node.args if isinstance(event.node, cst.Call) else ()
    named = tree.keywords(event.node)
    placed = [arg.value for arg in given if arg.keyword is None and not arg.star]
    if event.name in devices.TAKES_ONE or (event.kind is Kind.METHOD and event.name == "to"):
        yield from placed[:1]
    if event.name == checkpoints.LOAD:
        yield from [*placed[1:2], *(node for name, node in named.items() if name == "map_location")]
    elif event.kind is Kind.METHOD or event.name.startswith("torch."):
        yield from (node for name, node in named.items() if name == "device")


def _giving(context: Context, event: Event, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What a device may be made of: not what is asked to choose between two, nor what is seen to where it is made."""
    if is_edited(context, event, node) or _makes_a_device(context, node):
        return
    yield node
    for inner in (node.body, node.orelse) if isinstance(node, cst.IfExp) else tree.children(node):
        yield from _giving(context, event, inner)


def _makes_a_device(context: Context, node: cst.CSTNode) -> bool:
    made = context.facts.value(node).objs if isinstance(node, cst.Call) else ()
    return bool(made) and all(isinstance(obj, External) and obj.name == devices.DEVICE for obj in made)


def _parsed(context: Context, node: cst.BaseExpression) -> str:
    """The option that this reads, also where the script may have put another value in its place; else ""."""
    if not isinstance(node, cst.Attribute):
        return ""
    holders = context.facts.value(node.value).objs
    parsed = any(isinstance(obj, External) and obj.name.startswith("argparse.parse_") for obj in holders)
    return node.attr.value if parsed and declarations(context.facts, node.attr.value) else ""


def is_one_device(context: Context, name: str, event: Event, node: cst.BaseExpression | None) -> bool:
    """Whether an option in `node` names a device by its kind, and nothing else, whenever this call happens.

    Torch is given the same then, and takes no other word, and a number is taken off.
    """
    if name in integers(context.facts) or _taken(context, name) is _Taken.NOT_SEEN:
        return False
    return any(
        _is_torchs(use) and _is_always(use, event, given) and _is_the_same(context, name, (event, node), (use, given))
        for use, given in uses_of_devices(context)
    )


def _is_torchs(use: Event) -> bool:
    return use.name.startswith("torch.") or (use.kind is Kind.METHOD and use.name == "to")


def _is_always(use: Event, event: Event, given: cst.BaseExpression) -> bool:
    """Whether the one happens whenever the other does."""
    around = itertools.takewhile(
        lambda one: isinstance(one, (cst.BaseExpression, cst.Arg)), use.module.enclosing(given)
    )
    if any(isinstance(one, tree.PERHAPS) for one in around):
        return False
    return use.dominates(event) or (event.before(use) and use.here.conditions() == event.here.conditions())


def _is_the_same(
    context: Context, name: str, one: tuple[Event, cst.BaseExpression | None], other: tuple[Event, cst.BaseExpression]
) -> bool:
    """Whether both are given the option, or one name that was bound once."""
    (event, node), (use, given) = one, other
    alone = context.facts.value(given).single()
    if isinstance(alone, Setting):
        return alone.name == name
    if not (isinstance(node, cst.Name) and isinstance(given, cst.Name) and node.value == given.value):
        return False
    bound = [set(place.module.flow(read).reaching(read)) for place, read in ((event, node), (use, given))]
    return event.module is use.module and bool(bound[0]) and bound[0] == bound[1]


def _taken(context: Context, name: str) -> _Taken:
    declared = declarations(context.facts, name)
    if declared and all(map(_has_no_number, declared)):
        return _Taken.NO_NUMBER
    return _Taken.DECLARED if declared and all(map(_may_be_added_to, declared)) else _Taken.NOT_SEEN


def _declare(context: Context, name: str) -> _Taken:
    """Lets the option take the kind of device alone."""
    taken = _taken(context, name)
    for event in declarations(context.facts, name) if taken is _Taken.DECLARED else ():
        node, kind = event.node, event.arguments.keywords.get("type")
        made = kind.single() if kind is not None else None
        if isinstance(node, cst.Call) and context.editable(event.module, node, "an option names a device"):
            text = f"{context.rt(event.module)}.device_kind"
            if isinstance(made, Ref) and made.name == devices.DEVICE:
                text = f"lambda name: {tree.code_of(bound(node, ('type',))['type'].value)}({text}(name))"
            context.plan(event.module).set_keyword(node, "type", text, context.code, _REASON)
            context.applied(f"`{name}` of the command line means the rank's own GPU", event.module, node)
    return taken


def _may_be_added_to(event: Event) -> bool:
    kind = event.arguments.keywords.get("type")
    made = kind.single() if kind is not None else None
    default = event.arguments.keywords.get("default", Value()).constant()
    known = kind is None or (isinstance(made, Ref) and made.name in devices.OPTIONS)
    known = known and (default is None or isinstance(default, str)) and isinstance(event.node, cst.Call)
    return known and "action" not in event.arguments.keywords


def _has_no_number(event: Event) -> bool:
    """`choices=["cpu", "cuda"]`: argparse takes nothing else."""
    choices = event.arguments.keywords.get("choices", Value()).single()
    items = choices.items if isinstance(choices, Sequence) else None
    known = [obj.value if isinstance(obj, Const) else None for item in items or () for obj in item.objs]
    return bool(known) and all(isinstance(one, str) and not one.startswith("cuda:") for one in known)


def _is_read(facts: Facts, obj: Obj) -> bool:
    """Whether it comes out of such a thing, or of a library of which nothing is known: a configuration's entry."""
    if isinstance(obj, Method) and obj.name == "dtype":
        return False
    if isinstance(obj, Method) and obj.name == "device" and _is_kept_by_its_owner(obj):
        return not _is_of_a_buffer(facts, obj)
    obj = root(obj)
    while isinstance(obj, External) and obj.whole is not None:
        obj = core(obj.whole)
    if isinstance(obj, Ref) and "." not in obj.name:
        return False  # a module
    return isinstance(obj, (External, Ref)) and (obj.name.startswith(devices.READ_SETTINGS) or not is_quiet(obj.name))


def _is_kept_by_its_owner(method: Method) -> bool:
    """`cfg.device` of what a library hands over, or of an object of the script's own that was never seen to get it."""
    owner, held = root(method), method.receiver
    if owner is method:
        return held is None or (held.scale is Scale.CONST and not held.dims and not held.sources)
    return isinstance(owner, Instance) and owner.base is None


def _is_of_a_buffer(facts: Facts, method: Method) -> bool:
    """`self.steps.device`, of what a module has registered by that name: a tensor's own device, with its number."""
    held = method.receiver.objs if method.receiver is not None else ()
    named = [(one.name, root(one)) for one in held if isinstance(one, Method)]
    return bool(named) and all(name in _registered(facts).get(owner, ()) for name, owner in named)


@answered_once
def _registered(facts: Facts) -> dict[Obj, set[object]]:
    """The names of each object's buffers, as far as they are seen."""
    found: dict[Obj, set[object]] = {}
    for event in facts.of_kind(Kind.METHOD):
        if event.name == torch_nn.REGISTERS_BUFFER:
            name = (event.arguments.get("name", 0) or Value()).constant()
            for obj in event.receiver.objs:
                found.setdefault(core(obj), set()).add(name)
    return found
