"""Edits as data. A plan is a set of them over one file; two of one node are composed or refused, never lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from enum import Enum

import libcst as cst

from distify_codemods import tree
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.results import Change

#: Makes the new node from the updated one: edits further inside are already in it.
Rewrite = Callable[[cst.BaseExpression], cst.BaseExpression]


class By(Enum):
    """Who computes an expression of which all ranks take rank 0's value."""

    EACH = "every rank, for nothing but rank 0"
    CALL = "rank 0 alone makes the call; what it is given every rank computes"
    ALONE = "rank 0 alone, with all its parts"


@dataclass(frozen=True)
class Insertion:
    code: str  # one statement
    order: int  # among the insertions at one place


#: From this order on, a statement comes after the expressions that got names above the same statement.
AFTER_HOISTS = 100


@dataclass(frozen=True)
class Guard:
    header: str  # such as "if x:"
    around: frozenset[cst.CSTNode]  # what of the statement needs it; empty: all of it
    alone: bool = False  # whether rank 0 comes alone
    around_it: str = ""  # the header of a block around the guard, which all ranks enter


@dataclass(frozen=True)
class Hoist:
    """An expression that gets a name, one line above its statement."""

    statement: cst.CSTNode
    name: str


@dataclass(eq=False)
class Plan:
    """The edits of one file."""

    module: Module
    expressions: dict[cst.CSTNode, dict[str, Rewrite]] = field(default_factory=lambda: defaultdict(dict))
    keywords: dict[cst.Call, dict[str, Rewrite | str | None]] = field(default_factory=lambda: defaultdict(dict))
    keyword_owners: dict[tuple[cst.Call, str], str] = field(default_factory=dict)
    before: dict[cst.CSTNode, list[Insertion]] = field(default_factory=lambda: defaultdict(list))
    after: dict[cst.CSTNode, list[Insertion]] = field(default_factory=lambda: defaultdict(list))
    guards: dict[cst.CSTNode, Guard] = field(default_factory=dict)
    handed_over: set[cst.CSTNode] = field(default_factory=set)  # expressions that rank 0 alone computes
    told: dict[cst.CSTNode, tuple[str, By]] = field(default_factory=dict)  # what is rank 0's on all ranks; which rule's
    hoists: dict[cst.CSTNode, Hoist] = field(default_factory=dict)
    removed: set[cst.CSTNode] = field(default_factory=set)
    imports_instead: dict[cst.CSTNode, list[cst.Import | cst.ImportFrom]] = field(default_factory=dict)
    comments: dict[cst.CSTNode, list[str]] = field(default_factory=lambda: defaultdict(list))
    imports: dict[str, int] = field(default_factory=dict)  # statement -> order
    needed_above: dict[str, cst.CSTNode] = field(default_factory=dict)  # of these: what must not come before
    changes: list[Change] = field(default_factory=list)
    left_alone: dict[cst.CSTNode, list[Change]] = field(default_factory=lambda: defaultdict(list))  # not made

    def __bool__(self) -> bool:
        return bool(self.changes)

    def _because(self, code: str, node: cst.CSTNode, reason: str, written: str = "", beside: int = 0) -> None:
        change = Change(code, self.module.place(node), reason, written.partition("\n")[0], beside)
        if change not in self.changes:
            self.changes.append(change)

    def _leaves_alone(self, code: str, node: cst.CSTNode, reason: str) -> bool:
        """Whether a comment of the user leaves the statement of `node` alone; then the edit is noted, not made."""
        statement = self.module.skipped(node)
        if statement is not None:
            change = Change(code, self.module.place(node), reason)
            if change not in self.left_alone[statement]:
                self.left_alone[statement].append(change)
        return statement is not None

    def replace(self, node: cst.BaseExpression, rewrite: Rewrite, code: str, reason: str) -> None:
        """Rules compose, in their order; one rule rewrites a node once, in however many contexts it is met."""
        if self._leaves_alone(code, node, reason):
            return
        if code not in self.expressions[node]:
            self.expressions[node][code] = rewrite
            self._because(code, node, reason)

    def hand_over(self, node: cst.BaseExpression, rewrite: Rewrite, code: str, reason: str) -> None:
        """Replaces an expression so that rank 0 alone computes it, or makes the call whose function it is."""
        self.replace(node, rewrite, code, reason)
        if code in self.expressions.get(node, {}):
            parent = self.module.parents.get(node)
            self.handed_over.add(parent if isinstance(parent, cst.Call) and parent.func is node else node)

    def teller(self, node: cst.CSTNode, by: By = By.EACH) -> str | None:
        """The rule that has all ranks take rank 0's value of an expression already, or of one that it is a part of.

        A call that rank 0 alone is to make is no part of what the others compute as well.
        """
        for one in (node, *self.module.enclosing(node)):
            code, known = self.told.get(one, ("", None))
            if known is not None and (by is By.EACH or known is By.ALONE or (one is node and known is not By.EACH)):
                return code
        return None

    def tell(self, node: cst.BaseExpression, rewrite: Rewrite, code: str, reason: str, by: By = By.EACH) -> None:
        """Lets all ranks take rank 0's value of an expression: once, whichever rules want it.

        Where rank 0 alone computes all of it, nobody else would hear what a part of it is told.
        """
        if self.teller(node, by) is not None:
            return
        known = [one for one in (tree.walk(node) if by is By.ALONE else (node,)) if one in self.told]
        if self.module.skipped(node) is None:
            for one in known:
                del self.expressions[one][self.told.pop(one)[0]]
                self.handed_over.discard(one)
        (self.replace if by is By.EACH else self.hand_over)(node, rewrite, code, reason)
        if code in self.expressions.get(node, {}):
            self.told[node] = code, by

    def set_keyword(self, call: cst.Call, name: str, value: Rewrite | str, code: str, reason: str) -> None:
        """Sets an argument: a text, or a function of the present value."""
        if self._leaves_alone(code, call, reason):
            return
        owner = self.keyword_owners.setdefault((call, name), code)
        if owner != code:
            raise ValueError(f"{owner} and {code} both set {name}=")
        if name in self.keywords[call]:
            return
        self.keywords[call][name] = value
        self._because(code, call, reason)

    def drop_keyword(self, call: cst.Call, name: str) -> None:
        if self.module.skipped(call) is None:  # what takes its place says so
            self.keywords[call][name] = None

    def insert_before(self, statement: cst.CSTNode, text: str, code: str, reason: str, order: int = 0) -> None:
        self.insert(statement, text, code, reason, order, after=False)

    def insert_after(self, statement: cst.CSTNode, text: str, code: str, reason: str, order: int = 0) -> None:
        self.insert(statement, text, code, reason, order, after=True)

    def insert(self, statement: cst.CSTNode, text: str, code: str, reason: str, order: int = 0, *, after: bool) -> None:
        around = self.module.parents.get(self.module.statement(statement))  # a line beside it is not an edit of it
        if around is not None and self._leaves_alone(code, around, reason):
            return
        insertion, there = Insertion(text, order), (self.after if after else self.before)[statement]
        if insertion not in there:
            there.append(insertion)
            there.sort(key=lambda one: one.order)
        lines = self.module.positions[statement]
        self._because(code, statement, reason, text, lines.end.line + 1 if after else lines.start.line)

    def guard(
        self, statement: cst.CSTNode, header: str, code: str, reason: str, around: cst.CSTNode | None = None
    ) -> None:
        if self._leaves_alone(code, statement, reason):
            return
        if tree.is_elif(self.module.parents, statement):
            raise ValueError("a guard around an elif, which belongs to the statement before it")
        known = self.guards.get(statement)
        if known is not None and known.header != header:
            raise ValueError("two guards around one statement")
        inside = frozenset() if around is None else frozenset({around})
        if known is not None:
            inside = inside | known.around if inside and known.around else frozenset()
        known = known or Guard(header, inside)
        self.guards[statement] = replace(known, around=inside)
        self._because(code, statement, reason, header, self.module.place(statement).line)

    def guard_alone(self, statement: cst.CSTNode, rt: str, code: str, reason: str) -> None:
        """Lets rank 0 alone come to a statement. `rt`: the runtime's name in this file."""
        self.guard(statement, f"if {rt}.is_main_process():", code, reason)
        if statement in self.guards:
            self.guards[statement] = replace(self.guards[statement], alone=True)

    def guard_together(self, statement: cst.CSTNode, header: str, code: str, reason: str) -> None:
        """Puts a block that all ranks enter around a guard which lets rank 0 alone come."""
        if not self._leaves_alone(code, statement, reason):
            self.guards[statement] = replace(self.guards[statement], around_it=header)
            self._because(code, statement, reason, header, self.module.place(statement).line)

    def block_together(self, statement: cst.CSTNode, header: str, code: str, reason: str) -> None:
        """Puts a block around a statement that all ranks come to."""
        if not self._leaves_alone(code, statement, reason):
            self.guards[statement] = Guard("", frozenset(), around_it=header)
            self._because(code, statement, reason, header, self.module.place(statement).line)

    def has_guard(self, statement: cst.CSTNode) -> bool:
        """Whether another block than one that all ranks enter stands around a statement, or around a part of it."""
        known = [guard for node, guard in self.guards.items() if node in (statement, *tree.walk(statement))]
        return any(guard.header for guard in known)

    def comes_alone(self, node: cst.CSTNode) -> bool:
        """Whether a guard of the conversion lets rank 0 alone come to a node; of those around it others are asked."""
        return node in self.guards and self.guards[node].alone

    def in_turns(self) -> Iterator[cst.CSTNode]:
        """What ranks come to one after the other: whole statements, or what is taken out of them to a line above."""
        for statement, guard in self.guards.items():
            taken = [node for node, hoist in self.hoists.items() if hoist.statement is statement]
            out = [one for one in taken if any(one in (node, *self.module.enclosing(node)) for node in guard.around)]
            if guard.header.startswith("with "):
                yield from out or [statement]

    def touched(self) -> Iterator[cst.CSTNode]:
        """What is replaced, guarded or taken out, or has a line written beside it."""
        tables = (self.expressions, self.keywords, self.before, self.after, self.guards, self.hoists)
        yield from (node for table in tables for node, made in table.items() if made)
        yield from self.removed

    def hoist(self, statement: cst.CSTNode, node: cst.BaseExpression, name: str, code: str, reason: str) -> None:
        if self._leaves_alone(code, node, reason):
            return
        self.hoists[node] = Hoist(statement, name)
        self._because(code, node, reason)

    def remove(self, statement: cst.CSTNode, code: str, reason: str) -> None:
        if self._leaves_alone(code, statement, reason):
            return
        self.removed.add(statement)
        self._because(code, statement, reason)

    def point(self, node: cst.Import | cst.ImportFrom, parts: list[cst.Import | cst.ImportFrom], code: str) -> None:
        """Other import statements in place of one."""
        reason = "the converted files import each other"
        if self._leaves_alone(code, node, reason):
            return
        self.imports_instead[node] = parts
        self._because(code, node, reason)

    def noted(self, code: str, module: Module, reason: str) -> None:
        """An edit that has no place of its own: what an import alone does."""
        self._because(code, module.tree, reason)

    def comment(self, line: int, text: str, code: str) -> None:
        """A comment above the statement that begins on, or around, a line of the original."""
        best: cst.CSTNode | None = None
        for statement in self.module.nodes:
            if isinstance(statement, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
                best = statement if best is None or self.module.place(statement).line <= line else best
        if best is None:
            return
        self.comments[best].append(text)
        self._because(code, best, "marked for you", text, self.module.place(best).line)

    def add_import(self, statement: str, order: int, above: cst.CSTNode | None = None) -> None:
        """Behind the imports at the top; or higher, above a statement of the file that needs it."""
        self.imports[statement] = order
        if above is not None:
            self.needed_above[statement] = above
