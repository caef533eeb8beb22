"""Whether what is drawn in a model has a row for each row of what the model was given, as its text says.

Where no batch was recognised, no number is known to be that of its samples, and `torch.rand(x.shape[0])` would look
like one draw for all of them.
"""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Ref
from distify_codemods.events import Event
from distify_codemods.facts import Facts
from distify_codemods.interpreter.frames import Frame
from distify_codemods.libraries import sizes
from distify_codemods.objects import Parameters
from distify_codemods.program import Module
from distify_codemods.records import dataclass

_DEEPEST = 6
#: Methods that are told sizes.
_TOLD = frozenset("expand view reshape repeat new_empty new_zeros new_ones new_full new_tensor".split())
#: What asks a tensor for its sizes.
_FORMS = ("shape", "size")


def has_a_row_for_each_given(facts: Facts, event: Event) -> bool:
    """Of a call that draws."""
    return isinstance(event.node, cst.BaseExpression) and _Rows(facts, event.here.frame).are_of(event.node)


def is_made_of_what_is_given(facts: Facts, event: Event) -> bool:
    """Of a call in a model, whether what it is itself given is what the function was given, or was made of that."""
    given = event.node.args if isinstance(event.node, cst.Call) else ()
    return any(_Rows(facts, event.here.frame).is_given(one.value) for one in given[:1])


@dataclass(frozen=True)
class _Rows:
    facts: Facts
    frame: Frame

    @property
    def module(self) -> Module:
        return self.frame.module

    def are_of(self, node: cst.BaseExpression, depth: int = 0) -> bool:
        """Whether a tensor has as many rows as something that the function was given."""
        if depth > _DEEPEST:
            return False
        if isinstance(node, cst.Name):
            return any(self.are_of(one, depth + 1) for one in self._assigned(node))
        if isinstance(node, cst.BinaryOperation):
            return self.are_of(node.left, depth + 1) or self.are_of(node.right, depth + 1)
        if not isinstance(node, cst.Call):
            return False
        made = self.facts.value(node.func).single()
        name = made.name if isinstance(made, Ref) else ""
        given = [one.value for one in node.args if one.keyword is None and not one.star]
        where = sizes.of(name)
        if where is not None:
            named = tree.keywords(node).get(where.name)
            first = named if named is not None else next(iter(given[where.position :]), None)
            return first is not None and self._is_number(first, depth + 1)
        if name.endswith("_like"):
            return bool(given) and self.is_given(given[0])
        if name:  # `torch.bernoulli(torch.full((n,), 0.1))`
            return bool(given) and self.are_of(given[0], depth + 1)
        if not isinstance(node.func, cst.Attribute):
            return False
        told = [one.value for one in node.args if one.keyword is None][:1] if node.func.attr.value in _TOLD else []
        return any(self._is_number(one, depth + 1) for one in told) or self.are_of(node.func.value, depth + 1)

    def _is_number(self, node: cst.BaseExpression, depth: int) -> bool:
        """Whether it is the number of rows of something given, or all of its sizes, or begins with that number."""
        if depth > _DEEPEST:
            return False
        if isinstance(node, (cst.Tuple, cst.List)):
            return bool(node.elements) and self._is_number(node.elements[0].value, depth + 1)
        if isinstance(node, cst.BinaryOperation):  # `(n,) + (1,) * 2`
            return isinstance(node.operator, cst.Add) and self._is_number(node.left, depth + 1)
        if isinstance(node, cst.Name):
            assigned = any(self._is_number(one, depth + 1) for one in self._assigned(node, of_several=True))
            return assigned or self._is_given_as_number(node, depth + 1)
        if isinstance(node, cst.Subscript):
            return _first_of(node) and self._is_number(node.value, depth + 1)
        asked = node.func if isinstance(node, cst.Call) else node
        if isinstance(asked, cst.Attribute) and asked.attr.value in _FORMS:
            only = not isinstance(node, cst.Call) or not node.args or tree.code_of(node.args[0].value) == "0"
            return only and self.is_given(asked.value)
        if not isinstance(node, cst.Call) or not isinstance(asked, cst.Name) or asked.value != "len":
            return False
        return len(node.args) == 1 and self.is_given(node.args[0].value)

    def _is_given_as_number(self, name: cst.Name, depth: int) -> bool:
        """Whether whoever calls the function gives it such a number: `self.noise(x.shape[0])`."""
        given, caller = self.frame.given.get(name.value), self.frame.caller
        if given is None or caller is None:
            return False
        is_parameter = any(isinstance(one, cst.Param) for one in self.module.flow(name).reaching(name))
        return is_parameter and _Rows(self.facts, caller)._is_number(given, depth)

    def is_given(self, node: cst.BaseExpression) -> bool:
        """Whether a tensor is what the function was given, or was made of it."""
        left, seen = [node], set[cst.CSTNode]()
        while left:
            one = left.pop()
            if one in seen or any(isinstance(obj, Parameters) for obj in self.facts.value(one).objs):
                continue
            seen.add(one)
            for name in (part for part in tree.walk(one) if isinstance(part, cst.Name)):
                own = name.value in ("self", "cls")
                if not own and any(isinstance(part, cst.Param) for part in self.module.flow(name).reaching(name)):
                    return True
                left += self._assigned(name)
        return False

    def _assigned(self, name: cst.Name, of_several: bool = False) -> list[cst.BaseExpression]:
        """What a name may have been given, also as one of several: `x, edges = data.x, data.edges`; `of_several`: where
        it is the first of what they are taken out of, `n, *rest = x.shape`, all of that."""
        found: list[cst.BaseExpression] = []
        for bound in self.module.flow(name).reaching(name):
            element = self.module.parents.get(bound)
            row = self.module.parents.get(element) if isinstance(element, cst.Element) else None
            target = self.module.parents.get(row) if isinstance(row, (cst.Tuple, cst.List)) else element
            holder = self.module.parents.get(target) if isinstance(target, cst.AssignTarget) else None
            if not isinstance(holder, cst.Assign):
                continue
            if not isinstance(row, (cst.Tuple, cst.List)):
                found.append(holder.value)
                continue
            place = [one is element for one in row.elements].index(True)
            told = holder.value.elements if isinstance(holder.value, (cst.Tuple, cst.List)) else ()
            if len(told) == len(row.elements):
                found.append(told[place].value)
            elif of_several and place == 0:
                found.append(holder.value)
        return found


def _first_of(node: cst.Subscript) -> bool:
    """`x.shape[0]`, `x.shape[:2]`"""
    part = node.slice[0].slice
    if isinstance(part, cst.Slice):
        return part.lower is None
    return isinstance(part, cst.Index) and tree.code_of(part.value) == "0"
