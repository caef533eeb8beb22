"""What stands in front of the script on the command line of `distify run`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from distify.errors import DistifyError

if TYPE_CHECKING:
    from distify_runtime.launch import Horovod

Command = TypeVar("Command", bound=Callable[..., Any])

#: Of all engines, and of Horovod; those of clusters and of jobs have modules of their own.
OPTIONS = (
    click.option(
        "-np",
        "--nproc",
        metavar="N",
        help="Ranks to start on this machine, or in all with --hosts, srun, spark, ray and --nodes; auto: one per GPU, "
        "else 1.  [default: auto]",
    ),
    click.option("-m", "--module", is_flag=True, help="SCRIPT is a module's name, as for `python -m`."),
    click.option(
        "--logs",
        "--log-dir",
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="Where rank0.log, rank1.log … go.  [default: a new folder in ./distify_logs]",
    ),
    click.option(
        "--grace",
        type=click.FloatRange(min=0),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="How long ranks have to end, when one failed or on Ctrl-C, before they are killed.",
    ),
    click.option(
        "--watch",
        type=click.Choice(["off", "warn", "on"]),
        help="What becomes of a run whose ranks come apart: ended, told of, or not looked at.  [default: on]",
    ),
    click.option(
        "--hang-timeout",
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        help="How long no rank may get on before the run is ended; 0: for ever.  [default: 300]",
    ),
    click.option(
        "--tee", type=click.Choice(["0", "all"]), default="0", help="all: every rank on the screen, line by line."
    ),
    click.option("--timeout", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS", help="For the whole run."),
    click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable of the ranks' environment."),
    click.option("--max-restarts", type=click.IntRange(min=0), default=0, metavar="K", help="How often to start anew."),
    click.option("--nnodes", metavar="M", help="Machines; A:B for as many of A to B as there are."),
    click.option(
        "--node-rank", type=click.IntRange(min=0), metavar="R", help="This machine's number among them, from 0."
    ),
    click.option("--rdzv-endpoint", metavar="HOST:PORT", help="Where machines meet: a port of machine 0's."),
    click.option(
        "--dry-run",
        is_flag=True,
        help="Print the engine's own command (torchrun's for processes), or the job's file, and start nothing.",
    ),
    click.option("--oversubscribe", is_flag=True, help="Start more ranks than this machine has cores or memory for."),
    click.option(
        "--as-is", is_flag=True, help="Start SCRIPT although it is not converted: each rank trains on its own."
    ),
    click.option(
        "-H", "--hosts", metavar="HOST:N,…", help="mpirun, horovodrun: the machines, and how many ranks each has."
    ),
    click.option(
        "--hostfile", type=click.Path(exists=True, dir_okay=False), help="mpirun, horovodrun: a file with those."
    ),
    click.option("--gloo", "controller", flag_value="gloo", help="Horovod: ranks find each other without MPI."),
    click.option("--mpi", "controller", flag_value="mpi", help="Horovod: mpirun starts the ranks."),
    click.option("--verbose", is_flag=True, help="Horovod: horovodrun says what it does, in its log."),
    click.option(
        "--timeline",
        "--timeline-filename",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Horovod: write down when each collective ran. Costs speed; opens in chrome://tracing or ui.perfetto.dev.",
    ),
    click.option("--network-interface", metavar="NAME", help="Horovod: the interface that ranks speak over."),
)


def run_options(command: Command) -> Command:
    """Adds them, in this order."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class Options:
    """What stands before the script on the command line."""

    nproc: str | None
    module: bool
    logs: Path | None
    grace: float
    watch: str | None
    hang_timeout: float | None
    tee: str
    timeout: float
    env: tuple[str, ...]
    max_restarts: int
    nnodes: str | None
    node_rank: int | None
    rdzv_endpoint: str | None
    dry_run: bool
    oversubscribe: bool
    as_is: bool
    launcher: str
    hosts: str | None
    hostfile: str | None
    controller: str | None
    verbose: bool
    timeline: str | None
    network_interface: str | None
    master: str | None
    conf: tuple[str, ...]
    address: str | None
    nodes: int
    gpus: int | None
    job_name: str | None
    job_file: str | None
    force: bool
    submit: bool
    sbatch: tuple[str, ...]
    image: str | None
    namespace: str | None

    @property
    def wanted(self) -> int | None:
        """The ranks that are asked for; None for one on each GPU."""
        if self.nproc in (None, "auto"):
            return None
        try:
            return int(str(self.nproc))
        except ValueError:
            raise DistifyError(f"-np {self.nproc}: a number of ranks is wanted, or auto") from None

    @property
    def horovodruns(self) -> Horovod:
        """What horovodrun alone is told."""
        from distify_runtime.launch import Horovod

        return Horovod(self.controller or "", self.verbose, self.timeline or "", self.network_interface or "")

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        pairs = [word.partition("=") for word in self.env]
        for name, sign, _ in pairs:
            if not name or not sign:
                raise DistifyError(f"--env {name}: NAME=VALUE is wanted")
        return tuple((name, value) for name, _, value in pairs)
