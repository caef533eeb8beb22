"""What each launcher's environment says, as it was seen under the launcher itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from distify_runtime.addresses import LOOPBACK_INTERFACE, first_host
from distify_runtime.launchers import Launch, in_torchruns_terms, read_launch

TORCHRUN = {
    "RANK": "5",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "10.0.0.7",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
}
ROLE = {"ROLE_RANK": "5", "ROLE_WORLD_SIZE": "8"}
ONE = {"LOCAL_WORLD_SIZE": "1"}
#: What a launcher that is not torchrun, but speaks as it does, tells the first of four ranks; or a shell still says.
OF_FOUR = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "1971060737",
}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
BATCH_SCRIPT = {
    "SLURM_JOB_ID": "7",
    "SLURM_NODEID": "0",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NTASKS": "5",
    "SLURM_JOB_NODELIST": "gpu[07-09]",
}
STEP = {
    **BATCH_SCRIPT,
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_STEP_NODELIST": "gpu[07-09]",
    "SLURM_PROCID": "4",
    "SLURM_NODEID": "2",
}
#: What srun says where it starts one task on each of two nodes, and that task starts ranks.
STEP_OF_AGENTS = {
    **STEP,
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_PROCID": "1",
    "SLURM_NODEID": "1",
}


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, Launch()),
        (TORCHRUN, Launch(5, 1, 8, 4)),
        (OPEN_MPI, Launch(1, 1, 2, 2)),
        (MPICH, Launch(1, 1, 2, 2)),
        (STEP, Launch(4, 0, 5, 1)),
        ({**STEP, "SLURM_PROCID": "2", "SLURM_NODEID": "1"}, Launch(2, 0, 5, 2)),
        (BATCH_SCRIPT, Launch()),
        ({**BATCH_SCRIPT, **OPEN_MPI}, Launch(1, 1, 2, 2)),
        ({**STEP_OF_AGENTS, **MPICH}, Launch(1, 1, 2, 2)),
        ({**STEP_OF_AGENTS, **TORCHRUN}, Launch(5, 1, 8, 4)),
        ({**STEP_OF_AGENTS, **TORCHRUN, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", **ONE}, Launch(0, 0, 2, 1)),
        ({**STEP_OF_AGENTS, **OF_FOUR}, Launch(0, 0, 4, 2)),
        ({"WORLD_SIZE": "1", "RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}, Launch()),
        ({"PMI_RANK": "1", "PMI_SIZE": "5", **STEP}, Launch(4, 0, 5, 1)),
    ],
    ids=[
        *("alone", "torchrun", "Open MPI", "MPICH", "a step", "a step's second node", "a batch script"),
        *("mpirun in a batch script", "mpiexec over srun", "torchrun in a step", "torchrun of as many in a step"),
        *("one of one", "srun --mpi=pmi2", "a user's agents in a step"),
    ],
)
def test_who_a_process_is(environ: dict[str, str], found: Launch) -> None:
    assert read_launch(environ) == found


CANNOT_BE = "ranks are counted from 0, and those of a machine are some of them all"


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({**OF_FOUR, "RANK": "5"}, f"RANK=5 WORLD_SIZE=4 cannot be: {CANNOT_BE}"),
        ({**OF_FOUR, "LOCAL_RANK": "3"}, f"LOCAL_RANK=3 LOCAL_WORLD_SIZE=2 WORLD_SIZE=4 cannot be: {CANNOT_BE}"),
        ({**OF_FOUR, "LOCAL_WORLD_SIZE": "8"}, f"LOCAL_WORLD_SIZE=8 WORLD_SIZE=4 cannot be: {CANNOT_BE}"),
        ({"RANK": "1", "LOCAL_RANK": "2", "WORLD_SIZE": "2"}, f"LOCAL_RANK=2 WORLD_SIZE=2 cannot be: {CANNOT_BE}"),
        ({"RANK": "1", "WORLD_SIZE": "1"}, f"RANK=1 WORLD_SIZE=1 cannot be: {CANNOT_BE}"),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "2"}, "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=2 cannot be: "),
        ({"RANK": "1", "LOCAL_RANK": "1"}, "WORLD_SIZE is not set: "),
        ({"WORLD_SIZE": "2", "LOCAL_RANK": "1"}, "RANK is not set: "),
        ({"LOCAL_RANK": "1"}, "LOCAL_RANK=1, but RANK and WORLD_SIZE are not set: start the script with torchrun or "),
        ({"LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "0"}, "LOCAL_WORLD_SIZE=2, but RANK and WORLD_SIZE are not set: "),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, "PMI_RANK=1 PMI_SIZE=2, but MPI_LOCALRANKID is not set: which of its "),
        ({"PMI_RANK": "1", "MPI_LOCALRANKID": "1"}, "PMI_RANK=1, but PMI_SIZE is not set: of how many ranks is this"),
        ({"HOROVOD_RANK": "1"}, "HOROVOD_RANK=1, but HOROVOD_SIZE is not set: of how many ranks is this one? Start"),
        ({"OMPI_COMM_WORLD_RANK": "1"}, "OMPI_COMM_WORLD_RANK=1, but OMPI_COMM_WORLD_SIZE is not set: of how many"),
        ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "3"}, "SLURM_PROCID=3, but SLURM_STEP_NUM_TASKS is not set: of how "),
    ],
)
def test_what_cannot_be_is_an_error_that_names_the_variables(environ: dict[str, str], said: str) -> None:
    with pytest.raises(SystemExit, match=f"^distify: {re.escape(said)}"):
        read_launch(environ)


@pytest.mark.parametrize(
    "environ",
    [
        {"LOCAL_RANK": "0"},
        {"LOCAL_RANK": "-1"},
        {"WORLD_SIZE": "1", "LOCAL_RANK": "-1"},
        {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"},
        {"PMI_RANK": "0", "PMI_SIZE": "1"},
        {"SLURM_PROCID": "0", "SLURM_JOB_ID": "7"},  # the script of a batch job
    ],
)
def test_one_that_is_told_to_be_alone_is(environ: dict[str, str]) -> None:
    assert read_launch(environ) == Launch()


@pytest.mark.parametrize("missing", [["MASTER_ADDR"], ["MASTER_PORT"], ["MASTER_ADDR", "MASTER_PORT"]])
def test_where_ranks_meet_has_to_be_said(missing: list[str]) -> None:
    environ = {name: value for name, value in TORCHRUN.items() if name not in missing}
    verb = "are" if len(missing) > 1 else "is"
    said = f"distify: RANK=5 WORLD_SIZE=8, but {' and '.join(missing)} {verb} not set: ranks do not know where to meet"
    with pytest.raises(SystemExit, match=re.escape(said)):
        in_torchruns_terms(read_launch(environ), environ)


@pytest.mark.parametrize(
    "environ",
    [
        {**OPEN_MPI, "RANK": "0", "WORLD_SIZE": "1"},
        {**OPEN_MPI, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"},
        {**OPEN_MPI, **OF_FOUR},
    ],
)
def test_launchers_that_contradict_each_other_are_named(environ: dict[str, str]) -> None:
    with pytest.raises(
        SystemExit, match=rf"RANK=0 WORLD_SIZE={environ['WORLD_SIZE']} contradicts what mpirun says, OMPI"
    ):
        read_launch(environ)


def test_a_launcher_that_passes_on_what_another_says_does_not_contradict_it() -> None:
    passed_on = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}
    assert read_launch({**OPEN_MPI, **passed_on}) == Launch(1, 1, 2, 2)


def test_on_one_node_ranks_meet_at_a_port_of_their_job() -> None:
    told = in_torchruns_terms(read_launch(OPEN_MPI), OPEN_MPI)
    other = {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
    assert (told["RANK"], told["LOCAL_RANK"], told["WORLD_SIZE"], told["MASTER_ADDR"]) == ("1", "1", "2", "127.0.0.1")
    assert told["MASTER_PORT"] == in_torchruns_terms(read_launch(other), other)["MASTER_PORT"]
    next_job = {**OPEN_MPI, "PMIX_NAMESPACE": "1971060738"}
    assert told["MASTER_PORT"] != in_torchruns_terms(read_launch(next_job), next_job)["MASTER_PORT"]


def test_what_is_given_stays() -> None:
    given = {"MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "1234", "GLOO_SOCKET_IFNAME": "eth1"}
    told = in_torchruns_terms(read_launch(OPEN_MPI), {**OPEN_MPI, **given})
    assert {name: told[name] for name in given} == given
    assert in_torchruns_terms(read_launch(TORCHRUN), TORCHRUN) == {}
    assert in_torchruns_terms(Launch(), {}) == {}


def test_several_nodes_meet_at_the_first_of_a_step() -> None:
    here = {**STEP, "SLURM_STEP_NODELIST": "localhost,gpu[07-08]"}
    assert in_torchruns_terms(read_launch(here), here)["MASTER_ADDR"] == "localhost"
    nowhere = {**STEP, "SLURM_STEP_NODELIST": "no-such-host[07-08]"}
    with pytest.raises(SystemExit, match=re.escape("(nobody knows the address of no-such-host07, the first of SLURM")):
        in_torchruns_terms(read_launch(nowhere), nowhere)
    over_nodes = {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}
    with pytest.raises(SystemExit, match=re.escape("give all ranks MASTER_ADDR, its host")):
        in_torchruns_terms(read_launch(over_nodes), over_nodes)


def test_several_nodes_listen_where_the_first_is_reached() -> None:
    over_nodes = {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}
    here = {**over_nodes, "MASTER_ADDR": "127.0.0.1"}
    assert in_torchruns_terms(read_launch(here), here)["GLOO_SOCKET_IFNAME"] == LOOPBACK_INTERFACE
    by_itself = {**over_nodes, "MASTER_ADDR": "no-such-host"}
    assert "GLOO_SOCKET_IFNAME" not in in_torchruns_terms(read_launch(by_itself), by_itself)
    assert in_torchruns_terms(read_launch(here), here | {"GLOO_SOCKET_IFNAME": "x"})["GLOO_SOCKET_IFNAME"] == "x"


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("gpu07", "gpu07"),
        ("gpu[07-09,12],login1", "gpu07"),
        ("a1,b2", "a1"),
        ("rack[3]-n", "rack3-n"),
        ("gpu-1.example.org", "gpu-1.example.org"),
    ],
)
def test_the_first_host_of_a_list(nodes: str, first: str) -> None:
    assert first_host(nodes) == first


@pytest.mark.parametrize(
    ("line", "now"),
    [
        ("os.environ['WORLD_SIZE'] = '1'", "RANK=5 WORLD_SIZE=1"),
        ("os.environ.update(RANK='0', LOCAL_RANK='0', WORLD_SIZE='1')", "RANK=0 WORLD_SIZE=1"),
        ("os.environ['RANK'] = '0'", "RANK=0 WORLD_SIZE=8"),
        ("del os.environ['RANK'], os.environ['WORLD_SIZE']", "neither"),
    ],
)
def test_a_script_that_changes_who_its_ranks_are_is_ended(line: str, now: str) -> None:
    """Be it before anything of ours is imported: each rank would train as if it were alone."""
    done = run_as_rank(f"import os; {line}; import distify_runtime as rt; rt.world_size()")
    said = "the script has changed by what its launcher tells ranks who they are: RANK=5 WORLD_SIZE=8"
    assert (done.returncode, done.stderr) == (1, f"distify: {said}, and now {now}: take that out of it\n")


def test_a_world_of_several_roles_is_larger_than_each() -> None:
    assert read_launch(TORCHRUN | {"ROLE_RANK": "1", "ROLE_WORLD_SIZE": "4"}).rank == 5


def test_one_that_says_what_its_launcher_says_is_not() -> None:
    done = run_as_rank("import os; os.environ['RANK'] = '5'; import distify_runtime as rt; print(rt.rank())")
    assert (done.stdout, done.stderr) == ("5\n", "")


def run_as_rank(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | TORCHRUN | ROLE)
