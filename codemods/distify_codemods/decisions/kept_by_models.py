"""What a model, a loss or a hook keeps of each batch in its forward pass, beside what it returns.

Ranks see their own samples there. A list that grows, a count, a running mean, the largest value so far, what the first
batch left, would be one rank's, and whoever prints, saves or goes by it would have one rank's: where forward passes are
shared, it is that of whole batches. What only holds the last batch is what the model returns, by another way.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Ref
from distify_codemods.decisions import made_anew
from distify_codemods.decisions.base import Decisions, Link
from distify_codemods.decisions.of_before import (
    ASSIGNMENTS,
    Assignment,
    is_set,
    may_be_of_before,
    names_of_others,
    reads_of,
)
from distify_codemods.decisions.own_figures import is_made_in
from distify_codemods.decisions.passes import Pass, own_attribute
from distify_codemods.decisions.places import places_of
from distify_codemods.decisions.sinks import Kind as Sinks
from distify_codemods.decisions.sinks import sinks
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core, values_in
from distify_codemods.libraries import in_place, python, torch_nn, torch_tensors
from distify_codemods.naming import brief
from distify_codemods.objects import External, Mapping, Method, Sequence, Setting
from distify_codemods.origins import Counter
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.settled import is_module
from distify_codemods.values import NOTHING, Value

#: What follows from the size of a batch alone is made anew for another size.
_OF_SIZES = (Scale.CONST, Scale.COUNT)
#: What nothing can be put into: `width += x.size(1)` sets its name to another one.
_NUMBERS = (Const, Counter, Setting)


@dataclass(frozen=True)
class _Write:
    """In a forward pass, something is put where it may stay."""

    module: Module
    node: cst.CSTNode
    place: cst.BaseExpression  # the attribute or item that is set, the list that grows, the tensor that is changed
    holder: cst.BaseExpression  # what is another one afterwards
    adds: bool  # to what was there


def links(decisions: Decisions) -> Iterator[Link]:
    facts = decisions.facts
    logged = _logged(facts) if facts.training_loops else ()
    found = [*((*one, "keeps") for one in kept(facts)), *((*one, "writes") for one in logged)]
    for module, node, does in dict.fromkeys(found):
        yield Link(
            module, node,
            f"`{brief(node)}` {does} something of each batch, which would be that of a rank's own samples",
            "what a forward pass returns, and the training loop keeps, can be put together over the ranks",
        )  # fmt: skip


# ---- what is written


def kept(facts: Facts) -> list[tuple[Module, cst.CSTNode]]:
    """Where a forward pass keeps what another one, or the script, may read."""
    if not facts.training_loops:
        return []
    written = [one for find in (_assigned, _put, _changed_in_place, _by_functions) for one in find(facts)]
    lasting = [one for one in written if _outlives(facts, one)]
    passing = Pass(facts, places_of(facts).in_models) if lasting else None
    return [(one.module, one.node) for one in lasting if passing and _is_left_by_another_pass(facts, passing, one)]


def _assigned(facts: Facts) -> Iterator[_Write]:
    for function in places_of(facts).in_models:
        if isinstance(function, cst.FunctionDef):
            module, shared = facts.module_of(function), names_of_others(function)
            for node in tree.walk(function.body):
                if isinstance(node, ASSIGNMENTS) and node.value is not None and _is_of_one_rank(facts, module, node):
                    for target in (leaf for one in tree.targets(node) for leaf in tree.leaves(one)):
                        yield from _of_target(facts, module, node, target, shared)


def _of_target(
    facts: Facts, module: Module, node: Assignment, target: cst.BaseExpression, shared: set[str]
) -> Iterator[_Write]:
    adds = isinstance(node, cst.AugAssign)
    if isinstance(target, cst.Subscript):
        yield _Write(module, node, target, target.value, adds or not _has_a_fixed_key(facts, target))
    elif isinstance(target, cst.Attribute):
        adds = adds or (target.attr.value == "data" and isinstance(target.value, cst.Attribute))
        yield _Write(module, node, target, target.value, adds)
    elif isinstance(target, cst.Name) and target.value in shared:
        yield _Write(module, node, target, target, adds)
    elif isinstance(target, cst.Name) and adds:  # it sets its own name, and may change what this stands for
        yield _Write(module, node, cst.Name(target.value), target, True)


def _has_a_fixed_key(facts: Facts, target: cst.Subscript) -> bool:
    """Of a dictionary or a list; of a tensor, other entries stay."""
    held = any(isinstance(obj, (Mapping, Sequence)) for obj in facts.value(target.value).objs)
    keys = [element.slice.value for element in target.slice if isinstance(element.slice, cst.Index)]
    fixed = len(keys) == len(target.slice) and all(facts.value(key).constant() is not None for key in keys)
    return held and fixed


def _put(facts: Facts) -> Iterator[_Write]:
    """Into a list, a set, a dictionary: `rows.append(x)`, `rows += [x]`."""
    in_models = places_of(facts).in_models
    for sink in sinks(facts):
        holder = None
        if isinstance(sink.node, cst.Call) and isinstance(sink.node.func, cst.Attribute):
            holder = sink.node.func.value if sink.kind in (Sinks.ADDED, Sinks.STORED) else None
        elif isinstance(sink.node, cst.AugAssign) and isinstance(sink.node.target, cst.Name):
            holder = sink.node.target
        if holder is None or sink.module.function(sink.node) not in in_models:
            continue
        if _parts_of_one_rank(facts, sink.value):
            place = holder
            function = sink.module.function(sink.node)
            if isinstance(holder, cst.Name) and isinstance(function, cst.FunctionDef):
                # `rows += [x]` sets its own name, and what this stands for has grown
                place = holder if holder.value in names_of_others(function) else cst.Name(holder.value)
            yield _Write(sink.module, sink.node, place, holder, sink.kind is Sinks.ADDED)


def _logged(facts: Facts) -> Iterator[tuple[Module, cst.CSTNode]]:
    """In a file, or where an experiment is tracked."""
    in_models = places_of(facts).in_models
    for sink in sinks(facts):
        logged = sink.kind is Sinks.LOGGED and sink.module.function(sink.node) in in_models
        if logged and _parts_of_one_rank(facts, sink.value, sizes=False):
            yield sink.module, sink.node


def _changed_in_place(facts: Facts) -> Iterator[_Write]:
    """Of what is no batch: `self.mean.mul_(0.9).add_(x.mean())`, `torch.add(mean, x.mean(), out=mean)`.

    Also of another name of it, and by functions: `torch.Tensor.add_(self.mean, x.mean())`.
    """
    for event in facts.of_kind(Kind.METHOD, Kind.CALL):
        node = event.node
        if not isinstance(node, cst.Call) or event.module.function(node) not in places_of(facts).in_models:
            continue
        changed = tree.keywords(node).get("out")
        if event.name.endswith("_") and not event.name.startswith("_"):
            plain = node.args[0].value if node.args and not node.args[0].star else None
            changed = event.receiver_node if event.kind is Kind.METHOD else plain
        held = next((one for one in _of_one_memory(facts, changed) if _is_place(event.module, one)), None)
        given = any(facts.shares_of_training(value) for value in event.arguments.all())
        if held is not None and given and facts.value(held).scale not in PER_SAMPLE:
            yield _Write(event.module, node, held, held, True)


def _of_one_memory(facts: Facts, node: cst.BaseExpression | None) -> Iterator[cst.BaseExpression]:
    """What may be changed where `node` is: `self.mean` of `self.mean.chunk(2)[0]`; not what a call has just made."""
    while node is not None:
        yield node
        if isinstance(node, cst.Call):
            names = [obj.name for obj in facts.value(node.func).objs if isinstance(obj, Ref)]
            if any(torch_tensors.makes_by_sizes(name) or torch_tensors.makes_like(name) for name in names):
                return
            called = facts.value(node.func).objs
            layer = bool(called) and all(isinstance(obj, External) and is_module(obj) for obj in called)
            method = node.func if isinstance(node.func, cst.Attribute) and not names and not layer else None
            if method is not None and method.attr.value in torch_tensors.NEW_METHODS:
                return
            node = method.value if method is not None else node.args[0].value if node.args else None
        else:
            node = node.value if isinstance(node, (cst.Attribute, cst.Subscript)) else None


def _by_functions(facts: Facts) -> Iterator[_Write]:
    """`heapq.heappush(self.losses, x.mean())`, `setattr(self, "top", x)`, `self.register_buffer("top", x)`"""
    for event in facts.of_kind(Kind.METHOD, Kind.CALL):
        node = event.node
        if not isinstance(node, cst.Call) or event.module.function(node) not in places_of(facts).in_models:
            continue
        given = [one.value for one in node.args]
        if not any(_parts_of_one_rank(facts, one) for one in given[1:]):
            continue
        if event.kind is Kind.CALL and (event.name in in_place.OF_LISTS or in_place.is_of_arrays(event.name)):
            yield _Write(event.module, node, given[0], given[0], True)
        elif event.kind is Kind.CALL and event.name == python.SETS_ATTRIBUTE:
            yield _named(facts, event, given[0], given[1])
        elif event.kind is Kind.METHOD and event.name == torch_nn.REGISTERS_BUFFER and event.receiver_node is not None:
            yield _named(facts, event, event.receiver_node, given[0])


def _named(facts: Facts, event: Event, holder: cst.BaseExpression, name: cst.BaseExpression) -> _Write:
    """Under a name that is not known, it may be any."""
    known = facts.value(name).constant()
    if not isinstance(known, str) or not known.isidentifier():
        return _Write(event.module, event.node, holder, holder, True)
    return _Write(event.module, event.node, cst.Attribute(holder, cst.Name(known)), holder, False)


def _is_place(module: Module, node: cst.BaseExpression) -> bool:
    """A name, or an attribute of one that is no method which is called: `self.mean`."""
    holder = module.parents.get(node)
    called = isinstance(holder, cst.Call) and holder.func is node
    of_a_name = isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and not called
    return isinstance(node, cst.Name) or of_a_name


# ---- whose it is, and how long


def _parts_of_one_rank(facts: Facts, node: cst.CSTNode, sizes: bool = True) -> bool:
    """Whether anything in it depends on a rank's own samples; `sizes`: or on how many these are."""
    value = facts.value(node)
    of_sizes = value.scale is Scale.COUNT or isinstance(node, (cst.Attribute, cst.Subscript))
    if not sizes and of_sizes and value.scale in _OF_SIZES:
        return False  # `len(x)`, `x.shape[1]`
    found = (one for one in values_in(value) if sizes or one.scale not in _OF_SIZES)
    of_one = any(facts.shares_of_training(one) for one in found)
    return of_one or any(_parts_of_one_rank(facts, one, sizes) for one in tree.children(node))


