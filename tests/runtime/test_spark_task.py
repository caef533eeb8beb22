"""Tasks of a Spark cluster that are on one host: their ranks know of each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from distify_runtime.launch.spark_task import local_place

#: A cluster as Spark's is: tasks on two hosts, each in a torchrun of its own, whose store is rank 0's.
CLUSTER = """
import json, os, socket, subprocess, sys
from distify_runtime.launch import ENGINES, Engine, LaunchConfig, launch
from distify_runtime.launch.elsewhere import Elsewhere, launch_elsewhere
from distify_runtime.launch.spark_task import on_a_task
from torch.distributed import TCPStore

HOSTS = ["a", "b", "a"]
TOLD = {"WORLD_SIZE": "3", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "TORCHELASTIC_USE_AGENT_STORE": "True"}

def run(task):
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    env = {**os.environ, **TOLD, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    words = [sys.executable, __file__, "task", json.dumps(task)]
    tasks = [subprocess.Popen(words, env={**env, "RANK": str(rank)}) for rank in range(3)]
    assert not any([one.wait() for one in tasks])

def start(config, worker, scratch):
    return [sys.executable, __file__, "driver", json.dumps(launch_elsewhere(config))]

if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "task":
        socket.gethostname = lambda: HOSTS[int(os.environ["RANK"])]
        on_a_task(json.loads(words[0]))
    elif what == "driver":
        with Elsewhere("127.0.0.1", json.loads(words[0]), 3) as ranks:
            sys.exit(ranks.see_through(lambda: run(ranks.task)))
    else:
        ENGINES["cluster"] = Engine("cluster", frozenset(), start, lambda config: [])
        sys.exit(launch(LaunchConfig("script.py", (), 3, launcher="cluster")))
"""
SCRIPT = """
import os
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
open("told" + os.environ["RANK"], "w").write(" ".join(os.environ[name] for name in names))
"""


def test_ranks_of_one_host_are_told_so(tmp_path: Path) -> None:
    (tmp_path / "cluster.py").write_text(CLUSTER)
    (tmp_path / "script.py").write_text(SCRIPT)
    words = [sys.executable, "cluster.py", "launcher"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"told{rank}").read_text() for rank in range(3)] == ["0 0 3 2", "1 0 3 1", "2 1 3 2"]


def test_each_sees_the_gpus_of_its_host() -> None:
    """What Spark has dealt out, one to each task, is found by the local rank."""
    everyone = [("a", "3"), ("b", "0"), ("a", "1,2")]
    assert [local_place(rank, everyone).get("CUDA_VISIBLE_DEVICES") for rank in range(3)] == ["3,1", None, "3,1"]
    for same in ("", "0,1"):  # none, or all of them for all
        assert "CUDA_VISIBLE_DEVICES" not in local_place(0, [("a", same), ("a", same)])
