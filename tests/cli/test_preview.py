"""The diff at a terminal: each reason stands beside what it is the reason of."""

from __future__ import annotations

from pathlib import Path

from distify_codemods import SourceFile, convert
from distify_codemods.results import Change, NewFile, Place

from distify.preview import match_reasons, preview

ROOT = Path(__file__).resolve().parents[2]
BEFORE = b"".join(b"line_%d = %d\n" % (n, n) for n in range(1, 31))


def change(line: int, reason: str = "why", code: str = "DATA01", written: str = "", beside: int = 0) -> Change:
    return Change(code, Place("train.py", line), reason, written, beside)


def shown(before: bytes, after: bytes, *changes: Change, columns: int = 100) -> list[str]:
    lines = preview(NewFile("train.py", before, after, changes), columns)
    return ["".join(text for text, _ in line) for line in lines]


def replaced(*lines: int) -> bytes:
    after = BEFORE
    for n in lines:
        after = after.replace(b"line_%d =" % n, b"LINE_%d =" % n)
    return after


def inserted(*behind: int) -> bytes:
    lines = BEFORE.splitlines(keepends=True)
    return b"".join(line + b"new = %d\n" % n * (n in behind) for n, line in enumerate(lines, start=1))


def test_a_short_reason_stands_right_of_the_removed_line() -> None:
    lines = shown(BEFORE, replaced(10), change(10, "the data is shared out"))
    assert "-line_10 = 10  <- DATA01: the data is shared out" in lines


def test_a_long_reason_stands_below_the_line_within_the_terminal() -> None:
    lines = shown(BEFORE, replaced(10), change(10, "word " * 30), columns=60)
    at = lines.index("-line_10 = 10")
    assert lines[at + 1].startswith(" <- DATA01: word")
    assert " ".join(lines[at + 1 : at + 4]).count("word") == 30
    assert lines[at + 4] == "+LINE_10 = 10"
    assert max(map(len, lines)) <= 60


def test_neighbours_each_have_their_own_reason() -> None:
    lines = shown(BEFORE, replaced(10, 11), change(10, "one"), change(11, "other"))
    assert "-line_10 = 10  <- DATA01: one" in lines
    assert "-line_11 = 11  <- DATA01: other" in lines


def test_insertions_on_both_sides_of_a_statement_have_one_reason_each() -> None:
    before_and_behind = shown(
        BEFORE,
        inserted(9, 10),
        change(10, "behind", written="new = 10", beside=11),
        change(10, "before", written="new = 9", beside=10),
    )
    assert "+new = 9  <- DATA01: before" in before_and_behind
    assert "+new = 10  <- DATA01: behind" in before_and_behind


def test_what_is_inserted_behind_a_long_statement_has_the_reason_of_its_first_line() -> None:
    # Line 9 is replaced; the statement of lines 10 to 13 gets a line behind it, further from 10 than 9 is.
    after = inserted(13).replace(b"line_9 =", b"LINE_9 =")
    behind = change(10, "behind", written="new = 13", beside=14)
    lines = shown(BEFORE, after, change(9, "replaced"), behind)
    assert "-line_9 = 9  <- DATA01: replaced" in lines
    assert "+new = 13  <- DATA01: behind" in lines


def test_of_equal_lines_each_has_its_own_reason() -> None:
    after = inserted(9, 20).replace(b"new = 9\n", b"    new()\n").replace(b"new = 20\n", b"new()\n")
    lines = shown(
        BEFORE,
        after,
        change(5, "first", written="new()", beside=10),
        change(15, "second", written="new()", beside=21),
    )
    assert "+    new()  <- DATA01: first" in lines
    assert "+new()  <- DATA01: second" in lines


def test_lines_of_one_insertion_each_have_their_own_reason() -> None:
    after = BEFORE.replace(b"line_10 = 10\n", b"line_10 = 10\none()\nother()\n")
    other = change(11, "other", written="other()", beside=11)
    lines = shown(BEFORE, after, other, change(10, "one", written="one()", beside=11))
    assert "+one()  <- DATA01: one" in lines
    assert "+other()  <- DATA01: other" in lines


def test_two_reasons_of_one_insertion_both_stand_there() -> None:
    one, two = change(1, "one", "DATA01", "new = 1", 2), change(1, "two", "INIT01", "new = 1", 2)
    lines = shown(BEFORE, inserted(1, 25), one, two, change(25, "far", written="new = 25", beside=26))
    at = lines.index("+new = 1")
    assert [line.strip() for line in lines[at + 1 : at + 3]] == ["<- DATA01: one", "<- INIT01: two"]
    assert "+new = 25  <- DATA01: far" in lines


def test_reasons_stand_at_what_the_rules_wrote() -> None:
    script = ROOT / "fixtures" / "argparse_main" / "train.py"
    converted = convert(SourceFile("train.py", script.read_bytes()), lambda importing, name, level: None)
    lines = ["".join(text for text, _ in line) for line in preview(converted.files[0], 250)]
    marked = {line.split("  <- ")[0].strip("+- "): line.split("<- ")[1][:7] for line in lines if "  <- " in line}
    assert marked["output = model(data)"] == "MODEL03"
    assert marked["test_loss, correct = rt.all_reduce_sum(test_loss, correct)"] == "EVAL01:"
    assert marked["loader.sampler.set_epoch(epoch)"] == "DATA02:"
    assert marked["model = DistributedDataParallel(model, device_ids=rt.device_ids(model))"] == "MODEL01"
    assert marked["rt.seed_ranks_apart()"] == "SEED01:"
    assert marked["if rt.is_main_process():"] == "SAVE01:"


def test_no_reason_is_lost_and_each_is_said_once() -> None:
    changes = [change(line, f"r{line};") for line in (0, 1, 5, 5, 12, 30, 99)]
    text = "\n".join(shown(BEFORE, replaced(3, 12, 28), *changes))
    assert [text.count(f": r{line};") for line in (0, 1, 5, 12, 30, 99)] == [1] * 6


def test_changes_without_a_difference_are_no_error() -> None:
    assert match_reasons([change(3)], [], "utf-8") == {}
    assert shown(BEFORE, replaced(3))[2] == "@@ -1,6 +1,6 @@"


def test_source_is_shown_in_its_own_encoding_without_bom_and_line_ends() -> None:
    latin = "# -*- coding: latin-1 -*-\r\nname = 'é'\r\n".encode("latin-1")
    assert "-name = 'é'" in shown(latin, latin.replace(b"name", b"NAME"))
    bom = b"\xef\xbb\xbfa = 1\n\tb = 2\n"
    assert shown(bom, bom.replace(b"b", b"c"))[3:] == [" a = 1", "-        b = 2", "+        c = 2"]
