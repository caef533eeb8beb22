"""What ranks speak over, by the devices that they have, as torch calls it."""

from __future__ import annotations

import torch
import torch.distributed as dist

from distify_runtime.launchers import NO_NCCL


def backend() -> str:
    """For torch's `init_process_group`. Raises SystemExit where torch was built without it, which torch has long words
    for."""
    has_gpus = torch.cuda.is_available()
    if not dist.is_gloo_available():
        raise SystemExit("distify: this torch was built without Gloo, over which ranks speak: a torch from pip has it")
    if has_gpus and not dist.is_nccl_available():
        raise SystemExit(f"distify: {NO_NCCL}")
    return "cpu:gloo,cuda:nccl" if has_gpus else "gloo"
