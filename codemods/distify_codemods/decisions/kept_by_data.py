"""What a data set, or a transform, keeps of the samples that it is asked for: a count, the last sample, a place in a
stream.

Each rank asks for its own samples. What is kept of them is another one on each, and so are samples that follow from it.
What is kept for an index (a cache), or made once (an open file), is the same whoever asks. It is looked for in a run
whose loaders ask their data sets for a sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from distify_codemods import tree
from distify_codemods.control_flow import parameters_of
from distify_codemods.decisions.base import Decisions, Link
from distify_codemods.decisions.made_for_samples import functions_of, makers
from distify_codemods.decisions.of_before import (
    ASSIGNMENTS,
    Assignment,
    may_be_of_before,
    names_of_others,
    reads_of,
)
from distify_codemods.decisions.own_figures import is_made_in
from distify_codemods.decisions.passes import Callable, Pass, calls_in, is_target, own_attribute, reached
from distify_codemods.facts import Facts
from distify_codemods.inside import values_in
from distify_codemods.libraries import in_place, python
from distify_codemods.naming import brief
from distify_codemods.objects import Function, Mapping, Method, Sequence
from distify_codemods.origins import SAMPLE, Zero
from distify_codemods.program import Module
from distify_codemods.values import Value

_ADDING = python.ADDING | {"update"}
_TAKING = frozenset("pop popleft popitem".split())
_ONE_ENTRY = frozenset("get setdefault".split())
_OF_SIZE = frozenset("shape size dtype maxlen".split())
_MAKING = (cst.Call, cst.List, cst.Dict, cst.Set, cst.BaseComp)
_SAME = (cst.Equal, cst.NotEqual, cst.In, cst.NotIn)


def links(decisions: Decisions) -> Iterator[Link]:
    facts = decisions.facts
    made = [one for obj in makers(facts) for one in functions_of(obj)]
    if not any(map(_may_keep, made)) and not _may_go_by_training(facts, made):
        return
    later = {one.node for deferral in decisions.deferrals for one in deferral.averages}
    averaged = facts.run.trial.averaged - later  # data sets look at what is kept at any time
    seen = facts.tried(drop_data_parallel=True, evidence=True, samples=True, hooks=(), averaged=averaged)
    begins = [one.node for obj in makers(seen) for one in functions_of(obj) if one.node is not None]
    sampling = _Sampling(seen, reached(seen, begins))
    for module, node in dict.fromkeys(sampling.goes_by_training()):
        yield Link(
            module, node,
            f"samples are made of `{brief(node)}`, which follows from what was computed of a batch: each rank would go "
            "by its own",
        )  # fmt: skip
    for module, node in dict.fromkeys(sampling.kept()):
        yield Link(
            module, node,
            f"`{brief(node)}` keeps something of the samples that are asked for, which are a rank's own",
            "what follows from a sample's index is the same whoever asks for it",
        )  # fmt: skip


def _may_keep(function: Function) -> bool:
    """Whether anything in its text might: else there is nothing to look for in a run."""
    for node in tree.walk(function.node) if function.node is not None else ():
        if isinstance(node, ASSIGNMENTS):
            if any(not isinstance(leaf, cst.Name) for one in tree.targets(node) for leaf in tree.leaves(one)):
                return True
        elif isinstance(node, (cst.Global, cst.Nonlocal)):
            return True
        elif isinstance(node, cst.Call):
            taking = isinstance(node.func, cst.Attribute) and node.func.attr.value in _TAKING | {"shuffle"}
            plain = isinstance(node.func, cst.Name)  # `next(self.stream)`, or a function that may do anything with it
            if taking or (plain and node.args):
                return True
        elif isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
            return True
    return False


def _may_go_by_training(facts: Facts, made: list[Function]) -> bool:
    """Whether any of it reads a name of a module that is set, or filled, with what is computed of a batch; or calls
    what it was given."""
    handed = (obj for maker in makers(facts) for value in maker.attributes.values() for obj in value.objs)
    if any(isinstance(obj, Function) for obj in handed):
        return True
    set_anew = {
        (module, name) for module, frame in facts.run.frames.items() for name, value in frame.env.items()
        if any(_is_own(facts, one) for one in (value, *_attributes(value)))
    }  # fmt: skip
    return any(
        (one.module, name) in set_anew for one in made if one.node is not None for name in tree.names(one.node)
    )  # fmt: skip


def _attributes(value: Value) -> Iterator[Value]:
    return (one for obj in value.objs for one in obj.attributes.values())


def _is_own(facts: Facts, value: Value) -> bool:
    """Also in a list, or a dictionary."""
    return any(facts.shares_of_training(one) for one in values_in(value))


class _Sampling:
    """The functions that run for a sample."""

    def __init__(self, facts: Facts, functions: list[Callable]) -> None:
        self._facts, self._functions = facts, functions
        self._passing = Pass(facts, functions)

    def kept(self) -> Iterator[tuple[Module, cst.CSTNode]]:
        for function in self._functions:
            module = self._facts.module_of(function)
            for node in tree.walk(function.body):
                if isinstance(node, ASSIGNMENTS) and node.value is not None:
                    places = [leaf for one in tree.targets(node) for leaf in tree.leaves(one)]
                    kept = any(self._lasts(function, place) and self._is_kept(module, node, place) for place in places)
                else:
                    kept = isinstance(node, cst.Call) and self._changes(module, function, node)
                if kept and not self._is_looked_up(module, node):
                    yield module, node

    def goes_by_training(self) -> Iterator[tuple[Module, cst.CSTNode]]:
        """What is read that training has changed."""
        for function in self._functions:
            module = self._facts.module_of(function)
            for node in tree.walk(function.body):
                read = isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)) and not _is_held(module, node)
                if read and _is_own(self._facts, self._facts.value(node)):
                    yield module, node
                    break

    # ---- how long it is there

    def _lasts(self, function: Callable, place: cst.BaseExpression) -> bool:
        """Whether what is assigned to is there when the sample is done: `self.count`, `self.counts[i]`, a global."""
        if isinstance(place, cst.Name):
            return isinstance(function, cst.FunctionDef) and place.value in names_of_others(function)
        return isinstance(place, (cst.Attribute, cst.Subscript)) and self._is_there(place.value)

    def _is_there(self, holder: cst.BaseExpression) -> bool:
        *_, root = tree.inwards(holder)
        if isinstance(root, cst.Name) and self._is_made_anew(root):
            return False
        return any(self._outlives(self._facts.value(one)) for one in tree.inwards(holder))

    def _is_made_anew(self, name: cst.Name) -> bool:
        """`pad = np.zeros(…)`: whether a name has what its own function makes, in each call of it."""
        module = self._facts.module_of(name)
        function = module.function(name)
        if not isinstance(function, cst.FunctionDef) or name.value in names_of_others(function):
            return False
        bound = module.flow(name).reaching(name)
        return bool(bound) and all(self._is_made_there(module, one) for one in bound)

    def _is_made_there(self, module: Module, bound: cst.CSTNode) -> bool:
        target = module.parents.get(bound)
        given = module.parents.get(target) if isinstance(target, cst.AssignTarget) else None
        if not isinstance(given, cst.Assign) or len(given.targets) > 1 or not isinstance(given.value, _MAKING):
            return False
        made = self._facts.value(given.value)
        plain = all(isinstance(obj, (Mapping, Sequence, Zero)) and obj.site is given.value for obj in made.objs)
        return plain and bool(made.objs) and not made.open

    def _outlives(self, value: Value) -> bool:
        held = [obj for obj in value.objs if not isinstance(obj, Method)]
        return any(not any(is_made_in(loop, obj) for loop in self._facts.loops) for obj in held)

    def _is_as_it_began(self, module: Module, node: cst.CSTNode, place: cst.BaseExpression) -> bool:
        own = own_attribute(module, node, place)
        if not may_be_of_before(module, node, place):
            return False
        return not own or self._passing.may_be_as_it_began(module, node, own)

    # ---- what is assigned

    def _is_kept(self, module: Module, node: Assignment, place: cst.BaseExpression) -> bool:
        if not self._is_as_it_began(module, node, place):
            return False
        if isinstance(node, cst.AugAssign) or self._goes_on_from(module, node, place):
            return True
        if isinstance(place, (cst.Attribute, cst.Subscript)) and self._follows_from_a_sample(place.value):
            return False  # of what is kept for this sample alone
        of_a_sample = self._follows_from_a_sample(node.value) or self._is_at_some_samples(module, node)
        if isinstance(place, cst.Subscript):
            keys = [one for element in place.slice for one in tree.walk(element)]
            by_sample = any(map(self._follows_from_a_sample, keys))
            return (of_a_sample or by_sample) and (
                self._is_read_otherwise(module, place) or self._is_looked_into(place.value)
            )
        if not of_a_sample or self._is_made_once(module, node, place):
            return False
        within = module.function(node)
        if any(may_be_of_before(module, one, place) for one in reads_of(module, place, within)):
            return True
        return isinstance(place, cst.Attribute) and self._is_read_elsewhere(module, node, place)

    def _goes_on_from(self, module: Module, node: Assignment, place: cst.BaseExpression) -> bool:
        """`self.n = self.n + 1`, also by way of a name."""
        value = node.value or node
        copied = [one for one in tree.walk(module.function(node)) if one is not node and _gives(one, tree.names(value))]
        return any(any(reads_of(module, place, one)) for one in (value, *copied))

    def _is_made_once(self, module: Module, node: Assignment, place: cst.BaseExpression) -> bool:
        """`if self.file is None: self.file = open(…)`, of what is the same for all samples."""
        asked = {tree.code_of(one) for test in _tests(module, node) for one in _expressions(test)}
        return tree.code_of(place) in asked and not self._follows_from_a_sample(node.value)

    def _is_read_elsewhere(self, module: Module, node: cst.CSTNode, place: cst.Attribute) -> bool:
        """In another method of the same pass, or by whoever else has the object."""
        own = own_attribute(module, node, place)
        return bool(own and any(self._passing.reads_elsewhere(module, node, own))) or self._is_looked_into(place)

    def _is_looked_into(self, place: cst.BaseExpression) -> bool:
        """By whoever else has the object: `len(data.cache)`."""
        if not isinstance(place, cst.Attribute):
            return False
        holders = self._facts.value(place.value).objs
        reads = (one for one in self._facts.run.values if isinstance(one, cst.Attribute))
        return any(
            one.attr.value == place.attr.value and not self._facts.value(one.value).objs.isdisjoint(holders)
            and self._is_of_others(one)
            for one in reads
        )  # fmt: skip

    def _is_of_others(self, read: cst.Attribute) -> bool:
        module = self._facts.module_of(read)
        function = module.function(read)
        makes = isinstance(function, cst.FunctionDef) and function.name.value == "__init__"
        around = module.parents.get(read)
        emptied = isinstance(around, cst.Attribute) and around.attr.value == "clear"
        return function not in self._functions and not (makes or emptied or is_target(module, read))

    def _is_read_otherwise(self, module: Module, place: cst.Subscript) -> bool:
        """Whether any other entry than the sample's own is read, as it is not in a cache."""
        held = self._facts.value(place.value).objs
        key = _key(place)
        for function in self._functions:
            where = self._facts.module_of(function)
            for one in tree.walk(function.body):
                read = isinstance(one, (cst.Attribute, cst.Name)) and not held.isdisjoint(self._facts.value(one).objs)
                if read and isinstance(one, (cst.Attribute, cst.Name)) and not _is_of_one_entry(where, one, key):
                    return True
        return not held and any(
            not _is_of_one_entry(module, one, key)
            for one in reads_of(module, place, module.function(place))
            if isinstance(one, (cst.Attribute, cst.Name))
        )  # fmt: skip

    # ---- what is called

    def _changes(self, module: Module, function: Callable, call: cst.Call) -> bool:
        """`self.seen.append(i)`, `self.order.pop()`, `next(self.stream)`"""
        given = [one.value for one in call.args]
        names = {str(getattr(obj, "name", "")) for obj in self._facts.value(call.func).objs}
        if python.TAKES_ONE in names and given:
            return self._holds(module, call, given[0])
        if given and any(one in in_place.OF_LISTS or one.endswith(".shuffle") for one in names):
            return self._holds(module, call, given[0])
        if python.SETS_ATTRIBUTE in names and len(given) > 2:
            return self._follows_from_a_sample(given[2]) and self._holds(module, call, given[0])
        if not isinstance(call.func, cst.Attribute):
            return False
        holder, name = call.func.value, call.func.attr.value
        if name == "shuffle" and given:  # of a generator that is not known
            return self._holds(module, call, given[0])
        alone = isinstance(module.parents.get(call), cst.Expr)  # a tensor's `add` gives another one
        adds = name in _ADDING and alone and any(map(self._follows_from_a_sample, given))
        in_place_too = name.endswith("_") and not name.startswith("_") and any(map(self._follows_from_a_sample, given))
        return (adds or in_place_too or name in _TAKING) and self._holds(module, call, holder)

    def _holds(self, module: Module, call: cst.Call, holder: cst.BaseExpression) -> bool:
        """Whether a list, a stream or the like is there before and after."""
        return self._is_there(holder) and self._is_as_it_began(module, call, holder)

    # ---- what follows from a sample

    def _follows_from_a_sample(self, node: cst.CSTNode | None) -> bool:
        parts = tree.walk(node) if node is not None else ()
        return any(SAMPLE in self._facts.value(one).sources for one in parts)

    def _is_at_some_samples(self, module: Module, node: cst.CSTNode) -> bool:
        """`if index == len(self) - 1: self.reshuffle()`: only the rank that is asked for that sample does."""
        return module.function(node) in self._conditional or any(
            map(self._follows_from_a_sample, _tests(module, node))
        )  # fmt: skip

    @cached_property
    def _conditional(self) -> set[cst.CSTNode]:
        """Functions that are called for some samples and not for others."""
        found: set[cst.CSTNode] = set()
        before = -1
        while len(found) > before:
            before = len(found)
            for function in self._functions:
                module = self._facts.module_of(function)
                for node, called, _ in calls_in(self._facts, module, function):
                    if function in found or any(map(self._follows_from_a_sample, _tests(module, node))):
                        found.update(called)
        return found

    def _is_looked_up(self, module: Module, node: cst.CSTNode) -> bool:
        """`if index != self.index: self.index, self.rows = index, load(index)`: what is kept is known by its index."""
        entries = tree.targets(node) if isinstance(node, ASSIGNMENTS) else []
        looked_into = any(isinstance(one, cst.Subscript) and self._is_looked_into(one.value) for one in entries)
        if isinstance(node, cst.AugAssign) or looked_into:
            return False
        compared = [one for test in _tests(module, node) for one in tree.walk(test) if isinstance(one, cst.Comparison)]
        return any(
            isinstance(target.operator, _SAME) for one in compared for target in one.comparisons
            if self._follows_from_a_sample(one) and any(map(self._is_of_the_object, _expressions(one)))
        )  # fmt: skip

    def _is_of_the_object(self, place: cst.BaseExpression) -> bool:
        return isinstance(place, (cst.Attribute, cst.Subscript)) and self._is_there(place.value)


