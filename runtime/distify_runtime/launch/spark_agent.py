"""What `distify run --launcher spark` starts: the driver of a Spark job that is the ranks. `sys.argv[1]`: JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

from distify_runtime.launch.elsewhere import Elsewhere
from distify_runtime.launch.spark import ALONE, ONCE
from distify_runtime.launch.spark_task import on_a_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Seconds for a cluster to have as many free slots as there are ranks. Spark's own: ten minutes.
_ASKS = {"spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "5s"}
_TIMES = {"spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "12"}


def main() -> int:
    asked = json.loads(sys.argv[1])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return _on_the_cluster(asked) if asked["master"] else _here(asked)


def _here(asked: dict[str, Any]) -> int:
    """Ranks of this machine report to `distify run` themselves."""
    from pyspark.ml.torch.distributor import TorchDistributor  # nothing of pyspark's above: it may not be installed

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    session = _session("local[1]", ALONE | asked["settings"])
    TorchDistributor(num_processes=asked["count"], local_mode=True, use_gpu=False).run(*asked["worker"])
    session.stop()
    return 0


def _on_the_cluster(asked: dict[str, Any]) -> int:
    from pyspark.ml.torch.distributor import TorchDistributor

    session = _session(asked["master"], _ASKS | _TIMES | ONCE | asked["settings"])
    address = session.sparkContext.getConf().get("spark.driver.host", "127.0.0.1")
    engine = TorchDistributor(num_processes=asked["count"], local_mode=False, use_gpu=asked["gpus"])
    with Elsewhere(address, asked["launch"], asked["count"]) as ranks:
        code = ranks.see_through(lambda: engine.run(on_a_task, ranks.task))
    if code:  # torchrun waits five minutes at its end for one that has gone
        session.sparkContext.cancelAllJobs()
    session.stop()
    return code


def _session(master: str, settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("distify").master(master).config("spark.ui.showConsoleProgress", "false")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _leave(number: int, frame: FrameType | None) -> None:
    """TorchDistributor ends its processes where it is left."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
