"""Who starts ranks. A table: what each engine can be told, and the command that it is given. No engine is ours:
"processes" only starts one for each rank."""

from __future__ import annotations

import math
import shlex
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from distify_runtime.launch.config import (
    CHANNEL_VARIABLE,
    SUPERVISOR,
    WORD_MARK,
    LaunchConfig,
    LaunchError,
    script_words,
    variables,
)
from distify_runtime.launch.horovod import horovodrun, plain_horovodrun
from distify_runtime.launch.ranks import Agent, Ranks, one_rank
from distify_runtime.launch.torchrun import plain_torchrun, torchrun


def one_process(config: LaunchConfig, argv: Sequence[str], env: Mapping[str, str], log: IO[bytes]) -> Agent:
    """The engine as a process of its own, in a session of its own: Ctrl-C in the terminal is for this process."""
    return subprocess.Popen(argv, env=env, stdout=log, stderr=log, start_new_session=True)


@dataclass(frozen=True)
class Engine:
    """What `--launcher` calls by this name.

    takes: the options of `distify run` that it can follow, of those that not every engine can.
    starts: (launch, worker, scratch) -> the command that starts `worker`, a Python file and its words, on all ranks.
    scratch is an empty folder for files of its own.
    plain: the command that starts the script itself, as one would type it.
    serves: what its ranks can find each other by.
    agent: (launch, that command, its environment, its log) -> what is running then.
    plain_of: the engine whose command `plain` is, where there is none of its own.
    """

    name: str
    takes: frozenset[str]
    starts: Callable[[LaunchConfig, Sequence[str], Path], list[str]]
    plain: Callable[[LaunchConfig], list[str]]
    serves: tuple[str, ...] = ("torch",)
    agent: Callable[[LaunchConfig, Sequence[str], Mapping[str, str], IO[bytes]], Agent] = one_process
    plain_of: str = ""


_OF_HOROVODRUN = ("--hosts", "--hostfile", "--gloo", "--mpi", "--verbose", "--timeline", "--network-interface")
_OF_TORCHRUN = ("--nnodes", "--node-rank", "--rdzv-endpoint", "--max-restarts")

ENGINES = {
    engine.name: engine
    for engine in (
        Engine("processes", frozenset(), one_rank, plain_torchrun, agent=Ranks, plain_of="torchrun"),
        Engine("torchrun", frozenset(_OF_TORCHRUN), torchrun, plain_torchrun),
        Engine("horovodrun", frozenset(_OF_HOROVODRUN), horovodrun, plain_horovodrun, ("horovod",)),
    )
}


def choose_engine(name: str, script: str, uses_horovod: bool, given: Iterable[str]) -> Engine:
    """The engine of this name, or for "auto" the one that suits the script.

    `given`: the options that are asked for. Raises LaunchError where it cannot follow them, or not start the script.
    """
    given = list(given)
    if name == "auto" and uses_horovod:
        name = "horovodrun"
    elif name == "auto":
        name = "torchrun" if ENGINES["torchrun"].takes & set(given) else "processes"
    if name not in ENGINES:
        raise LaunchError(f"--launcher {name}: one of auto, {', '.join(ENGINES)} is wanted")
    engine = ENGINES[name]
    if uses_horovod and "horovod" not in engine.serves:
        raise LaunchError(f"{script} uses Horovod, whose ranks cannot find each other under {name}")
    if not uses_horovod and "torch" not in engine.serves:
        raise LaunchError(f"{script} does not use Horovod, which {name} is for")
    for option in given:
        able = [other.name for other in ENGINES.values() if option in other.takes]
        if able and option not in engine.takes:
            raise LaunchError(f"{option}: {name} cannot follow it; it is for --launcher {' or '.join(able)}")
    return engine


def launch_command(config: LaunchConfig, environ: Mapping[str, str], scratch: Path) -> tuple[list[str], dict[str, str]]:
    """The engine's command line and its whole environment, made from the environment given.

    `scratch` is an empty folder for the supervisors' socket (`channel`) and for the engine's own files.
    """
    worker = [str(SUPERVISOR), *(WORD_MARK + word for word in script_words(config))]
    # torchrun takes PET_* for its options (a cluster's --nnodes, say) and PYTHON_EXEC for the interpreter.
    env = {name: value for name, value in environ.items() if not name.startswith("PET_") and name != "PYTHON_EXEC"}
    env[CHANNEL_VARIABLE] = str(scratch / "channel")
    env |= variables(config, environ)
    # The launcher kills after the grace period; torchrun must not do so before.
    env.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(math.ceil(config.grace) + 5))
    return ENGINES[config.launcher].starts(config, worker, scratch), env


def start(config: LaunchConfig, environ: Mapping[str, str], scratch: Path, log: IO[bytes]) -> Agent:
    """Starts the engine."""
    argv, env = launch_command(config, environ, scratch)
    return ENGINES[config.launcher].agent(config, argv, env, log)


def plain_command(config: LaunchConfig, environ: Mapping[str, str]) -> str:
    """The launch without distify, for a shell: the engine's command, and the variables in front of it."""
    told = [f"{name}={value}" for name, value in variables(config, environ).items() if environ.get(name) != value]
    return shlex.join(["env", *told, *ENGINES[config.launcher].plain(config)])
