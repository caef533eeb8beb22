"""No rule depends on a name: renaming all that is a script's own renames the conversion, and changes nothing else."""

from __future__ import annotations

import builtins
import io
import keyword
import os
import random
import re
import string
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import libcst as cst
import pytest
from distify_codemods import Conversion, Outcome, SourceFile, convert
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.grid import slow

FIXTURES = sorted(Path(__file__).parent.parent.glob("fixtures/*/train.py"))
#: One in three by `make test`: of all, the text is compared as it is.
EACH = [
    pytest.param(path, id=path.parent.name, marks=() if number % 3 == 0 else slow)
    for number, path in enumerate(FIXTURES)
]
#: One letter for each one-letter name; those of the fixtures are of the first kind.
LETTERS = string.ascii_letters + "".join(map(chr, [*range(0x3B1, 0x3C2), *range(0x3C3, 0x3CA)]))

#: Of each script; `make test-all` takes more.
EXAMPLES = int(os.environ.get("DISTIFY_EXAMPLES", "2"))
SEEDS = st.integers(0, 2**32)
Names = dict[str, str]


class _Own(cst.CSTVisitor):
    """Names that a script binds to something of its own, and its functions, whose parameters are keywords of calls."""

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.functions: set[str] = set()
        self.foreign: set[str] = set()  # imports, and what is reached as an attribute
        self.used: set[str] = set()

    def visit_Name(self, node: cst.Name) -> None:
        self.used.add(node.value)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.bound.add(node.name.value)
        self.functions.add(node.name.value)
        for statement in node.body.body:
            if isinstance(statement, cst.FunctionDef):
                self.functions.add(statement.name.value)
                self.foreign.add(statement.name.value)
            elif isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    if isinstance(small, (cst.Assign, cst.AnnAssign)):
                        targets = small.targets if isinstance(small, cst.Assign) else [small]
                        self.foreign.update(name for one in targets for name in _names(one.target))

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.bound.add(node.name.value)
        self.functions.add(node.name.value)

    def visit_Param(self, node: cst.Param) -> None:
        self.bound.add(node.name.value)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self.bound.update(_names(node.target))

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self.bound.update(_names(node.target))

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        self.bound.update(_names(node.target))

    def visit_For(self, node: cst.For) -> None:
        self.bound.update(_names(node.target))

    def visit_CompFor(self, node: cst.CompFor) -> None:
        self.bound.update(_names(node.target))

    def visit_AsName(self, node: cst.AsName) -> None:
        self.bound.update(_names(node.name))

    def visit_ImportAlias(self, node: cst.ImportAlias) -> bool:
        name = node.asname.name if node.asname else node.name
        while isinstance(name, cst.Attribute):
            name = name.value
        self.foreign.update(_names(name))
        return False


def _names(target: cst.BaseExpression) -> Iterator[str]:
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _names(element.value)


#: What a conversion calls a figure of the script's own once it is that of all ranks.
OF_ALL_RANKS = re.compile(r"global_(\w+?)(_\d+)?")


class _Renamed(cst.CSTTransformer):
    """Attributes stay, and keywords, but for those of the script's own functions."""

    def __init__(self, names: Names, functions: set[str]) -> None:
        self.names, self.functions = names, functions

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        of_all = OF_ALL_RANKS.fullmatch(original_node.value)
        if of_all and of_all[1] in self.names:
            return updated_node.with_changes(value=f"global_{self.names[of_all[1]]}{of_all[2] or ''}")
        return updated_node.with_changes(value=self.names.get(original_node.value, original_node.value))

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        callee = original_node.func
        name = callee.attr.value if isinstance(callee, cst.Attribute) else getattr(callee, "value", "")
        if name in self.functions:
            return updated_node
        kept = [
            new.with_changes(keyword=old.keyword)
            for old, new in zip(original_node.args, updated_node.args, strict=True)
        ]
        return updated_node.with_changes(args=kept)

    def leave_ImportAlias(self, original_node: cst.ImportAlias, updated_node: cst.ImportAlias) -> cst.ImportAlias:
        return original_node

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> cst.ImportFrom:
        return updated_node.with_changes(module=original_node.module)


@cache
def own(source: str) -> _Own:
    found = _Own()
    cst.parse_module(source).visit(found)
    found.bound -= found.foreign | set(dir(builtins)) | {"_"}
    return found


def renamed(source: str, names: Names, functions: set[str]) -> str:
    return cst.parse_module(source).visit(_Renamed(names, functions)).code


def fresh_names(source: str, chance: random.Random) -> Names:
    """A new name of the same length for each: no line changes its width."""
    found = own(source)
    taken = found.used | set(keyword.kwlist) | set(dir(builtins)) | {"rt", "_"}
    names: Names = {}
    for name in sorted(found.bound):
        new = name
        while new in taken or not new.isidentifier():
            new = "".join(chance.choice(LETTERS if len(name) == 1 else string.ascii_lowercase) for _ in name)
        names[name] = new
        taken.add(new)
    return names


def shuffled_names(source: str, chance: random.Random) -> Names:
    """The script's own names dealt out anew: what was the model may be called `test_loader`."""
    before = sorted(own(source).bound)
    after = before.copy()
    chance.shuffle(after)
    return dict(zip(before, after, strict=True))


@cache
def conversion_of(source: str) -> Conversion:
    conversion = convert(SourceFile("train.py", source.encode()), lambda importer, module, level: None)
    assert conversion.outcome is Outcome.CONVERTED, conversion.findings
    return conversion


def new_text(conversion: Conversion) -> str:
    (new,) = conversion.files
    return new.after.decode()


def said(conversion: Conversion) -> list[tuple[str, str, int]]:
    return [(one.level.value, one.code, one.place.line if one.place else 0) for one in conversion.findings]


def tokens(source: str) -> list[tuple[int, str]]:
    """Without comments, and without line breaks inside brackets, which follow the width of names."""
    left_out = (tokenize.NL, tokenize.COMMENT)
    found = [token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type not in left_out]
    return [(token.type, "" if token.type == tokenize.DEDENT else token.string) for token in found]


@pytest.mark.parametrize("path", EACH)
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_fresh_names(path: Path, seed: int) -> None:
    source = path.read_text()
    names, functions = fresh_names(source, random.Random(seed)), own(source).functions
    conversion = conversion_of.__wrapped__(renamed(source, names, functions))
    original = conversion_of(source)
    assert new_text(conversion) == renamed(new_text(original), names, functions)
    assert said(conversion) == said(original)


@pytest.mark.parametrize("path", EACH)
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_misleading_names(path: Path, seed: int) -> None:
    source = path.read_text()
    names, functions = shuffled_names(source, random.Random(seed)), own(source).functions
    conversion = conversion_of.__wrapped__(renamed(source, names, functions))
    original = conversion_of(source)
    assert tokens(new_text(conversion)) == tokens(renamed(new_text(original), names, functions))
    assert said(conversion) == said(original)


@pytest.mark.parametrize("path", EACH)
def test_everything_of_its_own_is_renamed(path: Path) -> None:
    """The property would be empty if it renamed nothing."""
    source = path.read_text()
    found = own(source)
    new = renamed(source, fresh_names(source, random.Random(0)), found.functions)
    compile(new, "train.py", "exec", dont_inherit=True)
    assert len(found.bound) > 15
    assert not own(new).bound & found.bound
