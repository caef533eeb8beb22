"""`distify run` on one machine: a process for each rank, and no engine between."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import CommandLine, Ended
from distify_runtime.launch.ranks import keep_port

from tests.grid import slow

MEET = """\
import os, torch
from torch import distributed
distributed.init_process_group("gloo")
number = torch.ones(1)
distributed.all_reduce(number)
print(number.item(), flush=True)
distributed.destroy_process_group()
"""


def run(distify: CommandLine, script: str, *words: str, **env: str) -> Ended:
    Path("train_dist.py").write_text(script)
    given = ("-np", "2", "--logs", "logs", *words, "train_dist.py")
    return distify("run", *given, python=(), CUDA_VISIBLE_DEVICES="", **env)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


TELL = """\
import json, os
if False:
    import distify_runtime
rank = os.environ["RANK"]
json.dump(dict(os.environ), open(f"told{rank}", "w"))
"""


def told(rank: int) -> dict[str, str]:
    found: dict[str, str] = json.loads(Path(f"told{rank}").read_text())
    return found


@pytest.mark.parametrize("launcher", ["processes", "torchrun"])
def test_ranks_are_told_what_torchrun_tells_them(distify: CommandLine, launcher: str) -> None:
    assert run(distify, TELL, "--launcher", launcher).code == 0
    for rank in (0, 1):
        env = told(rank)
        numbers = {name: env[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")}
        here = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        assert numbers == {**here, "GROUP_RANK": "0"}
        assert (env["PYTHONUNBUFFERED"], env["PYTHONHASHSEED"], env["GLOO_SOCKET_IFNAME"]) == ("1", "0", "lo")
    assert told(0)["MASTER_PORT"] == told(1)["MASTER_PORT"]


def test_what_an_outer_launcher_has_said_is_not_theirs(distify: CommandLine) -> None:
    """With torchrun's store, ranks would wait for one that nobody serves."""
    outer = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4", "MASTER_PORT": "1"}
    torchruns = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "7", "MASTER_ADDR": "nowhere.invalid"}
    mpis = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "3"}
    script = f"import distify_runtime as rt\nrt.init_process_group()\n{MEET.replace('distributed.init', '#')}"
    ended = run(distify, script, **outer, **torchruns, **mpis, OMPI_COMM_WORLD_LOCAL_SIZE="4")
    assert (ended.code, ended.out) == (0, b"2.0\n"), ended.err


def test_nobody_is_given_the_port_that_rank_0_will_listen_at() -> None:
    with keep_port() as keeper:
        port = keeper.getsockname()[1]
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("", port))
            listener.listen()
            socket.create_connection(("127.0.0.1", port), timeout=5).close()


def test_a_port_that_somebody_listens_at_ends_the_run(distify: CommandLine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = run(distify, MEET, "--env", f"MASTER_PORT={port}", "--grace", "1")
    assert (ended.code, ended.out) == (1, b"")
    assert "EADDRINUSE" in ended.err
    failed, why = ended.err.splitlines()[-2:]
    assert failed == "distify: rank 0 of 2 failed with exit code 1; its log is logs/rank0.log"
    assert why.startswith("distify: the port that ranks meet at is taken")


def test_of_ranks_that_give_up_together_the_one_that_says_why_is_heard(distify: CommandLine) -> None:
    script = TELL + (
        "import time\n"
        "while not os.path.exists(f'told{1 - int(rank)}'): time.sleep(0.01)\n"
        "time.sleep(0.1 * (rank == '0'))\n"
        "raise SystemExit('a batch of 5 does not divide by 2' if rank == '0' else 1)\n"
    )
    ended = run(distify, script)
    assert ended.code == 1
    assert ended.err.splitlines()[1:] == [
        "a batch of 5 does not divide by 2",
        "distify: rank 0 of 2 failed with exit code 1; its log is logs/rank0.log",
    ]


STUBBORN = TELL + (
    "import signal, subprocess, time\n"
    "for number in (signal.SIGINT, signal.SIGTERM):\n    signal.signal(number, signal.SIG_IGN)\n"
    "worker = subprocess.Popen(['sleep', '300'])\n"
    "print(os.getpid(), os.getppid(), worker.pid, file=open(f'pids{rank}.new', 'w'), flush=True)\n"
    "os.rename(f'pids{rank}.new', f'pids{rank}')\n"
    "time.sleep(300)\n"
)


def started(distify: CommandLine, *words: str) -> tuple[subprocess.Popen[bytes], list[int]]:
    """`distify run` of a script that heeds no signal, once it is under way, and the processes that it is made of."""
    Path("train_dist.py").write_text(STUBBORN)
    begin = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    begin += "from distify.__main__ import main; main()"
    given = ["run", "-np", "2", "--logs", "logs", *words, "train_dist.py"]
    process = subprocess.Popen(
        [sys.executable, "-c", begin, *given],
        env={**distify.env, "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    until = time.monotonic() + 60
    while not (Path("pids0").exists() and Path("pids1").exists()) and time.monotonic() < until:
        time.sleep(0.05)
    return process, [int(pid) for rank in (0, 1) for pid in Path(f"pids{rank}").read_text().split()]


def left(pids: list[int], seconds: float) -> list[int]:
    """Which of them are there still, when so much time has passed."""
    until = time.monotonic() + seconds
    while alive := [pid for pid in pids if is_alive(pid)]:
        if time.monotonic() > until:
            for pid in alive:
                os.kill(pid, signal.SIGKILL)
            return alive
        time.sleep(0.05)
    return []


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second: it ended between opening and reading
        return False


def test_the_second_interrupt_kills_what_heeds_none(distify: CommandLine) -> None:
    process, pids = started(distify, "--grace", "200")
    assert process.stderr is not None
    with process:
        process.send_signal(signal.SIGINT)
        while b"Ctrl-C again kills them" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert left(pids, 30) == []
        assert process.wait(30) == 130


@pytest.mark.parametrize("launcher", ["processes", pytest.param("torchrun", marks=slow)])
def test_a_launcher_that_is_killed_leaves_no_rank(distify: CommandLine, launcher: str) -> None:
    process, pids = started(distify, "--launcher", launcher)
    with process:
        process.kill()
        assert left(pids, 30) == []


def test_many_short_runs_end_well(distify: CommandLine) -> None:
    """In about one of five, a rank of DDP over Gloo dies at its exit if nobody sees to it."""
    script = (
        "import torch\nimport distify_runtime as rt\nfrom torch.nn.parallel import DistributedDataParallel\n"
        "rt.init_process_group()\nmodel = DistributedDataParallel(torch.nn.Linear(4, 4))\n"
        "loss = model(torch.randn(2, 4)).sum()\nloss.backward()\n"
    )
    assert [run(distify, script).code for _ in range(30)] == [0] * 30
