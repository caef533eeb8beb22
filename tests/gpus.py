"""Where the ranks of tests compute: on CPUs, and with DISTIFY_TESTS_ON=cuda on GPUs, over NCCL.

Each rank has a GPU of its own where there are as many; else all have the first. NCCL refuses two ranks of one host on
one GPU, so that each then believes that it has a host to itself.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

ON_GPUS = os.environ.get("DISTIFY_TESTS_ON") == "cuda"
on_gpus = pytest.mark.skipif(not ON_GPUS, reason="asks for DISTIFY_TESTS_ON=cuda and a GPU")
#: Asks NVML how many there are, since a process that has asked CUDA cannot be forked.
_ASKED_OF_NVML = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


def spread(worlds: list[dict[str, str]]) -> list[dict[str, str]]:
    """The environments of ranks of one machine, as they are for its GPUs."""
    if not ON_GPUS:
        return worlds
    os.environ.update(_ASKED_OF_NVML)
    shares = len(worlds) > torch.cuda.device_count()
    return [{**one, **(_alone(rank) if shares else {})} for rank, one in enumerate(worlds)]


def environment() -> dict[str, str]:
    """What is to be added to that of a rank that would else see no GPU."""
    return {**_ASKED_OF_NVML, "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0")} if ON_GPUS else {}


def on_cpus_only(reason: str) -> pytest.MarkDecorator:
    """What holds of CPUs."""
    return pytest.mark.skipif(ON_GPUS, reason=reason)


def compute_there() -> None:
    """From here on, what this process makes lies on its GPU, also what generators that it makes draw."""
    if ON_GPUS:
        torch.set_default_device("cuda")
        vars(torch)["Generator"] = _Generator


class _Generator(torch.Generator):
    def __new__(cls, device: Any = "cuda") -> _Generator:
        return super().__new__(cls, device)


def _alone(rank: int) -> dict[str, str]:
    return {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "NCCL_HOSTID": f"host{rank}", "NCCL_SOCKET_IFNAME": "lo"}
