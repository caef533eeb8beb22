"""What is opened to be read and written in one place: whether it is written, and whether anything in it is looked at.

What nobody looks at can be rank 0's alone: the other ranks have something in its place that takes every call.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from distify_codemods import file_events, tree
from distify_codemods.allocation import Const, Obj
from distify_codemods.answers import answered_once
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, given_to
from distify_codemods.file_beginnings import beginnings
from distify_codemods.inside import root
from distify_codemods.libraries import effects, sql
from distify_codemods.objects import Arguments, Bound, Class, External, Function, Instance
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.unfollowed import unfollowed
from distify_codemods.values import NOTHING, Value

_BINDING = (cst.Assign, cst.AnnAssign)
#: What keeps something under another name, or lets it be.
_KEPT = (cst.Assign, cst.AssignTarget, cst.AnnAssign, cst.WithItem, cst.AsName, cst.Return, cst.Expr, cst.Param)


@answered_once
def written_in_place(facts: Facts) -> list[Event]:
    """The calls that open a database, or what else is opened to be read and written, and that the run writes into."""
    both = [event for event in facts.calls(*effects.MAPPED, *effects.STORES) if file_events.is_for_both(event)]
    return [event for event in (*facts.calls(*effects.DATABASES), *both) if Opened(facts, event).is_written]


def written_into(facts: Facts, opened: list[Event]) -> dict[Event, list[Event]]:
    """What is done later with files that are opened to be written: `log.write(row)`, `print(row, file=log)`."""
    of = {obj: event for event in opened for obj in event.value.objs if isinstance(obj, External)}
    found: dict[Event, list[Event]] = {}
    for event in facts.of_kind(Kind.METHOD, Kind.CALL, Kind.PRINT) if of else ():
        owners = map(root, event.receiver.objs)
        handed = (obj for value in event.arguments.all() for obj in value.objs)
        made = (obj for one in (*owners, *handed) for obj in (one, *_made_with(one)))
        for opener in dict.fromkeys(of[obj] for obj in made if obj in of):
            found.setdefault(opener, []).append(event)
    return found


def _made_with(obj: Obj) -> Iterator[Obj]:
    """`csv.writer(log)` writes into `log`."""
    given = obj.arguments if isinstance(obj, External) else None
    yield from (one for value in (given.all() if given is not None else ()) for one in value.objs)


@dataclass(eq=False)
class Opened:
    """What a call opens, with all that is made of it: cursors, transactions, data sets in a file."""

    facts: Facts
    event: Event

    @cached_property
    def parts(self) -> set[Obj]:
        found: set[Obj] = {obj for obj in self.event.value.objs if isinstance(obj, External)}
        for event in self.facts.of_kind(Kind.METHOD, Kind.ATTRIBUTE) if found else ():
            if any(root(obj) in found for obj in event.receiver.objs):
                found.update(obj for obj in event.value.objs if isinstance(obj, External))
        return found

    @property
    def is_written(self) -> bool:
        """Whether a method writes, or a part is set."""
        given = self.event.arguments
        if _is(given.get(effects.READ_ONLY), True) or any(one.constant() == ":memory:" for one in given.all()):
            return False
        writing = effects.WRITES_BY[self.event.name]
        if self.event.name in effects.MAPPED:
            return self._is_array_that_is_set(writing)
        return any(self._writes(one, writing) for one in self._done) or any(
            file_events.is_writing_method(one) and any(self.parts & set(value.objs) for value in one.arguments.all())
            for one in self.facts.of_kind(Kind.METHOD)
        )

    def _writes(self, event: Event, writing: list[str]) -> bool:
        told = event.arguments.get("write") if event.name == "begin" else None
        begins = told is not None and not _is(told, False)
        if event.name != sql.EXECUTES:
            return event.name in writing or begins
        is_asking = _is_any_statement(self.facts, event) and self._is_answered(event) and not self._commits_by_itself
        return not is_asking and not _only_asks(self.facts, event)

    def _is_answered(self, event: Event) -> bool:
        """Whether somebody takes what a statement gives: one that makes or drops a table gives nothing, and stays."""
        is_used = not isinstance(event.module.parents.get(event.node), cst.Expr)
        return is_used or any(one.name in sql.FETCHES for one in self._done)

    def unknown_statement(self) -> Event | None:
        """What is executed, and nothing is known of: if nothing commits it, rows that it changes are not changed in the
        file."""
        statements = (one for one in self._done if one.name == sql.EXECUTES)
        return next((one for one in statements if _is_any_statement(self.facts, one)), None)

    @property
    def _commits_by_itself(self) -> bool:
        """Whether what a database executes stays though nobody calls `commit`: `with connection:` does."""
        given = [self.event.arguments.get(name) for name in sql.COMMITTING]
        given += [one.value for one in self._done if one.kind is Kind.STORE and one.name in sql.COMMITTING]
        entered = (
            self.facts.value(node.item).objs
            for module in self.facts.run.frames for node in tree.walk(module.tree) if isinstance(node, cst.WithItem)
        )  # fmt: skip
        return any(given) or any(not self.parts.isdisjoint(objs) for objs in entered)

    @property
    def _done(self) -> Iterator[Event]:
        for event in self.facts.of_kind(Kind.METHOD, Kind.STORE):
            if any(root(obj) in self.parts for obj in event.receiver.objs):
                yield event

    def is_looked_at(self) -> bool:
        """Whether anything that is in it is asked for, or it is handed to somebody who may."""
        if self.event.name in effects.MAPPED:
            return not self._is_array_that_takes()
        if not self.parts or self._is_out_of_sight():
            return True
        for node, value in self.facts.run.values.items():
            if isinstance(node, cst.BaseExpression) and not self.parts.isdisjoint(value.objs):
                module = next((one for one in self.facts.run.frames if node in one.parents), None)
                if module is not None and not self._takes(module, node):
                    return True
        return False

    def _takes(self, module: Module, node: cst.CSTNode) -> bool:
        """Whether what is done with it here gives nothing that anybody would use."""
        top, parent = node, module.parents.get(node)
        while _is_asked_of(parent, top):
            assert parent is not None
            top, parent = parent, module.parents.get(parent)
        if isinstance(parent, cst.Attribute):  # the name behind the dot
            return True
        if top is node:
            return isinstance(parent, _KEPT) or _compares_with_none(parent) or self._hands_on(module, parent)
        if isinstance(parent, cst.Expr):
            return True
        if isinstance(parent, cst.AssignTarget):
            return isinstance(top, (cst.Attribute, cst.Subscript))
        made = self.facts.value(top).objs
        return bool(made) and self.parts.issuperset(made)  # asked about for itself

    def _hands_on(self, module: Module, parent: cst.CSTNode | None) -> bool:
        """Given to a function of the script's own, or to what only writes into it: `frame.to_sql("rows", base)`."""
        call = module.parents.get(parent) if isinstance(parent, cst.Arg) else None
        if not isinstance(call, cst.Call):
            return False
        callee = self.facts.value(call.func).objs
        own = bool(callee) and all(isinstance(obj, (Function, Bound, Class)) for obj in callee)
        found = self.facts.run.at(call)
        return own or any(file_events.writes(event) or _is_printed_into(event, parent) for event in found)

    def _is_out_of_sight(self) -> bool:
        """Whether what is not followed may look at it: workers of a loader, hooks."""
        loaded = (obj for loader in self.facts.loaders for obj in given_to(loader.arguments or Arguments()))
        if any(self._is_kept_by(obj) for obj in loaded):
            return True
        names = {node.attr.value if isinstance(node, cst.Attribute) else node.value for node in self._bound()}
        return any(not names.isdisjoint(call.code.split(".")) for call in unfollowed(self.facts))

    def _is_kept_by(self, obj: Obj) -> bool:
        held = obj.attributes.values() if isinstance(obj, Instance) else ()
        return any(not self.parts.isdisjoint(value.objs) for value in held)

    def _bound(self) -> Iterator[cst.Name | cst.Attribute]:
        for node, value in self.facts.run.values.items():
            if isinstance(node, (cst.Name, cst.Attribute)) and not self.parts.isdisjoint(value.objs):
                yield node

    def _is_array_that_is_set(self, writing: list[str]) -> bool:
        """Whether a part is set of what has the array's name in its file, or a method called that does."""
        module, call = self.event.module, self.event.node
        holder = module.parents.get(call)
        names = {tree.dotted(one) for one in tree.targets(holder)} if isinstance(holder, _BINDING) else set()
        named = (node for node in tree.walk(module.tree) if isinstance(node, (cst.Name, cst.Attribute)))
        return any(tree.dotted(node) in names - {None} and _is_set(module, node, writing) for node in named)

    def _is_array_that_takes(self) -> bool:
        """Whether an array in a file has one name, and nothing is done but to set its parts, to flush and forget it."""
        module, call = self.event.module, self.event.node
        holder = module.parents.get(call)
        target = holder.targets[0].target if isinstance(holder, cst.Assign) and len(holder.targets) == 1 else None
        if not isinstance(target, cst.Name) or module is not self.facts.program.entry:
            return False
        named = [node for node in tree.walk(module.tree) if isinstance(node, cst.Name) and node.value == target.value]
        return all(_takes_parts(module, node) for node in named)


