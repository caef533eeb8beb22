"""The checklist: grouped by what became of each step, what needs the user last, with the code to write."""

from __future__ import annotations

from distify_codemods.results import Finding, Level, Place

from distify.checklist import checklist, summary

FINDINGS = (
    Finding(
        Level.BLOCKING,
        "LOSS03",
        "The loss is per sample",
        "it is not",
        Place("t.py", 9),
        "x = f(x)\nif y:\n    z",
    ),
    Finding(Level.APPLIED, "DATA01", "Data is shared out", "a sampler", Place("t.py", 3)),
    Finding(Level.APPLIED, "DATA01", "Data is shared out", "another", Place("t.py", 5)),
    Finding(Level.NOT_NEEDED, "NORM01", "BatchNorm", "there is none"),
    Finding(Level.ADVICE, "PERF01", "Workers", "more", Place("t.py", 0)),
)


def text(findings: tuple[Finding, ...], columns: int | None = None) -> list[str]:
    return ["".join(part for part, _ in line) for line in checklist(findings, columns)]


def test_what_needs_the_user_comes_last_with_the_code_to_write() -> None:
    assert text(FINDINGS) == [
        "applied (2)",
        "  DATA01 Data is shared out",
        "    t.py:3: a sampler",
        "    t.py:5: another",
        "not needed (1)",
        "  NORM01 BatchNorm",
        "    there is none",
        "advice (1)",
        "  PERF01 Workers",
        "    t.py: more",
        "needs you (1)",
        "  LOSS03 The loss is per sample",
        "    t.py:9: it is not",
        "      to do:",
        "        x = f(x)",
        "        if y:",
        "            z",
    ]


def test_what_is_not_needed_can_be_one_line() -> None:
    short = ["".join(part for part, _ in line) for line in checklist(FINDINGS, verbose=False)]
    at = short.index("not needed (1; -v says what, and why)")
    assert short[at + 1] == "advice (1)"
    assert [*short[:at], *short[at + 1 :]] == [*text(FINDINGS)[:4], *text(FINDINGS)[7:]]


def test_the_strategy_stands_above_all() -> None:
    lines = ["".join(part for part, _ in line) for line in checklist(FINDINGS[1:2], None, "sharded data")]
    assert lines[:2] == ["sharded data", "applied (1)"]


def test_messages_are_wrapped_for_a_terminal_and_paths_and_code_are_not() -> None:
    path, code = "folder/" * 10 + "t.py", "f(" + "x, " * 40 + ")"
    finding = Finding(Level.BLOCKING, "A1", "title", "word " * 30, Place(path, 7), code)
    lines = text((finding,), 60)
    assert lines[2] == f"    {path}:7:"
    assert all(len(line) <= 60 for line in lines[3:-2])
    assert " ".join(lines[3:-2]).split() == ["word"] * 30
    assert lines[-1].strip() == code
    assert len(text((finding,))) == 5


def test_the_summary_counts_each_kind() -> None:
    assert summary(FINDINGS) == "2 applied, 1 not needed, 1 advice, 1 needs you"
    assert summary(()) == "nothing found"
