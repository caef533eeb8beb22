"""Models are moved and cast as on a machine with a GPU, where there is none: there `.to(device)` changes nothing.

What torch does when the device or the type of a parameter changes is to give it another node that adds up its gradient.
Hooks of the node that it had, as those of DistributedDataParallel, stay with that: each rank trains on alone. So here a
parameter gets another node where it would on a GPU: when it is moved for the first time, or back and forth, and when it
is cast to or from the type in which everything is computed here. Its values stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from distify_runtime.patching import wrap

_MADE = "where it was made"
_MOVED = "on the device"
#: What is said of a parameter that nobody has cast.
_USUAL = torch.float32


def move_as_on_a_gpu() -> None:
    places: Any = WeakIdKeyDictionary()  # of each parameter: where it would be, and of which type

    def moved(device: str | None, dtype: torch.dtype | None) -> Callable[..., Any]:
        def move(original: Any, self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            _place(self, places, device, dtype)
            return original(self, *args, **kwargs)

        return move

    def to(original: Any, self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():  # as the script says it, not as it is computed
            device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        _place(self, places, None if device is None else _MOVED, dtype)
        return original(self, *args, **kwargs)

    wrap(nn.Module, "to", to)
    wrap(nn.Module, "cpu", moved(_MADE, None))
    for name, dtype in (("float", torch.float32), ("double", torch.float64), ("half", torch.float16),
                        ("bfloat16", torch.bfloat16)):  # fmt: skip
        wrap(nn.Module, name, moved(None, dtype))


def _place(module: nn.Module, places: Any, device: str | None, dtype: torch.dtype | None) -> None:
    for parameter in module.parameters():
        before = places.get(parameter, (_MADE, _USUAL))
        after = device or before[0], dtype or before[1]
        if after == before:
            continue
        places[parameter] = after
        if parameter.layout == torch.strided and parameter.is_floating_point():
            _give_another_node(parameter)


def _give_another_node(parameter: nn.Parameter) -> None:
    data = parameter.data
    other = torch.float16 if data.dtype != torch.float16 else torch.float32
    parameter.data = torch.empty(0, dtype=other, device=data.device)
    parameter.data = data
