"""`distify run` of scripts that use Horovod: real ranks, started by horovodrun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import CommandLine
from distify_runtime.launch import ENGINES, Horovod, Hosts, LaunchConfig, launch_command, uses_horovod

from distify.commands.run import run
from tests.equivalence.horovod_ranks import needs_horovod
from tests.grid import slow, some

SCRIPT = """\
import os, sys
import torch, horovod.torch as hvd
hvd.init()
print(hvd.rank(), sys.argv[1:], flush=True)
for step in range(3):
    total = hvd.allreduce(torch.ones(2), op=hvd.Sum, name="x")
    if step == 1 and hvd.rank() == 1:
        {then}
print(total.tolist())
"""


def command(horovod: Horovod, hosts: Hosts, nproc: int = 4, *words: str) -> list[str]:
    config = LaunchConfig("main.py", words, nproc, launcher="horovodrun", horovod=horovod, hosts=hosts)
    argv, _ = launch_command(config, {}, Path("/scratch"))
    return argv[argv.index("-np") :]


def test_options_are_passed_on() -> None:
    given = Horovod("gloo", True, "/tmp/timeline.json", "eth0")
    assert command(given, Hosts("localhost:4"))[:11] == [
        "-np", "4", "-H", "localhost:4", "--gloo", "--verbose", "--timeline-filename", "/tmp/timeline.json",
        "--network-interface", "eth0", "--disable-cache",
    ]  # fmt: skip
    assert command(Horovod(), Hosts(), 2, "--lr", "1")[:4] == ["-np", "2", "-H", "localhost:2"]
    assert command(Horovod(), Hosts(), 2, "--lr", "1")[-3:] == [":main.py", ":--lr", ":1"]


def test_hosts(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# nodes\none slots=4\ntwo:2\n")
    assert Hosts(file=str(file)).slots() == [("one", 4), ("two", 2)]
    assert not Hosts(file=str(file)).is_local
    assert Hosts("localhost:2").is_local
    assert Hosts("one:4,localhost:4").slots() == [("one", 4), ("localhost", 4)]


def test_which_scripts_use_horovod(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("import horovod.torch as hvd\n")
    (tmp_path / "by_helper.py").write_text("import helper\n")
    (tmp_path / "plain.py").write_text("import torch.distributed\n")
    assert uses_horovod(tmp_path / "by_helper.py")
    assert not uses_horovod(tmp_path / "plain.py")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-H", "localhost:2", "plain.py"], "--hosts: it is for --launcher horovodrun or mpirun"),
        (["--mpi", "plain.py"], "--mpi: it is for --launcher horovodrun"),
        (["--verbose", "plain.py"], "--verbose: it is for --launcher horovodrun"),
        (["--launcher", "torchrun", "--timeline", "f", "plain.py"], "--timeline: torchrun cannot follow it; it is for"),
        (["--nnodes", "2", "main.py"], "--nnodes: it is for --launcher torchrun"),
        (["--launcher", "horovodrun", "plain.py"], "plain.py does not use Horovod, which horovodrun is for"),
        (["--launcher", "torchrun", "main.py"], "main.py uses Horovod, whose ranks cannot find each other under torch"),
        (["--launcher", "run", "plain.py"], "--launcher run: one of auto, processes, torchrun, horovodrun, mpirun"),
    ],
)
def test_what_an_engine_cannot_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plain.py").write_text("import torch.distributed\n")
    Path("main.py").write_text("import horovod.torch as hvd\n")
    result = CliRunner().invoke(run, words)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith(f"distify: {said}")
    assert not Path("distify_logs").exists()


def test_help_names_each_engine() -> None:
    told = " ".join(CliRunner().invoke(run, ["--help"], terminal_width=200).stdout.split())
    said = told[told.index("--launcher ENGINE") : told.index("--master URL")]
    assert [name for name in ENGINES if name not in said] == []


@needs_horovod
@pytest.mark.parametrize(
    ("then", "code", "last"),
    [
        ("pass", 0, "[2.0, 2.0]"),
        ("raise ValueError('boom')", 1, "ValueError: boom"),
        pytest.param("sys.exit(7)", 7, "rank 1 of 2 failed with exit code 7", marks=slow),
        pytest.param("os.kill(os.getpid(), 9)", 137, "rank 1 of 2 was killed by SIGKILL", marks=slow),
    ],
    ids=["well", "raises", "exits", "is killed"],
)
def test_how_a_job_ends(distify: CommandLine, tmp_path: Path, then: str, code: int, last: str) -> None:
    (tmp_path / "main.py").write_text(SCRIPT.format(then=then))
    ended = distify("run", "-np", "2", "--logs", "logs", "main.py", "--lr", "a b", python=(), CUDA_VISIBLE_DEVICES="")
    assert ended.code == code, ended.err
    assert ended.out.startswith(b"0 ['--lr', 'a b']\n")
    told = ended.out.decode() if code == 0 else ended.err[ended.err.rindex("distify: rank 1") :]
    assert last in told


SAVES = """\
import signal, sys, time
import horovod.torch as hvd


