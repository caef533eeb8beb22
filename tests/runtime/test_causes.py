"""What a failure is said to mean: of what libraries really say, where that can be had here."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from distify_runtime.launch.causes import CAUSES
from distify_runtime.launch.report import RankEnd, failure_lines
from torch._C._distributed_c10d import TCPStore

LOG = Path("logs/rank1.log")


def last_line(log: str, code: int = 1, repeats: bool = True) -> str:
    return failure_lines(RankEnd(1, code, 0.0), 2, LOG, log, repeats=repeats)[-1]


def traced(error: str, prefix: str = "") -> str:
    return "".join(f"{prefix}{line}\n" for line in ["Traceback (most recent call last):", *error.splitlines()])


def take_the_port() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        TCPStore("127.0.0.1", taken.getsockname()[1], is_master=True, wait_for_workers=False)


def write_to_a_full_disk() -> None:
    with open("/dev/full", "wb", buffering=0) as file:
        file.write(b"checkpoint")


@pytest.mark.parametrize(
    ("fail", "said"),
    [
        (lambda: torch.empty(2**60, dtype=torch.uint8), "this machine's memory is full"),
        (lambda: bytearray(2**62), "this machine's memory is full"),
        (take_the_port, "the port that ranks meet at is taken"),
        (write_to_a_full_disk, "the disk is full"),
        (lambda: torch.save(torch.zeros(10**6), "/dev/full"), "the disk is full"),
        (lambda: socket.getaddrinfo("no.such.host.invalid", 1), "a machine's name or network is not found"),
        pytest.param(
            lambda: torch.zeros(1, device="cuda"),
            "the script asks for a GPU, and this torch is one for CPUs",
            marks=pytest.mark.skipif(torch.version.cuda is not None, reason="this torch is one for GPUs"),
        ),
    ],
)
def test_what_fails_here_is_understood(fail: Callable[[], object], said: str) -> None:
    try:
        fail()
    except Exception:
        log = traceback.format_exc()
    assert last_line(log).startswith(f"distify: {said}")
    assert last_line(log.replace("\n", "\n[rank1]: ")).startswith(f"distify: {said}")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has", "this GPU's memory"),
        ("RuntimeError: CUDA error: out of memory", "this GPU's memory is full"),
        ("RuntimeError: CUDA error: invalid device ordinal", "the script asks for a GPU that this rank does not see"),
        ("RuntimeError: No CUDA GPUs are available", "the script asks for a GPU that this rank does not see"),
        (
            "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, invalid usage (run with "
            "NCCL_DEBUG=WARN for details), NCCL version 2.27.5\nncclInvalidUsage: This usually reflects invalid usage "
            "of NCCL library.\nLast error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000",
            "two ranks are on one GPU",
        ),
        (
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled system error\n"
            "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
            "NCCL cannot reach the other ranks",
        ),
        (
            "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's "
            "workers are out of shared memory. Please try to raise your shared memory limit.",
            "/dev/shm is full",
        ),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. ", "this machine's memory is full"),
        ("OSError: [Errno 24] Too many open files", "a process may not open as many files"),
    ],
)
def test_what_cannot_be_had_here(error: str, said: str) -> None:
    assert last_line(traced(error)).startswith(f"distify: {said}")
    assert last_line(traced(error), repeats=False).startswith(f"distify: {said}")


@pytest.mark.parametrize(
    "log",
    [
        "trained",
        traced("ValueError: boom"),
        traced(
            '  File "t.py", line 3\n    cope()  # with CUDA out of memory, Address already in use\nValueError: boom'
        ),
        "retrying: address already in use\n" + traced("ValueError: boom"),
        traced("RuntimeError: [pair.cc:537] Read error [127.0.0.1]:21159: Connection reset by peer."),
    ],
    ids=["no error", "another", "code that is quoted", "said before", "of another rank"],
)
def test_of_anything_else_nothing_is_said(log: str) -> None:
    assert last_line(log) == log.splitlines()[-1]
    assert "its log is" in last_line(log, repeats=False)


def test_a_signal_that_says_it_all() -> None:
    for number, said in ((signal.SIGKILL, "memory is full"), (signal.SIGBUS, "/dev/shm is full")):
        assert said in last_line("", -number)
    assert last_line("", -signal.SIGSEGV).endswith("its log is logs/rank1.log")


def test_each_sentence_says_what_to_do() -> None:
    said = [cause.means for cause in CAUSES]
    assert all(": " in one or "; " in one for one in said)
    assert all(len(one) < 240 for one in said)


def test_a_rank_that_runs_out_of_memory_says_so_last(tmp_path: Path) -> None:
    script = "import resource, torch\nresource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))\ntorch.zeros(2**40)\n"
    (tmp_path / "train.py").write_text(script)
    start = (
        "from distify_runtime.launch import LaunchConfig, launch\nraise SystemExit(launch(LaunchConfig('train.py')))"
    )
    words = [sys.executable, "-c", start]
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("distify: this machine's memory is full: ")
