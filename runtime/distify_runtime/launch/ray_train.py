"""Ray Train's TorchTrainer: on a cluster of Ray's, or on one that is started on this machine and ends with the run."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from distify_runtime.launch.clusters import Ray
from distify_runtime.launch.config import LaunchConfig, LaunchError, asked_variables, python_command
from distify_runtime.launch.elsewhere import launch_elsewhere, quoted

_ADDRESS = re.compile(r"auto|\S+:\d+")

_PROGRAM = """\
import os, subprocess, sys
import ray, torch.distributed as dist
from ray.train import ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
def rank(launch):
    dist.barrier()
    dist.destroy_process_group()
    subprocess.run([sys.executable, *launch["words"]], cwd=launch["folder"], env=os.environ | launch["env"], check=True)
ray.init({address})
launch = {launch}
TorchTrainer(rank, train_loop_config=launch, torch_config=TorchConfig(backend="gloo"),
             scaling_config=ScalingConfig(num_workers={count}, use_gpu={gpus})).fit()"""


def ray_of(address: str | None, environ: Mapping[str, str], count_gpus: Callable[[str], int]) -> Ray:
    """What the command line says of Ray, or RAY_ADDRESS. `count_gpus`: of this machine. Raises LaunchError."""
    found = address or environ.get("RAY_ADDRESS", "")
    if found.startswith("ray://"):
        raise LaunchError(
            f"--address {found}: ranks cannot tell a Ray client how they end; HOST:PORT or auto is wanted"
        )
    if found and found != "local" and not _ADDRESS.fullmatch(found):
        raise LaunchError(f"--address {found}: HOST:PORT of a Ray cluster is wanted, or auto")
    return Ray("", count_gpus(sys.executable) > 0) if found in ("", "local") else Ray(found)


def check_ray() -> None:
    """Raises LaunchError where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise LaunchError("--launcher ray: ray is not installed: pip install 'distify[ray]'")


def ray(config: LaunchConfig, worker: Sequence[str], scratch: Path) -> list[str]:
    asked = {
        "count": config.nproc,
        "address": config.ray.address,
        "gpus": config.ray.gpus,
        "scratch": str(scratch),
        "launch": launch_elsewhere(config),
    }
    return [*python_command(config.python), "-m", "distify_runtime.launch.ray_agent", json.dumps(asked)]


def plain_ray(config: LaunchConfig) -> list[str]:
    """A program, as words of one command."""
    launch = launch_elsewhere(config)
    program = _PROGRAM.format(
        address=quoted(config.ray.address) if config.ray.address else f"num_cpus={config.nproc + 1}",
        launch=quoted({"words": launch["words"], "folder": launch["folder"], "env": asked_variables(config)}),
        count=config.nproc,
        gpus=config.ray.gpus,
    )
    return [*python_command(config.python), "-c", program]
