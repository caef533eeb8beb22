"""Whether a data set's samples follow from their indices alone: then any rank may load any of them, and no other.

The methods by which it makes a sample are followed in a run that has told all it is asked for. Each call in
them is of a function of the script, which is followed, too, or of something of a library that computes or reads.
Nothing is changed but what was made for the sample.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.events import Event
from distify_codemods.inside import contained
from distify_codemods.interpreter import Machine, operators
from distify_codemods.libraries import datasets, drawing, loading
from distify_codemods.objects import (
    Arguments,
    Bound,
    Class,
    External,
    Function,
    Instance,
    Mapping,
    Method,
    Partial,
    Sequence,
)
from distify_codemods.values import NOTHING, Value

_ASKED = {"__getitem__": 1, "__getitems__": 1, "__len__": 0}  # and with how many arguments
_MOST = 200  # functions
_NEW = (cst.Dict, cst.List, cst.Set, cst.BaseComp, cst.BaseNumber, cst.BaseString, cst.BinaryOperation)


class Samples:
    """Of the data sets that one call of a loader is given, in a run that has ended."""

    def __init__(self, machine: Machine, made: Event) -> None:
        self._machine, self._made = machine, made
        self._done: set[cst.CSTNode] = set()
        self._seen: set[Obj] = set()

    def follow_from_indices(self, dataset: Value) -> bool:
        return bool(dataset.objs) and all(self._is_plain(obj) for obj in dataset.objs)

    @property
    def take_time(self) -> bool:
        """Whether samples are more than rows that lie in memory already."""
        return any(isinstance(obj, Instance) or _name(obj).startswith(datasets.OF_PICTURES) for obj in self._seen)

    def is_plain_function(self, value: Value | None) -> bool:
        """Of what makes a batch of samples; None: the library's own."""
        return value is None or value.is_none or self._are_plain_once_called(value)

    def _is_plain(self, obj: Obj) -> bool:
        if obj in self._seen:
            return True
        self._seen.add(obj)
        if isinstance(obj, External) and obj.whole is not None:
            return self._is_plain(obj.whole)  # one of those that were split
        if isinstance(obj, External):
            given = obj.arguments
            told = given is not None and given.star is None and given.double_star is None
            if given is None or not told or not obj.name.startswith(loading.DATA_SETS):
                return False
            return all(self._is_part(one) for value in given.all() for one in contained(value))
        if isinstance(obj, Sequence):
            return all(self._is_part(one) for value in obj.items or () for one in contained(value))
        return isinstance(obj, Instance) and self._is_plain_instance(obj)

    def _is_part(self, obj: Obj) -> bool:
        """Of what a library's data set was made: other data sets, tensors, functions that change a sample."""
        if isinstance(obj, Instance):
            methods = [self._method(obj, name) for name in ("__call__", "forward")]
            called = next((one for one in methods if one.objs), None)
            return self._is_plain(obj) if called is None else self._are_plain_once_called(called)
        if isinstance(obj, External):
            return self._may_be_called(obj) or self._is_plain(obj)
        if isinstance(obj, (Function, Bound, Partial)):
            return self._are_plain_once_called(Value(obj.alone))
        return not isinstance(obj, (Class, Ref, Method)) or self._may_be_called(obj)

    def _is_plain_instance(self, obj: Instance) -> bool:
        if obj.of is None or any(not one.startswith(loading.BASES) for one in obj.of.libraries):
            return False
        asked = [(method, given) for name, given in _ASKED.items() if (method := self._method(obj, name)).objs]
        plain = all(self._are_plain_once_called(method, given) for method, given in asked)
        return bool(asked) and plain and self._holds_plain_things(obj)

    def _are_plain_once_called(self, functions: Value, given: int = 1) -> bool:
        """What only a library calls has not been followed before."""
        machine = self._machine
        machine.frame, machine.here = self._made.here.frame, self._made.here
        machine.call(functions, Arguments([NOTHING] * given), self._made.node)
        return self._are_plain_functions(functions)

    def _holds_plain_things(self, obj: Instance) -> bool:
        """What a library's base calls, if there is one: `self.transform` of a folder of pictures."""
        own = [base for base in (obj.of.libraries if obj.of else ()) if base.startswith(datasets.OF_PICTURES)]
        return not own or all(self._is_part(one) for value in obj.attributes.values() for one in contained(value))

    def _method(self, obj: Instance, name: str) -> Value:
        return self._machine.attribute(obj, name)

    # ---- functions

    def _are_plain_functions(self, value: Value) -> bool:
        return bool(value.objs) and all(map(self._may_be_called, value.objs))

    def _may_be_called(self, obj: Obj) -> bool:
        if isinstance(obj, Function):
            return self._is_plain_function(obj.node)
        if isinstance(obj, Bound):
            return obj.function is not None and self._is_plain_function(obj.function.node)
        if isinstance(obj, Partial):
            return obj.function is not None and self._are_plain_functions(obj.function)
        if isinstance(obj, Class):
            return all(not one.node or self._init(one) for one in obj.order)
        if isinstance(obj, Ref):
            return loading.computes(obj.name)
        if isinstance(obj, External):
            parts = (one for value in (obj.arguments or Arguments()).all() for one in contained(value))
            transforms = obj.name.startswith(drawing.TRANSFORMS) and all(map(self._is_part, parts))
            return transforms or loading.cuts_texts(obj.name)
        if isinstance(obj, Instance):
            called = next((one for name in ("__call__", "forward") if (one := self._method(obj, name)).objs), NOTHING)
            return self._are_plain_functions(called)
        return False

    def _init(self, cls: Class) -> bool:
        init = cls.attributes.get("__init__", NOTHING)
        return not init.objs

    def _is_plain_function(self, node: cst.FunctionDef | cst.Lambda | None) -> bool:
        if node is None or len(self._done) > _MOST:
            return False
        if node in self._done:
            return True
        self._done.add(node)
        fresh = set(self._fresh(node))
        return all(self._is_harmless(part, fresh) for part in self._reached(node.body))

    def _reached(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """All that is in it, but arms that no call takes: `self.transform` is None, and not called."""
        yield node
        known = operators.truth(self._value(node.test)) if isinstance(node, (cst.If, cst.IfExp)) else None
        for child in node.children:
            arms = (getattr(node, "body", None), getattr(node, "orelse", None)) if known is not None else ()
            if child in arms and child is not arms[not known]:
                continue
            yield from self._reached(child)

    def _value(self, node: cst.CSTNode) -> Value:
        return self._machine.values.get(node, NOTHING)

    def _fresh(self, node: cst.CSTNode) -> Iterator[str]:
        """Names that hold nothing but what was made here."""
        bound: dict[str, bool] = {}
        for part in tree.walk(node):
            if isinstance(part, cst.Assign):
                for target in part.targets:
                    for name in tree.target_names(target.target):
                        bound[name] = bound.get(name, True) and self._is_made(part.value)
            elif isinstance(part, cst.WithItem) and part.asname is not None:
                made = self._is_made(part.item)
                bound.update(dict.fromkeys(tree.target_names(part.asname.name), made))
            elif isinstance(part, (cst.For, cst.CompFor, cst.NamedExpr)):
                bound.update(dict.fromkeys(tree.target_names(part.target), False))
            elif isinstance(part, cst.Param):
                bound[part.name.value] = False
        return (name for name, made in bound.items() if made)

    def _is_made(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, _NEW):
            return True
        if not isinstance(node, cst.Call):
            return False
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in loading.MAKING_METHODS:
            return True
        objs = self._value(node.func).objs
        return bool(objs) and all(isinstance(obj, Ref) and loading.makes(obj.name) for obj in objs)

    def _is_harmless(self, part: cst.CSTNode, fresh: set[str]) -> bool:
        if isinstance(part, (cst.Global, cst.Nonlocal, cst.Await, cst.Import, cst.ImportFrom, cst.ClassDef)):
            return False
        if isinstance(part, cst.Call):
            return self._is_harmless_call(part, fresh)
        if isinstance(part, cst.AugAssign):
            return self._is_harmless_change(part.target, fresh, bool(self._number(part.target)))
        if isinstance(part, (cst.AssignTarget, cst.AnnAssign, cst.For, cst.CompFor, cst.NamedExpr)):
            return self._is_harmless_change(part.target, fresh, True)
        if isinstance(part, cst.Del):
            return isinstance(part.target, cst.Name)
        if isinstance(part, cst.Subscript):
            return all(self._may_be_asked(obj) for obj in self._value(part.value).objs)
        if isinstance(part, cst.Attribute):
            return all(self._is_plain_property(obj, part.attr.value) for obj in self._value(part.value).objs)
        return True

    def _number(self, node: cst.BaseExpression) -> bool:
        objs = self._value(node).objs
        return bool(objs) and all(isinstance(obj, Const) for obj in objs)

    def _is_harmless_change(self, target: cst.BaseExpression, fresh: set[str], rebinds: bool) -> bool:
        if isinstance(target, (cst.Tuple, cst.List)):
            return all(self._is_harmless_change(one.value, fresh, rebinds) for one in target.elements)
        if isinstance(target, cst.StarredElement):
            return self._is_harmless_change(target.value, fresh, rebinds)
        if isinstance(target, cst.Name):
            return rebinds or target.value in fresh
        return isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name) and target.value.value in fresh

    def _may_be_asked(self, obj: Obj) -> bool:
        """`obj[index]`."""
        if isinstance(obj, Instance):
            return self._is_plain(obj)
        if isinstance(obj, External):
            of_texts = loading.cuts_texts(obj.name.rpartition(".")[0])  # `tokenizer.encode_plus(text)["input_ids"]`
            return of_texts or loading.computes(obj.name) or self._is_plain(obj)
        return isinstance(obj, (Sequence, Mapping, Const)) or not isinstance(obj, (Class, Function, Bound))

    def _is_plain_property(self, obj: Obj, name: str) -> bool:
        """What reading an attribute runs."""
        if not isinstance(obj, Instance) or name in obj.attributes or obj.of is None:
            return True
        for cls in obj.of.order:
            for function in (one for one in cls.attributes.get(name, NOTHING).objs if isinstance(one, Function)):
                if not self._is_plain_function(function.node):
                    return False
        return True

    def _is_harmless_call(self, node: cst.Call, fresh: set[str]) -> bool:
        callee, func = self._value(node.func).objs, node.func
        if not loading.STATES.isdisjoint(tree.keywords(node)):
            return False
        known = [obj for obj in callee if not isinstance(obj, Method)]
        if known and not all(self._may_be_called(obj) for obj in known):
            return False
        if any(isinstance(obj, Ref) and not self._only_reads(node, obj.name) for obj in known):
            return False
        if known and len(known) == len(callee):
            return True
        if not isinstance(func, cst.Attribute):
            return False  # of something that is not seen
        name = func.attr.value
        if name in loading.CHANGING or name in loading.READING:
            return isinstance(func.value, cst.Name) and func.value.value in fresh
        return name in loading.METHODS and all(self._is_of_known(obj) for obj in callee if isinstance(obj, Method))

    def _is_of_known(self, method: Method) -> bool:
        owners = method.receiver.objs if method.receiver is not None else ()
        roots = [obj for obj in owners if isinstance(obj, (External, Instance))]
        names = [obj.name for obj in roots if isinstance(obj, External)]
        return len(names) == len(roots) and all(loading.computes(one) or loading.cuts_texts(one) for one in names)

    def _only_reads(self, node: cst.Call, name: str) -> bool:
        if name not in loading.OPENING:
            return True
        place = loading.OPENING[name]
        modes = [one for name, one in tree.keywords(node).items() if name == "mode"]
        modes += [arg.value for arg in node.args[place : place + 1] if arg.keyword is None]
        given = [self._value(mode).constant() for mode in modes]
        return all(isinstance(mode, str) and mode.startswith("r") and "+" not in mode for mode in given)


def _name(obj: Obj) -> str:
    return obj.name if isinstance(obj, External) else ""
