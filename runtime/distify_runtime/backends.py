"""What ranks speak over, by the devices that they have, as torch calls it."""

from __future__ import annotations

import os

import torch.distributed as dist

from distify_runtime import accelerators
from distify_runtime.launchers import NO_NCCL

#: In the environment: what a CPU's ranks speak over instead of Gloo.
ASKED = "DISTIFY_BACKEND"


def backend() -> str:
    """For torch's `init_process_group`. Raises SystemExit where torch was built without it, which torch has long words
    for.
    """
    kind, on_cpu = accelerators.kind(), _of_the_cpu()
    if not kind:
        return "gloo" if on_cpu == "gloo" else f"cpu:{on_cpu}"  # ranks need torch's store as well, which "mpi" has not
    if kind == "cuda" and not dist.is_nccl_available():
        raise SystemExit(f"distify: {NO_NCCL}")
    return f"cpu:{on_cpu},{kind}:{of_accelerator(kind)}"


def of_accelerator(kind: str) -> str:
    """Raises SystemExit where torch knows of nothing over which such devices speak."""
    known: str | None = dist.Backend.default_device_backend_map.get(kind)
    if known is None:
        raise SystemExit(f"distify: this torch knows nothing over which devices of kind {kind} speak")
    return known


def _of_the_cpu() -> str:
    asked = os.environ.get(ASKED, "gloo")
    if asked not in ("gloo", "mpi"):
        raise SystemExit(f"distify: {ASKED}={asked}: ranks speak over gloo or mpi on CPUs; GPUs have their own")
    if asked == "mpi" and not dist.is_mpi_available():
        raise SystemExit(
            f"distify: {ASKED}=mpi: this torch was built without MPI, as those from pip are; leave it out: mpirun and "
            "srun start ranks that speak over Gloo, too"
        )
    if asked == "gloo" and not dist.is_gloo_available():
        raise SystemExit("distify: this torch was built without Gloo, over which ranks speak: a torch from pip has it")
    return asked
