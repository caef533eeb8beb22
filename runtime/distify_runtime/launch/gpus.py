"""How many GPUs the ranks of this machine can have."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from distify_runtime.launch.config import LaunchError, python_command
from distify_runtime.launchers import NO_NCCL

#: One of these is there wherever torch could find a GPU: NVIDIA, NVIDIA inside WSL, AMD.
GPU_DEVICES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
ASK_TORCH = (
    "import torch, torch.distributed as dist; "
    "print(dist.is_available() and dist.is_nccl_available(), torch.cuda.device_count())"
)
#: CUDA's driver sees what CUDA_VISIBLE_DEVICES leaves of GPUs and their slices, as torch does through it.
ASK_DRIVER = (
    "import ctypes; cuda, count = ctypes.CDLL('libcuda.so.1'), ctypes.c_int(); "
    "print(0 if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) else count.value)"
)


def may_have_gpus() -> bool:
    """Whether asking torch is worth its second."""
    return any(Path(device).exists() for device in GPU_DEVICES) or shutil.which("nvidia-smi") is not None


def ask_torch(python: str) -> int:
    """`torch.cuda.device_count()` of a process of its own: right for every driver, build and MIG slice.

    0 where torch cannot be imported; the ranks will say why. Raises LaunchError where there are some, and no NCCL.
    """
    answer = subprocess.run([*python_command(python), "-c", ASK_TORCH], capture_output=True, text=True, check=False)
    *_, has_nccl, count = ["", "", *answer.stdout.split()]
    found = int(count) if count.isdigit() else 0
    if found and has_nccl == "False":
        raise LaunchError(NO_NCCL)
    return found


def ask_driver(python: str) -> int:
    """As CUDA's driver counts them, without torch's import; 0 where there is none, or it is broken.

    In a process of its own, which a broken one may end.
    """
    words = [*python_command(python), "-S", "-c", ASK_DRIVER]
    answer = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    return int(answer) if answer.isdigit() else 0


def gpu_count(
    python: str,
    environ: Mapping[str, str] = os.environ,
    may_have: Callable[[], bool] = may_have_gpus,
    ask: Callable[[str], int] = ask_torch,
    *,
    suffice: int = 0,
    quick: Callable[[str], int] = ask_driver,
) -> int:
    """GPUs that scripts run by `python` would see; costs a second where there may be some, else nothing.

    Where so many `suffice`, the driver's word is taken for them: the second would be lost at every start. Where it
    counts fewer, torch decides, which may see other GPUs than CUDA's, or none. Whether it has NCCL, ranks find out.
    """
    if environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1") or not may_have():
        return 0
    if suffice and (found := quick(python)) >= suffice:
        return found
    return ask(python)


def check_gpus(nproc: int, gpus: int) -> None:
    """Raises LaunchError where ranks would have to share a GPU, which NCCL refuses in words of its own."""
    if 0 < gpus < nproc:
        noun = "GPU" if gpus == 1 else "GPUs"
        raise LaunchError(
            f"-np {nproc} is more than the {gpus} {noun} of this machine; "
            f"use -np {gpus}, or CUDA_VISIBLE_DEVICES='' to train on the CPU"
        )
