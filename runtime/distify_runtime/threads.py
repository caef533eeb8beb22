"""With how many threads each rank computes: with as many under every launcher, since sums depend on it.

Cores are shared out among the ranks that may use them: of 16, each of two ranks has eight, whether they are a
machine's, a container's or a job's. Where a launcher has bound ranks to cores of their own, each has as many threads as
those. OMP_NUM_THREADS, where a user has set it, stays.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import torch

from distify_runtime import communicator
from distify_runtime.launchers import ancestors, usable, variables_of

#: What a rank tells the others: its machine, and the cores there that it may use.
Cores = tuple[str, list[int]]


def share_cores() -> None:
    """A collective, whatever the environment says: it may say something else on other machines."""
    everyone: list[Cores] = communicator.all_gather_object((_machine(), usable()))
    if "OMP_NUM_THREADS" not in os.environ or _is_torchruns(os.environ):
        torch.set_num_threads(share_of(everyone[communicator.rank()], everyone))


def share_of(mine: Cores, everyone: Sequence[Cores]) -> int:
    """How many threads one of the ranks has: of a core that k of them may use, a k-th is its own; at least one."""
    here = [set(cores) for machine, cores in everyone if machine == mine[0]]
    whole = sum(Fraction(1, sum(core in cores for cores in here)) for core in mine[1])
    return max(1, int(whole))


def _is_torchruns(environ: Mapping[str, str]) -> bool:
    """Whether nobody but torchrun has set OMP_NUM_THREADS, to 1, as it does for two ranks and more: it had none when it
    was started itself (Linux)."""
    if environ.get("OMP_NUM_THREADS") != "1" or "TORCHELASTIC_RUN_ID" not in environ:
        return False
    for process in ancestors(os.getppid()):
        names = {variable.partition(b"=")[0] for variable in variables_of(process)}
        if b"TORCHELASTIC_RUN_ID" not in names:
            return bool(names) and b"OMP_NUM_THREADS" not in names
    return False


def _machine() -> str:
    """What ranks have in common whose cores are the same: containers of one machine, too."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        return socket.gethostname()
