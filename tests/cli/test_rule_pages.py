"""`distify rules` and `distify explain`: the pages say what the rules say, and agree with docs/pitfalls.md."""

from __future__ import annotations

import json
import re

import pytest
from command_line import ROOT, CommandLine
from distify_codemods.refusals import REFUSALS
from distify_codemods.rules import RULES, Rule
from distify_codemods.tensorflow import ALL_RULES

from distify.pages import rule_page

PAGE = """\
DATA02 reshuffling

why
  A DistributedSampler shuffles by its seed and epoch: without `set_epoch` every epoch repeats the first one's order.

when
"""


def page(rule: Rule) -> str:
    return "\n".join("".join(text for text, _ in line) for line in rule_page(rule, None))


def test_rules_lists_all(distify: CommandLine) -> None:
    ended = distify("rules")
    assert ended.code == 0
    assert ended.out.decode().splitlines() == [f"{rule.code:<8}  {rule.name}" for rule in ALL_RULES]
    assert [one["code"] for one in json.loads(distify("rules", "--json").out)] == [rule.code for rule in ALL_RULES]


def test_explain_shows_a_page(distify: CommandLine) -> None:
    ended = distify("explain", "data02")
    assert (ended.code, ended.err) == (0, "")
    text = ended.out.decode()
    assert text.startswith(PAGE)
    assert "\n  +    loader.sampler.set_epoch(epoch)\n" in text
    assert "\nit leaves alone\n" in text
    assert not re.search(r" $", text, re.MULTILINE)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_pages_agree_with_the_table_of_pitfalls(rule: Rule) -> None:
    """Each pitfall whose row names the rule is on its page, with its symptom, and no other is."""
    table = (ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in table if re.match(r"\| \d", line)]
    named = {f"{number} {title}: {symptom}" for number, title, symptom, _, codes, _ in rows if rule.code in codes}
    text = page(rule)
    assert all(f"\n  {one} (" in text for one in named)
    section = text.partition("\npitfalls\n")[2].partition("\n\n")[0]
    assert len(section.splitlines()) == len(named)


def test_a_fault_is_shown_with_what_is_said_of_it() -> None:
    faults = [text for text in map(page, RULES) if "\nit needs you\n" in text]
    assert faults
    assert all(re.search(r"^  train.py:\d+: ", text, re.MULTILINE) for text in faults)


@pytest.mark.parametrize("code", [*REFUSALS, "BOOK01"])
def test_codes_of_no_rule_have_a_page(code: str, distify: CommandLine) -> None:
    ended = distify("explain", code)
    assert ended.code == 0
    assert ended.out.decode().startswith(f"{code} ")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("DATA9", "DATA9: there is no such rule; did you mean DATA03, DATA01, DATA04, DATA05, DATA02?"),
        ("SVAE01", "SVAE01: there is no such rule; did you mean SAVE01, SHARE01, SEED01?"),
        ("xyz", "xyz: there is no such rule; `distify rules` lists all"),
    ],
)
def test_unknown_codes(code: str, told: str, distify: CommandLine) -> None:
    ended = distify("explain", code)
    assert (ended.code, ended.out, ended.err) == (2, b"", f"distify: {told}\n")
