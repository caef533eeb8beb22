"""Where a loop looks at what it keeps: which statements get hold of an object, by whatever name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from functools import cached_property

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.names import read_after
from distify_codemods.facts import BatchLoop, Facts
from distify_codemods.objects import Bound, External, Instance, Method, Partial, Passing, Sequence, Suspended, Wrapped
from distify_codemods.objects import Mapping as Items
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.values import Value

_FUNCTIONS = (cst.FunctionDef, cst.Lambda)
#: What gets hold of everything.
_REFLECTION = frozenset("locals globals eval exec vars".split())


@dataclass
class Places:
    """Before which statements something is looked at that has changed since; what is looked at in each turn."""

    before: dict[cst.CSTNode, list[str]] = field(default_factory=dict)
    always: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Looking:
    """`objects`: what is asked about, with all that is in it, by the expressions that the loop has for it."""

    facts: Facts
    loop: BatchLoop
    objects: Mapping[str, frozenset[Obj]]

    @cached_property
    def _clean(self) -> dict[str, set[Obj]]:
        """Objects that are known not to lead to one."""
        return {name: set() for name in self.objects}

    @cached_property
    def _function(self) -> cst.FunctionDef | cst.Lambda | cst.Module:
        return self.loop.module.function(self.loop.node)

    def leads_to(self, value: Value, name: str) -> bool:
        """Whether from what an expression is, that object can be got hold of."""
        clean, wanted = self._clean[name], self.objects[name]
        seen: set[Obj] = set()
        left = [obj for obj in value.objs if obj not in clean]
        while left:
            obj = left.pop()
            if obj in wanted:
                return True
            if obj not in seen and obj not in clean:
                seen.add(obj)
                left += _reached(obj)
        clean |= seen
        return False

    @cached_property
    def _names(self) -> dict[str, set[str]]:
        """By which names of the function of the loop each can be got hold of."""
        found: dict[str, set[str]] = {name: set() for name in self.objects}
        for node in tree.walk(self._function):
            if isinstance(node, cst.Name):
                value = self.facts.value(node)
                for name in self.objects if value.objs else ():
                    if self.leads_to(value, name):
                        found[name].add(node.value)
        return found

    def is_known_elsewhere(self, name: str) -> bool:
        """Whether another function gets hold of it without being given it: who knows when."""
        for module in self.facts.program.modules.values():
            for node in module.nodes:
                if isinstance(node, _FUNCTIONS) and node is not self._function and self._knows(module, node, name):
                    return True
        return False

    def _knows(self, module: Module, function: cst.FunctionDef | cst.Lambda, name: str) -> bool:
        own = {one.name.value for one in tree.walk(function) if isinstance(one, cst.Param)}
        own |= {one for node in tree.walk(function) if isinstance(node, cst.CompFor)
                for one in tree.target_names(node.target)}  # fmt: skip
        bound = {one for node in tree.walk(function.body) for one in tree.bound_names(node)}
        if any(isinstance(node, (cst.Global, cst.Nonlocal)) for node in tree.walk(function.body)):
            bound = set()
        free = (
            node for node in tree.walk(function)
            if isinstance(node, cst.Name) and node.value not in own and node.value not in bound
        )  # fmt: skip
        return any(self.leads_to(value, name) for node in free if (value := self.facts.value(node)).objs)

    # ---- in the turns of the loop

    def looks_at(self, node: cst.CSTNode, names: Collection[str]) -> set[str]:
        """What evaluating this may look at, of those names."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in _REFLECTION:
            return set(names)
        found: set[str] = set()
        if isinstance(node, cst.BaseExpression):
            value = self.facts.value(node)
            known = node.value if isinstance(node, cst.Name) else None
            found = {one for one in names if known in self._names[one] or self.leads_to(value, one)}
            if isinstance(node, cst.Attribute):
                found |= {one for one in names if not self.objects[one].isdisjoint(self.facts.value(node.value).objs)}
                if self._is_held(node):
                    return found
        for child in tree.children(node):
            if found.issuperset(names):
                break
            if not (isinstance(node, cst.Attribute) and child is node.attr):
                found |= self.looks_at(child, names)
        return found

    def _is_held(self, node: cst.Attribute) -> bool:
        """Whether an attribute is what was put there, or a method: no code runs that looks at the rest."""
        objs, name = self.facts.value(node.value).objs, node.attr.value
        own = self.facts.value(node).objs
        if not objs or not all(isinstance(obj, Instance) for obj in objs):
            return False
        return all(name in obj.attributes for obj in objs) or (
            bool(own) and all(isinstance(one, (Bound, Method)) for one in own)
        )

    def places(self, names: Collection[str], updates: Mapping[cst.CSTNode, str]) -> Places:
        """Before what of a turn each has to be put together. `updates`: statements that hand figures over, to which."""
        found = Places()
        head = self.loop.node.iter if isinstance(self.loop.node, cst.For) else self.loop.node.test
        found.always |= self.looks_at(head, names)
        _Turn(self, names, updates, found).block(self.loop.node.body, set(names), 0)
        return found

    # ---- once the loop has ended

    def is_looked_at_later(self, name: str) -> bool:
        """Whether anything can get hold of it when the loop has ended: its function, or whom that has it from."""
        function, module = self._function, self.loop.module
        if isinstance(function, cst.Module):
            return True  # whoever imports it, or goes on by hand
        sites = [obj.site for obj in self.objects[name]]
        made_here = all(site is not None and site in module.parents for site in sites) and all(
            module.function(site) is function for site in sites if site is not None
        )
        if not made_here or read_after(self.loop, self._names[name]):
            return True
        given = {one.name.value for one in tree.walk(function.params) if isinstance(one, cst.Param)}
        bound = {one for node in tree.walk(function) for one in tree.bound_names(node)}
        return any(one in given or one not in bound for one in self._names[name])