def _is_of_one_rank(facts: Facts, module: Module, node: Assignment) -> bool:
    """What is assigned, or whether it is."""
    keys = [one.slice for target in tree.targets(node) for one in tree.walk(target) if isinstance(one, cst.Subscript)]
    given = None if node.value is None or _is_as_before(facts, facts.value(node.value)) else node.value
    if any(_parts_of_one_rank(facts, one) for one in (given, *(part for key in keys for part in key)) if one):
        return True
    for one in module.enclosing(node):
        if isinstance(one, (cst.FunctionDef, cst.Lambda)):
            break
        value = facts.value(one.test) if isinstance(one, (cst.If, cst.While)) else NOTHING
        if facts.shares_of_training(value) and value.scale not in _OF_SIZES:
            return True
        turns = facts.value(one.iter) if isinstance(one, cst.For) else NOTHING  # as many as there are samples
        if facts.shares_of_training(turns) and turns.scale in (*PER_SAMPLE, Scale.COUNT):
            return True
    return False


def _is_as_before(facts: Facts, value: Value) -> bool:
    """`self.net = self.net.to(x.device)`: the module that it is, whatever the batch; not one that is made there."""
    only = value.single()
    return only is not None and is_module(core(only)) and not facts.made_in_a_model(core(only))


def _outlives(facts: Facts, write: _Write) -> bool:
    """Whether what takes it is there when the batch is gone."""
    if isinstance(write.place, cst.Name) and is_set(write.node, write.place):
        return True  # of a function around, or of the module
    if made_anew.is_gone_with_the_call(facts, write.module, write.holder):
        return False  # also where the model is called between passes over the data
    holders = [write.holder, *_tensors_behind(facts, write.module, write.holder)]
    held = [
        obj for holder in holders for one in tree.inwards(holder)
        for obj in facts.value(one).objs if not isinstance(obj, (Method, *_NUMBERS))
    ]  # fmt: skip
    return any(not any(is_made_in(loop, obj) for loop in facts.loops) for obj in held)


