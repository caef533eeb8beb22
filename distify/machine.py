"""What this machine has for distributed training, found without training anything."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from distify_runtime.launchers import usable_cores

OLDEST_TORCH = (2, 4)
SECONDS = 60
#: Asked of a process of its own, so that a broken torch, driver or network costs an answer and not the command.
_ASK_TORCH = """
import json, sys, torch, torch.distributed as dist
found = {"version": torch.__version__, "cuda": torch.version.cuda, "gloo": False, "nccl": False, "mpi": False}
if dist.is_available():
    found |= {"gloo": dist.is_gloo_available(), "nccl": dist.is_nccl_available(), "mpi": dist.is_mpi_available()}
gpus = range(torch.cuda.device_count())
found["gpus"] = [[torch.cuda.get_device_name(n), torch.cuda.get_device_properties(n).total_memory] for n in gpus]
print(json.dumps(found))
"""
_ASK_GLOO = """
import torch, torch.distributed as dist
from torch._C._distributed_c10d import HashStore
dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.zeros(1))
dist.destroy_process_group()
"""
_ASK_HOROVOD = """
import json, horovod, horovod.torch as hvd
built = [name for name in ("gloo", "mpi", "nccl") if getattr(hvd, f"{name}_built")()]
print(json.dumps([horovod.__version__, built]))
"""
_PROGRAMS = {
    "mpirun": "only to start ranks over MPI: apt install openmpi-bin",
    "mpiexec": "only to start ranks over MPI: apt install mpich, or openmpi-bin",
    "srun": "only on clusters with Slurm",
    "sbatch": "only to hand in jobs for Slurm: distify run --launcher slurm --submit",
    "kubectl": "only to hand in jobs for Kubernetes, which distify run --launcher k8s writes",
    "horovodrun": "only for the backend horovod: it comes with Horovod",
}
_OPTIONAL = {
    "pyspark": "only for --launcher spark: pip install 'distify[spark]'",
    "ray": "only for --launcher ray: pip install 'distify[ray]'",
    "nbformat": "only to convert notebooks: pip install nbformat",
}


@dataclass(frozen=True)
class Item:
    """`state`: "ok", "missing" (training needs it) or "absent" (it can do without). `advice`: what to do about it."""

    name: str
    state: str
    text: str
    advice: str = ""


def examine() -> Iterator[Item]:
    """One item after the other, as each is found out."""
    yield _python()
    torch = _ask(_ASK_TORCH) if importlib.util.find_spec("torch") else "it is not installed"
    yield _torch(torch)
    yield Item("processors", "ok", f"{usable_cores()} cores, {platform.machine()}")
    if isinstance(torch, dict):
        yield from _devices(torch)
        yield from _backends(torch)
        yield Item("torchrun", "ok", "comes with torch; `distify run` starts it")
    yield from programs()
    yield _horovod()
    for name, advice in _OPTIONAL.items():
        version = _version(name)
        yield Item(name, "ok", version) if version else Item(name, "absent", "not installed", advice)
    if os.name != "nt":  # where `distify run` does not start anything
        from distify.limits import limits

        yield from limits()


def programs() -> Iterator[Item]:
    """What starts ranks, or hands jobs in, and what that needs."""
    for name, advice in _PROGRAMS.items():
        path = shutil.which(name)
        yield Item(name, "ok", path) if path else Item(name, "absent", "not found", advice)
    java = os.environ.get("JAVA_HOME") or shutil.which("java")  # as Spark looks for it
    advice = "only for Spark: apt install default-jre-headless"
    yield Item("Java", "ok", java) if java else Item("Java", "absent", "not found", advice)


def _python() -> Item:
    return Item("Python", "ok", f"{platform.python_version()}, {sys.executable}")


def _torch(found: Any) -> Item:
    if isinstance(found, str):
        return Item("torch", "missing", found, f"{sys.executable} -m pip install torch")
    version = tuple(int(part) for part in found["version"].split(".")[:2])
    built = f"for CUDA {found['cuda']}" if found["cuda"] else "for CPUs"
    if version < OLDEST_TORCH:
        wanted = ".".join(map(str, OLDEST_TORCH))
        return Item("torch", "missing", f"{found['version']}, {built}", f"pip install 'torch>={wanted}'")
    return Item("torch", "ok", f"{found['version']}, {built}")


def _devices(torch: Any) -> Iterator[Item]:
    gpus = torch["gpus"]
    for number, (name, memory) in enumerate(gpus):
        yield Item(f"GPU {number}", "ok", f"{name}, {memory / 2**30:.0f} GiB")
    if gpus:
        return
    if shutil.which("nvidia-smi") or os.path.exists("/dev/nvidiactl"):
        advice = (
            "a torch for CUDA: pip install torch"
            if not torch["cuda"]
            else "does `nvidia-smi` show it? is the driver as new as torch's CUDA?"
        )
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        if hidden is not None and hidden.strip() in ("", "-1"):
            advice = f"CUDA_VISIBLE_DEVICES is {hidden!r}: unset it"
        yield Item("GPU", "missing", "there is an NVIDIA driver, and torch sees no GPU", advice)
    else:
        yield Item("GPU", "absent", "none: ranks train on the CPU, over Gloo")


def _backends(torch: Any) -> Iterator[Item]:
    if not torch["gloo"]:
        yield Item("Gloo", "missing", "torch was built without", "a torch from pip has it")
    else:
        problem = _ask(_ASK_GLOO)
        yield _gloo(problem if isinstance(problem, str) else "")
    if torch["nccl"]:
        yield Item("NCCL", "ok", "available")
    elif torch["gpus"]:
        yield Item("NCCL", "missing", "torch was built without", "a torch for CUDA from pip has it")
    else:
        yield Item("NCCL", "absent", "not in this torch", "only for GPUs")


def _gloo(problem: str) -> Item:
    names = [name for _, name in socket.if_nameindex()]
    set_to = os.environ.get("GLOO_SOCKET_IFNAME")
    where = f"over {set_to} (GLOO_SOCKET_IFNAME)" if set_to else f"over the address of {socket.gethostname()}"
    if not problem:
        return Item("Gloo", "ok", f"works {where}; `distify run` keeps it on this machine")
    candidates = [name for name in names if name != "lo" and not name.startswith(("docker", "veth", "br-", "ifb"))]
    advice = f"export GLOO_SOCKET_IFNAME={(candidates or names or ['eth0'])[0]} (interfaces: {', '.join(names)})"
    return Item("Gloo", "missing", f"cannot listen {where}: {problem}", advice)


def _horovod() -> Item:
    if importlib.util.find_spec("horovod") is None:
        return Item("Horovod", "absent", "not installed", "only for the backend horovod: distify doctor --fix horovod")
    found = _ask(_ASK_HOROVOD)
    if isinstance(found, str):
        return Item(
            "Horovod", "absent", f"does not load: {found}", "build it for this torch: distify doctor --fix horovod"
        )
    version, built = found
    return Item("Horovod", "ok", f"{version}, with {', '.join(built)}")


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _ask(program: str) -> Any:
    """The JSON that a program prints, None where it prints nothing; or as a text the last line of what went wrong."""
    try:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"no answer within {SECONDS} seconds"
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    last = done.stdout.strip().splitlines()[-1:]
    return json.loads(last[0]) if last else None