def _is(value: Value | None, known: bool) -> bool:
    return value is not None and value.constant() is known


def _is_any_statement(facts: Facts, event: Event) -> bool:
    """`cursor.execute(query)`, of which nothing is seen but that it is a text of somebody's."""
    given = event.arguments.positional[0] if event.arguments.positional else NOTHING
    return not any(isinstance(obj, Const) for obj in given.objs) and not any(_begun(facts, event))


def _only_asks(facts: Facts, event: Event) -> bool:
    """`cursor.execute("SELECT ...")`, also of a text that is put together behind that: it is one statement."""
    given = event.arguments.positional[0] if event.arguments.positional else NOTHING
    text = given.constant()
    if isinstance(text, str):
        return text.lstrip().upper().startswith(sql.ASKING)
    begun = [] if given.objs else _begun(facts, event)
    return bool(begun) and all(found and all(map(sql.SELECTS.match, found)) for found in begun)


def _begun(facts: Facts, event: Event) -> list[list[str]]:
    """How the texts begin that a statement may be."""
    node = event.node.args[0].value if isinstance(event.node, cst.Call) and event.node.args else None
    texts = file_events.assigned(event.module, node) or [node] if node is not None else []
    return [list(beginnings(facts, facts.value(one), one)) for one in texts]


def _is_asked_of(parent: cst.CSTNode | None, node: cst.CSTNode) -> bool:
    """Whether a part of it is named, or what is named is called."""
    if isinstance(parent, cst.Call):
        return parent.func is node
    return isinstance(parent, (cst.Attribute, cst.Subscript)) and parent.value is node


