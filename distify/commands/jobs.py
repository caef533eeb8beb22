"""What `distify run` is told of jobs that a cluster's scheduler starts, and what becomes of their files."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from distify.errors import DistifyError
from distify.files import Write, check_target, content, write_all
from distify.terminal import ask, can_ask, put, say

if TYPE_CHECKING:
    from distify_runtime.launch import Engine, Job, LaunchConfig, Writer

    from distify.commands.run_options import Options

Command = TypeVar("Command", bound=Callable[..., Any])

OPTIONS = (
    click.option("--nodes", type=click.IntRange(min=1), default=1, metavar="N", help="slurm, k8s: nodes of the job."),
    click.option(
        "--gpus",
        type=click.IntRange(min=0),
        metavar="N",
        help="slurm, k8s: GPUs of each node; 0: none.  [default: one for each rank, if Slurm has any]",
    ),
    click.option("--job-name", metavar="NAME", help="slurm, k8s: the job's name.  [default: the script's]"),
    click.option(
        "--job-file",
        type=click.Path(),
        metavar="FILE",
        help="slurm, k8s: the file that is written.  [default: SCRIPT.sbatch, SCRIPT.k8s.yaml]",
    ),
    click.option("--force", is_flag=True, help="slurm, k8s: overwrite a file that is there and differs."),
    click.option("--sbatch", multiple=True, metavar="OPTION", help="slurm: as in --sbatch=--partition=gpu."),
    click.option("--submit", is_flag=True, help="slurm: give the file to sbatch."),
    click.option("--image", metavar="NAME", help="k8s: what the pods run, with SCRIPT, torch and distify in it."),
    click.option("--namespace", metavar="NAME", help="k8s: where the job is."),
)


def job_options(command: Command) -> Command:
    """Adds them, in this order."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def job_of(engine: Engine, script: str, options: Options) -> Job:
    """What the command line says of the job, if the engine starts one."""
    from distify_runtime import launch as launcher

    if engine.writes is None:
        return launcher.Job()
    each = launcher.ranks_of_nodes(options.wanted, options.nodes)
    launcher.check_variables(options.variables)
    gpus = engine.writes.gpus(each) if options.gpus is None else options.gpus
    launcher.check_gpus_of_node(gpus, each)
    name = launcher.name_of_target(script, options.module)
    if options.job_name is not None:
        name = launcher.name_of_target(options.job_name, module=False)
        if name != options.job_name:
            raise DistifyError(f"--job-name {options.job_name!r}: is no name of a job")
    return launcher.Job(
        name or "train", options.nodes, gpus, options.sbatch, options.image or "", options.namespace or ""
    )


def write_job(config: LaunchConfig, writer: Writer, options: Options) -> None:
    """Shows the job's file; without --dry-run it is written, and with --submit handed in."""
    from distify_runtime.launch import make_folder

    data = os.fsencode(writer.text(config))
    if options.dry_run:
        put(data)
        return
    if options.submit and shutil.which(writer.submit[0]) is None:
        raise DistifyError(f"--submit: {writer.submit[0]} is not on the PATH; without --submit the file is written")
    path = options.job_file or config.job.name + writer.suffix
    is_new = _is_to_be_written(path, data, options.force)
    if writer.keeps_logs:
        make_folder(config.logs)
    if is_new:
        mode_of = __file__ if config.module else config.target
        write_all([Write(path, data, mode_of=path if os.path.exists(path) else mode_of, force=True)])
    put(data)
    command = shlex.join([*writer.submit, path])
    say(f"distify: {path} {'is written' if is_new else 'is there already'}; {command} hands it in")
    if options.submit:
        _submit(writer, path)


def _is_to_be_written(path: str, data: bytes, force: bool) -> bool:
    """Whether it is not there already. Raises DistifyError where something else is, which nobody wants overwritten."""
    check_target(path)
    before = content(path)
    if before is not None and before != data and not force:
        problem = f"{path} is there and differs"
        if not (can_ask() and ask(f"{problem}. Overwrite it?")):
            raise DistifyError(f"{problem}: --force overwrites it, --job-file names another; nothing was written")
    return before != data


def _submit(writer: Writer, path: str) -> None:
    done = subprocess.run([*writer.submit, os.path.abspath(path)], capture_output=True)
    said = os.fsdecode(done.stdout + done.stderr).strip().splitlines()
    if done.returncode:
        why = said[-1] if said else "it does not say why"
        hint = "; --gpus 0 asks for no GPUs" if "(gres)" in why else ""
        raise DistifyError(f"{writer.submit[0]} does not take {path}: {why}{hint}")
    for line in said:
        say(line)
