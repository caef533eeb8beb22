"""`distify doctor`: what is there and what is not, found in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import CommandLine

#: Stands before the real torch, and cannot be imported.
BROKEN = "raise ImportError('libcudart.so.13: cannot open shared object file')\n"
STATES = {"ok", "absent", "missing"}


def test_this_machine_can_train(distify: CommandLine) -> None:
    ended = distify("doctor", "--json")
    items = {item["name"]: item for item in json.loads(ended.out)}
    assert ended.code == 0
    assert all(items[name]["state"] == "ok" for name in ("Python", "torch", "processors", "Gloo", "torchrun"))
    assert {"mpirun", "srun", "horovodrun", "Horovod", "NCCL"} <= items.keys()
    assert {item["state"] for item in items.values()} <= STATES
    assert all(item["advice"] for item in items.values() if item["state"] == "missing")


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
