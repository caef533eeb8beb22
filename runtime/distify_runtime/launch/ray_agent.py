"""What `distify run --launcher ray` starts: the driver of Ray Train's job that is the ranks. `sys.argv[1]`: JSON."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from typing import Any

from distify_runtime.addresses import LOOPBACK_INTERFACE
from distify_runtime.launch.elsewhere import Elsewhere, run_rank
from distify_runtime.launchers import LAUNCHED_BY

#: Bytes that are kept for objects of Ray's, of which there are none.
_STORE_BYTES = 100_000_000


def main() -> int:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray  # nothing of Ray's above: it may not be installed
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    asked = json.loads(sys.argv[1])
    _join(asked)
    gpus = asked["gpus"] or _cluster_gpus(asked)
    with Elsewhere(ray.util.get_node_ip_address(), asked["launch"], asked["count"]) as ranks:
        trainer = TorchTrainer(
            on_a_worker,
            train_loop_config=ranks.task,
            torch_config=TorchConfig(backend="gloo"),  # for what the workers tell each other before the ranks start
            scaling_config=ScalingConfig(num_workers=asked["count"], use_gpu=gpus),
            # Nothing is stored, and what Ray keeps of a run is not put into the home folder.
            run_config=RunConfig(storage_path=tempfile.mkdtemp(dir=asked["scratch"])),
        )
        code = ranks.see_through(trainer.fit)
    ray.shutdown()
    return code


def _join(asked: dict[str, Any]) -> None:
    import ray

    if asked["address"]:
        ray.init(asked["address"], log_to_driver=False)
    else:  # a worker is counted as a core, and so is what starts them
        ray.init(
            "local",
            num_cpus=asked["count"] + 1,
            object_store_memory=_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
        )


def _cluster_gpus(asked: dict[str, Any]) -> bool:
    """Whether the cluster that was joined has a GPU for each rank; raises SystemExit where it has too few."""
    import ray

    gpus = int(ray.cluster_resources().get("GPU", 0)) if asked["address"] else 0
    if 0 < gpus < asked["count"]:
        raise SystemExit(f"distify: -np {asked['count']} is more than the {gpus} GPUs of the Ray cluster")
    return gpus > 0


def on_a_worker(task: dict[str, Any]) -> None:
    """Ray's own group has joined the workers; the script's is to be another one, of the processes that run it."""
    from ray.train import get_context

    context = get_context()
    count, here = context.get_world_size(), context.get_local_world_size()
    os.environ |= {
        "RANK": str(context.get_world_rank()),
        "WORLD_SIZE": str(count),
        "LOCAL_RANK": str(context.get_local_rank()),
        "LOCAL_WORLD_SIZE": str(here),
        LAUNCHED_BY: "ray",
    }
    usual = {}
    if here == count:  # a host's own name need not be one that can be listened at
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        usual = {"GLOO_SOCKET_IFNAME": LOOPBACK_INTERFACE, "NCCL_SOCKET_IFNAME": LOOPBACK_INTERFACE}
    if count > 1:
        os.environ["MASTER_PORT"] = _agreed_port()
    run_rank({**task, "usual": {**usual, **task["usual"]}})


def _agreed_port() -> str:
    """One that is free where rank 0 is. Ray's own goes with its group."""
    import torch.distributed as dist

    found = [0]
    if dist.get_rank() == 0:
        with socket.create_server((os.environ["MASTER_ADDR"], 0)) as server:
            found = [server.getsockname()[1]]
    dist.broadcast_object_list(found, 0)
    dist.destroy_process_group()
    return str(found[0])


if __name__ == "__main__":
    sys.exit(main())
