"""What engines that start ranks on the machines of a cluster are told besides the launch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spark:
    """What Spark alone is told. `master`: its cluster; "" for this machine. `settings`: of its configuration."""

    master: str = ""
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def uses_gpus(self) -> bool:
        """Whether the cluster gives each task GPUs; only its configuration can say so."""
        return dict(self.settings).get("spark.task.resource.gpu.amount", "0") not in ("", "0")


@dataclass(frozen=True)
class Ray:
    """What Ray alone is told. `address`: its cluster; "" for one that is started here, and ends with the run. `gpus`:
    whether each rank is to have one of this machine's."""

    address: str = ""
    gpus: bool = False
