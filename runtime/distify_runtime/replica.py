"""A model and its DistributedDataParallel wrapper."""

from __future__ import annotations

from torch import nn
from torch.nn.parallel import DistributedDataParallel


def device_ids(module: nn.Module) -> list[int] | None:
    """For `DistributedDataParallel(module, device_ids=…)`: the one GPU that holds it, None on the CPU."""
    devices = {parameter.device for parameter in module.parameters()}
    if len(devices) != 1:
        return None
    (device,) = devices
    return [device.index] if device.type == "cuda" else None


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside DistributedDataParallel, also if that was compiled; any other model as it is."""
    eager = getattr(model, "_orig_mod", model)
    return eager.module if isinstance(eager, DistributedDataParallel) else model
