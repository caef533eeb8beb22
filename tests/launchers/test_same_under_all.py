"""One converted script trains the same model, bit for bit, whoever starts its ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.launchers.starting import State, Trained, environment, needs, same

pytestmark = pytest.mark.launchers


def test_alone_it_is_the_same_to_rounding(trained: Trained, by_torchrun: State) -> None:
    alone = trained([])
    assert all(torch.allclose(alone[name], by_torchrun[name], rtol=1e-12, atol=1e-12) for name in alone)


def test_open_mpi(trained: Trained, by_torchrun: State) -> None:
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    run = [needs("mpirun.openmpi"), *as_root, "--oversubscribe", "--mca", "oob_tcp_if_include", "lo"]
    assert same(trained([*run, "-np", "2"]), by_torchrun)


def test_mpich(trained: Trained, by_torchrun: State) -> None:
    assert same(trained([needs("mpiexec.mpich"), "-n", "2"]), by_torchrun)


def test_mpich_through_a_shell(trained: Trained, by_torchrun: State) -> None:
    """Ranks that are no children of one process."""
    run = [needs("mpiexec.mpich"), "-n", "2", "sh", "-c", '"$@"; exit $?', "sh"]
    assert same(trained(run), by_torchrun)


def test_slurm_on_one_node(trained: Trained, by_torchrun: State, slurm: dict[str, str]) -> None:
    assert same(trained(["srun", "-N1", "-n2", "--overcommit"], slurm), by_torchrun)


def test_slurm_on_two_nodes(trained: Trained, by_torchrun: State, slurm: dict[str, str]) -> None:
    where = {"MASTER_ADDR": "127.0.0.1"}  # these nodes' names are in no table of hosts
    assert same(trained(["srun", "-N2", "-n2", "--overcommit"], slurm | where), by_torchrun)


def test_a_batch_script_of_slurm_is_no_rank(trained: Trained, slurm: dict[str, str]) -> None:
    """Its environment has the numbers of a task, and it is alone."""
    batch = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
    assert same(trained([], slurm | batch), trained([]))


@pytest.mark.parametrize("count", ["2", "2:2"], ids=["static", "elastic"])
def test_two_machines(
    machines: list[list[str]], converted: Path, tmp_path: Path, by_torchrun: State, count: str
) -> None:
    processes = []
    for number, machine in enumerate(machines):
        where = ["--nnodes", count, "--node-rank", str(number), "--rdzv-endpoint", "10.77.0.1:29511"]
        words = [sys.executable, "-m", "distify", "run", "-np", "1", *where, "--env", "OMP_NUM_THREADS=1"]
        words += ["--logs", str(tmp_path / f"logs{number}"), "train_dist.py", str(tmp_path / "model.pt")]
        processes.append(subprocess.Popen([*machine, *words], cwd=converted, env=environment()))
    codes = [process.wait(240) for process in processes]
    assert codes == [0, 0]
    assert same(torch.load(tmp_path / "model.pt"), by_torchrun)
