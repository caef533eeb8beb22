"""A model and its DistributedDataParallel wrapper."""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Any, TypeVar, overload

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from distify_runtime.meeting import by_itself
from distify_runtime.patching import wrap

T = TypeVar("T")


@by_itself
def device_ids(module: nn.Module) -> list[int] | None:
    """For `DistributedDataParallel(module, device_ids=…)`: the one GPU that holds it, None on the CPU.

    Buffers that show the same memory several times, as `expand` and `meshgrid` give them, get memory of their own, here
    and where a forward pass makes them: torch broadcasts into it before each pass.
    """
    _spread_out(module)
    _before_buffers_are_broadcast()
    devices = {parameter.device for parameter in module.parameters()}
    if len(devices) != 1:
        return None
    (device,) = devices
    return None if device.type == "cpu" else [device.index]


def _spread_out(module: nn.Module) -> None:
    for part in module.modules():
        for name, buffer in part._buffers.items():
            if buffer is not None and buffer.layout is torch.strided and _repeats(buffer):
                part._buffers[name] = buffer.clone(memory_format=torch.contiguous_format)


def _repeats(buffer: Tensor) -> bool:
    return any(not step and size > 1 for step, size in zip(buffer.stride(), buffer.shape, strict=True))


@functools.cache
def _before_buffers_are_broadcast() -> None:
    def around(sync: Any, replica: DistributedDataParallel, *args: Any) -> None:
        _spread_out(replica.module)
        sync(replica, *args)

    if hasattr(DistributedDataParallel, "_sync_buffers"):  # torch's own
        wrap(DistributedDataParallel, "_sync_buffers", around)


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
