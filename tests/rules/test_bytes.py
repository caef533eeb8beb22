"""Encoding, BOM, newlines, indentation and the last line come out as they went in."""

from __future__ import annotations

import difflib

import pytest
from distify_codemods import SourceError

from tests.rules.scripts import (
    LOOP,
    PRINT,
    RUNTIME,
    SHARDED,
    WRAP,
    WRAPPER,
    converted,
    converted_bytes,
    distributed,
    script,
)

AFTER = 'torch.save(model.state_dict(), "a.pt")\n'
SAVED = 'if rt.is_main_process():\n    torch.save(model.module.state_dict(), "a.pt")\n'
BOM = b"\xef\xbb\xbf"
BEFORE = script(after=AFTER)
NEW = distributed(after=SAVED)


def test_the_frame_itself() -> None:
    assert converted(BEFORE) == NEW


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", [b"", BOM])
@pytest.mark.parametrize("end", [True, False])
def test_newlines_and_the_last_line(newline: str, bom: bytes, end: bool) -> None:
    def spelled(text: str) -> bytes:
        return bom + (text if end else text[:-1]).replace("\n", newline).encode()

    assert converted_bytes(spelled(BEFORE)) == spelled(NEW)


@pytest.mark.parametrize("end", ["\n    ", "\n    \n   \n\n   ", "\n\n\n", "  "])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_blank_lines_at_the_end_are_no_reason_to_decline(end: str, newline: str) -> None:
    after = converted_bytes((BEFORE.removesuffix("\n") + end).replace("\n", newline).encode())
    assert after.rstrip() == NEW.rstrip().replace("\n", newline).encode()


def test_a_keyword_right_behind_a_bracket_gets_a_space_where_libcst_needs_one() -> None:
    setup = "pairs = {key: (key if 1 else key)for key in range(3)}\n"
    assert "(key if 1 else key) for key in range(3)" in converted(script(setup=setup))
    assert "[(1)for key in range(3)]" in converted(script(setup="pairs = [(1)for key in range(3)]\n"))


@pytest.mark.parametrize("indent", ["\t", "  ", "   ", "        "])
def test_indentation(indent: str) -> None:
    def spelled(text: str) -> str:
        head = text.replace(SHARDED, "\0")
        return head.replace("    ", indent).replace("\0", SHARDED)

    assert converted(spelled(BEFORE)) == spelled(NEW)


def test_indentation_of_each_block_is_its_own() -> None:
    """A file of many hands: two blanks here, a tab there."""
    other = "def never():\n  if True:\n    return 1\n\n\n"
    before = script(setup=other, loop=LOOP.replace("    ", "\t"), after=AFTER)
    after = converted(before)
    assert other in after
    assert "\tloader.sampler.set_epoch(epoch)\n\tfor x, y in loader:\n\t\tloss" in after


@pytest.mark.parametrize(
    ("cookie", "encoding"),
    [
        ("# -*- coding: latin-1 -*-", "latin-1"),
        ("# coding: utf-8", "utf-8"),
        ("#!/usr/bin/env python3\n# vim: set fileencoding=cp1252 :", "cp1252"),
        ("# coding=iso-8859-15", "iso-8859-15"),
    ],
)
def test_coding_cookie(cookie: str, encoding: str) -> None:
    """Letters that UTF-8 spells otherwise stay the bytes that they were."""
    head = f'{cookie}\n"""Ge\xfcbt an \xe9t\xe9."""\n'
    before = (head + script(after=f"name = 'na\xefve'\n{AFTER}")).encode(encoding)
    new = (head + distributed(after=f"name = 'na\xefve'\n{SAVED}")).encode(encoding)
    assert converted_bytes(before) == new


def test_letters_beyond_ascii_without_a_cookie() -> None:
    text = "name = 'na\xefve \u65e5\u672c \U0001f600'\n"
    assert converted(script(setup=text)) == distributed(setup=text)


