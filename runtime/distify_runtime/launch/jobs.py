"""Jobs that a cluster's scheduler starts: `distify run` writes their file, and starts nothing itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distify_runtime.launch.config import LaunchConfig

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f/]")


class WrongJob(ValueError):
    """What is wrong with what was said about the job, in a line."""


@dataclass(frozen=True)
class Job:
    """What a job's file says besides the launch. `gpus`: of each node. `options`: of sbatch, as on its command line.

    `image` and `namespace` are of Kubernetes."""

    name: str = "train"
    nodes: int = 1
    gpus: int = 0
    options: tuple[str, ...] = ()
    image: str = ""
    namespace: str = ""


@dataclass(frozen=True)
class Writer:
    """How a file for a scheduler is written.

    text: the launch as that file; raises WrongJob for what it cannot say. suffix: of the file's name. submit: the
    command that takes it, in front of its name. gpus: of the GPUs that ranks are to have, those there may be.
    keeps_logs: whether the job writes into the folder of the logs.
    """

    text: Callable[[LaunchConfig], str]
    suffix: str
    submit: tuple[str, ...]
    gpus: Callable[[int], int] = lambda wanted: wanted
    keeps_logs: bool = False


def ranks_of_nodes(ranks: int | None, nodes: int) -> int:
    """How many ranks there are on each node. Raises WrongJob."""
    if ranks is None:
        raise WrongJob("how many ranks is the job to have, on all its nodes together? -np N")
    if ranks < 1 or ranks % nodes:
        fits = max(1, ranks // nodes) * nodes
        raise WrongJob(f"-np {ranks} --nodes {nodes}: as many ranks on each node are wanted, as with -np {fits}")
    return ranks // nodes


def check_gpus_of_node(gpus: int, ranks: int) -> None:
    """Raises WrongJob where ranks of a node would have to share a GPU, which NCCL refuses in words of its own."""
    if 0 < gpus < ranks:
        raise WrongJob(f"--gpus {gpus}: each node has {ranks} ranks, and each of them needs one; or --gpus 0: none")


def check_variables(pairs: tuple[tuple[str, str], ...]) -> None:
    """Raises WrongJob for what neither a shell nor Kubernetes has as a variable."""
    for name, _ in pairs:
        if not _NAME.fullmatch(name):
            raise WrongJob(f"--env {name}: a variable's name has letters, digits and _, and no digit first")


def name_of_target(target: str, module: bool) -> str:
    """What a job is called if nobody says: the script's name without what is no text in a line."""
    name = target.rpartition(".")[2] if module else Path(target).stem
    return _CONTROL.sub("_", name)
