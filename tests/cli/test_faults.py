"""What goes wrong in the middle of a run: nothing hangs, nothing is lost, no process is left, and the cause is named.

More of it is in `test_run.py` (a rank raises, is killed, ends early), in `tests/runtime/test_watch_hangs.py` (a rank
never comes to a collective), and in `tests/launchers/test_faults_of_machines.py` what needs root.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from command_line import CommandLine, Ended

from tests.grid import slow

#: It goes on where it was, if it was somewhere.
TRAIN = """\
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
loader = DataLoader(data, 8, shuffle=True)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), 0.01)
start = 0
if os.path.exists("last.pt"):
    state = torch.load("last.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    start = state["epoch"] + 1
for epoch in range(start, 3):
    for x, y in loader:
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt")
print("trained from", start)
"""
#: Killed in the fifth step, where the run has begun anew; then in the middle of the last save.
AT_A_STEP = """\
        optimizer.step()
        if start == 0 and epoch == 1 and rt.rank() == 1:
            os.kill(os.getpid(), 9)
"""
IN_A_SAVE = """\
    class Fatal:
        def __reduce__(self):
            if epoch == 2 and start == 1:
                os.kill(os.getpid(), 9)
            return type(model.state_dict()), ()
    if rt.is_main_process():
        torch.save({"fatal": Fatal(), """


@pytest.fixture
def converted(distify: CommandLine) -> str:
    (distify.folder / "train.py").write_text(TRAIN)
    ended = distify("convert", "train.py", "--yes")
    assert ended.code == 0, ended.err
    return (distify.folder / "train_dist.py").read_text()


def run(distify: CommandLine, script: str, *words: str) -> Ended:
    (distify.folder / "train_dist.py").write_text(script)
    return distify("run", "-np", "2", "--logs", "logs", *words, "train_dist.py", CUDA_VISIBLE_DEVICES="")


def trained(distify: CommandLine) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = torch.load(distify.folder / "last.pt")["model"]
    return state


def test_a_run_that_starts_anew_ends_as_one_that_was_not_broken(distify: CommandLine, converted: str) -> None:
    assert run(distify, converted).code == 0
    unbroken = trained(distify)
    (distify.folder / "last.pt").unlink()
    save = "    if rt.is_main_process():\n        torch.save({"
    assert converted.count(save) == converted.count("        optimizer.step()\n") == 1
    broken = converted.replace("        optimizer.step()\n", AT_A_STEP).replace(save, IN_A_SAVE)
    ended = run(distify, broken, "--max-restarts", "2")
    assert (ended.code, ended.out) == (0, b"trained from 2\n"), ended.err
    said = [line for line in ended.err.splitlines() if line.startswith("distify: rank")]
    assert said == [
        "distify: rank 1 was killed by SIGKILL (out of memory?); all ranks start anew (1 of 2)",
        "distify: rank 0 was killed by SIGKILL (out of memory?); all ranks start anew (2 of 2)",
    ]
    resumed = trained(distify)
    assert all(torch.equal(unbroken[name], resumed[name]) for name in unbroken)
    assert [path.name for path in distify.folder.glob("last*")] == ["last.pt"]


def test_a_port_that_is_taken_is_named_before_anything_starts(distify: CommandLine) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        where = f"localhost:{other.getsockname()[1]}"
        ended = run(distify, STUBBORN, "--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint", where)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, b"", 1)
    assert ended.err.startswith(f"distify: --rdzv-endpoint {where}: the port is taken, by a run that goes on or by ")
    assert not (distify.folder / "logs").exists()


#: Looks converted, but starts without torch's second.
STUBBORN = """\
import os, signal, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
if False:
    import distify_runtime
open("pid" + os.environ["RANK"], "w").write(str(os.getpid()))
while not (os.path.exists("pid0") and os.path.exists("pid1")):
    time.sleep(0.01)
print("training", flush=True)
time.sleep(300)
"""
#: As a script that is to be pre-empted does it.
SAVES_AT_THE_END = """\
import os, signal, sys, time
if False:
    import distify_runtime

def save(number, frame):
    time.sleep(0.5)
    open("saved" + os.environ["RANK"], "w").write("all of it")
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
open("pid" + os.environ["RANK"], "w").write(str(os.getpid()))
while not (os.path.exists("pid0") and os.path.exists("pid1")):
    time.sleep(0.01)
print("training", flush=True)
time.sleep(300)
"""


def started(distify: CommandLine, script: str) -> subprocess.Popen[bytes]:
    (distify.folder / "train_dist.py").write_text(script)
    # The test run may ignore SIGINT (started with & in a script), and what it starts would inherit that.
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "from distify.__main__ import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", start, "run", "-np", "2", "--logs", "logs", "--grace", "60", "train_dist.py"],
        cwd=distify.folder,
        env={**distify.env, "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"training\n"
    return process


def assert_ended(distify: CommandLine) -> None:
    for rank in (0, 1):
        with pytest.raises(ProcessLookupError):
            os.kill(int((distify.folder / f"pid{rank}").read_text()), 0)


def test_a_second_ctrl_c_ends_what_heeds_nothing(distify: CommandLine) -> None:
    with started(distify, STUBBORN) as process:
        process.send_signal(signal.SIGINT)
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "distify: ending all ranks; Ctrl-C again kills them\n" in err.decode()
    assert_ended(distify)


def test_before_it_is_preempted_a_script_can_save(distify: CommandLine) -> None:
    with started(distify, SAVES_AT_THE_END) as process:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 143
    assert err.decode().endswith("distify: ended by SIGTERM; logs in logs\n")
    assert [Path(distify.folder / f"saved{rank}").read_text() for rank in (0, 1)] == ["all of it"] * 2
    assert_ended(distify)


#: It goes on until the other machine is gone, and says how many are left.
ELASTIC = """\
import time

import torch

import distify_runtime as rt

rt.init_process_group()
while rt.world_size() == 2:
    rt.all_reduce_sum(torch.ones(1))
    open(f"step{rt.rank()}", "w").close()
    time.sleep(0.05)
print("alone")
"""


@slow  # torchrun waits half a minute for machines that may yet come
def test_where_a_machines_launcher_is_gone_the_others_go_on(distify: CommandLine) -> None:
    (distify.folder / "train.py").write_text(ELASTIC)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{free.getsockname()[1]}"
    runs = []
    for node in (0, 1):
        words = ["--nnodes", "1:2", "--node-rank", str(node), "--rdzv-endpoint", where, "--max-restarts", "3"]
        words = ["run", "-np", "1", *words, "--hang-timeout", "60", "--logs", f"logs{node}", "train.py"]
        command = [sys.executable, "-m", "distify", *words]
        env = {**distify.env, "CUDA_VISIBLE_DEVICES": ""}
        runs.append(
            subprocess.Popen(command, cwd=distify.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        )
    try:
        until = time.monotonic() + 90
        while not all((distify.folder / f"step{rank}").exists() for rank in (0, 1)):
            assert time.monotonic() < until
            time.sleep(0.1)
        runs[1].kill()
        runs[1].communicate()
        out, err = runs[0].communicate(timeout=170)
    finally:
        for one in runs:
            one.kill()
    assert (runs[0].returncode, out) == (0, b"alone\n"), err


def test_torchrun_on_one_of_several_machines_ends_with_its_launcher(distify: CommandLine) -> None:
    """By itself it would go on to meet the others, and start ranks that nobody leads."""
    where = ("--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint", "127.0.0.1:9")
    (distify.folder / "train_dist.py").write_text(STUBBORN)
    command = [sys.executable, "-m", "distify", "run", "-np", "1", *where, "--logs", "logs", "train_dist.py"]
    launcher = subprocess.Popen(command, cwd=distify.folder, env=distify.env, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while not (torchruns := [pid for pid in children_of(launcher.pid) if b"torch.distributed.run" in words_of(pid)]):
        assert time.monotonic() < until
        time.sleep(0.02)
    launcher.kill()
    launcher.communicate()
    while words_of(torchruns[0]):
        assert time.monotonic() < until
        time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def words_of(pid: int) -> list[bytes]:
    """Of a process's command line; none of one that has ended."""
    try:
        return list(filter(None, Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")))
    except FileNotFoundError:
        return []
