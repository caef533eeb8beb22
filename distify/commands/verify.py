"""`distify verify`: runs a script and its conversion side by side, and proves that they take the same steps."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from distify_codemods import Options

from distify.checklist import checklist, summary
from distify.commands.arguments import WithArguments
from distify.config import options_for
from distify.errors import DistifyError, ExitCode, told_if_interrupted
from distify.settling import settling, with_backend
from distify.terminal import say, show, width
from distify.verification.pairs import Pair, find_pair

if TYPE_CHECKING:
    from distify.verification.reporting import Report


@click.command(cls=WithArguments)
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
@click.option(
    "--plot", "picture", metavar="FILE", help="Draw losses and distances into FILE: .svg, .png (needs matplotlib)."
)
@click.option("--anew", is_flag=True, help="Convert, although a converted script is there.")
@with_backend
@settling
@click.pass_context
@told_if_interrupted()
def verify(
    ctx: click.Context,
    path: str,
    converted: str | None,
    ranks: int,
    steps: int,
    dtype: str,
    timeout: float,
    as_json: bool,
    picture: str | None,
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
    If both are the same, a few steps follow with what was taken out: with workers, where loaders ask for them, under
    autocast, and with chance: whether ranks draw noise for their samples as one process does.

    \b
    Examples:
      distify verify train.py
      distify verify train.py -np 4 -- --epochs 2 --batch-size 64
      distify verify train.py by_hand.py       a conversion that you have written, or changed
      distify verify train.py --steps 0        everything, to the end
      distify verify train.py --json > report.json
      distify verify train.py --plot run.svg   both losses, and the distance of the parameters, over the steps

    \b
    Exit codes: 0 the same steps (without an optimizer, the same checkpoints), 1 they differ (where, and what that
                usually means), 2 bad input, or the original itself fails, 3 the script cannot be converted.
    """
    options = options_for(
        path, backend=backend, strategy=strategy, models=models, train_loaders=train_loaders, budget=budget
    )
    if options.scale != "global":
        raise DistifyError("a larger global batch takes other steps than one process does: there is nothing to compare")
    if picture:
        from distify.verification.plotting import check_plot

        check_plot(picture)
    settled = bool(backend or strategy or models or train_loaders or budget != Options.budget)
    pair = find_pair(path, converted or "", options, anew=anew or settled)
    if pair.needs_person:
        ctx.exit(say_why_not(path, pair, "verify"))
    # Here, not above: they bring torch's launcher, which `--help` has no use for.
    from distify.verification.proof import report_of
    from distify.verification.reporting import put_json, put_report

    report = report_of(pair, ctx.obj, ranks, steps, dtype, timeout)
    if picture:
        _draw(report, path, picture)
    (put_json if as_json else put_report)(report)
    ctx.exit(ExitCode.WORK_TO_DO if report.first else ExitCode.DONE)


def _draw(report: Report, path: str, picture: str) -> None:
    from distify.verification.plotting import plot

    if report.curves is None:
        say(f"{picture}: not drawn, since the converted script did not come to its end")
    else:
        plot(report.curves, path, picture)


def say_why_not(path: str, pair: Pair, purpose: str) -> ExitCode:
    assert pair.conversion is not None
    show(checklist(pair.conversion.findings, width(sys.stderr), pair.conversion.headline), err=True)
    say(f"{path}: {summary(pair.conversion.findings)}; there is no conversion to {purpose}")
    return ExitCode.NEEDS_PERSON
