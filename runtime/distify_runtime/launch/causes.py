"""What the signs of a failure mean, in a sentence, and what to do next: one table."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """`sign`: what is found in an error's message. `means` is what is said of it."""

    sign: re.Pattern[str]
    means: str


def _cause(sign: str, means: str) -> Cause:
    return Cause(re.compile(sign), means)


_MEMORY = (
    "this machine's memory is full: fewer ranks on it (-np), fewer workers of loaders (num_workers), or smaller batches"
)
_SHARED_MEMORY = (
    "/dev/shm is full, which workers of loaders and NCCL need: fewer workers (num_workers), or more of it "
    "(docker run --shm-size=8g, or --ipc=host)"
)
_NO_GPU = (
    "the script asks for a GPU that this rank does not see: `distify doctor` shows those that there are; "
    "CUDA_VISIBLE_DEVICES may hide some, and there is at most one rank for each (-np)"
)
#: The first that matches counts: the special stand before the general.
CAUSES = (
    _cause(
        r"(?:CUDA|HIP|XPU|MPS backend) (?:error: )?out of memory|CUBLAS_STATUS_ALLOC_FAILED",
        "this GPU's memory is full: smaller batches, or gradients accumulated over several; `nvidia-smi` shows whether "
        "another process has some of it",
    ),
    _cause(
        r"insufficient shared memory|[Bb]us error|/dev/shm|torch_\d+_\d+_\d+>?.*No space left on device"
        r"|unable to (?:allocate|open|mmap|write).*shared memory",
        _SHARED_MEMORY,
    ),
    _cause(r"DataLoader worker .* is killed by signal: Killed", _MEMORY),
    _cause(r"DefaultCPUAllocator|Cannot allocate memory|std::bad_alloc|^MemoryError|ArrayMemoryError", _MEMORY),
    _cause(
        r"Duplicate GPU detected|ncclInvalidUsage",
        "two ranks are on one GPU, or one was moved to another than its own: at most one rank for each GPU (-np), and "
        "every rank has to see all of them",
    ),
    _cause(
        r"ncclSystemError",
        "NCCL cannot reach the other ranks: --env NCCL_SOCKET_IFNAME=NAME says over which network; "
        "--env NCCL_DEBUG=INFO has it tell what it tries",
    ),
    _cause(
        r"ncclUnhandledCudaError|ncclInternalError|NCCL error",
        "NCCL failed at a GPU or its driver: --env NCCL_DEBUG=INFO has it tell at what; too little of /dev/shm, and "
        "different versions of torch on the machines, are usual reasons",
    ),
    _cause(
        r"EADDRINUSE|[Aa]ddress already in use",
        "the port that ranks meet at is taken, by an earlier run that goes on or by another program: `ss -ltnp` shows "
        "by which; or take another (--rdzv-endpoint HOST:PORT, MASTER_PORT)",
    ),
    _cause(r"invalid device ordinal|No CUDA GPUs are available|CUDA-capable device|[Nn]o NVIDIA driver", _NO_GPU),
    _cause(r"Attempting to deserialize object on (?:a )?CUDA device", _NO_GPU),
    _cause(
        r"Torch not compiled with CUDA enabled",
        "the script asks for a GPU, and this torch is one for CPUs: `distify doctor` says which to install",
    ),
    _cause(
        r"Distributed package doesn't have",
        "this torch was built without what ranks speak over: a torch from pip has it; see `distify doctor`",
    ),
    _cause(
        r"CUDA driver version is insufficient|driver on your system is too old",
        "the GPU's driver is older than what this torch was built for: a newer driver, or a torch for an older CUDA",
    ),
    _cause(
        r"Unable to find (?:address for|interface)|[Uu]nable to resolve hostname|Name or service not known"
        r"|Temporary failure in name resolution",
        "a machine's name or network is not found: GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME (--env) name the network "
        "interface; `distify doctor` lists them",
    ),
    _cause(
        r"client socket has (?:timed out|failed to connect)|RendezvousTimeoutError",
        "not all machines have come to where ranks meet: are all started, with one --rdzv-endpoint, and is its port "
        "open to the others?",
    ),
    _cause(
        r"No space left on device|Disk quota exceeded|PytorchStreamWriter failed writing file|unexpected pos \d+ vs",
        "the disk is full, or a quota used up (`df -h`, `quota`); checkpoints that were there are whole. One that is "
        "written anew takes room beside the old one for as long (DISTIFY_SAVE=plain: it does not)",
    ),
    _cause(
        r"Too many open files|received \d+ items of ancdata",
        "a process may not open as many files as it does: `ulimit -n 65535` before the start, or fewer workers of "
        "loaders (num_workers)",
    ),
)  # fmt: skip
#: Of signals that say what went wrong.
SIGNALS: dict[int, str] = {
    signal.SIGKILL: "the system kills a process with SIGKILL where memory is full (`dmesg`, or the job's own log, says "
    f"so): if it was that, {_MEMORY.partition(': ')[2]}",
    signal.SIGBUS: _SHARED_MEMORY,
}


def cause_of(code: int, said: Sequence[str]) -> str:
    """The sentence for an exit code (negative: a signal) and the lines of an error's message; "" for neither."""
    found = (cause.means for cause in CAUSES if any(cause.sign.search(line) for line in said))
    return SIGNALS.get(-code) or next(found, "")
