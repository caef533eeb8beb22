"""Other spellings of the same source: layout, comments, brackets, line ends. What it does stays the same."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from random import Random

import libcst as cst

_INDENTS = ("\t", "  ", "    ", "      ")


def respelled(source: str, seed: int) -> str:
    """The source with its layout changed at random places."""
    chance = Random(seed)
    module = cst.parse_module(source)
    module = module.visit(_Layout(chance))
    text = module.with_changes(default_indent=chance.choice(_INDENTS)).code
    assert _meaning(text) == _meaning(source)
    return text.replace("\n", "\r\n") if chance.random() < 0.2 else text


def _meaning(source: str) -> str:
    return ast.dump(ast.parse(source))


def _makes_loader(statement: cst.CSTNode) -> bool:
    """A data set that is computed in place gets a name on a line before it: it needs a block with lines."""
    return "DataLoader(" in cst.Module(body=()).code_for_node(statement)


class _Layout(cst.CSTTransformer):
    def __init__(self, chance: Random) -> None:
        self.chance = chance

    def _often(self, share: float = 0.3) -> bool:
        return self.chance.random() < share

    def _lines(self, own: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
        more = [cst.EmptyLine(comment=cst.Comment("# loader = model (")), cst.EmptyLine(indent=False)]
        return [*own, *self.chance.sample(more, self.chance.randint(0, 2))]

    def _break(self) -> cst.ParenthesizedWhitespace:
        comment = cst.Comment("# )") if self._often() else None
        first = cst.TrailingWhitespace(cst.SimpleWhitespace("  " if comment else ""), comment)
        return cst.ParenthesizedWhitespace(first, indent=True, last_line=cst.SimpleWhitespace(" " * 4))

    # ---- statements

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        comment = cst.Comment("# optimizer.step()") if self._often() else None
        trailing = cst.TrailingWhitespace(cst.SimpleWhitespace("  " if comment else ""), comment)
        lines = self._lines(updated_node.leading_lines)
        return updated_node.with_changes(leading_lines=lines, trailing_whitespace=trailing)

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.For:
        return updated_node.with_changes(leading_lines=self._lines(updated_node.leading_lines))

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        return updated_node.with_changes(leading_lines=self._lines(updated_node.leading_lines))

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock | cst.SimpleStatementSuite:
        """Neighbouring small statements on one line; a block of nothing else behind its colon."""
        body: list[cst.BaseStatement] = []
        for statement in updated_node.body:
            last = body[-1] if body else None
            both = isinstance(statement, cst.SimpleStatementLine) and isinstance(last, cst.SimpleStatementLine)
            if both and self._often(0.4):
                body[-1] = last.with_changes(body=[*last.body, *statement.body])  # type: ignore[union-attr]
            else:
                body.append(statement)
        only = body[0]
        if _makes_loader(only):
            return updated_node.with_changes(body=body, indent=None)
        if len(body) == 1 and isinstance(only, cst.SimpleStatementLine) and self._often(0.4):
            return cst.SimpleStatementSuite(body=only.body)
        return updated_node.with_changes(body=body, indent=None)

    # ---- expressions

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        value = updated_node.value
        if self._often() and not value.lpar:
            brackets = {"lpar": [cst.LeftParen(self._break())], "rpar": [cst.RightParen(self._break())]}
            value = value.with_changes(**brackets)
        target = updated_node.targets[0]
        if self._often():
            target = target.with_changes(whitespace_after_equal=cst.SimpleWhitespace(" \\\n    "))
        return updated_node.with_changes(value=value, targets=[target, *updated_node.targets[1:]])

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        if not updated_node.args or not self._often(0.5):
            return updated_node
        args = [arg.with_changes(comma=cst.Comma(whitespace_after=self._break())) for arg in updated_node.args]
        generator = len(args) == 1 and isinstance(args[0].value, cst.GeneratorExp)
        if generator or self._often(0.5):
            args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(args=args, whitespace_before_args=self._break())

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.SimpleString:
        return updated_node.with_changes(value=f"'{updated_node.raw_value}'") if self._often(0.5) else updated_node
