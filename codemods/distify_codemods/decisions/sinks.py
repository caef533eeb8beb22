"""Where figures go that are to be kept: lists, attributes, objects of the script, files, callers."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.answers import answered_once
from distify_codemods.decisions.carried import carried
from distify_codemods.decisions.dumped import dumped
from distify_codemods.decisions.in_place import changes_what_it_takes
from distify_codemods.decisions.places import Place
from distify_codemods.decisions.put_into import reads_again
from distify_codemods.facts import Facts
from distify_codemods.inside import core, root
from distify_codemods.libraries import effects, guarded, in_place, python
from distify_codemods.libraries.registry import Role, find, functions, is_tracker
from distify_codemods.objects import Bound, Class, External, Function, Instance, Mapping, Method, Partial, Sequence
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.values import NOTHING, Value


class Kind(Enum):
    HANDED = "given to a function or an object of the script"
    ADDED = "put into a list"
    COUNTED = "added up in an attribute or an item"
    STORED = "an attribute or item is set"
    RETURNED = "returned to the caller"
    YIELDED = "handed out in each turn, by a generator"
    LOGGED = "written to a file or a tracker"
    CARRIED = "carried from turn to turn under a name, and read after the loop"


@dataclass(frozen=True)
class Sink:
    kind: Kind
    module: Module
    node: cst.CSTNode
    value: cst.BaseExpression
    fresh: bool = False  # what takes it is made anew in each turn, or holds only the last
    own: frozenset[cst.CSTNode] = frozenset()  # where what was carried up to here is read
    changes: bool = False  # a function that it is given to may change it, and nobody would see
    unseen: bool = False  # what becomes of it is not known: numbers are kept, of other things nothing is said

    def counts(self, place: Place) -> bool:
        """Whether what goes there outlives its batch."""
        if place is Place.MODEL:
            return False
        if self.kind in (Kind.RETURNED, Kind.STORED) and place is not Place.AROUND:
            return self.kind is Kind.STORED and place is Place.INSIDE and not self.fresh
        return not self.fresh and (place is not Place.ELSEWHERE or self.kind is Kind.LOGGED)


_FILES = frozenset([*effects.HANDLES, *effects.KEEPS, *effects.IN_MEMORY, *effects.DEPICTS])
_LOGGERS = ("logging.", "loguru.")


@answered_once
def sinks(facts: Facts) -> list[Sink]:
    return list(_sinks(facts))


def _sinks(facts: Facts) -> Iterator[Sink]:
    loggers = _LOGGERS if _logs_are_files(facts) else ()
    for module in facts.run.frames:
        for node in module.parents:
            if isinstance(node, cst.Call):
                stands_alone = isinstance(module.parents.get(node), cst.Expr)
                if stands_alone or _is_sent(facts, node) or _is_dumped(facts, node) or _hands_adding_on(facts, node):
                    yield from _of_call(facts, module, node, loggers)
            elif isinstance(node, cst.AugAssign):
                yield from _of_augmented(facts, module, node)
            elif isinstance(node, cst.Assign):
                yield from _of_assignment(facts, module, node)
            elif isinstance(node, cst.Expr) and isinstance(node.value, cst.BinaryOperation):
                if _is_own(facts, node.value.left):  # `meter << loss.item()`
                    yield Sink(Kind.HANDED, module, node, node.value.right)
            elif isinstance(node, cst.Return) and node.value is not None:
                yield Sink(Kind.RETURNED, module, node, node.value)
            elif isinstance(node, cst.Yield) and isinstance(node.value, cst.BaseExpression):
                yield Sink(Kind.YIELDED, module, node, node.value, unseen=True)
    for loop, update, own in carried(facts):
        yield Sink(Kind.CARRIED, loop.module, update, update.value, own=own)


def _logs_are_files(facts: Facts) -> bool:
    named = any("filename" in event.arguments.keywords for event in facts.calls(*functions(Role.LOG_BASICS)))
    return named or any(
        find(event.name, Role.LOG_FILE, Role.LOG_SINK) for event in facts.run.events if event.name.startswith(_LOGGERS)
    )


def _of_call(facts: Facts, module: Module, node: cst.Call, loggers: tuple[str, ...]) -> Iterator[Sink]:
    kind = _taker(facts, node, loggers)
    unseen = kind is None and _is_unknown(facts, facts.value(node.func))
    if unseen:
        kind = Kind.HANDED
    if kind is None:
        return
    fresh = kind is Kind.ADDED and isinstance(node.func, cst.Attribute) and _is_fresh(facts, module, node.func.value)
    changes = kind is Kind.HANDED and changes_what_it_takes(facts, node)
    for argument in node.args[1:] if _has_the_holder_first(facts, node) else node.args:
        yield Sink(kind, module, node, argument.value, fresh, changes=changes, unseen=unseen)
    for chosen_by in choosing(node.func):
        yield Sink(kind, module, node, chosen_by, fresh)


def choosing(holder: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What says which one it is: `(low if loss < 1 else high).append`, `buckets[int(loss)].append`."""
    if isinstance(holder, cst.Call) and isinstance(holder.func, cst.Attribute) and holder.args:
        if holder.func.attr.value in python.LOOKING_UP:
            yield holder.args[0].value
        holder = holder.func
    if isinstance(holder, cst.IfExp):
        yield holder.test
        yield from (*choosing(holder.body), *choosing(holder.orelse))
    elif isinstance(holder, cst.Subscript):
        yield from (one.slice.value for one in holder.slice if isinstance(one.slice, cst.Index))
    if isinstance(holder, (cst.Attribute, cst.Subscript)):
        yield from choosing(holder.value)


