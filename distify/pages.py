"""Pages that are made of what the rules say: of one rule, and of docs/pitfalls.md (`python -m distify.pages`)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path

from distify_codemods import Level, Options, SourceFile, convert
from distify_codemods.pitfalls import PITFALLS
from distify_codemods.rules import RULES, Example, Rule

from distify.checklist import wrapped
from distify.terminal import Line

_PITFALLS = """\
# Pitfalls

What goes wrong when a script for one GPU is made distributed, where people met it, and the rule that keeps a converted
script from it. `tests/rules/test_pitfalls.py` shows for each rule what happens without it. This page is made by
`python -m distify.pages`.

| # | pitfall | what one sees | what a conversion does | rules | met in |
| ---: | --- | --- | --- | --- | --- |
"""
_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_CONTEXT = 100  # lines: an example is shown whole


def pitfalls_page() -> str:
    """docs/pitfalls.md: a row for each pitfall, with the codes of the rules that name its number."""
    rows = []
    for one in PITFALLS:
        codes = ", ".join(rule.code for rule in RULES if one.number in rule.pitfalls)
        rows.append(f"| {one.number} | {one.title} | {one.symptom} | {one.answer} | {codes} | {one.source} |\n")
    return _PITFALLS + "".join(rows)


def rule_page(rule: Rule, columns: int | None) -> Iterator[Line]:
    """What a rule is for, when it is applied, what it keeps from, and examples of what it writes."""
    yield (f"{rule.code} ", "bold green"), (rule.name, "bold")
    for heading, text in (("why", rule.why), ("when", rule.safety), ("limits", rule.limits)):
        if text:
            yield from _section(heading, [text], columns)
    found = [one for one in PITFALLS if one.number in rule.pitfalls]
    if found:
        yield from _section(
            "pitfalls", [f"{one.number} {one.title}: {one.symptom} ({one.source})" for one in found], columns
        )
    changed = [one for one in rule.examples if one.after]
    for example in changed[:1]:
        yield ((f"\nexample{_told(example)}", "bold"),)
        yield from _diff(example)
    alone = [(one, _blocking(rule, one)) for one in rule.examples if not one.after]
    for example, found_fault in sorted(alone, key=lambda one: not one[1])[:1]:
        yield ((f"\n{'it needs you' if found_fault else 'it leaves alone'}{_told(example)}", "bold"),)
        yield from (((f"  {text}".rstrip(), ""),) for text in example.before.splitlines())
        for message in found_fault:
            yield from (((line, "bold red"),) for line in wrapped(message, "  ", columns))


def _told(example: Example) -> str:
    told = f" --scale {example.scale}" if example.scale != "global" else ""
    told += f" --strategy {example.strategy}" if example.strategy != "sharded" else ""
    return f" ({told.strip()})" if told else ""


def _blocking(rule: Rule, example: Example) -> list[str]:
    """What a conversion of the example leaves to a person."""
    modules = {"helper": SourceFile("helper.py", example.helper.encode())} if example.helper else {}
    script = SourceFile("train.py", example.before.encode())
    conversion = convert(script, lambda _, name, level: modules.get(name), _options(example))
    return [f"{one.place}: {one.message}" for one in conversion.of(Level.BLOCKING) if one.code == rule.code]


def _options(example: Example) -> Options:
    return Options(scale=example.scale, strategy=example.strategy)


def _section(heading: str, texts: Sequence[str], columns: int | None) -> Iterator[Line]:
    yield ((f"\n{heading}", "bold"),)
    for text in texts:
        yield from (((line, ""),) for line in wrapped(text, "  ", columns))


def _diff(example: Example) -> Iterator[Line]:
    before, after = example.before.splitlines(), example.after.splitlines()
    for text in list(difflib.unified_diff(before, after, n=_CONTEXT, lineterm=""))[3:]:
        yield ((f"  {text}".rstrip(), _STYLES.get(text[:1], "")),)


def main() -> None:
    docs = Path(__file__).parents[1] / "docs"
    (docs / "pitfalls.md").write_text(pitfalls_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
