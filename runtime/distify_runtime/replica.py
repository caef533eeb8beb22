"""A model and its DistributedDataParallel wrapper."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, TypeVar, overload

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from distify_runtime.meeting import by_itself

T = TypeVar("T")


@by_itself
def device_ids(module: nn.Module) -> list[int] | None:
    """For `DistributedDataParallel(module, device_ids=…)`: the one GPU that holds it, None on the CPU."""
    devices = {parameter.device for parameter in module.parameters()}
    if len(devices) != 1:
        return None
    (device,) = devices
    return None if device.type == "cpu" else [device.index]


@overload
def unwrap(model: nn.Module) -> nn.Module: ...
@overload
def unwrap(model: T) -> T: ...
@by_itself
def unwrap(model: Any) -> Any:
    """The module inside DistributedDataParallel, also if that was compiled; any other model as it is.

    Of a dictionary, list or tuple a copy, for a file: with the modules inside, and all else as it is.
    """
    if type(model) in (dict, OrderedDict):
        return type(model)((key, unwrap(one)) for key, one in model.items())
    if type(model) in (list, tuple):
        return type(model)(unwrap(one) for one in model)
    eager = getattr(model, "_orig_mod", model)
    return eager.module if isinstance(eager, DistributedDataParallel) else model
