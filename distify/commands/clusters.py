"""What `distify run` is told of engines and their clusters."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from distify.errors import DistifyError

if TYPE_CHECKING:
    from distify_runtime.launch import Ray, Spark

    from distify.commands.run_options import Options

Command = TypeVar("Command", bound=Callable[..., Any])

OPTIONS = (
    click.option(
        "--launcher",
        metavar="ENGINE",
        default="auto",
        help="What starts the ranks: processes, torchrun, horovodrun, mpirun, srun, spark or ray; slurm and k8s: "
        "a job's file is written, and nothing started.",
    ),
    click.option("--master", metavar="URL", help="Spark: the cluster, as for spark-submit.  [default: Spark's own]"),
    click.option("--conf", multiple=True, metavar="NAME=VALUE", help="Spark: a line of its configuration."),
    click.option("--address", metavar="HOST:PORT", help="Ray: the cluster, or auto.  [default: one of the run's]"),
)


def cluster_options(command: Command) -> Command:
    """Adds them, in this order."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


class Clusters(NamedTuple):
    """What Spark and Ray are told, and how many ranks are asked for."""

    wanted: int | None
    spark: Spark
    ray: Ray

    @property
    def is_here(self) -> bool:
        """Whether ranks are started on this machine alone."""
        return not self.spark.master and not self.ray.address


def clusters_of(engine: str, options: Options) -> Clusters:
    """What the command line says of them, if the engine is one of theirs."""
    from distify_runtime import launch as launcher

    wanted, spark, ray = options.wanted, launcher.Spark(), launcher.Ray()
    if engine == "spark":
        spark = launcher.spark_of(options.master, options.conf, wanted, os.environ)
        if not options.dry_run:
            launcher.check_spark(os.environ)
        wanted = None if wanted is None else abs(wanted)  # below zero: without the cluster
    elif engine == "ray":
        ray = launcher.ray_of(options.address, os.environ, launcher.gpu_count)
        if not options.dry_run:
            launcher.check_ray()
    clusters = Clusters(wanted, spark, ray)
    if wanted is None and not clusters.is_here:
        raise DistifyError(f"how many ranks are to be started on the cluster of {engine}'s? -np N")
    return clusters
