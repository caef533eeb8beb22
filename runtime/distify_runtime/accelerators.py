"""What a rank computes on besides the CPU: a GPU that `torch.cuda` knows, NVIDIA's or AMD's, else what
`torch.accelerator` says, such as Intel's `xpu`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def kind() -> str:
    """`"cuda"`, `"xpu"` or another as torch calls it; empty where there is none. Apple's GPU is none for ranks."""
    if torch.cuda.is_available():
        return "cuda"
    known: Any = getattr(torch, "accelerator", None)  # not before torch 2.6
    if known is None or not known.is_available():
        return ""
    found: str = known.current_accelerator().type
    return "" if found == "mps" else found


def _module() -> Any:
    """`torch.cuda`, `torch.xpu`; None where there is no accelerator."""
    return getattr(torch, kind(), None) if kind() else None


def count() -> int:
    """How many of them this process sees."""
    module = _module()
    return module.device_count() if module else 0


def is_in_use() -> bool:
    """Whether this process has used one yet."""
    module = _module()
    return bool(module and module.is_initialized())


def bind(device: torch.device) -> None:
    """`device`, if it is no CPU, is what is meant from here on where no number is said."""
    if module := _module():
        module.set_device(device)


def seed(number: int) -> None:
    if module := _module():
        module.manual_seed(number)


def random_state() -> Tensor | None:
    """Where the stream of this rank's own is; None where there is no accelerator."""
    module = _module()
    return module.get_rng_state() if module else None


def set_random_state(state: Tensor | None) -> None:
    """state: what `random_state` has given; None changes nothing."""
    if state is not None and (module := _module()):
        module.set_rng_state(state)


def has(tensor: Tensor) -> bool:
    """Whether the tensor lies on one."""
    return tensor.device.type not in ("cpu", "meta")
