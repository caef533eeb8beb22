"""`distify doctor`: what is there and what is not, found in processes of their own."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CommandLine

from distify.machine import programs
from tests.grid import slow

#: Stands before the real torch, and cannot be imported.
BROKEN = "raise ImportError('libcudart.so.13: cannot open shared object file')\n"
LIMITS = """
import json, resource
from distify.limits import limits
resource.setrlimit(resource.RLIMIT_NOFILE, (500, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
print(json.dumps([vars(item) for item in limits()]))
"""
STATES = {"ok", "absent", "missing"}


def test_this_machine_can_train(distify: CommandLine) -> None:
    ended = distify("doctor", "--json")
    items = {item["name"]: item for item in json.loads(ended.out)}
    assert ended.code == 0
    assert all(items[name]["state"] == "ok" for name in ("Python", "torch", "processors", "Gloo", "torchrun"))
    engines = {"mpirun", "mpiexec", "srun", "sbatch", "kubectl", "horovodrun", "Horovod", "pyspark", "Java", "ray"}
    assert engines | {"NCCL"} <= items.keys()
    assert {item["state"] for item in items.values()} <= STATES
    assert all(item["advice"] for item in items.values() if item["state"] == "missing")


def test_what_starts_ranks_is_where_the_path_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sbatch", "java"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "kubectl").write_text("no program")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    found = {item.name: item for item in programs()}
    assert [found["sbatch"].text, found["Java"].text] == [f"{tmp_path}/sbatch", f"{tmp_path}/java"]
    assert (found["kubectl"].state, found["kubectl"].text) == ("absent", "not found")
    assert found["kubectl"].advice.startswith("only to hand in jobs for Kubernetes")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert {item.state for item in programs()} == {"absent"}
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    assert [item.text for item in programs() if item.state == "ok"] == ["/opt/java"]


def test_a_real_collective(distify: CommandLine) -> None:
    ended = distify("doctor", "--collective", "-np", "3", CUDA_VISIBLE_DEVICES="")
    last = ended.out.decode().splitlines()[-1]
    assert (ended.code, ended.err) == (0, "")
    assert re.fullmatch(r"all-reduce ok +3 ranks over Gloo: \d+ µs for 4 bytes, \d+\.\d\d GB/s for 16 MiB", last)


@slow
def test_a_collective_that_fails_says_why(distify: CommandLine) -> None:
    ended = distify("doctor", "--collective", "--json", CUDA_VISIBLE_DEVICES="", GLOO_SOCKET_IFNAME="none0")
    found = json.loads(ended.out)[-1]
    assert (ended.code, found["name"], found["state"]) == (1, "all-reduce", "missing")
    assert found["text"].startswith("2 ranks: a machine's name or network is not found: GLOO_SOCKET_IFNAME")
    assert found["advice"] == "all of it: distify run -np 2 -m distify.all_reduce"


def test_what_the_machine_limits(distify: CommandLine) -> None:
    """A port that is taken and few files are no reason that nothing can be trained."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind(("", 29500))
            other.listen()
        except OSError:
            pass  # somebody has it: all the better
        done = subprocess.run(
            [sys.executable, "-c", LIMITS], cwd=distify.folder, env=distify.env, capture_output=True, check=True
        )
    items = {item["name"]: item for item in json.loads(done.stdout)}
    assert (items["port"]["state"], items["open files"]["state"]) == ("absent", "absent")
    assert items["open files"]["text"] == "500 for a process"
    assert items["port"]["text"] == "29500, the usual one of --rdzv-endpoint, is taken"
    assert items["host name"]["text"].startswith(socket.gethostname())


def test_np_goes_with_collective(distify: CommandLine) -> None:
    assert distify("doctor", "-np", "2").code == 2


def test_a_torch_that_does_not_load(distify: CommandLine) -> None:
    (distify.folder / "torch").mkdir()
    (distify.folder / "torch" / "__init__.py").write_text(BROKEN)
    ended = distify("doctor", PYTHONPATH=f"{distify.folder}:{distify.env['PYTHONPATH']}")
    assert (ended.code, ended.err) == (1, "")
    lines = ended.out.decode().splitlines()
    (torch,) = [line for line in lines if line.startswith("torch ")]
    assert torch.startswith("torch      missing ImportError: libcudart.so.13: cannot open shared object file (")
    assert "-m pip install torch" in torch


def test_nothing_is_run_without_an_answer(distify: CommandLine, tmp_path: Path) -> None:
    """The command is shown; to run it takes a yes."""
    package = tmp_path / "elsewhere" / "distify"
    ended = distify("doctor", "--fix", "horovod")
    assert not package.exists()
    assert ended.out == b""
    assert "horovod" in ended.err


def test_yes_goes_with_fix(distify: CommandLine) -> None:
    assert distify("doctor", "--yes").code == 2
