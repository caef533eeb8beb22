"""Reading checkpoints that another rank, or another machine, has written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.serialization import default_restore_location
from torch.types import Storage

from distify_runtime.environment import device
from distify_runtime.meeting import by_itself

_restore: Any = default_restore_location  # torch leaves it untyped


@by_itself
def map_location(storage: Storage, location: str) -> Storage:
    """`torch.load(path, map_location=map_location)`: what was saved from any GPU comes to this rank's device.

    Without it every rank would put its copy on the GPU that wrote the file.
    """
    here = location if location.partition(":")[0] in ("cpu", "meta") else str(device())
    restored: Storage = _restore(storage, here)
    return restored


@by_itself
def strip_module_prefix(state: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint's state dict without the `module.` that nn.DataParallel puts before each key, if any.

    A state dict in which some keys have it and others do not is returned as it is.
    """
    prefix = "module."
    if state and all(key.startswith(prefix) for key in state):
        return {key[len(prefix) :]: value for key, value in state.items()}
    return dict(state)


@by_itself
def add_module_prefix(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict as nn.DataParallel would have made it: `module.` stands before each key."""
    return {f"module.{key}": value for key, value in state.items()}
