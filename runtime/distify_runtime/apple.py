"""Apple's GPU: the script's one process can train on it, a rank cannot."""

from __future__ import annotations

from typing import TypeVar

import torch

from distify_runtime.environment import device
from distify_runtime.meeting import by_itself
from distify_runtime.output import note

T = TypeVar("T", torch.device, bool, str, None)

_said = False


@by_itself
def without_mps(found: T) -> T:
    """`without_mps(torch.backends.mps.is_available())`: what a script is told of the accelerator, whether there is one,
    or how it calls it. On a Mac there is none for ranks, and the device is the CPU; elsewhere it is what was found, and
    where the script calls Apple's by its name, the rank's own device.

    Gloo takes tensors of the CPU and of CUDA: of a model on Apple's GPU, DistributedDataParallel cannot be made, be it
    in a world of one.
    """
    global _said
    if not found:
        return found
    if not torch.backends.mps.is_available():
        return device().type if isinstance(found, str) and found.partition(":")[0] == "mps" else found
    if not _said:
        _said = True
        note("DistributedDataParallel cannot train on Apple's GPU (`mps`): this runs on the CPU")
    if isinstance(found, str):
        return "cpu"
    return torch.device("cpu") if isinstance(found, torch.device) else False
