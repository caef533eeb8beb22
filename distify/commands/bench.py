"""`distify bench`: what a step is made of on each number of ranks, and whether more of them pay."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from distify.bench.units import bandwidth_of, latency_of
from distify.commands.arguments import WithArguments
from distify.commands.verify import say_why_not
from distify.config import options_for
from distify.errors import DistifyError, ExitCode
from distify.room import check_room
from distify.settling import settling, with_backend
from distify.verification.pairs import find_converted


@click.command(cls=WithArguments)
@click.argument("path")
@click.option(
    "-np", "--nproc", "ranks", default="1,2", show_default=True, metavar="N,…",
    help="Numbers of ranks of this machine; one is always among them.",
)  # fmt: skip
@click.option(
    "--predict", default="", metavar="N,…",
    help="Also say what so many ranks would do that are not here, each with what one rank has here.  [default: none, "
    "or with --bandwidth or --latency twice and four times the most of -np]",
)  # fmt: skip
@click.option("--bandwidth", metavar="RATE", help="Between those: 100Gbit, 12.5GB/s.  [default: measured here]")
@click.option("--latency", metavar="TIME", help="Of one exchange between those: 10us.  [default: measured here]")
@click.option(
    "--steps", type=click.IntRange(min=4), default=40, show_default=True, metavar="N",
    help="Steps that are timed; each run ends with the last of them.",
)  # fmt: skip
@click.option(
    "--warm-up", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="Steps before those."
)
@click.option(
    "--weak", is_flag=True, help="Each rank keeps the batch, as with --scale linear: N ranks do N times as much."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--plot", "picture", metavar="FILE", help="Draw it into FILE: .svg, .png (needs matplotlib).")
@click.option(
    "--trace", "traces", metavar="DIR",
    help="Write what torch's profiler saw of the timed steps, a file for each rank. Steps take longer then.",
)  # fmt: skip
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=900.0,
    metavar="SECONDS",
    help="For each of the runs.  [default: 900]",
)
@click.option("--oversubscribe", is_flag=True, help="Start more ranks than this machine has cores or memory for.")
@with_backend
@settling
@click.pass_context
def bench(ctx: click.Context, /, path: str, **given: Any) -> None:
    """Say what a training step of the script PATH is made of on each number of ranks, and whether more of them pay.

    PATH is converted into a temporary folder, or run as it is where it is converted already. Each run ends, on all
    ranks together, after a few steps; nothing of it is left, and nothing outside of its copies is written. What stands
    behind -- are the script's arguments.

    A step is cut into the wait for its batch (loading), all else that the script computes (forward, the optimizer
    too), the backward pass, and what ranks do together: what nothing hides of the gradients' all-reduce, figures that
    are reduced, the statistics of BatchNorm, what is gathered, and the rest. Evaluation and checkpoints stand apart.
    With --predict, the same from one process and one collective: T(N) = T_load + T_comp(B/N) + T_sync(N, bytes).

    \b
    Examples:
      distify bench train.py
      distify bench train.py -np 1,2,4 -- --batch-size 256
      distify bench train_dist.py -np 1,2 --plot steps.svg
      distify bench train.py --predict 8,16 --bandwidth 100Gbit --latency 10us
      distify bench train.py -np 1,2,4 --weak --json > bench.json
      distify bench train.py -np 2 --trace traces/

    \b
    Exit codes: 0 done, 2 bad input, or the script fails or takes too few steps, 3 it cannot be converted.
    """
    ranks = sorted({1, *numbers_of("-np", given["ranks"])})
    predict = numbers_of("--predict", given["predict"])
    bandwidth = bandwidth_of(given["bandwidth"]) if given["bandwidth"] else None
    latency = latency_of(given["latency"]) if given["latency"] else None
    if (bandwidth is not None or latency is not None) and not predict:
        predict = [2 * max(ranks), 4 * max(ranks)]  # between ranks that are here, they are measured
    if picture := given["picture"]:
        from distify.verification.plotting import check_plot

        check_plot(picture)
    if (traces := given["traces"]) and os.path.exists(traces) and not os.path.isdir(traces):
        raise DistifyError(f"{traces}: is no folder")
    check_room(max(ranks), given["oversubscribe"])
    chosen = {name: given[name] for name in ("backend", "strategy", "models", "train_loaders", "budget")}
    options = options_for(path, **chosen)
    pair = find_converted(path, replace(options, scale="linear") if given["weak"] else options)
    if pair.needs_person:
        ctx.exit(say_why_not(path, pair, "bench"))
    # Here, not above: they bring torch's launcher, which `--help` has no use for.
    from distify.bench.benching import Asked, benched
    from distify.bench.reporting import put_json, put_report

    weak = given["weak"] or options.scale != "global"
    asked = Asked(
        ranks, predict, given["steps"], given["warm_up"], ctx.obj, given["timeout"], weak, bandwidth, latency,
        traces or "", options.backend == "horovod",
    )  # fmt: skip
    report = benched(pair, asked)
    if picture:
        from distify.bench.drawing import draw

        draw(report, picture)
    (put_json if given["as_json"] else put_report)(report)
    ctx.exit(ExitCode.DONE)


def numbers_of(option: str, text: str) -> Sequence[int]:
    """`1,2,4`. Raises DistifyError for what is no list of numbers of ranks."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise DistifyError(f"{option} {text}: numbers of ranks are wanted, like 1,2,4")
    return sorted({int(word) for word in words})
