"""What stands on a command line, and what is there by default."""

from __future__ import annotations

import click
from click.core import ParameterSource


def given_options(ctx: click.Context) -> list[str]:
    """The options on this command line, by their long names."""
    found = []
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if isinstance(parameter, click.Option) and given:
            # Of those that share a name (--gloo, --mpi), the one whose value it has.
            is_choice = parameter.is_flag and not parameter.is_bool_flag
            is_another = is_choice and parameter.flag_value != ctx.params[parameter.name or ""]
            found += [word for word in parameter.opts if word.startswith("--")][: 0 if is_another else 1]
    return found
