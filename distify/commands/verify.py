"""`distify verify`: runs a script and its conversion side by side, and proves that they take the same steps."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click
from distify_codemods import Options

from distify.checklist import checklist, summary
from distify.config import options_for
from distify.errors import DistifyError, ExitCode
from distify.horovod import check_installed
from distify.settling import settling, with_backend
from distify.terminal import say, show, width
from distify.verification.pairs import Pair, find_pair

if TYPE_CHECKING:
    from distify.verification.reporting import Report
    from distify.verification.running import Plan


class _WithArguments(click.Command):
    """What stands behind `--` is the script's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        split = args.index("--") if "--" in args else len(args)
        ctx.obj = tuple(args[split + 1 :])
        return super().parse_args(ctx, args[:split])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- ARGS...]"]


@click.command(cls=_WithArguments)
@click.argument("path")
@click.argument("converted", required=False)
@click.option("-np", "--nproc", "ranks", type=click.IntRange(min=2), default=2, show_default=True, metavar="N")
@click.option(
    "--steps", type=click.IntRange(min=0), default=20, show_default=True, metavar="N",
    help="End both after N optimizer steps, and each pass over the data after two fifths of them; 0: run to the end.",
)  # fmt: skip
@click.option("--dtype", type=click.Choice(("float64", "float32")), default="float64", show_default=True)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=900.0,
    metavar="SECONDS",
    help="For each of the runs.  [default: 900]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--anew", is_flag=True, help="Convert, although a converted script is there.")
@with_backend
@settling
@click.pass_context
def verify(
    ctx: click.Context,
    path: str,
    converted: str | None,
    ranks: int,
    steps: int,
    dtype: str,
    timeout: float,
    as_json: bool,
    anew: bool,
    backend: str | None,
    strategy: str | None,
    models: tuple[str, ...],
    train_loaders: tuple[str, ...],
    budget: int,
) -> None:
    """Run the script PATH and its conversion side by side, and compare what they do after every optimizer step.

    The conversion is CONVERTED, or PATH's that is there already (train_dist.py for train.py), or else it is made for
    the occasion; what was used is said. Both run in temporary copies of the project: in those, large data are links,
    and whatever a script would write elsewhere is refused. What stands behind -- are both scripts' arguments.

    Both compute in float64, see the same samples in the same order, and have no dropout; noise and augmentation are
    drawn alike, BatchNorm is real. After every step the parameters of every rank are held against the original's,
    then files, checkpoints, printed figures, and how the work was shared. Epochs are cut short (--steps 0: not).

    \b
    Examples:
      distify verify train.py
      distify verify train.py -np 4 -- --epochs 2 --batch-size 64
      distify verify train.py by_hand.py       a conversion that you have written, or changed
      distify verify train.py --steps 0        everything, to the end
      distify verify train.py --json > report.json

    \b
    Exit codes: 0 the same steps (without an optimizer, the same checkpoints), 1 they differ (where, and what that
                usually means), 2 bad input, or the original itself fails, 3 the script cannot be converted.
    """
    if os.name == "nt":
        raise DistifyError("distify verify needs Linux or macOS")
    if importlib.util.find_spec("torch") is None:
        raise DistifyError(f"torch is not installed for {sys.executable}, with which the scripts run")
    options = options_for(
        path, backend=backend, strategy=strategy, models=models, train_loaders=train_loaders, budget=budget
    )
    if options.scale != "global":
        raise DistifyError("a larger global batch takes other steps than one process does: there is nothing to compare")
    settled = bool(backend or strategy or models or train_loaders or budget != Options.budget)
    pair = find_pair(path, converted or "", options, anew=anew or settled)
    if pair.needs_person:
        ctx.exit(_say_why_not(path, pair))
    with tempfile.TemporaryDirectory(prefix="distify-verify-") as folder:
        report = _report(pair, ranks, steps, dtype, timeout, ctx.obj, Path(os.path.realpath(folder)))
    from distify.verification.reporting import put_json, put_report

    (put_json if as_json else put_report)(report)
    ctx.exit(ExitCode.WORK_TO_DO if report.first else ExitCode.DONE)


def _say_why_not(path: str, pair: Pair) -> ExitCode:
    assert pair.conversion is not None
    show(checklist(pair.conversion.findings, width(sys.stderr), pair.conversion.headline), err=True)
    say(f"{path}: {summary(pair.conversion.findings)}; there is no conversion to verify")
    return ExitCode.NEEDS_PERSON


def _report(
    pair: Pair, ranks: int, steps: int, dtype: str, timeout: float, args: tuple[str, ...], folder: Path
) -> Report:
    """Runs both. Raises DistifyError where the original fails."""
    from distify_runtime.launch import gpu_count, uses_horovod

    from distify.verification.comparing import run_and_compare
    from distify.verification.copies import make_copies, project_of
    from distify.verification.reporting import Report
    from distify.verification.running import Plan

    gpus = gpu_count(sys.executable)
    plan = Plan(ranks, steps, dtype, args, gpus if gpus >= ranks else 0, timeout, Path(project_of(pair)))
    base, dist = make_copies(pair, folder)
    horovod = uses_horovod(dist.script)
    if horovod:
        check_installed()
    done = run_and_compare(pair, plan, (base, dist), folder, horovod)
    notes = list(done.notes)
    if done.original.filled:
        sizes = ", ".join(map(str, dict.fromkeys(done.original.filled)))
        notes.append(
            f"last batches of {sizes} do not divide by {ranks} ranks: they repeat some of their samples, and did so "
            "here in the original, too"
        )
    return Report(
        pair.original.path,
        _facts(pair, done.plan, gpus, len(done.original.steps), horovod),
        tuple(done.checks),
        tuple(notes),
        done.last_lines,
    )


def _facts(pair: Pair, plan: Plan, gpus: int, steps: int, horovod: bool) -> tuple[tuple[str, str], ...]:
    library = "Horovod" if horovod else "NCCL" if plan.gpus else "Gloo"
    device = f"{plan.ranks} GPUs, {library}" if plan.gpus else f"CPU, {library}"
    if gpus and not plan.gpus:
        device += f" (of {gpus} GPU{'s' * (gpus > 1)}, there is not one for each rank)"
    whole = "" if not plan.steps else f"; passes over the data end after {plan.steps_of_pass}, with their last batch"
    return (
        ("original", f"{pair.original.path}, in one process"),
        ("conversion", f"{pair.how}, on {plan.ranks} ranks ({device}, {plan.dtype})"),
        ("steps", f"{steps}{whole}"),
    )
