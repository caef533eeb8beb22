"""`distify run --launcher mpirun|srun`: the same parameters, the same reports, on one machine and on two."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch

from tests.launchers.starting import Trained, environment, needs

pytestmark = pytest.mark.launchers

State = dict[str, torch.Tensor]
#: Looks converted, and needs no torch.
HEAD = """\
import os, signal, sys, time
NAMES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
rank = next(os.environ[name] for name in NAMES if name in os.environ)
if False:
    import distify_runtime
"""


def same(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment in which `mpirun` is that of this MPI."""
    program = needs(f"mpirun.{request.param}")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "mpirun").write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    (folder / "mpirun").chmod(0o755)
    alone = {"OMPI_MCA_oob_tcp_if_include": "lo"}
    return {"PATH": f"{folder}:{os.environ['PATH']}", **alone}


class Run:
    """`distify run` in a folder of its own, behind the words of another command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs = folder / "logs"

    def words(self, script: str, *options: str, before: Sequence[str] = ()) -> list[str]:
        (self.folder / "train_dist.py").write_text(HEAD + script)
        # The test run may ignore SIGINT, and what it starts would inherit that.
        begin = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        begin += "from distify.__main__ import main; main()"
        return [*before, sys.executable, "-c", begin, "run", "--logs", "logs", *options, "train_dist.py"]

    def __call__(
        self, script: str, *options: str, before: Sequence[str] = (), env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        words = self.words(script, *options, before=before)
        told = environment(**(env or {}))
        return subprocess.run(words, cwd=self.folder, env=told, capture_output=True, text=True, timeout=120)

    def started(
        self, script: str, *options: str, env: Mapping[str, str], before: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        """Once rank 0 has said that it has begun."""
        words = self.words(script, *options, before=before)
        process = subprocess.Popen(
            words, cwd=self.folder, env=environment(**env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        return process


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


RUN = [sys.executable, "-m", "distify", "run", "-np", "2"]


def by_distify(converted: Path, tmp_path: Path, words: Sequence[str], env: Mapping[str, str]) -> State:
    out = tmp_path / "model.pt"
    given = [*words, "--logs", str(tmp_path / "logs"), "train_dist.py", str(out)]
    done = subprocess.run(given, cwd=converted, env=environment(**env), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    state: State = torch.load(out)
    return state


def test_mpirun(converted: Path, tmp_path: Path, by_torchrun: State, mpi: dict[str, str]) -> None:
    assert same(by_distify(converted, tmp_path, [*RUN, "--launcher", "mpirun"], mpi), by_torchrun)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["rank0.log", "rank1.log"]


def test_mpiruns_command_can_be_copied(
    trained: Trained, by_torchrun: State, converted: Path, mpi: dict[str, str], tmp_path: Path
) -> None:
    words = [*RUN, "--launcher", "mpirun", "--dry-run", "train_dist.py", str(tmp_path / "copied.pt")]
    told = environment(**mpi)
    printed = subprocess.run(words, cwd=converted, env=told, capture_output=True, text=True, check=True, timeout=60)
    subprocess.run(printed.stdout, shell=True, cwd=converted, env=told, check=True, capture_output=True, timeout=240)
    assert same(torch.load(tmp_path / "copied.pt"), by_torchrun)


@pytest.mark.parametrize(
    ("death", "code", "said"),
    [
        ("raise ValueError('boom')", 1, "failed with exit code 1"),
        ("sys.exit(5)", 5, "failed with exit code 5"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was killed by SIGKILL (out of memory?)"),
    ],
)
def test_the_first_failing_rank_is_named(run: Run, mpi: dict[str, str], death: str, code: int, said: str) -> None:
    began = time.monotonic()
    script = f"print('last words', flush=True)\nif rank == '1': {death}\ntime.sleep(100)"
    done = run(script, "-np", "2", "--launcher", "mpirun", "--grace", "30", env=mpi)
    assert done.returncode == code
    lines = done.stderr.splitlines()
    assert lines[1] == f"distify: rank 1 of 2 {said}; its log is logs/rank1.log"
    assert ("ValueError: boom" if code == 1 else "last words") in lines
    assert (done.stdout, time.monotonic() - began < 25) == ("last words\n", True)


SAVES = """
def save(number, frame):
    time.sleep(1.5)
    print(rank, 'saved at', number, flush=True)
    sys.exit(0)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, save)