def _gives(node: cst.CSTNode, names: set[str]) -> bool:
    """Whether it gives a value to one of some names: `n = self.n`."""
    if not isinstance(node, (cst.Assign, cst.AnnAssign, cst.NamedExpr)):
        return False
    targets = [node.target] if isinstance(node, cst.NamedExpr) else tree.targets(node)
    return not names.isdisjoint(name for one in targets for name in tree.target_names(one))


def _is_held(module: Module, node: cst.CSTNode) -> bool:
    """`settings` of `settings["size"]`, of which something else may follow from training."""
    holder = module.parents.get(node)
    return isinstance(holder, (cst.Attribute, cst.Subscript)) and holder.value is node


def _tests(module: Module, node: cst.CSTNode) -> list[cst.BaseExpression]:
    found = []
    for one in module.enclosing(node):
        if isinstance(one, (cst.FunctionDef, cst.Lambda)):
            break
        found += [one.test] if isinstance(one, (cst.If, cst.While, cst.IfExp)) else []
    return found


def _expressions(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    return (one for one in tree.walk(node) if isinstance(one, (cst.Attribute, cst.Subscript, cst.Name)))


def _key(place: cst.Subscript) -> str:
    return ", ".join(tree.code_of(one.slice) for one in place.slice)


def _is_of_one_entry(module: Module, read: cst.Attribute | cst.Name, key: str) -> bool:
    """`rows` of `rows[i]`, `rows.get(i)`, `i in rows`, `len(rows)`, or of another name that it is given."""
    holder = module.parents.get(read)
    if isinstance(holder, cst.Subscript) and holder.value is read:
        return _key(holder) == key or _is_a_parameter(module, holder)
    if isinstance(holder, cst.Attribute) and holder.value is read:
        call = module.parents.get(holder)
        asked = call.args[:1] if isinstance(call, cst.Call) and holder.attr.value in _ONE_ENTRY else ()
        return holder.attr.value in _OF_SIZE or any(tree.code_of(one.value) == key for one in asked)
    if isinstance(holder, cst.ComparisonTarget):
        return isinstance(holder.operator, (cst.In, cst.NotIn, cst.Is, cst.IsNot))
    if isinstance(holder, cst.Comparison):
        return all(isinstance(one.operator, (cst.Is, cst.IsNot)) for one in holder.comparisons)
    if isinstance(holder, cst.Arg):
        call = module.parents.get(holder)
        return isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "len"
    return isinstance(holder, (cst.Assign, cst.AssignTarget, cst.AnnAssign, cst.If, cst.BooleanOperation))


def _is_a_parameter(module: Module, place: cst.Subscript) -> bool:
    """`self.rows[index]`, in a function that is given the index."""
    function = module.function(place)
    given = parameters_of(function) if isinstance(function, (cst.FunctionDef, cst.Lambda)) else []
    return _key(place) in {one.name.value for one in given}
