"""The examples that rules show are true: exact text, it compiles, and a second conversion changes nothing."""

from __future__ import annotations

import pytest
from distify_codemods import Conversion, Level, Outcome
from distify_codemods.rules import RULES, Example, Rule

from tests.rules.scripts import conversion_of

EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.code}-{number}")
    for rule in RULES
    for number, example in enumerate(rule.examples, 1)
]
APPLIED = [param for param in EXAMPLES if param.values[1].after]
NO_OPS = [param for param in EXAMPLES if not param.values[1].after]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_shows_what_it_does(rule: Rule) -> None:
    assert 2 <= len(rule.examples) <= 4
    for example in rule.examples:
        assert len(example.before.splitlines()) <= 30
        assert example.before.endswith("\n")
        compile(example.before, "train.py", "exec", dont_inherit=True)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_shows_where_it_keeps_still(rule: Rule) -> None:
    """Rules that only find faults have examples without an after; the others have at least one with."""
    finds_only = rule.code in ("DECIDE01", "MEET01", "OTHER01", "READ01")
    assert any(not example.after for example in rule.examples) or len(rule.examples) > 1
    assert finds_only or any(example.after for example in rule.examples)


def _converted(example: Example) -> Conversion:
    beside = {"helper.py": example.helper} if example.helper else {}
    return conversion_of(example.before, files=beside, scale=example.scale, strategy=example.strategy)


@pytest.mark.parametrize(("rule", "example"), APPLIED)
def test_applied(rule: Rule, example: Example) -> None:
    conversion = _converted(example)
    assert conversion.outcome is Outcome.CONVERTED, conversion.of(Level.BLOCKING)
    new = next(one for one in conversion.files if one.path == "train.py")
    assert new.after.decode() == example.after
    assert rule.code in {change.code for change in new.changes}
    assert rule.code in {finding.code for finding in conversion.of(Level.APPLIED)}


@pytest.mark.parametrize(("rule", "example"), APPLIED)
def test_applied_twice(rule: Rule, example: Example) -> None:
    compile(example.after, "train_dist.py", "exec", dont_inherit=True)
    again = conversion_of(example.after)
    assert again.outcome is Outcome.ALREADY_CONVERTED
    assert not again.files


@pytest.mark.parametrize(("rule", "example"), NO_OPS)
def test_left_alone(rule: Rule, example: Example) -> None:
    """Not changed by this rule; and if the script is refused, then by this rule, which says why."""
    conversion = _converted(example)
    assert all(change.code != rule.code for new in conversion.files for change in new.changes)
    if conversion.outcome is Outcome.REFUSED:
        assert {finding.code for finding in conversion.of(Level.BLOCKING)} == {rule.code}
