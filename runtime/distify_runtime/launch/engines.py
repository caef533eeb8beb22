"""Who starts ranks. A table: what each engine can be told, and the command that it is given. No engine is ours:
"processes" only starts one for each rank."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from distify_runtime.launch.agents import Agent, Output, one_process
from distify_runtime.launch.config import (
    CHANNEL_VARIABLE,
    LOGS_VARIABLE,
    SUPERVISOR,
    WORD_MARK,
    LaunchConfig,
    LaunchError,
    script_words,
    variables,
)
from distify_runtime.launch.horovod import horovodrun, plain_horovodrun
from distify_runtime.launch.hosts import Hosts
from distify_runtime.launch.jobs import Writer
from distify_runtime.launch.mpi import check_mpirun, mpi_is_here, mpi_variables, mpirun, plain_mpirun
from distify_runtime.launch.pytorchjob import pytorch_job
from distify_runtime.launch.ranks import Ranks, one_rank
from distify_runtime.launch.ray_train import plain_ray, ray
from distify_runtime.launch.sbatch import gpus_of_slurm, sbatch_script
from distify_runtime.launch.spark import plain_spark, spark
from distify_runtime.launch.srun import check_srun, one_step, plain_srun, slurm_is_here, srun, tasks
from distify_runtime.launch.torchrun import plain_torchrun, torchrun

#: What another engine around this launch may have told its own ranks: not true of ours. torchrun takes PET_* for its
#: options (a cluster's --nnodes, say) and PYTHON_EXEC for the interpreter.
_OF_OTHERS = re.compile(
    r"(PET_|TORCHELASTIC_|ROLE_).*|PYTHON_EXEC|DISTIFY_LAUNCHED_BY|DISTIFY_SIGNS|((LOCAL_|GROUP_)?(RANK|WORLD_SIZE))"
)


@dataclass(frozen=True)
class Engine:
    """What `--launcher` calls by this name.

    takes: the options of `distify run` that it can follow, of those that not every engine can. cannot: those of all
    others that it cannot.
    starts: (launch, worker, scratch) -> the command that starts `worker`, a Python file and its words, on all ranks.
    scratch is an empty folder for files of its own.
    plain: the command that starts the script itself, as one would type it.
    serves: what its ranks can find each other by.
    agent: (launch, that command, its environment, its stdout and stderr) -> what is running then.
    plain_of: the engine whose command `plain` is, where there is none of its own.
    check: raises LaunchError where it cannot be used here.
    is_here: whether all ranks will be on this machine. ranks: how many its job has room for; 0 where nobody says.
    tells: what it has to be told in its environment besides.
    writes: of a scheduler, how the file of a job is written, which it starts some time; nothing is started then.
    ends_ranks: whether it passes a signal on to its ranks, and asks the others to end where one has failed, with time
    to see to it; else the launcher does.
    """

    name: str
    takes: frozenset[str]
    starts: Callable[[LaunchConfig, Sequence[str], Path], list[str]]
    plain: Callable[[LaunchConfig], list[str]]
    serves: tuple[str, ...] = ("torch",)
    agent: Callable[[LaunchConfig, Sequence[str], Mapping[str, str], Output], Agent] = one_process
    plain_of: str = ""
    check: Callable[[Mapping[str, str]], None] = lambda environ: None
    is_here: Callable[[Hosts, Mapping[str, str]], bool] = lambda hosts, environ: hosts.is_local
    ranks: Callable[[Mapping[str, str]], int] = lambda environ: 0
    tells: Callable[[LaunchConfig, Mapping[str, str]], dict[str, str]] = lambda config, environ: {}
    ends_ranks: bool = True
    writes: Writer | None = None
    cannot: frozenset[str] = frozenset()


_OF_HOROVODRUN = ("--hosts", "--hostfile", "--gloo", "--mpi", "--verbose", "--timeline", "--network-interface")
#: Of ranks that are started here.
_OF_STARTS = frozenset({"--tee", "--oversubscribe"})
_OF_JOBS = frozenset({"--nodes", "--gpus", "--job-file", "--job-name", "--force"})
_OF_TORCHRUN = ("--nnodes", "--node-rank", "--rdzv-endpoint", "--max-restarts")

ENGINES = {
    engine.name: engine
    for engine in (
        Engine("processes", frozenset(), one_rank, plain_torchrun, agent=Ranks, plain_of="torchrun"),
        Engine("torchrun", frozenset(_OF_TORCHRUN), torchrun, plain_torchrun),
        Engine(
            "horovodrun",
            frozenset(_OF_HOROVODRUN),
            horovodrun,
            plain_horovodrun,
            ("horovod",),
            ends_ranks=False,  # it kills them
        ),
        Engine(
            "mpirun",
            frozenset(("--hosts", "--hostfile")),
            mpirun,
            plain_mpirun,
            ("torch", "horovod"),
            check=check_mpirun,
            is_here=mpi_is_here,
            tells=mpi_variables,
            ends_ranks=False,
        ),
        Engine(
            "srun",
            frozenset(),
            srun,
            plain_srun,
            check=check_srun,
            is_here=slurm_is_here,
            ranks=tasks,
            agent=one_step,
            ends_ranks=False,
        ),
        Engine("spark", frozenset({"--master", "--conf"}), spark, plain_spark),
        Engine("ray", frozenset({"--address"}), ray, plain_ray),
        Engine(
            "slurm",
            _OF_JOBS | {"--sbatch", "--submit"},
            srun,
            plain_srun,
            is_here=lambda hosts, environ: False,
            writes=Writer(sbatch_script, ".sbatch", ("sbatch",), gpus_of_slurm, keeps_logs=True),
            cannot=_OF_STARTS | {"--grace"},  # Slurm's configuration says how long jobs have
        ),
        Engine(
            "k8s",
            _OF_JOBS | {"--image", "--namespace"},
            torchrun,
            plain_torchrun,
            is_here=lambda hosts, environ: False,
            writes=Writer(pytorch_job, ".k8s.yaml", ("kubectl", "create", "-f")),
            cannot=_OF_STARTS | {"--logs"},  # Kubernetes keeps them
        ),
    )
}


def choose_engine(name: str, script: str, uses_horovod: bool, given: Iterable[str]) -> Engine:
    """The engine of this name, or for "auto" the one that suits the script.

    `given`: the options that are asked for. Raises LaunchError where it cannot follow them, or not start the script.
    """
    given, is_asked_for = list(given), name != "auto"
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
            why = f"{name} cannot follow it; " if is_asked_for else ""
            raise LaunchError(f"{option}: {why}it is for --launcher {' or '.join(able)}")
        if option in engine.cannot:
            raise LaunchError(f"{option}: {name} cannot follow it")
    engine.check(os.environ)
    return engine


def launch_command(
    config: LaunchConfig, environ: Mapping[str, str], scratch: Path, port: int = 0
) -> tuple[list[str], dict[str, str]]:
    """The engine's command line and its whole environment, made from the environment given.

    `scratch` is an empty folder for the supervisors' socket (`channel`) and for the engine's own files; `port` is kept
    for the ranks of this machine to meet at.
    """
    worker = [str(SUPERVISOR), *(WORD_MARK + word for word in script_words(config))]
    env = {name: value for name, value in environ.items() if not _OF_OTHERS.fullmatch(name)}
    if config.here:
        env[CHANNEL_VARIABLE] = str(scratch / "channel")
    else:
        env[LOGS_VARIABLE] = str(config.logs.absolute())
    if config.here and config.nodes is None:
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    engine = ENGINES[config.launcher]
    env |= engine.tells(config, environ) | variables(config, environ)
    # The launcher kills after the grace period; torchrun must not do so before.
    env.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(math.ceil(config.grace) + 5))
    return engine.starts(config, worker, scratch), env


def start(config: LaunchConfig, environ: Mapping[str, str], scratch: Path, port: int, output: Output) -> Agent:
    """Starts the engine."""
    argv, env = launch_command(config, environ, scratch, port)
    return ENGINES[config.launcher].agent(config, argv, env, output)


def plain_command(config: LaunchConfig, environ: Mapping[str, str]) -> str:
    """The launch without distify, for a shell: the engine's command, and the variables in front of it."""
    engine = ENGINES[config.launcher]
    wanted = variables(config, environ) | engine.tells(config, environ)
    told = [f"{name}={value}" for name, value in wanted.items() if environ.get(name) != value]
    return shlex.join(["env", *told, *engine.plain(config)])
