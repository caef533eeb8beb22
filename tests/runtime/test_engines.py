"""The table of engines: what each is told. Whole launches by MPI and Slurm are in tests/launchers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from distify_runtime.launch import ENGINES, Hosts, LaunchConfig, LaunchError, choose_engine, launch_command
from distify_runtime.launch.config import SUPERVISOR
from distify_runtime.launch.logs import take_notes
from distify_runtime.launch.mpi import mpi_is_here
from distify_runtime.launch.report import RankEnd
from distify_runtime.launch.srun import check_srun, slurm_is_here

SCRATCH = Path("/scratch")
VERSIONS = {
    "openmpi 4": "mpirun (Open MPI) 4.1.4",
    "openmpi 5": "mpirun (Open MPI) 5.0.3",
    "mpich": "HYDRA build details:\n    Version:   4.0.2",
    "intel": "Intel(R) MPI Library for Linux* OS, Version 2021.9",
}


@pytest.fixture(params=list(VERSIONS))
def mpi(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An `mpirun` that says it is of this MPI; what it would start is not started."""
    version = tmp_path / "version"
    version.write_text(VERSIONS[request.param])
    program = tmp_path / "mpirun"
    program.write_text(f"#!/bin/sh\ncat {version}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", "/lib")
    return "openmpi" if "openmpi" in request.param else "hydra"


def told(hosts: Hosts, here: bool) -> tuple[list[str], dict[str, str]]:
    config = LaunchConfig("t.py", ("--m",), 6, launcher="mpirun", hosts=hosts, here=here, env=(("X", "1"),))
    argv, env = launch_command(config, {"RANK": "7", "PYTHONPATH": "/lib", "TORCHELASTIC_RUN_ID": "x"}, SCRATCH, 1234)
    assert Path(argv[0]).name == "mpirun"
    assert argv[argv.index(str(SUPERVISOR)) + 1 :] == [":t.py", ":--m"]
    assert not {"RANK", "TORCHELASTIC_RUN_ID"} & set(env)
    return [word for word in argv[1 : argv.index(sys.executable)] if word != "--allow-run-as-root"], env


def test_mpirun_on_this_machine(mpi: str) -> None:
    words, env = told(Hosts(), here=True)
    if mpi == "openmpi":
        assert words == ["--bind-to", "none", "--oversubscribe", "-np", "6"]
    else:
        assert words == ["-bind-to", "none", "-np", "6"]
    assert (env["MASTER_ADDR"], env["MASTER_PORT"], env["DISTIFY_CHANNEL"]) == ("127.0.0.1", "1234", "/scratch/channel")
    assert "DISTIFY_LOGS" not in env


def test_mpirun_on_several_machines(mpi: str, tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("one slots=2\ntwo:4  # larger\n")
    words, env = told(Hosts(file=str(file)), here=False)
    if mpi == "openmpi":
        assert words[:4] == ["--bind-to", "none", "--host", "one:2,two:4"]
        exported = {words[place + 1] for place, word in enumerate(words) if word == "-x"}
        assert {"X", "MASTER_ADDR", "MASTER_PORT", "PYTHONPATH", "DISTIFY_LOGS", "PYTHONHASHSEED"} <= exported
        assert exported <= set(env)
        assert env["OMPI_MCA_odls_base_sigkill_timeout"] == "5"
    else:
        assert words == ["-bind-to", "none", "-hosts", "one:2,two:4", "-np", "6"]
    assert (env["MASTER_ADDR"], env["X"]) == ("one", "1")
    assert not {"DISTIFY_CHANNEL", "OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME"} & set(env)  # of this machine


def test_where_ranks_will_be(tmp_path: Path) -> None:
    machines = tmp_path / "machines"
    machines.write_text("one\none\ntwo\n")
    assert mpi_is_here(Hosts(), {})
    assert mpi_is_here(Hosts("localhost:2"), {"SLURM_JOB_NUM_NODES": "2"})
    assert not mpi_is_here(Hosts("localhost:2,other:2"), {})
    assert not mpi_is_here(Hosts(), {"SLURM_JOB_NUM_NODES": "2"})
    assert not mpi_is_here(Hosts(), {"PBS_NODEFILE": str(machines)})
    job = {"SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "n1"}
    assert slurm_is_here(Hosts(), {**job, "SLURMD_NODENAME": "n1"})
    assert not slurm_is_here(Hosts(), job)  # salloc leaves its shell where it was asked for
    assert not slurm_is_here(Hosts(), {**job, "SLURMD_NODENAME": "n1", "SLURM_JOB_NUM_NODES": "2"})


@pytest.mark.parametrize("name", ["mpirun", "srun", "horovodrun"])
def test_a_command_that_is_copied_finds_the_modules_beside_the_script(mpi: str, tmp_path: Path, name: str) -> None:
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a folder/helper.py").write_text("said = 'helped'\n")
    (tmp_path / "a folder/train.py").write_text("import helper\nprint(helper.said)\n")
    command = ENGINES[name].plain(LaunchConfig(str(tmp_path / "a folder/train.py"), nproc=2, launcher=name))
    done = subprocess.run(command[command.index(sys.executable) :], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "helped\n"), done.stderr


def test_what_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="neither mpirun nor mpiexec is on the PATH"):
        choose_engine("mpirun", "t.py", False, [])
    with pytest.raises(LaunchError, match="srun is not on the PATH"):
        check_srun({"SLURM_JOB_ID": "1"})
    (tmp_path / "srun").write_text("#!/bin/sh\n")
    (tmp_path / "srun").chmod(0o755)
    with pytest.raises(LaunchError, match="there is no SLURM_JOB_ID"):
        check_srun({})
    check_srun({"SLURM_JOB_ID": "1"})


@pytest.mark.parametrize("option", ["--max-restarts", "--nnodes", "--timeline"])
def test_what_mpi_cannot_follow(mpi: str, option: str) -> None:
    with pytest.raises(LaunchError, match=f"{option}: mpirun cannot follow it; it is for --launcher"):
        choose_engine("mpirun", "t.py", False, [option])
    assert choose_engine("mpirun", "t.py", True, ["--hosts"]) is ENGINES["mpirun"]


def test_far_from_the_launcher_a_rank_keeps_its_log_and_notes_its_end(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    code = "print('out', flush=True); raise SystemExit('err')"
    for rank in ("0", "1"):
        done = subprocess.run(
            [sys.executable, str(SUPERVISOR), ":-c", f":{code}"],
            env={**os.environ, "DISTIFY_LOGS": str(logs), "SLURM_PROCID": rank},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout + done.stderr) == (1, "out\nerr\n" if rank == "0" else "")
    assert (logs / "rank1.log").read_text() == "out\nerr\n"
    assert json.loads((logs / "rank1.end").read_text())["code"] == 1
    ends = take_notes(logs)
    assert ends == {rank: RankEnd(rank, 1, ends[rank].ended, host=os.uname().nodename) for rank in (0, 1)}
    assert sorted(path.name for path in logs.iterdir()) == ["rank1.log"]
