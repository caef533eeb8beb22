"""DistributedDataParallel over NCCL or Gloo, started by torchrun."""

from __future__ import annotations

from distify_codemods.backends.base import Backend

DDP = Backend("ddp", wraps_models=True, averages="DistributedDataParallel",
              headline="sharded data and DistributedDataParallel",
              without_wraps="sharded data, and gradients averaged by a line before each step")  # fmt: skip
