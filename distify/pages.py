"""Pages of the documentation that are made of what the rules say: `python -m distify.pages` writes them."""

from __future__ import annotations

from pathlib import Path

from distify_codemods.pitfalls import PITFALLS
from distify_codemods.rules import RULES

_PITFALLS = """\
# Pitfalls

What goes wrong when a script for one GPU is made distributed, where people met it, and the rule that keeps a converted
script from it. `tests/rules/test_pitfalls.py` shows for each rule what happens without it. This page is made by
`python -m distify.pages`.

| # | pitfall | what one sees | what a conversion does | rules | met in |
| ---: | --- | --- | --- | --- | --- |
"""


def pitfalls_page() -> str:
    """docs/pitfalls.md: a row for each pitfall, with the codes of the rules that name its number."""
    rows = []
    for one in PITFALLS:
        codes = ", ".join(rule.code for rule in RULES if one.number in rule.pitfalls)
        rows.append(f"| {one.number} | {one.title} | {one.symptom} | {one.answer} | {codes} | {one.source} |\n")
    return _PITFALLS + "".join(rows)


def main() -> None:
    docs = Path(__file__).parents[1] / "docs"
    (docs / "pitfalls.md").write_text(pitfalls_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