@pytest.mark.parametrize(
    "setup",
    [
        "x = [1,2,\n     3 ,4]   \n",
        "def f(a,b = 1):return a+b\n",
        "y = {'a':1,\n\n  'b' : 2}  # odd\n\n\n\n",
        "\x0c\nz = 1\n",
        "if True :\n        w = 1\n",
        'text = """\n    import torch\n\ttorch.save(1)\n"""\n',
        "v = 1; u = 2 ;\n",
        "long = 'a' \\\n  'b'\n",
        "t = '\\t\\x00'\n",
    ],
)
def test_what_is_not_ours_stays_as_it_is(setup: str) -> None:
    assert converted(script(setup=setup)) == distributed(setup=setup)


def test_mixed_newlines_of_unchanged_lines() -> None:
    before = script(setup="a = 1\nb = 2\n").replace("a = 1\n", "a = 1\r\n").encode()
    new = converted_bytes(before)
    assert b"a = 1\r\n" in new
    assert b"b = 2\n" in new


def test_only_changed_lines_differ() -> None:
    before, after = BEFORE.splitlines(), converted(BEFORE).splitlines()
    lines = list(difflib.ndiff(before, after))
    gone = [line[2:] for line in lines if line.startswith("- ")]
    assert gone == ["loader = DataLoader(data, batch_size=8, shuffle=True)", AFTER.rstrip("\n")]


def test_ours_is_all_there_is() -> None:
    """Everything that is inserted, and nothing else, is gone when our lines are taken out again."""
    after = converted(script())
    ours = [RUNTIME, WRAPPER, WRAP, "rt.init_process_group()\n", "rt.seed_ranks_apart()\n"]
    for line in ours:
        assert after.count(line) == 1
        after = after.replace(line, "")
    after = after.replace(SHARDED, "loader = DataLoader(data, batch_size=8, shuffle=True)\n")
    assert after.replace("    loader.sampler.set_epoch(epoch)\n", "") == script()
    assert PRINT not in after


def test_a_block_that_begins_otherwise_than_the_one_around_it() -> None:
    """Python reads that, libcst does not: tabs at the beginning of lines become spaces, but for those in strings."""
    wide, tabs = " " * 12, "    \t        "
    mixed = f'if True:\n{wide}if True:\n{tabs}text = """\n{tabs}in a string\n\t"""\n{tabs}x = 1\t# one\n{wide}y = 2\n'
    compile(mixed, "train.py", "exec")
    spaces = mixed.replace(f"{tabs}text", f"{' ' * 16}text").replace(f"{tabs}x", f"{' ' * 16}x")
    assert spaces in converted(script(setup=mixed))


@pytest.mark.parametrize(("outer", "inner"), [("\t", "\t    "), ("    ", "    \t"), ("\t", "\t\t")])
def test_tabs_and_spaces_that_a_block_goes_on_with(outer: str, inner: str) -> None:
    """The deeper block begins with what the one around it begins with: that is read, and kept."""
    lines = f"if torch.rand(1) > 2:\n{outer}if torch.rand(1) > 3:\n{inner}x = 1\n"
    assert lines in converted(script(setup=lines))


@pytest.mark.parametrize("before", ["if True:\n    x = 1\n\ty = 2\n", "x = (1,\n"])
def test_what_python_does_not_read_either(before: str) -> None:
    with pytest.raises(SourceError, match="does not parse as Python 3"):
        converted(before)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('"\\N{FOO}"', "unknown Unicode character name"),
        ('f"\\N{FOO}"', "unknown Unicode character name"),
        ('"\\x4"', "truncated"),
        ('"\\U00110000"', "illegal Unicode character"),
        ('b"é"', "bytes can only contain ASCII literal characters"),
    ],
)
def test_a_text_that_python_does_not_read_is_named(text: str, says: str) -> None:
    """libcst reads it; whoever asks for its value would get Python's error, from somewhere."""
    with pytest.raises(SourceError, match=rf"^train\.py:2:\d+: does not parse as Python 3: .*{says}"):
        converted(f"import torch\nname = {text}\n")


@pytest.mark.parametrize("text", ['r"\\N{FOO}"', '"\\N{BULLET} \\x41"', 'rb"\\x4"', "'é'  # b\"é\""])
def test_a_text_that_python_reads(text: str) -> None:
    before = script(setup=f"name = {text}\n")
    assert f"name = {text}\n" in converted(before)