def _tensors_behind(
    facts: Facts, module: Module, name: cst.BaseExpression, seen: tuple[cst.CSTNode, ...] = ()
) -> Iterator[cst.BaseExpression]:
    """What a name was set to, of what may be a tensor that is no batch: `mean = self.mean.to(device)`."""
    for bound in module.flow(name).reaching(name) if isinstance(name, cst.Name) else ():
        holder = module.parents.get(bound)
        if isinstance(holder, cst.AugAssign) and isinstance(bound, cst.Name) and holder not in seen:
            yield from _tensors_behind(facts, module, bound, (*seen, holder))
        statement = module.parents.get(holder) if holder is not None else None
        if isinstance(statement, cst.Assign) and any(one.target is bound for one in statement.targets):
            value = facts.value(statement.value)
            number = bool(value.objs) and all(isinstance(obj, _NUMBERS) for obj in value.objs)
            if value.scale not in PER_SAMPLE and not number and _is_another_name(statement.value):
                yield statement.value


def _is_another_name(node: cst.BaseExpression) -> bool:
    """What may be the same tensor, or look at the same numbers: `self.mean`, `self.mean.to(device)`."""
    if isinstance(node, cst.Call):
        method = node.func if isinstance(node.func, cst.Attribute) else None
        same = method is not None and method.attr.value in (*torch_tensors.SAME_OR_COPIED, *in_place.VIEWS)
        return method is not None and same and _is_another_name(method.value)
    return isinstance(node, (cst.Name, cst.Attribute, cst.Subscript))


def _is_left_by_another_pass(facts: Facts, passing: Pass, write: _Write) -> bool:
    """Whether something may be there of an earlier pass, and is added to, or read before it is set."""
    module, node, place = write.module, write.node, write.place
    own = own_attribute(module, node, place)
    if not may_be_of_before(module, node, place):
        return False
    if own and not passing.may_be_as_it_began(module, node, own):
        return False
    if write.adds:
        return True
    within: cst.CSTNode = module.function(node)
    if isinstance(node, ASSIGNMENTS) and node.value is not None:
        scale = facts.value(node.value).scale
        if scale in PER_SAMPLE or scale in _OF_SIZES:
            # Rows of one batch do not go with those of another; tests ask whether what is made of sizes fits still.
            return any(may_be_of_before(module, one, place) for one in reads_of(module, place, node.value))
    if any(may_be_of_before(module, one, place) for one in reads_of(module, place, within)):
        return True
    return bool(own) and isinstance(place, cst.Attribute) and any(passing.reads_elsewhere(module, node, own))
