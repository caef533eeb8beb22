"""What is launched, and the command of torchrun or horovodrun for it."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from distify_runtime.launch.horovod import Horovod, horovodrun
from distify_runtime.launchers import LOOPBACK_INTERFACE

#: Where a supervisor finds the launcher's socket.
CHANNEL_VARIABLE = "DISTIFY_CHANNEL"
#: Stands before each word of the script's command line. torchrun's argparse would drop a first `--` and
#: refuse options that look like two of its own (`--m`), even behind the script's name; words with this
#: mark it leaves alone.
WORD_MARK = ":"

SUPERVISOR = Path(__file__).with_name("supervisor.py")


class LaunchError(Exception):
    """What the user can put right before anything is started; the message is one line."""


def usable_cores() -> int:
    """CPU cores that this process may run on; a container's or batch job's share, not the whole machine."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class LaunchConfig:
    """One launch: `target` (a script's path, or a module's name where `module` is true) on `nproc` ranks.

    `args` are the script's own, `logs` is the folder of the ranks' logs, and `grace` the seconds that ranks
    have between being asked to end and SIGKILL. `patience` are the seconds after which it is said that a rank has
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
    horovod: Horovod | None = None  # instead of torchrun

    def log(self, rank: int) -> Path:
        return self.logs / f"rank{rank}.log"

    @property
    def agent(self) -> str:
        return "torchrun" if self.horovod is None else "horovodrun"

    @property
    def agent_log(self) -> Path:
        """What torchrun or horovodrun itself has to say."""
        return self.logs / f"{self.agent}.log"


def python_command(python: str) -> list[str]:
    """The interpreter, kept from importing a `logging.py` of the working directory as the standard one."""
    return [python, "-P"] if sys.version_info >= (3, 11) else [python]


def launch_command(config: LaunchConfig, environ: Mapping[str, str], scratch: Path) -> tuple[list[str], dict[str, str]]:
    """The launcher's command line and its whole environment, made from the environment given.

    `scratch` is an empty folder for the supervisors' socket (`channel`) and for torchrun's own files.
    """
    python = python_command(config.python)
    words = (*(("-m",) if config.module else ()), config.target, *config.args)
    supervised = [str(SUPERVISOR), *(WORD_MARK + word for word in words)]
    torchrun = [
        *python,
        *("-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"),
        *("--nproc-per-node", str(config.nproc), "--max-restarts", "0", "--log-dir", str(scratch)),
        *supervised,
    ]
    argv = torchrun
    if config.horovod is not None:
        argv = horovodrun(python, config.horovod, config.nproc, [*python, *supervised])
    # torchrun takes PET_* for its options (a cluster's --nnodes, say) and PYTHON_EXEC for the interpreter.
    env = {name: value for name, value in environ.items() if not name.startswith("PET_") and name != "PYTHON_EXEC"}
    env[CHANNEL_VARIABLE] = str(scratch / "channel")
    env["PYTHONUNBUFFERED"] = "1"
    if config.watch is not None:
        env["DISTIFY_WATCH"] = config.watch
    if config.hang_timeout is not None:
        env["DISTIFY_HANG_TIMEOUT"] = str(config.hang_timeout)
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        env.setdefault(name, LOOPBACK_INTERFACE)
    env.setdefault("PYTHONHASHSEED", "0")  # one order of sets on all ranks
    if config.nproc > 1:  # a single rank has all cores, as under plain python
        env.setdefault("OMP_NUM_THREADS", str(max(1, config.cores // config.nproc)))
    # The launcher kills after the grace period; torchrun must not do so before.
    env.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(math.ceil(config.grace) + 5))
    return argv, env
