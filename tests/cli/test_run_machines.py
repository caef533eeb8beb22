"""`distify run` on several machines, here of one name and network: each says what brought the run down, wherever."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest
from command_line import CommandLine, Ended
from distify_runtime.trace.processes import free_port

#: Looks converted, but starts without torch's second.
ALONE = """\
import os, signal, sys, time
rank = os.environ['RANK']
if False:
    import distify_runtime
"""
TOGETHER = """\
import sys
import distify_runtime as rt
rt.init_process_group()
for step in range(200):
    if step == 5 and rt.rank() == 1:
        raise ValueError('boom')
    rt.barrier()
"""


def run(distify: CommandLine, scripts: list[str], *words: str) -> list[Ended]:
    """A machine for each of the scripts, with a rank and a folder of its own."""
    where, ended = f"127.0.0.1:{free_port()}", dict[int, Ended]()

    def start(node: int) -> None:
        folder = distify.folder / f"machine{node}"
        folder.mkdir()
        (folder / "train_dist.py").write_text(scripts[node])
        given = ("--nnodes", str(len(scripts)), "--node-rank", str(node), "--rdzv-endpoint", where, "--logs", "logs")
        machine = CommandLine(folder, distify.env)
        ended[node] = machine("run", "-np", "1", *given, *words, "train_dist.py", python=(), CUDA_VISIBLE_DEVICES="")

    machines = [threading.Thread(target=start, args=(node,)) for node in range(len(scripts))]
    for machine in machines:
        machine.start()
    for machine in machines:
        machine.join()
    return [ended[node] for node in range(len(scripts))]


def last_words(ended: Ended) -> list[str]:
    lines = ended.err.splitlines()
    return lines[[line.startswith("distify: rank ") for line in lines].index(True) :]


def test_what_a_rank_of_another_machine_failed_of(distify: CommandLine) -> None:
    """Machine 1 hears of it from machine 0, which machine 2 has told; and no rank waits for one that is gone."""
    script = ALONE + "if rank == '2': raise ValueError('boom')\nprint('waits', flush=True)\ntime.sleep(300)\n"
    before = time.monotonic()
    ended = run(distify, [script] * 3)
    assert time.monotonic() - before < 120
    assert [each.code for each in ended] == [1, 1, 1]
    host = socket.gethostname()
    for node, each in enumerate(ended):
        log = f"there is {distify.folder}/machine2/logs/rank2.log" if node < 2 else "is logs/rank2.log"
        assert last_words(each)[:2] == [
            f"distify: rank 2 of 3 on {host} failed with exit code 1; its log {log}",
            "Traceback (most recent call last):",
        ]
        assert last_words(each)[-1] == "ValueError: boom"
    assert ended[0].out == b"waits\n"


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_how_a_rank_of_another_machine_was_killed(distify: CommandLine, rank: int) -> None:
    script = ALONE + f"if rank == '{rank}': os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(300)\n"
    ended = run(distify, [script] * 2)
    assert [each.code for each in ended] == [137, 137]
    said = f"distify: rank {rank} of 2 on {socket.gethostname()} was killed by SIGKILL (out of memory?); its log "
    assert [last_words(each)[0].startswith(said) for each in ended] == [True, True], ended
    assert ["; its log there is " in last_words(each)[0] for each in ended] == [rank == 1, rank == 0]


def test_a_rank_that_loses_another_is_not_what_is_named(distify: CommandLine) -> None:
    ended = run(distify, [TOGETHER] * 2)
    assert [each.code for each in ended] == [1, 1]
    for each in ended:
        assert last_words(each)[0].startswith(f"distify: rank 1 of 2 on {socket.gethostname()} failed with exit code 1")
        assert last_words(each)[-1] == "[rank1]: ValueError: boom"


@pytest.mark.slow
def test_scripts_that_differ_are_told_on_each_machine(distify: CommandLine) -> None:
    ended = run(distify, [TOGETHER, TOGETHER + "# newer\n"])
    assert [each.code for each in ended] == [1, 1]
    said = [line for each in ended for line in each.err.splitlines() if "machines do not run the same" in line]
    assert len(set(said)) == 1
    assert [any(said[0] in line for line in each.err.splitlines()) for each in ended] == [True, True]
    assert said[0].startswith("distify: machines do not run the same: script is ")


def test_others_who_ask_at_the_port_are_no_launchers(distify: CommandLine) -> None:
    """Neither what is no question, nor what is no failure, disturbs a run."""
    script = ALONE + "open('starts', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('trained')\n"
    port, ended = free_port(), list[Ended]()
    Path(distify.folder, "train_dist.py").write_text(script)
    where = ("--nnodes", "1:1", "--node-rank", "0", "--rdzv-endpoint", f"127.0.0.1:{port}")

    def start() -> None:
        ended.append(distify("run", "-np", "1", *where, "train_dist.py", python=(), CUDA_VISIBLE_DEVICES=""))

    machine = threading.Thread(target=start)
    machine.start()
    while machine.is_alive() and not Path(distify.folder, "starts").exists():
        time.sleep(0.05)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks:
        asks.settimeout(20)
        asks.sendto(b"who is there?", ("127.0.0.1", port))
        asks.sendto(b"distify: who listens? ", ("127.0.0.1", port))
        answer = asks.recv(100)
    with socket.create_connection(("127.0.0.1", int(answer.rpartition(b" ")[2])), timeout=20) as other:
        other.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert other.recv(1) == b""
    Path(distify.folder, "go").touch()
    machine.join()
    assert (ended[0].code, ended[0].out) == (0, b"trained\n")
