"""Batches that torch itself puts together are nested as the samples are: what a data set is seen to return.

Of `return [first, second], label` a batch has a list of two tensors, each with a row for each sample. What is not seen
to be a tuple, a list or a dictionary is taken for one tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.interpreter import collate_names as names
from distify_codemods.interpreter.collate_forms import ROWS, Form, Kind, columns
from distify_codemods.interpreter.sampling import FOR_A_SAMPLE
from distify_codemods.libraries import datasets, torch_data
from distify_codemods.objects import Bound, External, Function, Instance
from distify_codemods.program import Module
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_DEEPEST = 5
_ASKED, _ASKED_AT_ONCE, *_TRANSFORMING = FOR_A_SAMPLE


def form_of(machine: Machine, loader: External) -> Form:
    """How the batches of a loader without a `collate_fn` are nested; any number of tensors where that is not seen."""
    given = loader.arguments.get("dataset", 0) if loader.arguments is not None else None
    form = _Nested(machine).of_data_set(given or NOTHING, 0)
    return form if any(item.items for item in form.items) else columns(ROWS)


def _agreeing(forms: list[Form]) -> Form:
    """What may be any of these."""
    if not forms:
        return ROWS
    first, *rest = forms
    for other in rest:
        if first.kind is not other.kind or len(first.items) != len(other.items) or first.names != other.names:
            return ROWS
        items = tuple(_agreeing([one, two]) for one, two in zip(first.items, other.items, strict=True))
        first = Form(first.kind, items, first.names)
    return first


class _Nested:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    # ---- objects

    def of_data_set(self, given: Value, depth: int) -> Form:
        if given.open or depth > _DEEPEST:
            return ROWS
        return _agreeing([self._of_one(obj, depth) for obj in given.objs])

    def _of_one(self, obj: Obj, depth: int) -> Form:
        if isinstance(obj, Instance):
            at_once = self.machine.attribute(obj, _ASKED_AT_ONCE).objs
            return ROWS if at_once else self._called(self.machine.attribute(obj, _ASKED), depth)
        if not isinstance(obj, External) or obj.arguments is None:
            return ROWS
        if obj.name == torch_data.SUBSET:
            return self.of_data_set(obj.arguments.get("dataset", 0) or NOTHING, depth + 1)
        if obj.name in datasets.OF_PAIRS:
            transform = obj.arguments.keywords.get("transform") or NOTHING
            return Form(Kind.TUPLE, (self._called(transform, depth + 1), ROWS))
        return ROWS

    def _called(self, callee: Value, depth: int) -> Form:
        """What a call of one of these returns."""
        if callee.open or depth > _DEEPEST:
            return ROWS
        return _agreeing([self._returned_by(obj, depth) for obj in callee.objs])

    def _returned_by(self, obj: Obj, depth: int) -> Form:
        if isinstance(obj, Instance):
            methods = (self.machine.attribute(obj, name) for name in _TRANSFORMING)
            own = next((one for one in methods if isinstance(one.single(), Bound)), NOTHING)
            return self._called(own, depth + 1)
        if isinstance(obj, Bound) and obj.function is not None:
            return self._of_function(obj.function, obj.receiver, depth)
        return self._of_function(obj, None, depth) if isinstance(obj, Function) else ROWS

    def _of_function(self, function: Function, receiver: Obj | None, depth: int) -> Form:
        node = function.node
        if node is None:
            return ROWS
        module = next(one for one in self.machine.program.modules.values() if node in one.parents)
        body = _Body(self, module, node, receiver, depth)
        if isinstance(node, cst.Lambda):
            return body.form(node.body)
        plain = not node.decorators and node.asynchronous is None
        if not plain or any(isinstance(one, cst.Yield) for one in tree.walk(node.body)):
            return ROWS
        returned, ended = body.returned(node.body)
        return _agreeing([body.form(one) for one in returned]) if ended else ROWS


class _Body:
    """A function, as an object has it."""

    def __init__(
        self, nested: _Nested, module: Module, node: cst.FunctionDef | cst.Lambda, receiver: Obj | None, depth: int
    ) -> None:
        self.nested, self.module, self.depth = nested, module, depth
        self.receiver = receiver if isinstance(receiver, Instance) else None
        params = node.params.params
        self.own = params[0].name.value if params else ""

    # ---- statements

    def returned(self, block: cst.BaseSuite | cst.SimpleStatementLine) -> tuple[list[cst.BaseExpression], bool]:
        """What is returned in a block, and whether it never ends otherwise, but by an error."""
        found: list[cst.BaseExpression] = []
        for statement in block.body:
            more, ended = self._of_statement(statement)
            found += more
            if ended:
                return found, True
        return found, False

    def _of_statement(self, node: cst.CSTNode) -> tuple[list[cst.BaseExpression], bool]:
        if isinstance(node, cst.Return):
            return [node.value or cst.Name("None")], True
        if isinstance(node, cst.Raise):
            return [], True
        if isinstance(node, cst.SimpleStatementLine):
            return self.returned(node)
        if isinstance(node, cst.If):
            return self._of_branch(node)
        if isinstance(node, cst.Else):
            return self.returned(node.body)
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            return [], False
        blocks = [one for one in node.children if isinstance(one, cst.BaseSuite)]
        parts = [one for one in node.children if isinstance(one, (cst.Else, cst.ExceptHandler, cst.Finally))]
        blocks += [one.body for one in parts]
        found = [one for block in blocks for one in self.returned(block)[0]]
        return found, isinstance(node, cst.With) and self.returned(node.body)[1]

    def _of_branch(self, node: cst.If) -> tuple[list[cst.BaseExpression], bool]:
        outcome = self.outcome(node.test)
        arms = [self.returned(node.body)] if outcome is not False else []
        if outcome is not True:
            arms.append(self._of_statement(node.orelse) if node.orelse is not None else ([], False))
        return [one for returned, _ in arms for one in returned], all(ended for _, ended in arms)

    def outcome(self, test: cst.BaseExpression) -> bool | None:
        """`self.two`, `not self.two`, `self.transform is not None`, as the object is; None: that is not known."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            inner = self.outcome(test.expression)
            return None if inner is None else not inner
        if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
            asked = test.comparisons[0]
            none = isinstance(asked.comparator, cst.Name) and asked.comparator.value == "None"
            if not none or not isinstance(asked.operator, (cst.Is, cst.IsNot)):
                return None
            is_none = self._is_none(self._attribute(test.left))
            return is_none if is_none is None or isinstance(asked.operator, cst.Is) else not is_none
        value = self._attribute(test)
        if value.open or not value.objs:
            return None
        return False if value.is_none else bool(value.constant()) if value.constant() is not None else None

    def _is_none(self, value: Value) -> bool | None:
        if value.open or not value.objs:
            return None
        return True if value.is_none else None if value.may_be_none else False

    def _attribute(self, node: cst.BaseExpression) -> Value:
        """What the object has under a name: `self.transform`."""
        if not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Name) or node.value.value != self.own:
            return NOTHING
        return self.nested.machine.attribute(self.receiver, node.attr.value) if self.receiver is not None else NOTHING

    # ---- expressions

    def form(self, node: cst.BaseExpression) -> Form:
        if isinstance(node, (cst.Tuple, cst.List)):
            if any(isinstance(one, cst.StarredElement) for one in node.elements):
                return columns(ROWS)
            return Form(Kind.TUPLE, tuple(self.form(one.value) for one in node.elements)) if node.elements else ROWS
        if isinstance(node, cst.ListComp):
            return columns(ROWS)
        if isinstance(node, cst.Dict):
            return self._table(node)
        if isinstance(node, cst.IfExp):
            outcome = self.outcome(node.test)
            arms = [node.body] if outcome is not False else []
            return _agreeing([self.form(one) for one in (*arms, *([node.orelse] if outcome is not True else []))])
        if isinstance(node, cst.Call):
            return self.nested._called(self._attribute(node.func), self.depth + 1)
        return self._named(node) if isinstance(node, cst.Name) else ROWS

    def _table(self, node: cst.Dict) -> Form:
        keys = [names.text(one.key) if isinstance(one, cst.DictElement) else None for one in node.elements]
        known = tuple(one for one in keys if one is not None)
        if len(known) != len(keys) or len(set(known)) != len(keys) or not keys:
            return ROWS
        return Form(Kind.TABLE, tuple(self.form(one.value) for one in node.elements), known)

    def _named(self, node: cst.Name) -> Form:
        """What a name was given. A list may have been added to: it is a list still."""
        given = [self._given(bound) for bound in self.module.flow(node).reaching(node)]
        forms = []
        for value in given:
            listed = isinstance(value, (cst.List, cst.ListComp))
            fixed = isinstance(value, (cst.Tuple, cst.Call))  # nothing can be added to it, or it says itself what it is
            forms.append(columns(ROWS) if listed else self.form(value) if fixed and value is not None else ROWS)
        return _agreeing(forms)

    def _given(self, bound: cst.CSTNode) -> cst.BaseExpression | None:
        """`views = [a, b]`"""
        target = self.module.parents.get(bound)
        around = self.module.parents.get(target) if isinstance(target, cst.AssignTarget) else None
        return around.value if isinstance(around, cst.Assign) and len(around.targets) == 1 else None
