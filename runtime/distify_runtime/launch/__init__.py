"""Launches a script on ranks, through an engine (`engines.py`). Imports no torch; Linux and macOS.

    launch(LaunchConfig("train_dist.py", ("--epochs", "3"), nproc=2, logs=fresh_logs("train_dist.py")))

The processes: this one starts the engine, that starts `supervisor.py` once per rank, and that starts the
script. The supervisors report here through a socket, which is how the first failing rank is known. Of ranks on a
cluster's machines (`elsewhere.py`) the supervisors are here, and what they start stands for the script.
"""

from distify_runtime.launch.before import check_start, doubts
from distify_runtime.launch.clusters import Ray, Spark
from distify_runtime.launch.config import Horovod, LaunchConfig, LaunchError
from distify_runtime.launch.engines import ENGINES, Engine, choose_engine, launch_command, plain_command
from distify_runtime.launch.gpus import check_gpus, gpu_count
from distify_runtime.launch.hosts import Hosts
from distify_runtime.launch.jobs import (
    Job,
    Writer,
    WrongJob,
    check_gpus_of_node,
    check_variables,
    name_of_target,
    ranks_of_nodes,
)
from distify_runtime.launch.logs import DEFAULT_FOLDER, fresh_logs, make_folder
from distify_runtime.launch.nodes import WrongNodes, nodes_of
from distify_runtime.launch.ray_train import check_ray, ray_of
from distify_runtime.launch.runner import launch
from distify_runtime.launch.spark import check_spark, spark_of
from distify_runtime.launch.target import find_module, find_script, looks_distributed, own_random_of, uses_horovod

__all__ = [
    "DEFAULT_FOLDER",
    "ENGINES",
    "Engine",
    "Horovod",
    "Hosts",
    "Job",
    "LaunchConfig",
    "LaunchError",
    "Ray",
    "Spark",
    "Writer",
    "WrongJob",
    "WrongNodes",
    "check_gpus",
    "check_gpus_of_node",
    "check_ray",
    "check_spark",
    "check_start",
    "check_variables",
    "choose_engine",
    "doubts",
    "find_module",
    "find_script",
    "fresh_logs",
    "gpu_count",
    "launch",
    "launch_command",
    "looks_distributed",
    "make_folder",
    "name_of_target",
    "nodes_of",
    "own_random_of",
    "plain_command",
    "ranks_of_nodes",
    "ray_of",
    "spark_of",
    "uses_horovod",
]