@dataclass(eq=False)
class _Turn:
    looking: Looking
    names: Collection[str]
    updates: Mapping[cst.CSTNode, str]
    found: Places

    def block(self, body: cst.BaseSuite, changed: set[str], depth: int) -> set[str]:
        """What has changed since it was put together, once a block is gone through."""
        if isinstance(body, cst.SimpleStatementSuite):
            for small in body.body:
                changed = self._small(small, changed, depth)
            return changed
        for statement in body.body:
            changed = self._statement(statement, changed, depth)
        return changed

    def _statement(self, node: cst.CSTNode, changed: set[str], depth: int) -> set[str]:
        if isinstance(node, cst.If):
            changed = self._looked_at(node, [node.test], changed, depth)
            left = self.block(node.body, set(changed), depth + 1)
            if isinstance(node.orelse, cst.If):  # what stands there cannot have a line before it
                left |= self._whole(node, [node.orelse], set(changed), depth)
            elif node.orelse is not None:
                left |= self.block(node.orelse.body, set(changed), depth + 1)
            else:
                left |= changed
            return left
        if isinstance(node, cst.With) and any(one in self.updates for one in tree.walk(node)):
            changed = self._looked_at(node, list(node.items), changed, depth)
            return self.block(node.body, changed, depth)
        if isinstance(node, cst.For) and (gone_through := self._turns(node, changed, depth)) is not None:
            return gone_through
        if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1:
            return self._small(node.body[0], changed, depth)
        return self._whole(node, [node], changed, depth)

    def _turns(self, node: cst.For, changed: set[str], depth: int) -> set[str] | None:
        """`for name, part in parts.items(): sums[name] += part.item()`; None: something looks at it on the way."""
        inside = {self.updates[one] for one in tree.walk(node.body) if one in self.updates}
        looked = self.looking.looks_at(node.iter, self.names)
        if not inside or node.orelse is not None or looked & inside:
            return None
        within = _Turn(self.looking, self.names, self.updates, Places())
        left = within.block(node.body, changed | inside, depth + 1)
        if within.found.always or within.found.before:
            return None
        return self._looked_at(node, [node.iter], changed, depth) | left | inside

    def _small(self, small: cst.CSTNode, changed: set[str], depth: int) -> set[str]:
        around = self.looking.loop.module.parents.get(small)
        line = around if isinstance(around, cst.SimpleStatementLine) else small
        updated = self.updates.get(line)
        if updated is None:
            if isinstance(small, cst.Return):
                later = {name for name in self.names if self.looking.is_looked_at_later(name)}
                return self._put_together(line, later | self.looking.looks_at(small, self.names), changed, depth)
            return self._looked_at(line, [small], changed, depth)
        others = [name for name in self.names if name != updated]
        changed = self._looked_at(line, [small], changed, depth, others)
        changed = self._looked_at(line, _given(small), changed, depth)
        return changed | {updated}

    def _whole(self, node: cst.CSTNode, parts: Iterable[cst.CSTNode], changed: set[str], depth: int) -> set[str]:
        """Something with parts that are not gone through: nothing is handed over in what looks at it."""
        parts = list(parts)
        looked = {name for part in parts for name in self.looking.looks_at(part, self.names)}
        inside = {self.updates[one] for part in parts for one in tree.walk(part) if one in self.updates}
        leaves = any(isinstance(one, cst.Return) for part in parts for one in tree.walk(part))
        self.found.always |= inside | (set(self.names) if leaves else set())
        return self._put_together(node, looked - inside, changed, depth)

    def _looked_at(
        self, node: cst.CSTNode, parts: Iterable[cst.CSTNode], changed: set[str], depth: int,
        names: Collection[str] | None = None,
    ) -> set[str]:  # fmt: skip
        looked = {one for part in parts for one in self.looking.looks_at(part, self.names if names is None else names)}
        return self._put_together(node, looked, changed, depth)

    def _put_together(self, node: cst.CSTNode, looked: set[str], changed: set[str], depth: int) -> set[str]:
        needed = [name for name in self.names if name in looked & changed]
        if needed and depth == 0:
            self.found.always.update(needed)
        elif needed:
            there = self.found.before.setdefault(node, [])
            there += [name for name in needed if name not in there]
        return changed - looked


