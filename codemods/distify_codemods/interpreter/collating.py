"""What a `collate_fn` makes of the samples of a batch, seen strictly: what is not understood is not guessed.

A share of a batch is put together as the batch is only where the samples end up along the first dimension, one row
each. So its statements are followed over `Form`s, apart from the run of the program, in which it would leave events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

import libcst as cst

from distify_codemods import tree
from distify_codemods.interpreter import collate_calls as calls
from distify_codemods.interpreter import collate_names as names
from distify_codemods.interpreter.collate_forms import (
    CONST,
    EACH,
    EMPTY,
    OF_ALL,
    SMALL,
    UNKNOWN,
    Form,
    Kind,
    Named,
    Unseen,
    columns,
    combined,
    depends_on_others,
    either,
    gathered,
    items_of,
    unpacked,
)
from distify_codemods.objects import Function
from distify_codemods.records import dataclass

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_HARMLESS = (cst.Pass, cst.Assert, cst.Raise)


@dataclass(eq=False)
class Body:
    machine: Machine
    function: Function
    env: dict[str, Form]
    call: Callable[[Form, list[Form], Named], Form]  # what a function returns
    returned: list[Form] = field(default_factory=list)
    ended: bool = False  # by a `return` in any case
    fills: set[str] = field(default_factory=set)  # lists and tables that each turn of the loop adds to, once
    filling: Kind | None = None  # what a list becomes that is added to in each turn
    filled: dict[str, Form] = field(default_factory=dict)

    # ---- statements

    def block(self, block: cst.BaseSuite) -> None:
        for statement in block.body:
            if self.ended:
                return
            if isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    self._small(small)
            elif isinstance(statement, cst.If):
                self._if(statement)
            elif isinstance(statement, cst.For) and statement.orelse is None and statement.asynchronous is None:
                self._for(statement)
            elif isinstance(statement, cst.BaseSmallStatement):
                self._small(statement)
            else:
                raise Unseen

    def _small(self, node: cst.BaseSmallStatement) -> None:
        if isinstance(node, cst.Return):
            if self.filling is not None:
                raise Unseen
            self.returned.append(self.evaluate(node.value) if node.value is not None else CONST)
            self.ended = True
        elif isinstance(node, cst.Assign):
            form = self._not_shared(node.value)
            for target in node.targets:
                self.assign(target.target, form)
        elif isinstance(node, cst.AnnAssign) and node.value is not None:
            self.assign(node.target, self._not_shared(node.value))
        elif isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name):
            before = self.evaluate(node.target)
            if before.kind not in SMALL:
                raise Unseen
            self.assign(node.target, self._of_one(combined([before, self.evaluate(node.value)]), before))
        elif isinstance(node, cst.Expr):
            if not self._appends(node.value):
                self._of_one(self.evaluate(node.value))
                self._look_at_method(node.value)
        elif not isinstance(node, _HARMLESS):
            raise Unseen

    def _of_one(self, made: Form, before: Form = EACH) -> Form:
        """`one += [0] * (longest - len(one))`, `one *= place`: a sample that a list holds may be another one now."""
        by_others = made.kind is Kind.UNKNOWN or (not before.padded and depends_on_others(made))
        if before.kind is Kind.EACH and by_others:
            raise Unseen
        return made

    def _look_at_method(self, node: cst.BaseExpression) -> None:
        """`max(batch, key=size)[0].mul_(2)`: which sample it changes, the others say."""
        func = node.func if isinstance(node, cst.Call) else None
        if isinstance(func, cst.Attribute) and self.evaluate(func.value).kind is Kind.OF_ALL:
            raise Unseen

    def _not_shared(self, node: cst.BaseExpression) -> Form:
        """What is assigned: a list that is being filled has one name."""
        form = self.evaluate(node)
        if form.kind is Kind.EMPTY and not isinstance(node, (cst.List, cst.Dict, cst.Call)):
            raise Unseen
        return form

    def assign(self, target: cst.BaseExpression, form: Form) -> None:
        if isinstance(target, cst.Name):
            self.env[target.value] = form
        elif isinstance(target, (cst.Tuple, cst.List)):
            if any(isinstance(one, cst.StarredElement) for one in target.elements):
                raise Unseen
            for element, part in zip(target.elements, unpacked(form, len(target.elements)), strict=True):
                self.assign(element.value, part)
        elif isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name):
            self._set_item(target.value.value, target, form)
        else:
            raise Unseen

    def _set_item(self, name: str, target: cst.Subscript, form: Form) -> None:
        """`rows[place, :n] = sample`, `parts["x"] = rows`"""
        held = self.env.get(name, UNKNOWN)
        keys = [self._key(one) for one in target.slice]
        if held.kind is Kind.ROWS and keys[0].kind is Kind.PLACE:
            if combined([*keys[1:], form]).kind not in SMALL:
                raise Unseen
            return
        key = names.literal(target)
        if held.kind in (Kind.EMPTY, Kind.TABLE) and key is not None and self.filling is None:
            parts = {**dict(zip(held.names, held.items, strict=True)), key: form}
            self.env[name] = Form(Kind.TABLE, tuple(parts.values()), tuple(parts))
        elif name in self.fills and self.filling is Kind.COLUMNS and keys[0].kind in (Kind.CONST, Kind.OF_ALL):
            self._fill(name, form)
        elif held.kind is Kind.COLUMNS and self.filling is None:
            self.env[name] = columns(either(held.element, form))
        else:
            raise Unseen

    def _appends(self, node: cst.BaseExpression) -> bool:
        """`xs.append(x)` in each turn of a loop."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return False
        holder = node.func.value
        if node.func.attr.value != "append" or len(node.args) != 1 or not isinstance(holder, cst.Name):
            return False
        self._fill(holder.value, self.evaluate(node.args[0].value))
        return True

    def _fill(self, name: str, form: Form) -> None:
        if name not in self.fills or name in self.filled or self.filling is None:
            raise Unseen
        self.filled[name] = gathered(form, self.filling)

    def _if(self, node: cst.If) -> None:
        test = self.evaluate(node.test)
        if test.kind not in (Kind.CONST, Kind.EACH) or test.padded:
            raise Unseen  # ranks may go different ways
        fills, before = self.fills, dict(self.env)
        self.fills = set()
        self.block(node.body)
        first, ended = self.env, self.ended
        self.env, self.ended = before, False
        if isinstance(node.orelse, cst.If):
            self._if(node.orelse)
        elif node.orelse is not None:
            self.block(node.orelse.body)
        self.fills = fills
        if ended and not self.ended:
            return
        if self.ended and not ended:
            self.env, self.ended = first, False
            return
        for name in {**first, **self.env}:
            self.env[name] = either(first.get(name, UNKNOWN), self.env.get(name, UNKNOWN))

    def _for(self, node: cst.For) -> None:
        element, kind = items_of(self.evaluate(node.iter))
        outer = self.fills, self.filling, self.filled
        changed = {name for one in tree.walk(node.body) for name in tree.bound_names(one)}
        for name in changed & self.env.keys():
            self.env[name] = OF_ALL if self.env[name].kind in SMALL else UNKNOWN  # of what turn it is, is not told
        self.fills = {name for name, form in self.env.items() if form.kind is Kind.EMPTY}
        self.filling, self.filled = kind, {}
        self.assign(node.target, element)
        self.block(node.body)
        for name in {*changed, *tree.target_names(node.target)}:
            self.env[name] = OF_ALL if self.env.get(name, UNKNOWN).kind in SMALL else UNKNOWN
        self.env |= self.filled
        several = outer[0] & self.filled.keys()  # of a list that a loop around this one fills
        if self.ended or (several and outer[1] is not None):
            raise Unseen
        self.fills, self.filling, self.filled = outer

    # ---- expressions

    def evaluate(self, node: cst.BaseExpression) -> Form:
        handler = _EXPRESSIONS.get(type(node))
        if handler is None:
            raise Unseen
        return handler(self, node)

    def _name(self, node: cst.Name) -> Form:
        return self.env[node.value] if node.value in self.env else names.outside(self.machine, self.function, node)

    def _list(self, node: cst.ListComp | cst.GeneratorExp) -> Form:
        return self._comprehension(node.for_in, node.elt)

    def _dictionary(self, node: cst.DictComp) -> Form:
        made = self._comprehension(node.for_in, node.value)
        return made if made.kind is not Kind.LISTED else UNKNOWN

    def _attribute(self, node: cst.Attribute) -> Form:
        return names.attribute(self.machine, self.evaluate(node.value), node.attr.value)

    def _either(self, node: cst.IfExp) -> Form:
        if (test := self.evaluate(node.test)).kind not in (Kind.CONST, Kind.EACH) or test.padded:
            return UNKNOWN
        return either(self.evaluate(node.body), self.evaluate(node.orelse))

    def _operation(self, node: cst.BinaryOperation | cst.BooleanOperation) -> Form:
        return combined([self.evaluate(node.left), self.evaluate(node.right)])

    def _comparison(self, node: cst.Comparison) -> Form:
        parts = [self.evaluate(one.comparator) for one in node.comparisons]
        return combined([self.evaluate(node.left), *parts])

    def _formatted(self, node: cst.FormattedString) -> Form:
        inside = [one.expression for one in node.parts if isinstance(one, cst.FormattedStringExpression)]
        return combined(map(self.evaluate, inside))

    def _row(self, node: cst.Tuple | cst.List) -> Form:
        if any(isinstance(one, cst.StarredElement) for one in node.elements):
            raise Unseen
        if not node.elements and isinstance(node, cst.List):
            return EMPTY
        return Form(Kind.TUPLE, tuple(self.evaluate(one.value) for one in node.elements))

    def _table(self, node: cst.Dict) -> Form:
        keys: list[str] = []
        parts: list[Form] = []
        for element in node.elements:
            key = names.text(element.key) if isinstance(element, cst.DictElement) else None
            if key is None:
                raise Unseen
            keys.append(key)
            parts.append(self.evaluate(element.value))
        return Form(Kind.TABLE, tuple(parts), tuple(keys)) if keys else EMPTY

    def _comprehension(self, over: cst.CompFor, result: cst.BaseExpression) -> Form:
        form = self.evaluate(over.iter)
        element, kind = items_of(form)
        if (over.ifs or over.inner_for_in is not None) and kind is not Kind.EACH:
            return OF_ALL if kind is Kind.COLUMNS and form.kind in SMALL else UNKNOWN  # which, or how many, is not told
        if over.asynchronous is not None:
            raise Unseen
        outer, self.env = self.env, dict(self.env)
        filling, self.fills = self.fills, set()
        self.assign(over.target, element)
        inner = over.inner_for_in
        made = self.evaluate(result) if inner is None else self._comprehension(inner, result)
        tests = combined(self.evaluate(one.test) for one in over.ifs)
        self.env, self.fills = outer, filling
        return gathered(combined([made, tests]) if over.ifs else made, kind)

    def _item(self, node: cst.Subscript) -> Form:
        held = self.evaluate(node.value)
        keys = [self._key(one) for one in node.slice]
        return calls.item(held, keys, node)

    def _key(self, element: cst.SubscriptElement) -> Form:
        part = element.slice
        if isinstance(part, cst.Index):
            if isinstance(part.value, cst.Ellipsis):
                return CONST
            return self.evaluate(part.value)
        assert isinstance(part, cst.Slice)
        return combined(self.evaluate(one) for one in (part.lower, part.upper, part.step) if one is not None)


_EXPRESSIONS: dict[type[cst.CSTNode], Callable[[Body, Any], Form]] = {
    cst.Name: Body._name,
    **dict.fromkeys(
        (cst.Integer, cst.Float, cst.SimpleString, cst.ConcatenatedString), lambda body, node: names.constant(node)
    ),
    cst.Tuple: Body._row,
    cst.List: Body._row,
    cst.Dict: Body._table,
    cst.ListComp: Body._list,
    cst.GeneratorExp: Body._list,
    cst.DictComp: Body._dictionary,
    cst.Attribute: Body._attribute,
    cst.Subscript: Body._item,
    cst.Call: calls.evaluate,
    cst.IfExp: Body._either,
    cst.UnaryOperation: lambda body, node: combined([body.evaluate(node.expression)]),
    cst.BinaryOperation: Body._operation,
    cst.BooleanOperation: Body._operation,
    cst.Comparison: Body._comparison,
    cst.FormattedString: Body._formatted,
}