print('begun', flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ranks_have_time_to_save(run: Run, mpi: dict[str, str], number: signal.Signals) -> None:
    with run.started(SAVES, "-np", "2", "--launcher", "mpirun", env=mpi) as process:
        time.sleep(0.5)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (128 + number, f"0 saved at {int(number)}\n")
    assert (run.logs / "rank1.log").read_text() == f"begun\n1 saved at {int(number)}\n"
    assert err.endswith(f"distify: ended by {number.name}; logs in logs\n")


def left(folder: Path) -> list[str]:
    """Processes that work in this folder."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.resolve() == folder and int(link.parent.name) != os.getpid():
                found.append((link.parent / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def until_none_is_left(folder: Path) -> list[str]:
    for _ in range(300):
        if not left(folder):
            return []
        time.sleep(0.1)
    return left(folder)


def test_nothing_outlives_a_launcher_that_is_killed(run: Run, mpi: dict[str, str]) -> None:
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('begun', flush=True)\ntime.sleep(100)"
    with run.started(stubborn, "-np", "2", "--launcher", "mpirun", env=mpi) as process:
        process.kill()
        process.communicate()
    assert until_none_is_left(run.folder) == []


@pytest.fixture
def over_ssh(machines: list[list[str]], mpi: dict[str, str], tmp_path: Path) -> tuple[list[str], dict[str, str]]:
    """What mpirun is started behind on the first of two machines, and an environment in which it reaches the second."""
    ssh = tmp_path / "ssh"
    there = " ".join(machines[1])
    # `ssh -x HOST COMMAND…`; a machine has a name of its own, and another environment.
    ssh.write_text(
        '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done; shift\n'
        f'exec {there} env -i PATH="$PATH" unshare --uts sh -c "hostname there; $*"\n'
    )
    ssh.chmod(0o755)
    told = {name: value for name, value in mpi.items() if name == "PATH"}
    return machines[0], told | {"OMPI_MCA_plm_rsh_agent": str(ssh), "HYDRA_LAUNCHER_EXEC": str(ssh)}


TWO = ("--launcher", "mpirun", "--hosts", "10.77.0.1:1,10.77.0.2:1")


def test_two_machines_by_mpirun(
    converted: Path, tmp_path: Path, by_torchrun: State, over_ssh: tuple[list[str], dict[str, str]]
) -> None:
    before, env = over_ssh
    words = [*before, *RUN[:4], *TWO, "--env", "OMP_NUM_THREADS=1"]
    assert same(by_distify(converted, tmp_path, words, env), by_torchrun)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["rank0.log", "rank1.log"]


def test_on_two_machines_the_first_failing_rank_is_named(run: Run, over_ssh: tuple[list[str], dict[str, str]]) -> None:
    before, env = over_ssh
    script = "print('rank', rank, os.uname().nodename, flush=True)\nif rank == '1': sys.exit(5)\ntime.sleep(100)"
    done = run(script, *TWO, "--grace", "2", before=before, env=env)
    assert done.returncode == 5
    assert done.stdout.startswith(f"rank 0 {os.uname().nodename}\n")  # MPICH has more to say
    assert done.stderr.endswith(
        "distify: rank 1 of 2 on there failed with exit code 5; its log is logs/rank1.log\nrank 1 there\n"
    )
    assert until_none_is_left(run.folder) == []


def test_on_two_machines_nothing_outlives_a_launcher_that_is_killed(
    run: Run, over_ssh: tuple[list[str], dict[str, str]]
) -> None:
    before, env = over_ssh
    script = "print('begun', flush=True)\ntime.sleep(100)"
    with run.started(script, *TWO, "--grace", "2", before=before, env=env) as process:
        process.kill()
        process.communicate()
    assert until_none_is_left(run.folder) == []


@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)  # MPICH waits for a machine that does not answer
def test_a_machine_that_is_not_reached_ends_the_run(run: Run, over_ssh: tuple[list[str], dict[str, str]]) -> None:
    before, env = over_ssh
    nobody = {"OMPI_MCA_plm_rsh_agent": "/bin/false", "HYDRA_LAUNCHER_EXEC": "/bin/false"}
    done = run("print('here', flush=True)\n", *TWO, before=before, env=env | nobody)
    assert done.returncode not in (0, 2)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("distify: mpirun failed with exit code ")
    assert last.endswith("; ranks from 1 have their logs in logs on their machines")


#: These nodes' names are in no table of hosts.
NODES = {"MASTER_ADDR": "127.0.0.1"}


@pytest.mark.parametrize("nodes", [1, 2])
def test_srun(converted: Path, tmp_path: Path, by_torchrun: State, slurm: dict[str, str], nodes: int) -> None:
    job = ["salloc", f"-N{nodes}", "-n2", "--overcommit", *(["env", "SLURMD_NODENAME=n1"] if nodes == 1 else [])]
    words = [*job, *RUN[:4], "--launcher", "srun"]
    assert same(by_distify(converted, tmp_path, words, slurm | NODES), by_torchrun)


@pytest.mark.parametrize("nodes", [1, 2])
def test_under_srun_the_first_failing_rank_is_named(run: Run, slurm: dict[str, str], nodes: int) -> None:
    job = ["salloc", f"-N{nodes}", "-n2", "--overcommit", *(["env", "SLURMD_NODENAME=n1"] if nodes == 1 else [])]
    script = "print('rank', rank, flush=True)\nif rank == '1': sys.exit(5)\ntime.sleep(100)"
    done = run(script, "--launcher", "srun", before=job, env=slurm)
    assert (done.returncode, done.stdout) == (5, "rank 0\n"), done.stderr
    told = done.stderr[done.stderr.index("distify: rank 1") :]
    where = f" on {os.uname().nodename}" if nodes == 2 else ""
    assert told.startswith(f"distify: rank 1 of 2{where} failed with exit code 5; its log is logs/rank1.log\nrank 1\n")


@pytest.mark.parametrize("nodes", [1, 2])
def test_ranks_have_time_to_save_under_srun(run: Run, slurm: dict[str, str], nodes: int) -> None:
    job = ["salloc", f"-N{nodes}", "-n2", "--overcommit", *(["env", "SLURMD_NODENAME=n1"] if nodes == 1 else [])]
    job += ["sh", "-c", 'echo $$ > launcher; exec "$@"', "sh"]
    with run.started(SAVES, "--launcher", "srun", before=job, env=slurm) as process:
        time.sleep(0.5)
        os.kill(int((run.folder / "launcher").read_text()), signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (143, "0 saved at 15\n"), err
    assert (run.logs / "rank1.log").read_text() == "begun\n1 saved at 15\n"


def test_without_an_allocation_srun_is_refused(run: Run, slurm: dict[str, str]) -> None:
    done = run("", "--launcher", "srun", env=slurm)
    assert (done.returncode, done.stdout) == (2, "")
    said = "distify: --launcher srun: this is no job of Slurm's (there is no SLURM_JOB_ID): salloc or sbatch first\n"
    assert done.stderr == said
