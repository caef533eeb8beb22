"""`distify run --launcher spark`: on the driver, and on a cluster of two workers on this machine."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from distify_runtime.trace.processes import free_port

from tests.launchers.starting import (
    FAILING,
    ODD_WORDS,
    State,
    distify_run,
    environment,
    failed_with_rank_1,
    needs,
    same,
)

pytestmark = pytest.mark.launchers
pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-launchers` installs it")

LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}
SMALL = ("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1")


@pytest.fixture(autouse=True)
def java() -> str:
    return needs("java")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A standalone cluster of two workers with a core each: its URL."""
    needs("java")
    folder, port = tmp_path_factory.mktemp("spark"), free_port()
    url = f"spark://127.0.0.1:{port}"
    start = [str(Path(pyspark.__file__).with_name("bin") / "spark-class")]
    local = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = [*start, "org.apache.spark.deploy.master.Master", *local, "--port", str(port)]
    worker = [*start, "org.apache.spark.deploy.worker.Worker", *local, "--cores", "1", "--memory", "600m", url]
    processes = []
    try:
        for name, words in {"master": master, "worker1": worker, "worker2": worker}.items():
            env = environment(**LOOPBACK, SPARK_WORKER_DIR=str(folder / name), PYSPARK_PYTHON=sys.executable)
            with open(folder / f"{name}.log", "wb") as log:
                processes.append(subprocess.Popen(words, cwd=folder, env=env, stdout=log, stderr=log))
        _wait_until_two_are_there(folder / "master.log")
        yield url
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def _wait_until_two_are_there(log: Path) -> None:
    for _ in range(480):
        if log.exists() and log.read_text().count("Registering worker") == 2:
            return
        time.sleep(0.25)
    pytest.fail(f"Spark's workers do not come up: {log.read_text()}")


@pytest.mark.parametrize("count", ["2", "-2"])
def test_on_the_driver(converted: Path, tmp_path: Path, by_torchrun: State, count: str) -> None:
    words = ("--launcher", "spark", "-np", count, "--logs", str(tmp_path / "logs"), "train_dist.py")
    done = distify_run(converted, *words, str(tmp_path / "model.pt"), **LOOPBACK)
    assert done.returncode == 0, done.stderr
    assert same(torch.load(tmp_path / "model.pt"), by_torchrun)


def test_a_failure_on_the_driver(tmp_path: Path) -> None:
    (tmp_path / "fail.py").write_text(FAILING)
    done = distify_run(tmp_path, "--launcher", "spark", "-np", "2", "fail.py", *ODD_WORDS, **LOOPBACK)
    assert failed_with_rank_1(done, tmp_path, ODD_WORDS, elsewhere=False)


def test_the_program_that_is_printed(converted: Path, tmp_path: Path, by_torchrun: State) -> None:
    words = ("--launcher", "spark", "-np", "2", "--dry-run", "train_dist.py", str(tmp_path / "it's a model.pt"))
    program = distify_run(converted, *words, **LOOPBACK).stdout
    subprocess.run(program, shell=True, cwd=converted, env=environment(**LOOPBACK), check=True, timeout=300)
    assert same(torch.load(tmp_path / "it's a model.pt"), by_torchrun)


def test_on_a_cluster(converted: Path, tmp_path: Path, by_torchrun: State, cluster: str) -> None:
    words = ("--launcher", "spark", "--master", cluster, *SMALL, "-np", "2", "--logs", str(tmp_path / "logs"))
    done = distify_run(converted, *words, "train_dist.py", str(tmp_path / "model.pt"), **LOOPBACK)
    assert done.returncode == 0, done.stderr + (tmp_path / "logs/spark.log").read_text()
    assert same(torch.load(tmp_path / "model.pt"), by_torchrun)


def test_a_failure_on_a_cluster(tmp_path: Path, cluster: str) -> None:
    """Once, and not after the five minutes that torchrun waits for who has gone."""
    (tmp_path / "fail.py").write_text("open('started', 'a').write('.')\n" + FAILING)
    begun = time.monotonic()
    words = ("--launcher", "spark", "--master", cluster, *SMALL, "-np", "2", "fail.py")
    done = distify_run(tmp_path, *words, *ODD_WORDS, **LOOPBACK)
    assert failed_with_rank_1(done, tmp_path, ODD_WORDS)
    assert time.monotonic() - begun < 250
    assert (tmp_path / "started").read_text() == ".."


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "fail.py").write_text(FAILING)
    words = ("--launcher", "spark", "--master", f"spark://127.0.0.1:{free_port()}", *SMALL, "-np", "2", "fail.py")
    done = distify_run(tmp_path, *words, **LOOPBACK)
    assert (done.returncode, done.stdout) == (1, "")
    assert "distify: spark itself failed with exit code 1; its log is " in done.stderr
