"""`distify run --launcher slurm`: what it writes is run by a real Slurm, on two machines."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch

from tests.launchers.starting import ODD_WORDS, State, distify_run, environment, same

pytestmark = pytest.mark.launchers

#: With what Slurm and shells take for something else.
LOGS = "it's my 100% #1 $folder"
ENDED = re.compile(r"JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)")


class Cluster:
    """A Slurm of two machines, seen from the first."""

    def __init__(self, front: Sequence[str], env: Mapping[str, str]) -> None:
        self._front, self._env = front, env

    def run(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return distify_run(folder, "--launcher", "slurm", *words, before=self._front, **self._env)

    def submit(self, folder: Path, *words: str) -> str:
        """The job's number."""
        done = self.run(folder, "--submit", *words)
        assert done.returncode == 0, done.stderr
        said = re.search(r"^Submitted batch job (\d+)$", done.stderr, re.MULTILINE)
        assert said, done.stderr
        return said[1]

    def state(self, job: str) -> str:
        """How it has ended, once it has."""
        until = time.monotonic() + 240
        while time.monotonic() < until:
            if found := ENDED.search(self.ask("scontrol", "show", "job", job)):
                return found[1]
            time.sleep(0.2)
        pytest.fail(f"the job does not end: {self.ask('scontrol', 'show', 'job', job)}")

    def ask(self, *words: str) -> str:
        env = environment(**self._env)
        return subprocess.run([*self._front, *words], env=env, capture_output=True, text=True, timeout=60).stdout


@pytest.fixture
def cluster(slurm_machines: tuple[list[str], dict[str, str]]) -> Cluster:
    return Cluster(*slurm_machines)


@pytest.mark.parametrize("nodes", ["1", "2"])
def test_it_trains_what_torchrun_trains(
    cluster: Cluster, converted: Path, tmp_path: Path, by_torchrun: State, nodes: str
) -> None:
    out, file = tmp_path / "the 'model'\n$it is.pt", tmp_path / "my job"
    words = ("-np", "2", "--nodes", nodes, "--logs", str(tmp_path / LOGS), "--job-file", str(file), "train_dist.py")
    job = cluster.submit(converted, *words, str(out))
    assert cluster.state(job) == "COMPLETED", (tmp_path / LOGS / f"train_dist-{job}.log").read_text()
    assert same(torch.load(out), by_torchrun)
    assert f"--ntasks-per-node={2 // int(nodes)}\n" in file.read_text()


FAILS = """
import os, sys, time
if False:
    import distify_runtime
print("given", sys.argv[1:], "in", os.getcwd(), os.environ["WHAT"], os.environ["SLURMD_NODENAME"], flush=True)
if os.environ["SLURM_PROCID"] == "0":
    open("said", "w").close()
else:
    while not os.path.exists("said"):
        time.sleep(0.05)
    raise ValueError("what went wrong")
time.sleep(200)
"""


def test_a_rank_that_fails_ends_the_job(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "my 'scripts' $1"
    folder.mkdir()
    (folder / "a hetjob script 5% ü.py").write_text(FAILS)
    words = (
        "-np",
        "2",
        "--nodes",
        "2",
        "--env",
        "WHAT=it 'is'",
        "--timeout",
        "600",
        "a hetjob script 5% ü.py",
        *ODD_WORDS,
    )
    job = cluster.submit(folder, *words)
    begun = time.monotonic()
    assert cluster.state(job) == "FAILED"
    assert time.monotonic() - begun < 100
    assert "TimeLimit=00:10:00" in cluster.ask("scontrol", "show", "job", job)
    logs = folder / "distify_logs"
    said = (logs / f"a hetjob script 5% ü-{job}.log").read_text().splitlines()
    assert f"given {ODD_WORDS} in {folder} it 'is' n1" in said
    of_rank_1 = (logs / f"a hetjob script 5% ü-{job}" / "rank1.log").read_text()
    assert f"given {ODD_WORDS} in {folder} it 'is' n2\n" in of_rank_1
    assert any(re.fullmatch(r"distify: rank 1 of 2 on \S+ failed with exit code 1; its log is .*", one) for one in said)
    assert said[-1] == "ValueError: what went wrong"


SAVES = """
import os, signal, sys, time
if False:
    import distify_runtime

def save(number, frame):
    time.sleep(0.5)
    print("saved at", number, flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
open("started" + os.environ["SLURM_PROCID"], "w").close()
time.sleep(200)
"""


def test_a_job_that_is_cancelled_can_save(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SAVES)
    job = cluster.submit(tmp_path, "-np", "2", "--nodes", "2", "train.py")
    until = time.monotonic() + 60
    while not all((tmp_path / f"started{rank}").exists() for rank in (0, 1)):
        assert time.monotonic() < until
        time.sleep(0.1)
    cluster.ask("scancel", job)
    assert cluster.state(job) == "CANCELLED"
    logs = [tmp_path / "distify_logs" / f"train-{job}" / f"rank{rank}.log" for rank in (0, 1)]
    while not all("saved at 15" in log.read_text() for log in logs):
        assert time.monotonic() < until + 60, [log.read_text() for log in logs]
        time.sleep(0.1)


def test_what_slurm_does_not_take_is_one_line(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import distify_runtime\n")
    done = cluster.run(tmp_path, "-np", "2", "--gpus", "2", "--submit", "train.py")
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("distify: sbatch does not take train.sbatch: sbatch: error: ")
    assert last.endswith("(gres) specification; --gpus 0 asks for no GPUs")
