"""`distify rules`: all rules, in the order of the checklist."""

from __future__ import annotations

import click

from distify.terminal import put, show


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list with an object for each rule.")
def rules(as_json: bool) -> None:
    """List the rules: a code and a name each, in the order of the checklist.

    \b
    Examples:
      distify rules
      distify explain DATA02          the page of one of them
    """
    from distify_codemods.tensorflow import ALL_RULES  # here: `--help` has no use for libcst

    if as_json:
        import json

        fields = ("code", "name", "why", "safety", "limits", "pitfalls")
        listed = [{name: getattr(rule, name) for name in fields} for rule in ALL_RULES]
        put(json.dumps(listed, indent=2).encode() + b"\n")
        return
    size = max(len(rule.code) for rule in ALL_RULES)
    show([((f"{rule.code:<{size}}  ", "green"), (rule.name, "")) for rule in ALL_RULES], err=False)
