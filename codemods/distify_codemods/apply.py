"""Carries out a plan in one pass over the way from the module down to each edit; the rest is shared, not copied."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import libcst as cst

from distify_codemods import arguments, quotes, tree
from distify_codemods.plan import AFTER_HOISTS, Guard, Hoist, Insertion, Plan

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
_EMPTY_LINE = cst.EmptyLine(indent=False)
_T = TypeVar("_T")


def apply(plan: Plan) -> cst.Module:
    """The new tree of the plan's file."""
    return _Applying(plan).module()


class _Applying:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.config = plan.module.tree.config_for_parsing
        self.dirty: set[cst.CSTNode] = set()
        self.split_lines()
        edited = [
            *plan.expressions, *plan.keywords, *plan.before, *plan.after, *plan.guards, *plan.removed, *plan.hoists,
            *plan.comments, *plan.imports_instead,
        ]  # fmt: skip
        self.orphaned: list[cst.EmptyLine] = []  # empty lines above what was taken out
        self.left: list[cst.EmptyLine] = []  # comments below it, behind an empty line
        self.hoisted: dict[cst.CSTNode, list[Statement]] = {}
        for node in edited:
            while node not in self.dirty:
                self.dirty.add(node)
                if node is plan.module.tree:
                    break
                node = plan.module.parents[node]

    def split_lines(self) -> None:
        """What concerns a line of several statements that is taken apart goes to its first, its last, or all."""
        plan = self.plan
        for line in [key for table in (plan.before, plan.after, plan.guards) for key in table]:
            if not isinstance(line, cst.SimpleStatementLine) or not self.comes_apart(line.body):
                continue
            plan.before[line.body[0]] += plan.before.pop(line, [])
            plan.after[line.body[-1]] += plan.after.pop(line, [])
            guard = plan.guards.pop(line, None)
            if guard is not None:
                plan.guards.update(dict.fromkeys(line.body, guard))

    def module(self) -> cst.Module:
        original = self.plan.module.tree
        place = _place_of_imports(self.plan, self.dirty)
        top, rest = self.above_imports(original.body[:place]), self.statements_of(original.body[place:])
        return original.with_changes(body=[*top, *self.imports(not place, rest), *rest])

    def above_imports(self, statements: Sequence[cst.CSTNode]) -> list[Statement]:
        """The statements at the top, with those new imports that are needed there already."""
        top: list[Statement] = []
        for statement in statements:
            for text in [text for text, first in self.plan.needed_above.items() if first is statement]:
                top += self.statements([Insertion(text, 0)])
                del self.plan.imports[text]
            top += self.statements_of([statement])
        return top

    # ---- expressions

    def node(self, node: cst.CSTNode) -> cst.CSTNode:
        if node not in self.dirty:
            return node
        instead = self.plan.imports_instead.get(node, [])
        if len(instead) == 1:
            return instead[0]
        if isinstance(node, cst.SimpleStatementSuite) and (self.touches(node.body) or self.comes_apart(node.body)):
            return self.suite(node)
        changes: dict[str, object] = {}
        for name in tree.fields_of(node):
            value = getattr(node, name)
            if isinstance(value, cst.CSTNode) and value in self.dirty:
                changes[name] = self.node(value)
            elif isinstance(value, (list, tuple)) and any(item in self.dirty for item in value):
                changes[name] = self.sequence(node, name, value)
        updated = _changed(node, changes)
        if isinstance(updated, cst.FormattedString):
            updated = quotes.apart(updated)
        if isinstance(node, cst.Call) and node in self.plan.keywords:
            assert isinstance(updated, cst.Call)
            layout = arguments.Layout(self.expression, self.column(node.func) + 1)
            updated = arguments.edit(updated, node, self.plan.keywords[node], layout)
        for rewrite in self.plan.expressions.get(node, {}).values():
            assert isinstance(updated, cst.BaseExpression)
            updated = rewrite(updated)
        hoist = self.plan.hoists.get(node)
        return updated if hoist is None else self.hoist(node, updated, hoist)

    def column(self, node: cst.CSTNode) -> int:
        """Where it ends, once the statements in its line have lines of their own, if they get them."""
        positions, around = self.plan.module.positions, self.plan.module.enclosing(node)
        end = positions[node].end
        line = next((one for one in around if isinstance(one, cst.SimpleStatementLine)), None)
        small = next((one for one in around if line is not None and one in line.body), None)
        if line is None or small is None or not self.comes_apart(line.body):
            return end.column
        start = positions[small].start
        return end.column - (start.column - positions[line.body[0]].start.column) * (start.line == end.line)

    def hoist(self, node: cst.CSTNode, updated: cst.CSTNode, hoist: Hoist) -> cst.CSTNode:
        assignment = cst.parse_statement(f"{hoist.name} = _", self.config)
        assert isinstance(assignment, cst.SimpleStatementLine)
        assert isinstance(updated, cst.BaseExpression)
        line: Statement = assignment.with_changes(body=[assignment.body[0].with_changes(value=updated)])
        guard = self.plan.guards.get(hoist.statement)
        if guard is not None and any(self.within(inner, node) for inner in guard.around):
            line = self.guarded(line, guard.header)
        self.hoisted.setdefault(hoist.statement, []).append(line)
        return cst.Name(hoist.name)

    def all_hoisted(self, guard: Guard, keys: list[cst.CSTNode]) -> bool:
        """Whether all that needs the guard now stands in lines of its own, above."""
        hoisted = [node for node, hoist in self.plan.hoists.items() if hoist.statement in keys]
        return bool(guard.around) and all(any(self.within(inner, node) for node in hoisted) for inner in guard.around)

    def within(self, inner: cst.CSTNode, outer: cst.CSTNode) -> bool:
        return inner is outer or outer in self.plan.module.enclosing(inner)

    def expression(self, text: str) -> cst.BaseExpression:
        return cst.parse_expression(text, self.config)

    def sequence(self, owner: cst.CSTNode, name: str, items: Sequence[cst.CSTNode]) -> Sequence[cst.CSTNode]:
        if name == "body" and isinstance(owner, cst.IndentedBlock):
            return self.block(items)
        return [self.node(item) for item in items]

    # ---- statements

    def block(self, body: Sequence[cst.CSTNode]) -> list[Statement]:
        """The statements of a block, with insertions, guards and removals done; equal guards on neighbours merge."""
        found = self.statements_of(body)
        return found or [cst.SimpleStatementLine([cst.Pass()])]

    def statements_of(self, body: Sequence[cst.CSTNode]) -> list[Statement]:
        found: list[Statement] = []
        open_guard = ""
        for statement in body:
            assert isinstance(statement, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
            if statement not in self.dirty:
                found.append(self.with_orphans(statement))
                open_guard = ""
            else:
                orphaned, left, self.orphaned, self.left = self.orphaned, self.left, [], []  # not those within it
                parts = self.parts(statement)
                self.orphaned, self.left = orphaned, left
                apart = len(parts) > 1
                found += self.statements(self.plan.before.get(statement, ())) if apart else []
                for part, original in parts:
                    open_guard = self.place(found, part, original, open_guard)
                found += self.statements(self.plan.after.get(statement, ())) if apart else []
        return found

    def parts(self, statement: Statement) -> list[tuple[Statement, cst.CSTNode]]:
        """A line of several small statements of which one is moved or guarded becomes several lines."""
        if isinstance(statement, cst.SimpleStatementLine) and self.comes_apart(statement.body):
            return self.lines(statement.body, statement.leading_lines, statement.trailing_whitespace)
        return [(self.updated(statement), statement)]

    def lines(
        self,
        body: Sequence[cst.BaseSmallStatement],
        leading: Sequence[cst.EmptyLine],
        trailing: cst.TrailingWhitespace,
    ) -> list[tuple[Statement, cst.CSTNode]]:
        found: list[tuple[Statement, cst.CSTNode]] = []
        parts = [(part, small) for small in body for part in self.several(small) or [small]]
        for number, (part, small) in enumerate(parts):
            updated = self.node(part).with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
            assert isinstance(updated, cst.BaseSmallStatement)
            line = cst.SimpleStatementLine(
                [updated],
                leading_lines=leading if number == 0 else (),
                trailing_whitespace=trailing if number == len(parts) - 1 else cst.TrailingWhitespace(),
            )
            found.append((line, small if number == 0 or part is small else part))
        return found

    def comes_apart(self, body: Sequence[cst.BaseSmallStatement]) -> bool:
        return any(map(self.several, body)) or (len(body) > 1 and self.touches(body))

    def several(self, small: cst.CSTNode) -> Sequence[cst.BaseSmallStatement]:
        """The import statements that take the place of one, if they are more than one."""
        parts = self.plan.imports_instead.get(small, [])
        return parts if len(parts) > 1 else ()

    def touches(self, body: Sequence[cst.BaseSmallStatement]) -> bool:
        plan = self.plan
        above = {hoist.statement for hoist in plan.hoists.values()}
        tables = (plan.before, plan.after, plan.guards, plan.removed, above)
        return any(small in table for small in body for table in tables)

    def updated(self, statement: Statement) -> Statement:
        updated = self.node(statement)
        assert isinstance(updated, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
        return updated

    def suite(self, suite: cst.SimpleStatementSuite) -> cst.IndentedBlock:
        """A suite on the same line (`if x: y = 1`) in which a statement is moved or guarded gets its own lines."""
        body: list[Statement] = []
        open_guard = ""
        for part, original in self.lines(suite.body, (), suite.trailing_whitespace):
            open_guard = self.place(body, part, original, open_guard)
        return cst.IndentedBlock(body or [cst.SimpleStatementLine([cst.Pass()])])

    def place(self, found: list[Statement], part: Statement, original: cst.CSTNode, open_guard: str) -> str:
        """Appends one statement with what goes around it; returns the header of the guard that is open after it."""
        plan, keys = self.plan, _keys(original)
        removed, left = self.is_removed(original), self.left
        part = self.with_orphans(part)
        above = _of(keys, plan.before)
        last = [one for one in above if one.order >= AFTER_HOISTS]
        before = [*self.statements(above[: len(above) - len(last)]), *_of(keys, self.hoisted), *self.statements(last)]
        after = self.statements(_of(keys, plan.after))
        comments = _of(keys, plan.comments)
        if before:
            part, lines = _take_comments(part)
            found.append(before[0].with_changes(leading_lines=lines))
            found.extend(before[1:])
            open_guard = ""
        if comments:
            marks = [cst.EmptyLine(comment=cst.Comment(text)) for text in comments]
            part = part.with_changes(leading_lines=[*part.leading_lines, *marks])
        header = self.header(keys)
        if removed:
            apart, own = _apart([line for line in part.leading_lines if line not in left])
            self.orphaned = [line for line in own if line.comment is None]
            self.left = [*left, *([] if after else apart), *self.below(part)]
            if after:
                after[0] = after[0].with_changes(leading_lines=[*apart, *self.orphaned])
            header = open_guard
        elif header and header == open_guard:
            block = found[-1]
            assert isinstance(block.body, cst.IndentedBlock)
            part = part.with_changes(leading_lines=[_unindented(line) for line in part.leading_lines])
            found[-1] = block.with_changes(body=block.body.with_changes(body=[*block.body.body, part]))
        else:
            found.append(self.guarded(part, header) if header else part)
        found.extend(after)
        return "" if after or "\n" in header else header

    def with_orphans(self, part: Statement) -> Statement:
        """The empty lines over a statement that was taken out go to the next one, if it has none; the comments below
        it are that one's."""
        if self.left or (self.orphaned and not part.leading_lines):
            above = self.left if part.leading_lines else [*self.orphaned, *self.left]
            part = part.with_changes(leading_lines=[*above, *part.leading_lines])
        self.orphaned, self.left = [], []
        return part

    def below(self, part: Statement) -> Iterator[cst.EmptyLine]:
        """What stands behind a block, and hangs on it by how far its last line is indented."""
        block = part.body if isinstance(part, cst.BaseCompoundStatement) else None
        lines = block.footer if isinstance(block, cst.IndentedBlock) else ()
        for line in itertools.dropwhile(lambda line: line.comment is not None, lines):
            deeper = self.plan.module.tree.default_indent if line.indent and line.comment is not None else ""
            yield line.with_changes(whitespace=cst.SimpleWhitespace(deeper + line.whitespace.value))

    def header(self, keys: list[cst.CSTNode]) -> str:
        guard = next((self.plan.guards[key] for key in keys if key in self.plan.guards), None)
        if guard is None or self.all_hoisted(guard, keys):
            return ""
        around = self.plan.module.enclosing(keys[-1])
        inside = any(
            self.plan.guards[one].header == guard.header
            for one in around
            if one in self.plan.guards and one not in keys and not self.all_hoisted(self.plan.guards[one], [one])
        )
        return "" if inside else "\n".join(one for one in (guard.around_it, guard.header) if one)

    def is_removed(self, statement: cst.CSTNode) -> bool:
        """Taken out itself, or a condition around nothing but what is taken out."""
        if any(key in self.plan.removed for key in _keys(statement)):
            return True
        if not isinstance(statement, cst.If) or statement.orelse is not None:
            return False
        small = tree.small_statements(statement.body)
        lines = (key for one in small for key in (one, self.plan.module.parents[one]))
        return all(one in self.plan.removed for one in small) and not any(
            key in table for key in lines for table in (self.plan.before, self.plan.after)
        )

    def guarded(self, part: Statement, header: str) -> Statement:
        """`header`: a line for each block, the outermost first."""
        lines = part.leading_lines
        for line in reversed(header.split("\n")):
            block = cst.parse_statement(f"{line}\n    pass\n", self.config)
            assert isinstance(block, cst.BaseCompoundStatement)
            part = block.with_changes(body=cst.IndentedBlock([part.with_changes(leading_lines=())]))
        return part.with_changes(leading_lines=lines)

    def statements(self, insertions: Sequence[Insertion]) -> list[Statement]:
        found: list[Statement] = []
        for insertion in insertions:
            statement = cst.parse_statement(insertion.code, self.config)
            assert isinstance(statement, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
            found.append(statement)
        return found

    # ---- imports

    def imports(self, first: bool, rest: list[Statement]) -> list[Statement]:
        """The new import statements; where they come first, what followed keeps its distance."""
        lines = sorted(self.plan.imports, key=lambda text: self.plan.imports[text])
        new = self.statements([Insertion(text, 0) for text in lines])
        if new and first and rest:
            if not self.plan.module.tree.header:
                new[0] = new[0].with_changes(leading_lines=())
            if not rest[0].leading_lines:
                rest[0] = rest[0].with_changes(leading_lines=[_EMPTY_LINE])
        return new


def _changed(node: cst.CSTNode, changes: dict[str, object]) -> cst.CSTNode:
    """The node with these parts in place of its own; in brackets where only those keep them apart: `if(found):`."""
    if not changes:
        return node
    try:
        return node.with_changes(**changes)
    except cst.CSTValidationError:
        return node.with_changes(**{name: _in_brackets(getattr(node, name), one) for name, one in changes.items()})


def _in_brackets(before: object, after: object) -> object:
    """What comes in the place of something in brackets."""
    if not isinstance(before, cst.BaseExpression) or not isinstance(after, cst.BaseExpression):
        return after
    return tree.bracketed(after) if before.lpar and not after.lpar else after


def _keys(statement: cst.CSTNode) -> list[cst.CSTNode]:
    """A line of one small statement goes by either name."""
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        return [statement, statement.body[0]]
    return [statement]


def _of(keys: list[cst.CSTNode], table: Mapping[cst.CSTNode, list[_T]]) -> list[_T]:
    return [one for key in keys for one in table.get(key, ())]


def _unindented(line: cst.EmptyLine) -> cst.EmptyLine:
    """An empty line stays empty in a deeper block."""
    return line if line.comment is not None else line.with_changes(indent=False)


def _apart(lines: list[cst.EmptyLine]) -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    """The comments above a statement that an empty line parts from it, and what is left: its own, and empty lines."""
    empty = [number for number, line in enumerate(lines) if line.comment is None]
    above = [number for number, line in enumerate(lines) if line.comment is not None and empty and number < empty[-1]]
    end = above[-1] + 1 if above else 0
    return lines[:end], lines[end:]


def _take_comments(part: Statement) -> tuple[Statement, Sequence[cst.EmptyLine]]:
    """What is inserted before a statement goes above its comment, and below the empty lines over that."""
    lines = list(part.leading_lines)
    first_comment = next((number for number, line in enumerate(lines) if line.comment is not None), len(lines))
    above, rest = lines[:first_comment], lines[first_comment:]
    if above and rest:
        rest = [above[-1], *rest]
    return part.with_changes(leading_lines=rest), above


def _place_of_imports(plan: Plan, dirty: set[cst.CSTNode]) -> int:
    """Behind the last import at the top, so that nothing is imported earlier than before; above the first edit."""
    place = 0
    for number, statement in enumerate(plan.module.tree.body):
        if not isinstance(statement, (cst.SimpleStatementLine, cst.Try)):
            break
        if statement in dirty and not _only_pointed(plan, statement):
            break
        small = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
        if tree.imports(statement):
            place = number + 1
        elif number == 0 and small and isinstance(small[0], cst.Expr) and tree.string(small[0].value) is not None:
            place = 1  # a docstring
    return place


def _only_pointed(plan: Plan, statement: cst.CSTNode) -> bool:
    """Whether nothing but its imports changes: these use no name of ours."""
    nodes = set(tree.walk(statement))
    tables = (plan.expressions, plan.keywords, plan.before, plan.after, plan.guards, plan.removed)
    return all(nodes.isdisjoint(table) for table in tables)
