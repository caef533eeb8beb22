"""The `distify` command: a group whose commands are imported when they are called."""

from __future__ import annotations

from importlib import import_module

import click

from distify import __version__

#: Name of each command (and of its module in `distify.commands`, and of the click command in there): its line
#: in `distify --help`, which stands here so that the list costs no import of torch, libcst or rich.
COMMANDS = {
    "convert": "Turn a single-GPU training script into a distributed one.",
    "check": "Say what a conversion would do and what needs you; for CI.",
    "run": "Launch a converted script on N ranks of this machine.",
    "verify": "Prove that a script and its conversion take the same steps.",
    "bench": "Say what a step is made of on 1, 2, 4 ranks, and whether they pay.",
    "explain": "Show the page of a rule: why it is there, and what it writes.",
    "rules": "List all rules.",
    "doctor": "Say what this machine has and lacks for distributed training.",
}


class LazyGroup(click.Group):
    """Lists commands by their short help alone and imports the one that is called."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, listed, rest = super().resolve_command(ctx, args)
        if name is None or listed is None:
            return name, listed, rest
        command: click.Command = getattr(import_module(f"distify.commands.{name}"), name)
        return name, command, rest


@click.command(
    cls=LazyGroup,
    commands={name: click.Command(name, short_help=line) for name, line in COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="distify", message="%(prog)s %(version)s")
def cli() -> None:
    """Makes a single-GPU PyTorch training script a distributed one that takes the same steps.

    \b
    distify convert train.py              see the diff, answer y: train_dist.py
    distify run -np 4 train_dist.py       train on four ranks
    """