def save(number, frame):
    time.sleep(1)  # longer than horovodrun gives its ranks
    with open(f"saved{hvd.rank()}", "w") as file:
        file.write("all of it")
    sys.exit(0)


hvd.init()
signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGINT, save)
hvd.barrier()  # "ready" is said by one rank, of both
print("ready", flush=True)
time.sleep(100)
"""


@needs_horovod
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=slow)])
def test_a_signal_reaches_scripts_so_that_they_can_save(
    distify: CommandLine, tmp_path: Path, number: int, code: int
) -> None:
    (tmp_path / "main.py").write_text(SAVES)
    # The test run may ignore SIGINT (started with & in a script), and what it starts would inherit that.
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "from distify.__main__ import main; main()"
    command = [sys.executable, "-c", start, "run", "-np", "2", "--logs", "logs", "--grace", "60", "main.py"]
    env = {**distify.env, "CUDA_VISIBLE_DEVICES": ""}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        process.communicate(timeout=30)
    assert process.returncode == code
    assert [(tmp_path / f"saved{rank}").read_text() for rank in (0, 1)] == ["all of it"] * 2


_HOROVODRUN = os.path.join(os.path.dirname(sys.executable), "horovodrun")
ADASUM = """\
import torch, distify_runtime as rt, horovod.torch as hvd
hvd.init()
rt.init_process_group()
weights = torch.nn.Parameter(torch.ones(2))
optimizer = rt.DistributedOptimizer(torch.optim.SGD([weights], lr=1.0), op="adasum")
(weights * torch.tensor([1.0, 0.0] if rt.rank() else [0.0, 1.0])).sum().backward()
optimizer.step()
print(weights.tolist())
"""


@needs_horovod
@pytest.mark.parametrize("controller", some(["gloo", "mpi"], ["gloo"]))
def test_adasum(distify: CommandLine, tmp_path: Path, controller: str) -> None:
    """Steps that are orthogonal add up. Over Gloo there is no Adasum, and a line says so."""
    if controller == "mpi" and b"[X] MPI" not in subprocess.check_output([_HOROVODRUN, "--check-build"]):
        pytest.skip("this Horovod was built without MPI")
    (tmp_path / "main.py").write_text(ADASUM)
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    words = ("-np", "2", f"--{controller}", "--logs", "logs", "main.py")
    ended = distify("run", *words, python=(), CUDA_VISIBLE_DEVICES="", **allowed)
    if controller == "mpi":
        assert (ended.code, ended.out) == (0, b"[0.0, 0.0]\n"), ended.err
    else:
        assert ended.code == 1
        assert "distify: Adasum needs ranks that speak MPI or NCCL: " in ended.err
        assert "Traceback" not in ended.err