def _given(small: cst.CSTNode) -> list[cst.CSTNode]:
    """What a statement hands over, one by one where that is a list or dictionary that it makes."""
    if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
        left = [argument.value for argument in small.value.args]
    else:
        left = [small.value] if isinstance(small, cst.AugAssign) else []
    found: list[cst.CSTNode] = []
    while left:
        node = left.pop()
        if isinstance(node, (cst.Tuple, cst.List, cst.Dict)):
            left += [element.value for element in node.elements]
        else:
            found.append(node)
    return found


def _reached(obj: Obj) -> Iterator[Obj]:
    """What can be got hold of from an object, by one step."""
    for value in _values(obj):
        yield from value.objs
    if isinstance(obj, (Bound, Suspended)) and obj.receiver is not None:
        yield obj.receiver
    elif isinstance(obj, Wrapped) and obj.inner is not None:
        yield obj.inner
    elif isinstance(obj, Instance) and obj.base is not None:
        yield obj.base


def _values(obj: Obj) -> Iterator[Value]:
    yield from obj.attributes.values()
    if isinstance(obj, Sequence):
        yield from obj.parts()
    elif isinstance(obj, Items):
        yield from (*obj.items.values(), *([obj.rest] if obj.rest is not None else []))
    elif isinstance(obj, Passing):
        yield from (*([obj.over] if obj.over is not None else []), *obj.zipped)
    elif isinstance(obj, (External, Suspended)) and obj.arguments is not None:
        yield from obj.arguments.all()
    elif isinstance(obj, Method) and obj.receiver is not None:
        yield obj.receiver
    elif isinstance(obj, Partial):
        yield from ([obj.function] if obj.function is not None else [])
        yield from obj.arguments.all() if obj.arguments is not None else ()
