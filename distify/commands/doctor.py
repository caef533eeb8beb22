"""`distify doctor`: what this machine has for distributed training, and what to do about what is missing."""

from __future__ import annotations

import importlib.util
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import click

from distify.collective import measured
from distify.errors import DistifyError, ExitCode
from distify.machine import Item, examine
from distify.terminal import Line, ask, can_ask, put, say, show

_SIGNS = {"ok": ("ok", "green"), "absent": ("-", "dim"), "missing": ("missing", "bold red")}
#: The module that builds Horovod, to be run with `python -m`.
_HOROVOD = "distify.horovod"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list with an object for each thing.")
@click.option(
    "--collective", is_flag=True, help="Also start ranks, which add something up: is it right, how fast is it?"
)
@click.option(
    "-np", "--nproc", type=click.IntRange(min=1), metavar="N", help="With --collective: so many ranks.  [default: 2]"
)
@click.option("--fix", type=click.Choice(("horovod",)), help="Show the command that installs it, and ask to run it.")
@click.option("--yes", "-y", is_flag=True, help="With --fix: run it without asking.")
@click.pass_context
def doctor(ctx: click.Context, as_json: bool, collective: bool, nproc: int | None, fix: str | None, yes: bool) -> None:
    """Say what this machine has for distributed training: Python, torch, GPUs, backends, launchers, Horovod.

    Of what is missing it says what to do. Nothing is trained, and nothing is changed but by --fix.

    \b
    Examples:
      distify doctor
      distify doctor --json
      distify doctor --collective -np 4
      distify doctor --fix horovod

    \b
    Exit codes: 0 ranks can be started here, 1 something that they need is missing, 2 bad input.
    """
    if yes and not fix:
        raise click.UsageError("--yes goes with --fix.")
    if nproc and not collective:
        raise click.UsageError("-np goes with --collective.")
    if fix:
        ctx.exit(_fix(yes))
    items = []
    for item in _items(nproc or 2 if collective else 0):
        items.append(item)
        if not as_json:
            show([_line(item)], err=False)
    if as_json:
        put(json.dumps([vars(item) for item in items], indent=2).encode() + b"\n")
    ctx.exit(ExitCode.WORK_TO_DO if any(item.state == "missing" for item in items) else ExitCode.DONE)


def _items(ranks: int) -> Iterator[Item]:
    """`ranks`: for one real collective; 0: none."""
    yield from examine()
    if ranks:
        yield measured(ranks)


def _line(item: Item) -> Line:
    sign, style = _SIGNS[item.state]
    advice = f" ({item.advice})" if item.advice else ""
    return (f"{item.name:<11}", ""), (f"{sign:<8}", style), (item.text, ""), (advice, "yellow")


def _fix(yes: bool) -> int:
    """Runs what builds Horovod for this interpreter, if that is wanted; its exit code."""
    if importlib.util.find_spec(_HOROVOD) is None:
        raise DistifyError("this distify has nothing that builds Horovod; in its repository, `make horovod` does")
    command = [sys.executable, "-m", _HOROVOD]
    say(shlex.join(command))
    if not yes and not (can_ask() and ask("run it?")):
        say("nothing was run" if can_ask() else "nothing was run: no terminal to ask at; --yes runs it")
        return ExitCode.DONE
    done: subprocess.CompletedProcess[Any] = subprocess.run(command)
    return done.returncode