def _is_put_into_a_list(facts: Facts, node: cst.Call) -> bool:
    """`heapq.heappush(best, loss.item())`, `list.append(kept, loss.item())`"""
    return any(_named(obj) in in_place.OF_LISTS or _named(obj) in in_place.UNBOUND for obj in _of(facts, node))


def _has_the_holder_first(facts: Facts, node: cst.Call) -> bool:
    """Not where it has that already: `kept.log(x)`, of a class with `log = list.append`."""
    given = len(node.args)
    names = [_named(obj) for obj in _of(facts, node)]
    return any(one in in_place.OF_LISTS or in_place.UNBOUND.get(one) == given for one in names)


def _of(facts: Facts, node: cst.Call) -> list[Obj]:
    return list(_called(facts.value(node.func)))


def _held(facts: Facts, method: cst.Attribute) -> Kind | None:
    """How a list or dictionary of the script's own keeps what its method is given."""
    name, holders = method.attr.value, facts.value(method.value).objs
    lists = any(isinstance(obj, Sequence) or _named(obj).startswith(python.LIKE_LISTS) for obj in holders)
    queues = any(_named(obj).startswith(python.QUEUES) for obj in holders)
    if name in (*python.ADDING, "update") and any(map(_is_read, holders)):
        return Kind.LOGGED  # where it goes from there is not seen
    if (name in python.ADDING and (lists or not holders)) or (name in python.PUTTING and queues):
        return Kind.ADDED
    if name in python.TAKING_OUT and any(isinstance(obj, (Mapping, Sequence)) for obj in holders):
        return Kind.ADDED  # what is left is kept
    if name == "update" and any(isinstance(obj, Mapping) for obj in holders):
        return Kind.STORED
    return Kind.ADDED if name == "update" and lists else None  # a set, a counter


def _taker(facts: Facts, node: cst.Call, loggers: tuple[str, ...]) -> Kind | None:
    held = _held(facts, node.func) if isinstance(node.func, cst.Attribute) else None
    if held is not None or _is_put_into_a_list(facts, node) or _hands_adding_on(facts, node):
        return held or Kind.ADDED
    for obj in _called(facts.value(node.func)):
        if _adds_to_a_list(obj):
            return Kind.ADDED
        if _named(obj) == python.PRINT and _prints_to_a_file(facts, node):
            return Kind.LOGGED
        if isinstance(obj, Method) and obj.name in effects.WRITING_METHODS:
            return Kind.LOGGED
        name = _full_name(obj)
        if is_tracker(name) or name in _FILES or name.startswith((*loggers, *guarded.PLOTS)):
            return Kind.LOGGED
        if isinstance(obj, (Function, Class)) or _is_sent(facts, node):
            return Kind.HANDED
        receiver = obj.receiver if isinstance(obj, Bound) else obj
        if isinstance(receiver, Instance) and not isinstance(core(receiver), Class):
            return None if _is_of_torch(receiver) else Kind.HANDED
    return None


