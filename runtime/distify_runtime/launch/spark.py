"""TorchDistributor, pyspark's own: on this machine, or as tasks of a Spark cluster.

As with HorovodRunner, `-np -4` are four ranks on the driver, whatever cluster there is, and `-np 4` four tasks of it.
Where Spark knows of no cluster, these are here, too.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from distify_runtime.launch.clusters import Spark
from distify_runtime.launch.config import LaunchConfig, LaunchError, asked_variables, python_command, script_words
from distify_runtime.launch.elsewhere import launch_elsewhere, quoted

#: What Spark itself runs on the machine that it was started on.
_LOCAL = re.compile(r"local(\[[^,\]]*(,[^\]]*)?\])?")
#: A failed script is no lost machine: Spark would start all ranks anew, three times.
ONCE = {"spark.stage.maxConsecutiveAttempts": "1", "spark.task.maxFailures": "1"}
#: For ranks that are all on the driver: no server for a job that this one is.
ALONE = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

_PROGRAM = """\
from pyspark.ml.torch.distributor import TorchDistributor
from pyspark.sql import SparkSession
spark = SparkSession.builder{settings}.getOrCreate()
TorchDistributor(num_processes={count}, local_mode={local}, use_gpu={gpus}).run({words})
spark.stop()"""


def spark_of(master: str | None, settings: Sequence[str], count: int | None, environ: Mapping[str, str]) -> Spark:
    """What the command line says of Spark, and where that is silent, its configuration. Raises LaunchError."""
    pairs = [word.partition("=") for word in settings]
    for name, sign, _ in pairs:
        if not sign or not name.startswith("spark."):
            raise LaunchError(f"--conf {name}: spark.NAME=VALUE is wanted")
    told = {name: value for name, _, value in pairs}
    configured = _configured(environ)
    if count is not None and count < 0:
        if master and not _LOCAL.fullmatch(master):
            raise LaunchError(f"-np {count} starts ranks on this machine, without a cluster: leave out --master")
        found = ""
    else:
        found = master or told.get("spark.master") or configured.get("spark.master", "")
    if found.startswith("sc://"):
        raise LaunchError(f"--master {found}: Spark Connect keeps ranks from finding this machine; spark://… is wanted")
    gpus = {name: configured[name] for name in ["spark.task.resource.gpu.amount"] if name in configured}
    return Spark("" if _LOCAL.fullmatch(found) else found, tuple((gpus | told).items()))


def check_spark(environ: Mapping[str, str]) -> None:
    """Raises LaunchError where something that Spark needs is not installed."""
    if importlib.util.find_spec("pyspark") is None:
        raise LaunchError("--launcher spark: pyspark is not installed: pip install 'distify[spark]'")
    if "JAVA_HOME" not in environ and shutil.which("java", path=environ.get("PATH")) is None:
        raise LaunchError("--launcher spark: Spark needs Java, which is not found here; set JAVA_HOME, or install it")


def spark(config: LaunchConfig, worker: Sequence[str], scratch: Path) -> list[str]:
    launch = {
        "count": config.nproc,
        "master": config.spark.master,
        "settings": dict(config.spark.settings),
        "gpus": config.spark.uses_gpus,
        "worker": list(worker),
        "launch": launch_elsewhere(config),
    }
    return [*python_command(config.python), "-m", "distify_runtime.launch.spark_agent", json.dumps(launch)]


def plain_spark(config: LaunchConfig) -> list[str]:
    """A program, as words of one command."""
    own = config.spark
    names = {"spark.master": own.master or "local[1]", **(ONCE if own.master else ALONE), **dict(own.settings)}
    if own.master:
        names |= {f"spark.executorEnv.{name}": value for name, value in asked_variables(config).items()}
    words = script_words(config)
    if own.master and not config.module:
        words[0] = os.path.abspath(config.target)
    # Else torchrun takes what looks like its own, and a first `--`.
    separator = ["--"] * (not config.module and any(word.startswith("-") for word in config.args))
    program = _PROGRAM.format(
        settings="".join(f".config({quoted(name)}, {quoted(value)})" for name, value in names.items()),
        count=config.nproc,
        local=not own.master,
        gpus=own.uses_gpus and bool(own.master),
        words=", ".join(map(quoted, [*separator, *words])),
    )
    return [*python_command(config.python), "-c", program]


def _configured(environ: Mapping[str, str]) -> dict[str, str]:
    """What spark-defaults.conf says, of the Spark that pyspark would start."""
    found = importlib.util.find_spec("pyspark")
    places = list(found.submodule_search_locations or ()) if found is not None else []
    home = environ.get("SPARK_HOME") or next(iter(places), "")
    folder = environ.get("SPARK_CONF_DIR") or os.path.join(home, "conf")
    try:
        lines = Path(folder, "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = [re.split(r"[\s=:]+", line.strip(), maxsplit=1) for line in lines]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and not pair[0].startswith("#")}
