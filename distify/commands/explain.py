"""`distify explain`: the page of a rule."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Collection

import click

from distify.errors import DistifyError
from distify.terminal import show, width


@click.command()
@click.argument("code")
def explain(code: str) -> None:
    """Show the page of the rule CODE: why it is there, when it is applied, its limits, and what it writes.

    Codes stand in the checklists of `distify convert` and `distify check`; `distify rules` lists all.

    \b
    Examples:
      distify explain DATA02
      distify explain model01

    \b
    Exit codes: 0 done, 2 there is no such rule.
    """
    from distify_codemods.refusals import REFUSALS  # here: `--help` has no use for libcst
    from distify_codemods.tensorflow import ALL_RULES

    from distify.checklist import wrapped
    from distify.notebooks import CODE, TITLE, WHY
    from distify.pages import rule_page

    wanted = code.strip().upper()
    columns = width(sys.stdout)
    pages = {rule.code: rule for rule in ALL_RULES}
    if wanted in pages:
        show(rule_page(pages[wanted], columns), err=False)
        return
    others = {**REFUSALS, CODE: (TITLE, WHY)}
    if wanted not in others:
        raise DistifyError(f"{code}: there is no such rule{_nearest(wanted, [*pages, *others])}")
    title, why = others[wanted]
    show([((f"{wanted} ", "bold green"), (title, "bold")), (("\nwhy", "bold"),)], err=False)
    show([((line, ""),) for line in wrapped(why, "  ", columns)], err=False)


def _nearest(code: str, codes: Collection[str]) -> str:
    """What could be meant: by spelling, or the rules of that group."""
    near = difflib.get_close_matches(code, codes, 3, 0.6)
    letters = code.rstrip("0123456789")
    near = [one for one in codes if letters and one.startswith(letters)] or near
    return f"; did you mean {', '.join(near)}?" if near else "; `distify rules` lists all"