def _called(callee: Value) -> Iterator[Obj]:
    """What runs: of what has some arguments already, its function."""
    for obj in callee.objs:
        if isinstance(obj, Partial):
            yield from _called(obj.function or NOTHING)
        else:
            yield obj


def _is_unknown(facts: Facts, callee: Value) -> bool:
    """Whether it is not known what is called: something that nobody has made, or what a library has made."""
    return not callee.objs or any(isinstance(obj, External) or _is_unknown_method(facts, obj) for obj in callee.objs)


def _is_unknown_method(facts: Facts, obj: Obj) -> bool:
    """Of an object or class of the script's, which is not seen to have it, or of what is not seen itself."""
    if not isinstance(obj, Method):
        return False
    holders = obj.receiver.objs if obj.receiver is not None else ()
    if not holders:
        return obj.name in _own_functions(facts)
    return all(isinstance(one, Class) or (isinstance(one, Instance) and not _is_of_torch(one)) for one in holders)


@answered_once
def _own_functions(facts: Facts) -> set[str]:
    return {one.name.value for module in facts.run.frames for one in module.nodes if isinstance(one, cst.FunctionDef)}


def _adds_to_a_list(obj: Obj) -> bool:
    """`keep = losses.append`, under whatever name it is called."""
    held = obj.receiver.objs if isinstance(obj, Method) and obj.receiver is not None else ()
    return isinstance(obj, Method) and obj.name in python.ADDING and any(isinstance(one, Sequence) for one in held)


def _hands_adding_on(facts: Facts, node: cst.Call) -> bool:
    """`list(map(losses.append, found))`: what is called is given what adds to a list, beside what it adds."""
    given = [argument.value for argument in node.args]
    return len(given) > 1 and any(_adds_to_a_list(obj) for one in given for obj in facts.value(one).objs)


def is_tracked(facts: Facts, sink: Sink) -> bool:
    """Whether it goes to an experiment's tracker, and to no file of the script's own."""
    call = sink.node
    takers = facts.value(call.func).objs if isinstance(call, cst.Call) else ()
    return sink.kind is Kind.LOGGED and any(is_tracker(_full_name(obj)) for obj in takers)


def _is_sent(facts: Facts, node: cst.Call) -> bool:
    """`median.send(loss.item())`: a generator of the script's goes on with it, whatever is done with what it yields."""
    methods = (obj for obj in facts.value(node.func).objs if isinstance(obj, Method) and obj.name == "send")
    held = (one for method in methods if method.receiver is not None for one in method.receiver.objs)
    return any(isinstance(one, Sequence) and one.code is not None for one in held)


def _is_dumped(facts: Facts, node: cst.Call) -> bool:
    """`stop = stopper(loss)`, of an object that goes into a file as it is, whatever it answers."""
    called = (obj.receiver if isinstance(obj, Bound) else obj for obj in facts.value(node.func).objs)
    return any(isinstance(one, Instance) and one in dumped(facts) for one in called)


def _prints_to_a_file(facts: Facts, node: cst.Call) -> bool:
    file = tree.keywords(node).get("file")
    return file is not None and any(not _named(obj).startswith("sys.") for obj in facts.value(file).objs)


def _full_name(obj: Obj) -> str:
    """Of a function of a library, or of the class whose method it is."""
    if isinstance(obj, Method):
        return next((_named(root(one)) for one in (obj.receiver or Value()).objs), "")
    return _named(obj)


def _named(obj: Obj) -> str:
    return str(getattr(obj, "name", "")) if not isinstance(obj, Method) else ""


def _is_of_torch(obj: Instance) -> bool:
    """A model, a loss, an optimizer: what is given to it may come back as a gradient."""
    return obj.base is not None or (obj.of is not None and any(n.startswith("torch.") for n in obj.of.libraries))


