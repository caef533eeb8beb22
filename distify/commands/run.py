"""`distify run`: launches a converted script on the ranks of this machine."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import click

from distify.errors import DistifyError
from distify.terminal import say


@click.command(
    "run",
    # What stands behind SCRIPT is the script's, however much it looks like an option of ours.
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
)
@click.option("-np", "--nproc", type=int, metavar="N", help="Ranks to start.  [default: one per GPU, else 1]")
@click.option("-m", "--module", is_flag=True, help="SCRIPT is a module's name, as for `python -m`.")
@click.option(
    "--logs",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where rank0.log, rank1.log … go.  [default: a new folder in ./distify_logs]",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long ranks have to end, when one failed or on Ctrl-C, before they are killed.",
)
@click.argument("script")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(
    ctx: click.Context,
    nproc: int | None,
    module: bool,
    logs: Path | None,
    grace: float,
    script: str,
    args: tuple[str, ...],
) -> None:
    """Launch a converted SCRIPT on N ranks of this machine, with torchrun.

    Rank 0 is on the screen, every rank in a log of its own. When a rank fails, all are ended and the
    traceback of the one that failed first is printed last. Options of distify come before SCRIPT; what
    follows SCRIPT is its own.

    \b
    distify run -np 4 train_dist.py --epochs 10
    distify run -np 2 -m pkg.train_dist

    The exit code is 0, that of the first failing rank (128 + signal where a signal killed it), 130 after
    Ctrl-C, or 2 where nothing was started.
    """
    if os.name == "nt":
        raise DistifyError("distify run needs Linux or macOS")
    if importlib.util.find_spec("torch") is None:
        raise DistifyError(f"torch is not installed for {sys.executable}; its torchrun starts the ranks")
    # Here, not above: the runtime package may import torch, which `distify run --help` has no use for.
    from distify_runtime import launch as launcher

    try:
        path = launcher.find_module(script) if module else launcher.find_script(script)
        ranks = rank_count(nproc)
        config = launcher.LaunchConfig(
            script, args, ranks, logs or launcher.fresh_logs(script, module), module=module, grace=grace
        )
        if path is not None and not launcher.looks_distributed(path):
            say(
                f"distify: warning: {path} does not look converted: each rank will train on its own; "
                f"see `distify convert {path}`"
            )
        ctx.exit(launcher.launch(config))
    except launcher.LaunchError as error:
        raise DistifyError(str(error)) from None


def rank_count(wanted: int | None) -> int:
    """The ranks to start: those wanted, if the GPUs suffice; without a wish one per GPU, else one."""
    from distify_runtime.launch import check_gpus, gpu_count

    if wanted is not None and wanted < 1:
        raise DistifyError(f"-np {wanted}: at least one rank is needed")
    if wanted == 1:
        return 1
    gpus = gpu_count(sys.executable)
    if wanted is None:
        return max(1, gpus)
    check_gpus(wanted, gpus)
    return wanted
