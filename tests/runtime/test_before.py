"""What is seen before ranks are started."""

from __future__ import annotations

import resource
import socket
from pathlib import Path

import pytest
from distify_runtime.launch import LaunchConfig, LaunchError, before, check_start, doubts
from distify_runtime.launch.hosts import Hosts
from distify_runtime.launch.nodes import Nodes


def config(tmp_path: Path, script: str = "", **more: object) -> LaunchConfig:
    path = tmp_path / "train.py"
    path.write_text(script)
    return LaunchConfig(str(path), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["127.0.0.1", ""])
def test_the_port_of_machine_0_is_free(tmp_path: Path, address: str) -> None:
    with socket.socket() as other:
        other.bind((address, 0))
        other.listen()
        where = f"localhost:{other.getsockname()[1]}"
        with pytest.raises(LaunchError, match=f"--rdzv-endpoint {where}: the port is taken"):
            check_start(config(tmp_path, nodes=Nodes("2", 0, where)))
        check_start(config(tmp_path, nodes=Nodes("2", 1, where)))  # machine 0 is there already
        check_start(config(tmp_path, nodes=Nodes("1:2", None, where)))  # it may be
    check_start(config(tmp_path, nodes=Nodes("2", 0, where)))
    check_start(config(tmp_path))


def test_nothing_is_said_of_a_machine_that_has_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(before, "free_shared_memory", lambda: 2**34)
    monkeypatch.setattr(before, "file_limits", lambda: (20_000, 20_000))
    assert list(doubts(config(tmp_path, "DataLoader(data, num_workers=4)", nproc=8))) == []


def test_shared_memory_is_for_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(before, "free_shared_memory", lambda: 64 * 2**20)
    assert list(doubts(config(tmp_path, "DataLoader(data)"))) == []
    (said,) = doubts(config(tmp_path, "DataLoader(data, num_workers=4)"))
    assert said.startswith("/dev/shm has 64 MiB free, which workers of loaders pass batches through")


def test_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(before, "free_shared_memory", lambda: 2**34)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
        assert list(doubts(config(tmp_path, nproc=4))) == []
        (said,) = doubts(config(tmp_path, "parser.add_argument('--num-workers')", nproc=4))
        assert said.startswith("a process may open 1024 files here, which is few for 4 ranks")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


TRAINS = "import torch\nfor images, labels in loader:  # no download\n    optimizer.step()\ntorch.save(1, 'model.pt')\n"


def test_a_script_that_would_begin_anew_says_so_before_it_starts(tmp_path: Path) -> None:
    (said,) = doubts(config(tmp_path, TRAINS, max_restarts=3))
    assert said.startswith("--max-restarts 3: nothing in the script reads a checkpoint (torch.load, load_state_dict)")
    assert list(doubts(config(tmp_path, TRAINS))) == []


@pytest.mark.parametrize(
    ("script", "beside"),
    [
        ("model.load_state_dict(torch.load('model.pt'))", {}),
        ("trainer.fit(model, ckpt_path='last')", {}),
        ("from kept import begin\n", {"kept.py": "state = torch.load('model.pt')"}),
        ("if True:\n    import lib.kept as kept, os\n", {"lib/kept.py": "state = torch.load('model.pt')"}),
        ("from lib import kept\n", {"lib/kept.py": "from . import more", "lib/more.py": "torch.load('model.pt')"}),
    ],
)
def test_of_a_script_that_goes_on_nothing_is_said(tmp_path: Path, script: str, beside: dict[str, str]) -> None:
    for name, text in beside.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert list(doubts(config(tmp_path, TRAINS + script, max_restarts=3))) == []
    for name in beside:  # and it was that file
        (tmp_path / name).unlink()
    assert len(list(doubts(config(tmp_path, TRAINS + script, max_restarts=3)))) == int(bool(beside))


def test_hosts_that_nobody_knows_are_named(tmp_path: Path) -> None:
    (said,) = doubts(config(tmp_path, hosts=Hosts("localhost:2,no.such.host.invalid:2")))
    assert said.startswith("--hosts: this machine does not know where no.such.host.invalid is (")
