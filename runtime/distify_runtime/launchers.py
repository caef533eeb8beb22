"""What each launcher tells the processes that it starts, and where they find each other. No torch here.

One script runs under all of them: what is found is put into torchrun's terms (RANK, LOCAL_RANK, WORLD_SIZE,
LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT), which torch and other libraries read. Spark and Ray set these by
themselves.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from distify_runtime.addresses import LOOPBACK_INTERFACE, first_host, interface_of, local_address

#: Ports that ranks meet at where none is given: below those that systems deal out by themselves.
PORTS = range(20_000, 32_000)
#: Set in ranks that `distify run` has started without an engine.
LAUNCHED_BY = "DISTIFY_LAUNCHED_BY"
#: Said before the start, or by ranks.
NO_NCCL = (
    "this torch was built without NCCL, over which GPUs speak: a torch for CUDA from pip has it; "
    "or CUDA_VISIBLE_DEVICES='' to train on the CPU"
)
#: Set by what starts ranks in torchrun's terms, whoever has started that.
_MEANT = ("TORCHELASTIC_RUN_ID", LAUNCHED_BY)


def usable() -> list[int]:
    """The CPU cores that this process may run on; a container's or batch job's share, not the whole machine."""
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def usable_cores() -> int:
    """How many these are."""
    return len(usable())


@dataclass(frozen=True)
class Launch:
    """One process's place among those that were started together."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1


@dataclass(frozen=True)
class Launcher:
    """A launcher, and the variables that say who a process is, and of how many, in all and on its node."""

    name: str
    rank: str
    local_rank: str
    world_size: str
    local_world_size: str
    only_with: str = ""  # without this variable the others are not those of a rank

    def claims(self, environ: Mapping[str, str]) -> bool:
        """Whether it has started this process as one of several."""
        several = environ.get(self.world_size, "1") not in ("0", "1")
        return several and (not self.only_with or self.only_with in environ)


