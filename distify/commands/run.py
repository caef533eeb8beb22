"""`distify run`: launches a converted script on the ranks of this machine."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distify.commands.clusters import cluster_options, clusters_of
from distify.commands.jobs import job_of, job_options, write_job
from distify.commands.run_options import Options, run_options
from distify.errors import DistifyError, ExitCode
from distify.given import given_options
from distify.hidden import check_libraries
from distify.room import check_room
from distify.stale import said_if_stale
from distify.terminal import ask, can_ask, say

if TYPE_CHECKING:
    from distify_runtime.launch import Engine, LaunchConfig


@click.command(
    "run",
    # What stands behind SCRIPT is the script's, however much it looks like an option of ours.
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
)
@run_options
@cluster_options
@job_options
@click.argument("script")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(ctx: click.Context, /, script: str, args: tuple[str, ...], **given: Any) -> None:
    """Launch a converted SCRIPT on N ranks of this machine: a process for each, or horovodrun where it uses Horovod.
    With torchrun on each of several machines, started with its number, and where ranks are to start anew.

    Rank 0 is on the screen, every rank in a log of its own. When a rank fails, all are ended and the
    traceback of the one that failed first is printed last. Options of distify come before SCRIPT; what
    follows SCRIPT is its own.

    \b
    distify run -np 4 train_dist.py --epochs 10
    distify run -np 2 -m pkg.train_dist
    distify run -np 4 -H localhost:4 --verbose main_dist.py
    distify run -np 8 -H one:4,two:4 main_dist.py
    distify run -np 8 --launcher mpirun --hosts one:4,two:4 train_dist.py
    distify run --launcher srun train_dist.py
    distify run -np 8 --nnodes 2 --node-rank 0 --rdzv-endpoint node0:29500 train_dist.py
    distify run -np 8 --launcher slurm --nodes 2 --submit train_dist.py
    distify run -np 8 --max-restarts 3 train_dist.py --epochs 90
    distify run -np 8 --dry-run train_dist.py

    A SCRIPT that is not converted, and more ranks than this machine has room for, are asked about at a
    terminal, and errors elsewhere.

    A converted script watches itself: what is the same on all ranks by construction is compared now and then.

    The exit code is 0, that of the first failing rank (128 + signal where a signal killed it), 130 after
    Ctrl-C, 124 after --timeout, or 2 where nothing was started.
    """
    if os.name == "nt":
        raise DistifyError("distify run needs Linux or macOS")
    # Here, not above: the runtime package may import torch, which `distify run --help` has no use for.
    from distify_runtime import launch as launcher

    try:
        options = Options(**given)
        config = configured(ctx, script, args, options)
        if (writer := launcher.ENGINES[config.launcher].writes) is not None:
            write_job(config, writer, options)
            return
        if timeline := given["timeline"]:
            say(f"distify: the timeline costs speed; {timeline} opens in chrome://tracing or ui.perfetto.dev")
        if given["dry_run"]:
            if other := launcher.ENGINES[config.launcher].plain_of:
                say(f"distify: the ranks of one machine are started without an engine; the same with {other}:")
            click.echo(launcher.plain_command(config, os.environ))
            return
        launcher.check_start(config)
        for doubt in launcher.doubts(config):
            say(f"distify: {doubt}")
        ctx.exit(launcher.launch(config))
    except (launcher.LaunchError, launcher.WrongNodes, launcher.WrongJob) as error:
        raise DistifyError(str(error)) from None


def configured(ctx: click.Context, script: str, args: tuple[str, ...], options: Options) -> LaunchConfig:
    """What is to be launched, once it is seen that it can be; asks where that may not be meant."""
    from distify_runtime import launch as launcher

    path = launcher.find_module(script) if options.module else launcher.find_script(script)
    if path is not None:
        if stale := said_if_stale(str(path)):
            say(f"distify: {stale}")
        check_libraries(os.getcwd() if options.module else os.path.dirname(script), path.read_bytes())
    engine = engine_of(ctx, script, path, options.launcher)
    nodes = launcher.nodes_of(options.nnodes, options.node_rank, options.rdzv_endpoint)
    job = job_of(engine, script, options)
    hosts = launcher.Hosts(options.hosts or "", options.hostfile or "")
    clusters = clusters_of(engine.name, options)
    wanted = clusters.wanted
    room = sum(count for _, count in hosts.slots()) or engine.ranks(os.environ)
    here = engine.is_here(hosts, os.environ)
    ranks = rank_count(wanted if wanted is not None else room or None, here=here and clusters.is_here)
    if not here and options.tee == "all":
        raise DistifyError("--tee all: ranks on other machines write their logs there; rank 0 alone is on the screen")
    if here and clusters.is_here:
        check_room(ranks, options.oversubscribe or options.dry_run)
    everywhere = ranks if nodes is None else ranks * 2
    as_is = options.as_is or options.dry_run
    if path is not None and everywhere > 1 and not as_is and not launcher.looks_distributed(path):
        script = converted_first(ctx, script, path, options.module)
    return launcher.LaunchConfig(
        script,
        args,
        ranks,
        options.logs or (launcher.DEFAULT_FOLDER if engine.writes else launcher.fresh_logs(script, options.module)),
        module=options.module,
        grace=options.grace,
        watch=options.watch,
        hang_timeout=options.hang_timeout,
        launcher=engine.name,
        here=here,
        horovod=options.horovodruns,
        spark=clusters.spark,
        ray=clusters.ray,
        hosts=hosts,
        job=job,
        nodes=nodes,
        max_restarts=options.max_restarts,
        env=options.variables,
        timeout=options.timeout,
        tee=options.tee == "all",
    )


def engine_of(ctx: click.Context, script: str, path: Path | None, name: str) -> Engine:
    """The engine that starts the ranks, once it is seen that it can, and can follow the options that are given."""
    from distify_runtime import launch as launcher

    uses_horovod = path is not None and launcher.uses_horovod(path)
    engine = launcher.choose_engine(name, script, uses_horovod, given_options(ctx))
    if uses_horovod:
        from distify.horovod import check_installed  # only here: what builds it takes longer to import than the rest

        check_installed()
    elif importlib.util.find_spec("torch") is None:
        raise DistifyError(f"torch is not installed for {sys.executable}, which the ranks are started with")
    return engine


def converted_first(ctx: click.Context, script: str, path: Path, module: bool) -> str:
    """What to start in place of a script that is not converted: its conversion, if someone wants that.

    Raises DistifyError where nobody can be asked; ends the command where nobody wants it.
    """
    problem = f"{path} is not converted: each rank would train on its own"
    if not can_ask():
        raise DistifyError(f"{problem}; `distify convert {path}` converts it, and --as-is starts it as it is")
    if not ask(f"{problem}. Convert it first?"):
        say("nothing was started; --as-is starts it as it is")
        ctx.exit(ExitCode.BAD_INPUT)
    from distify.commands.convert import convert  # only here: it brings the engine

    code = convert.main([str(path)], prog_name="distify convert", standalone_mode=False)
    target = path.with_name(f"{path.stem}_dist.py")
    if code or not target.exists():
        say("nothing was started")
        ctx.exit(code or ExitCode.BAD_INPUT)
    return f"{script}_dist" if module else str(target)


def rank_count(wanted: int | None, *, here: bool) -> int:
    """The ranks to start: those wanted, if `here` the GPUs suffice; without a wish one per GPU, else one."""
    from distify_runtime.launch import check_gpus, gpu_count

    if wanted is not None and wanted < 1:
        raise DistifyError(f"-np {wanted}: at least one rank is needed")
    if wanted is not None and (wanted == 1 or not here):
        return wanted
    if wanted is None:
        return max(1, gpu_count(sys.executable))
    check_gpus(wanted, gpu_count(sys.executable, suffice=wanted))
    return wanted