def _compares_with_none(parent: cst.CSTNode | None) -> bool:
    return isinstance(parent, cst.Comparison) and all(
        isinstance(one.operator, (cst.Is, cst.IsNot)) for one in parent.comparisons
    )


def _is_set(module: Module, node: cst.Name | cst.Attribute, writing: list[str]) -> bool:
    """`rows[3:5] = batch`, `rows += 1`, `rows.fill(0)`."""
    parent = module.parents.get(node)
    top: cst.CSTNode = node
    while isinstance(parent, cst.Subscript) and parent.value is top:
        top, parent = parent, module.parents.get(parent)
    if isinstance(parent, cst.AugAssign):
        return parent.target is top
    if isinstance(parent, cst.AssignTarget):
        return top is not node
    if not isinstance(parent, cst.Attribute) or parent.value is not top or parent.attr.value not in writing:
        return False
    return isinstance(module.parents.get(parent), cst.Call)


def _takes_parts(module: Module, node: cst.Name) -> bool:
    """`rows[3:5] = batch`, `rows.flush()`, `del rows`; also what it is bound by, or another thing of that name."""
    parent = module.parents.get(node)
    if isinstance(parent, (cst.Del, cst.AssignTarget)) or (isinstance(parent, cst.Attribute) and parent.attr is node):
        return True
    if isinstance(parent, cst.Subscript) and parent.value is node:
        return isinstance(module.parents.get(parent), cst.AssignTarget)
    call = module.parents.get(parent) if isinstance(parent, cst.Attribute) and parent.attr.value == "flush" else None
    return isinstance(call, cst.Call) and isinstance(module.parents.get(call), cst.Expr)


def _is_printed_into(event: Event, argument: cst.CSTNode | None) -> bool:
    """`print(text, file=log)`"""
    named = isinstance(argument, cst.Arg) and argument.keyword is not None and argument.keyword.value == "file"
    return named and event.kind is Kind.PRINT