TORCHRUN = Launcher("torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
HOROVODRUN = Launcher("horovodrun", "HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE")
OPEN_MPI = Launcher(
    "mpirun",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
)
#: MPICH and Intel MPI.
HYDRA = Launcher("mpiexec", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS", only_with="MPI_LOCALRANKID")
#: The script of a batch job has the numbers too, but is no step: nobody else is started with it.
SLURM = Launcher(
    "srun", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_ID"
)
#: The innermost first: MPI's own are started by srun, where there is Slurm, and are those that start ranks.
LAUNCHERS = (OPEN_MPI, HYDRA, SLURM)


def read_launch(environ: Mapping[str, str]) -> Launch:
    """The launch as the environment describes it; a world of one under plain `python`.

    Raises SystemExit where the environment is half set, cannot be, or says two things: N processes that each believe to
    be alone would train N times the same model, and those that wait for a rank that nobody is wait for ever.
    """
    others = [launcher for launcher in LAUNCHERS if launcher.claims(environ)]
    _refuse_changed(environ)
    if TORCHRUN.world_size in environ or TORCHRUN.rank in environ:
        found = _of_torchrun(environ)
        if others and not any(name in environ for name in _MEANT):
            _refuse_contradiction(found, launch_of(others[0], environ), others[0], environ)
        return found
    if not others:
        if HOROVODRUN.claims(environ):
            count, name = environ[HOROVODRUN.world_size], HOROVODRUN.world_size
            raise SystemExit(
                f"distify: the {count} processes that horovodrun started ({name}) cannot find each other: the script "
                "does not import horovod.torch; start it with torchrun or distify run"
            )
        _refuse_half_set(environ)
        return Launch()
    return launch_of(others[0], environ)


def in_torchruns_terms(launch: Launch, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that are still to be set, so that torch finds the other ranks."""
    if launch.world_size == 1:
        return {}
    if TORCHRUN.world_size in environ:
        if missing := [name for name in ("MASTER_ADDR", "MASTER_PORT") if not environ.get(name)]:
            raise SystemExit(
                f"distify: {_said(environ, TORCHRUN.rank, TORCHRUN.world_size)}, but {' and '.join(missing)} "
                f"{'are' if len(missing) > 1 else 'is'} not set: ranks do not know where to meet; give all of them "
                "rank 0's host and a free port of it, or start the script with torchrun or distify run"
            )
        return {}
    numbers = (launch.rank, launch.local_rank, launch.world_size, launch.local_world_size)
    names = (TORCHRUN.rank, TORCHRUN.local_rank, TORCHRUN.world_size, TORCHRUN.local_world_size)
    found = {name: str(number) for name, number in zip(names, numbers, strict=True)}
    port = PORTS[zlib.crc32(_job(environ).encode()) % len(PORTS)]
    found |= {"MASTER_ADDR": _address(launch, environ), "MASTER_PORT": environ.get("MASTER_PORT", str(port))}
    interface = environ.get("GLOO_SOCKET_IFNAME") or _interface(launch, found["MASTER_ADDR"])
    return found | ({"GLOO_SOCKET_IFNAME": interface} if interface else {})


def _interface(launch: Launch, address: str) -> str:
    """Where Gloo is to listen; "" for the address of this host's own name, which need not be one that others reach."""
    if launch.local_world_size == launch.world_size:
        return LOOPBACK_INTERFACE
    here = local_address(address, 1)
    is_loopback = here.startswith("127.") and not address.startswith(("127.", "localhost"))
    return "" if is_loopback else interface_of(here)


def _refuse_changed(environ: Mapping[str, str]) -> None:
    """Raises SystemExit where a script has set what its launcher said: ranks would train apart, each as if alone.

    torchrun says twice who a rank is, the second time among those of its role: of which its world may have several.
    """
    rank, world_size = environ.get("ROLE_RANK"), environ.get("ROLE_WORLD_SIZE", "")
    now = environ.get(TORCHRUN.rank), environ.get(TORCHRUN.world_size, "")
    if rank is None or not world_size.isdecimal() or (now[1].isdecimal() and int(now[1]) > int(world_size)):
        return
    if now != (rank, world_size):
        raise SystemExit(
            f"distify: the script has changed by what its launcher tells ranks who they are: RANK={rank} "
            f"WORLD_SIZE={world_size}, and now {_said(environ, TORCHRUN.rank, TORCHRUN.world_size) or 'neither'}: take "
            "that out of it"
        )


def _of_torchrun(environ: Mapping[str, str]) -> Launch:
    if environ.get(TORCHRUN.world_size) == "1":
        alone = ("", "0", "-1")  # -1: as scripts say that they are not distributed
        if any(environ.get(name, "") not in alone for name in (TORCHRUN.rank, TORCHRUN.local_rank)):
            _refuse_impossible(environ, TORCHRUN.rank, TORCHRUN.local_rank, TORCHRUN.world_size)
        return Launch()
    world_size = _read(environ, TORCHRUN.world_size)
    found = Launch(
        rank=_read(environ, TORCHRUN.rank),
        local_rank=_read(environ, TORCHRUN.local_rank),
        world_size=world_size,
        local_world_size=_read(environ, TORCHRUN.local_world_size, default=world_size),
    )
    return _checked(found, TORCHRUN, environ)


def launch_of(launcher: Launcher, environ: Mapping[str, str]) -> Launch:
    """What this launcher says."""
    here = _tasks_of_node(environ) if launcher is SLURM else _read(environ, launcher.local_world_size)
    rank, local_rank, world_size = (launcher.rank, launcher.local_rank, launcher.world_size)
    found = Launch(_read(environ, rank), _read(environ, local_rank), _read(environ, world_size), here)
    return _checked(found, launcher, environ)


def _checked(found: Launch, launcher: Launcher, environ: Mapping[str, str]) -> Launch:
    """Raises SystemExit for a place that there is not."""
    if found.rank >= found.world_size:
        _refuse_impossible(environ, launcher.rank, launcher.world_size)
    if found.local_world_size > found.world_size:
        _refuse_impossible(environ, launcher.local_world_size, launcher.world_size)
    if found.local_rank >= found.local_world_size:
        _refuse_impossible(environ, launcher.local_rank, launcher.local_world_size, launcher.world_size)
    return found


def _refuse_impossible(environ: Mapping[str, str], *names: str) -> NoReturn:
    raise SystemExit(
        f"distify: {_said(environ, *names)} cannot be: ranks are counted from 0, and those of a machine are some of "
        "them all; start the script with torchrun or distify run"
    )


def _refuse_half_set(environ: Mapping[str, str]) -> None:
    """Where a process seems to be alone: what only one of several is told is told to it."""
    if environ.get(HYDRA.world_size, "1") not in ("0", "1"):
        raise SystemExit(
            f"distify: {_said(environ, HYDRA.rank, HYDRA.world_size)}, but {HYDRA.local_rank} is not set: which of its "
            "machine's ranks is this? Set RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, "
            "or start the script with distify run"
        )
    for launcher in (*LAUNCHERS, HOROVODRUN):
        if environ.get(launcher.rank, "0") not in ("", "0") and launcher.world_size not in environ:
            raise SystemExit(
                f"distify: {_said(environ, launcher.rank)}, but {launcher.world_size} is not set: of how many ranks is "
                f"this one? Start the script with {launcher.name} or distify run, or unset {launcher.rank}"
            )
    told = environ.get(TORCHRUN.local_rank, "") not in ("", "0", "-1")
    if told or environ.get(TORCHRUN.local_world_size, "") not in ("", "0", "1"):
        name = TORCHRUN.local_rank if told else TORCHRUN.local_world_size
        raise SystemExit(
            f"distify: {_said(environ, name)}, but {TORCHRUN.rank} and {TORCHRUN.world_size} are not set: start the "
            "script with torchrun or distify run"
        )


def _said(environ: Mapping[str, str], *names: str) -> str:
    """`RANK=1 WORLD_SIZE=2`, of those that are set."""
    return " ".join(f"{name}={environ[name]}" for name in names if name in environ)


def _tasks_of_node(environ: Mapping[str, str]) -> int:
    """Slurm's "2(x3),1": two tasks on each of the first three nodes, one on the fourth."""
    counts: list[int] = []
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", environ.get(SLURM.local_world_size, "")):
        counts += [int(count)] * int(times or 1)
    node = _read(environ, "SLURM_NODEID")
    if node >= len(counts):
        found = environ.get(SLURM.local_world_size)
        raise SystemExit(f"distify: {SLURM.local_world_size} is {found!r}, and SLURM_NODEID is {node}")
    return counts[node]


def _refuse_contradiction(found: Launch, other: Launch, launcher: Launcher, environ: Mapping[str, str]) -> None:
    """A launcher that is started by another, on each machine once, has more processes than that, or the same."""
    is_inside = found.world_size > other.world_size and other.local_world_size == 1
    if is_inside or (found.world_size, found.rank) == (other.world_size, other.rank):
        return
    raise SystemExit(
        f"distify: {_said(environ, TORCHRUN.rank, TORCHRUN.world_size)} contradicts what {launcher.name} says, "
        f"{_said(environ, launcher.rank, launcher.world_size)}: unset RANK, LOCAL_RANK, WORLD_SIZE and "
        f"LOCAL_WORLD_SIZE for {launcher.name}"
    )


def _address(launch: Launch, environ: Mapping[str, str]) -> str:
    """Where rank 0 is."""
    if given := environ.get("MASTER_ADDR"):
        return given
    if launch.local_world_size == launch.world_size:
        return "127.0.0.1"
    why = ""
    if SLURM.claims(environ) and (nodes := environ.get("SLURM_STEP_NODELIST")):
        host = first_host(nodes)
        with contextlib.suppress(OSError):
            socket.getaddrinfo(host, None)
            return host
        why = f" (nobody knows the address of {host}, the first of SLURM_STEP_NODELIST)"
    raise SystemExit(
        f"distify: rank {launch.rank} does not know where rank 0 is{why}: give all ranks MASTER_ADDR, its host, "
        "and MASTER_PORT, a free port of it (mpirun -x MASTER_ADDR=… -x MASTER_PORT=…, mpiexec -genv MASTER_ADDR …)"
    )


def _job(environ: Mapping[str, str]) -> str:
    """What processes that were started together have in common, and others do not."""
    names = ("PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID")
    told = [environ[name] for name in names if name in environ]
    return " ".join(told) or str(_first_ancestor_that_is_no_rank())


def _first_ancestor_that_is_no_rank() -> int:
    """The process that has started this node's ranks, through whatever shells."""
    process = os.getppid()
    for parent in ancestors(process):
        variables = variables_of(parent)
        if not variables:
            return process
        if not any(one.startswith(launcher.rank.encode() + b"=") for launcher in LAUNCHERS for one in variables):
            return parent
    return process


def variables_of(process: int) -> list[bytes]:
    """The environment that a process was started with, NAME=VALUE each; [] for that of another user (Linux)."""
    try:
        return Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def ancestors(process: int) -> Iterator[int]:
    """The process itself, the one that has started it, and so on (Linux)."""
    while process > 1:
        yield process
        try:
            status = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            return
        process = int(status.rpartition(")")[2].split()[1])


def _read(environ: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environ.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal():
        state = "is not set" if text is None else f"is {text!r}, not a number"
        raise SystemExit(f"distify: {name} {state}: start the script with torchrun or distify run")
    return int(text)
