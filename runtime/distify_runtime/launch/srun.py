"""The command of srun, inside an allocation of Slurm's (salloc, sbatch)."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from distify_runtime.launch.agents import Agent, Output, one_process
from distify_runtime.launch.config import LaunchConfig, LaunchError, python_command, script_command
from distify_runtime.launch.hosts import Hosts


def check_srun(environ: Mapping[str, str]) -> None:
    if shutil.which("srun") is None:
        raise LaunchError("--launcher srun: srun is not on the PATH")
    if "SLURM_JOB_ID" not in environ:
        raise LaunchError(
            "--launcher srun: this is no job of Slurm's (there is no SLURM_JOB_ID): salloc or sbatch first"
        )


def slurm_is_here(hosts: Hosts, environ: Mapping[str, str]) -> bool:
    """Whether all ranks will be on this machine: it may be where the job was asked for, and not where it runs."""
    here = (environ.get("SLURMD_NODENAME"), socket.gethostname(), socket.gethostname().partition(".")[0])
    return environ.get("SLURM_JOB_NUM_NODES") == "1" and environ.get("SLURM_JOB_NODELIST") in here


def tasks(environ: Mapping[str, str]) -> int:
    """As many as the job has asked for; 0 where it has not said."""
    return int(environ.get("SLURM_NTASKS", "0"))


class Step(subprocess.Popen[bytes]):
    """srun. Asked to end, it kills its tasks at once: Slurm is asked to pass signals on to them instead."""

    def send_signal(self, sig: int) -> None:
        reached = _reaches_step(sig)
        if sig == signal.SIGKILL or not reached:
            super().send_signal(sig)


def one_step(config: LaunchConfig, argv: Sequence[str], env: Mapping[str, str], output: Output) -> Agent:
    return one_process(config, argv, env, output, Step)


def srun(config: LaunchConfig, worker: Sequence[str], scratch: Path) -> list[str]:
    words = [*step_command(config), f"--job-name={_step_name()}"]
    return [*words, *python_command(config.python), *worker]


def plain_srun(config: LaunchConfig) -> list[str]:
    return [*step_command(config), *script_command(config)]


def step_command(config: LaunchConfig) -> list[str]:
    """What starts the ranks of a job."""
    words = ["srun", f"--ntasks={config.nproc}", "--overcommit", "--kill-on-bad-exit=1", "--input=0", "--unbuffered"]
    cores = os.environ.get("SLURM_CPUS_PER_TASK")  # since Slurm 22.05, srun does not ask for those of its job
    return [*words, "--cpu-bind=none", "--mpi=none", *([f"--cpus-per-task={cores}"] if cores else [])]


def _step_name() -> str:
    return f"distify-{os.getpid()}"


def _reaches_step(number: int) -> bool:
    """Signals all processes of the step that was started here; False where that cannot be done."""
    asked = ["squeue", "--steps", "--noheader", "--format=%i", f"--name={_step_name()}"]
    try:
        steps = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=20).stdout.split()
        words = ["scancel", f"--signal={signal.Signals(number).name.removeprefix('SIG')}", *steps]
        return bool(steps) and subprocess.run(words, capture_output=True, check=False, timeout=20).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