def _is_own(facts: Facts, taker: cst.BaseExpression) -> bool:
    """Whether it is a class of the script's, or an object of one, whose methods say what an operator does."""
    objs = facts.value(taker).objs
    return bool(objs) and all(
        isinstance(one, Class) or (isinstance(one, Instance) and not _is_of_torch(one)) for one in objs
    )


def _of_augmented(facts: Facts, module: Module, node: cst.AugAssign) -> Iterator[Sink]:
    if isinstance(node.target, cst.Name) and _is_own(facts, node.target):
        yield Sink(Kind.HANDED, module, node, node.value)
        return
    if not isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign)):
        return
    if isinstance(node.target, cst.Name):
        if any(isinstance(obj, Sequence) for obj in facts.value(node.target).objs):
            yield Sink(Kind.ADDED, module, node, node.value, _is_fresh(facts, module, node.target))
        return
    fresh = isinstance(node.target, cst.Subscript) and _is_fresh(facts, module, node.target.value)
    yield Sink(Kind.COUNTED, module, node, node.value, fresh)


def _of_assignment(facts: Facts, module: Module, node: cst.Assign) -> Iterator[Sink]:
    for target in node.targets:
        parts = [one for one in tree.leaves(target.target) if isinstance(one, (cst.Attribute, cst.Subscript))]
        own = frozenset(again for one in parts if not _is_a_gradient(one) for again in reads_again(one, node.value))
        if parts:
            last = not own and _holds_the_last(facts, module, parts[0])
            read = any(_is_read(obj) for one in parts for obj in facts.value(one.value).objs)
            yield Sink(Kind.LOGGED if read else Kind.STORED, module, node, node.value, last and not read, own)


def _is_a_gradient(target: cst.Attribute | cst.Subscript) -> bool:
    """`p.grad = p.grad / len(x)`, which `hand_updates` looks at."""
    return isinstance(target, cst.Attribute) and target.attr.value == "grad"


def _holds_the_last(facts: Facts, module: Module, target: cst.Attribute | cst.Subscript) -> bool:
    """An attribute, or an item under a fixed key: what the next turn puts there replaces it."""
    if isinstance(target, cst.Attribute):
        return dumped(facts).isdisjoint(map(core, facts.value(target.value).objs))
    keys = [element.slice.value for element in target.slice if isinstance(element.slice, cst.Index)]
    fixed = all(facts.value(key).constant() is not None for key in keys)
    return fixed or _is_fresh(facts, module, target.value)


def _is_read(obj: Obj) -> bool:
    """`history` of `history = json.load(file)`, `history["loss"]`, `history.setdefault("loss", [])`"""
    whole: Obj | None = root(obj)
    while isinstance(whole, External) and whole.name not in python.READ_CONTAINERS:
        given = whole.receiver.single() if whole.receiver is not None else whole.whole
        whole = root(given) if given is not None and given is not whole else None
    return whole is not None and isinstance(whole, External)


def _is_fresh(facts: Facts, module: Module, holder: cst.BaseExpression) -> bool:
    """Whether a container is made, under a name, in the turn of a training loop or the helper in which it is filled."""
    loops = {loop.node for loop in facts.training_loops}
    mine = _scope(module, holder, loops)
    if not isinstance(holder, cst.Name) or mine is None or any(loop in tree.walk(mine.body) for loop in loops):
        return False
    made = [obj for obj in facts.value(holder).objs if isinstance(obj, (Sequence, Mapping))]
    return bool(made) and all(_is_made_in(module, obj, mine, loops) for obj in made)


_Scope = cst.For | cst.While | cst.FunctionDef


def _is_made_in(module: Module, made: Sequence | Mapping, scope: _Scope, loops: set[cst.For | cst.While]) -> bool:
    if made.module is not module or made.site is None or _scope(module, made.site, loops) is not scope:
        return False
    return isinstance(module.parents.get(made.site), cst.Assign)


def _scope(module: Module, node: cst.CSTNode, loops: set[cst.For | cst.While]) -> _Scope | None:
    """The training loop around a node, or the function that is called from one."""
    for one in module.enclosing(node):
        if isinstance(one, cst.FunctionDef) or (isinstance(one, (cst.For, cst.While)) and one in loops):
            return one
    return None
