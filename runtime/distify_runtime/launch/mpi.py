"""The command of mpirun: Open MPI's, or that of MPICH and Intel MPI, which have other words for the same."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from distify_runtime.addresses import first_host, local_address
from distify_runtime.launch.config import (
    LOGS_VARIABLE,
    LaunchConfig,
    LaunchError,
    python_command,
    script_command,
    variables,
)
from distify_runtime.launch.hosts import Hosts
from distify_runtime.launchers import PORTS

#: What a batch system tells of a job's machines: files with a line for each, or for each slot.
_MACHINE_FILES = ("PBS_NODEFILE", "PE_HOSTFILE", "LSB_DJOB_HOSTFILE")
#: What Open MPI is to pass on besides, where it is set.
_PATHS = {"PYTHONPATH"}
#: How long Open MPI waits before it sends SIGTERM, and again before SIGKILL; by itself, one second.
_TIMEOUTS = ("OMPI_MCA_odls_base_sigkill_timeout", "PRTE_MCA_odls_base_sigkill_timeout")
#: What ranks on all machines are told besides.
_SHARED = ("MASTER_ADDR", "MASTER_PORT")


def check_mpirun(environ: Mapping[str, str]) -> None:
    if not _program():
        raise LaunchError("--launcher mpirun: neither mpirun nor mpiexec is on the PATH")


def mpi_is_here(hosts: Hosts, environ: Mapping[str, str]) -> bool:
    """Whether all ranks will be on this machine: mpirun asks the batch system, where it is not told of hosts."""
    if hosts.slots():
        return hosts.is_local
    if environ.get("SLURM_JOB_NUM_NODES", "1") != "1":
        return False
    return all(len(_hosts_in(Path(environ[name]))) <= 1 for name in _MACHINE_FILES if name in environ)


def mpirun(config: LaunchConfig, worker: Sequence[str], scratch: Path) -> list[str]:
    return [*_command(config, (LOGS_VARIABLE,)), *python_command(config.python), *worker]


def plain_mpirun(config: LaunchConfig) -> list[str]:
    return [*_command(config), *script_command(config)]


def mpi_variables(config: LaunchConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """What ranks on several machines are to be told: no MPI says where rank 0 is. And how long they have to end."""
    if config.here:
        return {}
    told = {"MASTER_ADDR": environ.get("MASTER_ADDR") or _first_host(config.hosts, environ)}
    told |= {"MASTER_PORT": environ.get("MASTER_PORT") or str(random.choice(PORTS))}
    return told | (dict.fromkeys(_TIMEOUTS, str(max(1, int(config.grace / 2)))) if _is_open_mpi(_program()) else {})


def _first_host(hosts: Hosts, environ: Mapping[str, str]) -> str:
    """Where rank 0 will be, by a name that the others know."""
    first, *others = dict(hosts.slots()) or _hosts_of_job(environ)
    return local_address(others[0], 1) or first if others and Hosts(first).is_local else first


def _hosts_of_job(environ: Mapping[str, str]) -> list[str]:
    """Those that the batch system has given to this job, or the first of them."""
    if "SLURM_JOB_NODELIST" in environ:
        return [first_host(environ["SLURM_JOB_NODELIST"])]
    found = (_hosts_in(Path(environ[name])) for name in _MACHINE_FILES if name in environ)
    return next(filter(None, found), ["localhost"])


def _command(config: LaunchConfig, more: tuple[str, ...] = ()) -> list[str]:
    program = _program()
    hosts = ",".join(f"{host}:{count}" for host, count in config.hosts.slots())
    if _is_open_mpi(program):
        words = [program, *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--bind-to", "none"]
        words += ["--host", hosts] if hosts else ["--oversubscribe"]
        exported = () if config.here else (*variables(config, {}), *_SHARED, *more, *_PATHS & os.environ.keys())
        return [*words, *(word for name in exported for word in ("-x", name)), "-np", str(config.nproc)]
    return [program, "-bind-to", "none", *(["-hosts", hosts] if hosts else []), "-np", str(config.nproc)]


def _program() -> str:
    """mpirun; "" where there is none."""
    return shutil.which("mpirun") or shutil.which("mpiexec") or ""


@cache
def _is_open_mpi(program: str) -> bool:
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return re.search(r"Open ?MPI|OpenRTE|PRRTE", told.stdout + told.stderr, re.IGNORECASE) is not None


def _hosts_in(file: Path) -> list[str]:
    """Each host once, in the order of the file."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return list(dict.fromkeys(line.split()[0] for line in lines if line.strip()))
