"""What is launched."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from distify_runtime.addresses import LOOPBACK_INTERFACE, interface_of, local_address
from distify_runtime.launch.clusters import Ray, Spark
from distify_runtime.launch.hosts import Hosts
from distify_runtime.launch.jobs import Job
from distify_runtime.launch.nodes import Nodes
from distify_runtime.launchers import usable_cores

#: Where a supervisor finds the launcher's socket.
CHANNEL_VARIABLE = "DISTIFY_CHANNEL"
#: And where it writes logs on a machine that has no such socket.
LOGS_VARIABLE = "DISTIFY_LOGS"
#: Stands before each word of the script's command line. torchrun's argparse would drop a first `--` and
#: refuse options that look like two of its own (`--m`), even behind the script's name; words with this
#: mark it leaves alone.
WORD_MARK = ":"

SUPERVISOR = Path(__file__).with_name("supervisor.py")


class LaunchError(Exception):
    """What the user can put right before anything is started; the message is one line."""


@dataclass(frozen=True)
class Horovod:
    """What horovodrun alone is told. `controller`: "gloo", "mpi" or "", as it was built."""

    controller: str = ""
    verbose: bool = False
    timeline: str = ""
    interface: str = ""


@dataclass(frozen=True)
class LaunchConfig:
    """One launch: `target` (a script's path, or a module's name where `module` is true) on `nproc` ranks.

    `args` are the script's own, `logs` is the folder of the ranks' logs, and `grace` the seconds that ranks
    have between being asked to end and SIGKILL. `max_restarts`: how often all ranks are started anew after a failure.
    `patience` are the seconds after which it is said that a rank has
    ended and others go on. `watch` and `hang_timeout` (seconds): how the run watches itself, if not as usual.
    """

    target: str
    args: tuple[str, ...] = ()
    nproc: int = 1
    logs: Path = Path("distify_logs")
    module: bool = False
    grace: float = 10.0
    patience: float = 60.0
    watch: str | None = None
    hang_timeout: float | None = None
    cores: int = field(default_factory=usable_cores)
    python: str = sys.executable
    launcher: str = "processes"  # the engine's name
    horovod: Horovod = Horovod()
    spark: Spark = field(default_factory=Spark)
    ray: Ray = field(default_factory=Ray)
    hosts: Hosts = field(default_factory=Hosts)
    job: Job = field(default_factory=Job)
    here: bool = True  # the ranks that the engine starts are all on this machine
    nodes: Nodes | None = None  # this machine is one of several
    max_restarts: int = 0
    env: tuple[tuple[str, str], ...] = ()  # for the ranks
    timeout: float = 0.0  # seconds for the whole run; 0: as many as it takes
    tee: bool = False  # all ranks on the screen, each line behind its rank

    @property
    def world_size(self) -> int:
        """Of all machines, if as many as there may be are there."""
        return self.nproc * (1 if self.nodes is None else self.nodes.most)

    @property
    def has_rank_0(self) -> bool:
        """Whether it may be on this machine."""
        return self.nodes is None or not self.nodes.rank

    @property
    def is_here(self) -> bool:
        """Whether the ranks have this machine's network and cores. Those of clusters have what stands for them here."""
        return self.here and not self.spark.master and self.launcher != "ray"

    def log(self, rank: int) -> Path:
        return self.logs / f"rank{rank}.log"

    @property
    def agent_log(self) -> Path:
        """What the engine itself has to say."""
        return self.logs / f"{self.launcher}.log"


def python_command(python: str) -> list[str]:
    """The interpreter for what is distify's or torch's, kept from importing a `logging.py` of the working directory as
    the standard one."""
    return [python, "-P"] if sys.version_info >= (3, 11) else [python]


def script_words(config: LaunchConfig) -> list[str]:
    """What Python is told to run."""
    return [*(("-m",) if config.module else ()), config.target, *config.args]


def script_command(config: LaunchConfig) -> list[str]:
    """As one would type it: Python finds the script's own modules, which `-P` would keep from it."""
    return [config.python, *script_words(config)]


def asked_variables(config: LaunchConfig) -> dict[str, str]:
    """What the environment of each rank says, wherever it is."""
    env = {"PYTHONUNBUFFERED": "1"}
    if config.watch is not None:
        env["DISTIFY_WATCH"] = config.watch
    if config.hang_timeout is not None:
        env["DISTIFY_HANG_TIMEOUT"] = str(config.hang_timeout)
    return env | dict(config.env)


def variables(config: LaunchConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """What the environment of this machine's ranks says besides, or otherwise."""
    usual = {"PYTHONHASHSEED": "0"}  # one order of sets on all ranks
    if config.nodes is None and config.is_here:
        usual |= {"GLOO_SOCKET_IFNAME": LOOPBACK_INTERFACE, "NCCL_SOCKET_IFNAME": LOOPBACK_INTERFACE}
    elif config.nodes and (interface := interface_of(local_address(config.nodes.host, config.nodes.port))):
        usual |= {"GLOO_SOCKET_IFNAME": interface}
    if config.nproc > 1 and config.is_here:  # a single rank has all cores, as under plain python
        usual |= {"OMP_NUM_THREADS": str(max(1, config.cores // config.nproc))}
    return {name: value for name, value in usual.items() if name not in environ} | asked_variables(config)
