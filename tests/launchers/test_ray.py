"""`distify run --launcher ray`: on a Ray that is started for the run, in a network of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import torch

from tests.launchers.starting import (
    FAILING,
    ODD_WORDS,
    State,
    distify_run,
    environment,
    failed_with_rank_1,
    needs,
    same,
)

pytestmark = pytest.mark.launchers
pytest.importorskip("ray", reason="Ray is not installed: `make test-launchers` installs it")


@pytest.fixture
def alone() -> list[str]:
    """In front of a command: a machine with nothing but loopback, since Ray listens at all else that it finds."""
    words = [needs("unshare"), "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    needs("ip")
    tried = subprocess.run([*words, "true"], capture_output=True, text=True, timeout=60)
    if tried.returncode:
        pytest.skip(f"no networks of one's own can be made here: {tried.stderr.strip()}")
    return words


def test_ray(converted: Path, tmp_path: Path, by_torchrun: State, alone: list[str]) -> None:
    words = ("--launcher", "ray", "-np", "2", "--logs", str(tmp_path / "logs"), "train_dist.py")
    done = distify_run(converted, *words, str(tmp_path / "model.pt"), before=alone, HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr + (tmp_path / "logs/ray.log").read_text()
    assert same(torch.load(tmp_path / "model.pt"), by_torchrun)
    assert not (tmp_path / "ray_results").exists()


def test_a_failure(tmp_path: Path, alone: list[str]) -> None:
    (tmp_path / "fail.py").write_text(FAILING)
    done = distify_run(
        tmp_path, "--launcher", "ray", "-np", "2", "fail.py", *ODD_WORDS, before=alone, HOME=str(tmp_path)
    )
    assert failed_with_rank_1(done, tmp_path, ODD_WORDS)
    assert not [line for line in _processes() if "raylet" in line and str(tmp_path) in line]


def test_the_program_that_is_printed(converted: Path, tmp_path: Path, by_torchrun: State, alone: list[str]) -> None:
    words = ("--launcher", "ray", "-np", "2", "--dry-run", "train_dist.py", str(tmp_path / "it's a model.pt"))
    program = distify_run(converted, *words).stdout
    own = environment(HOME=str(tmp_path), GLOO_SOCKET_IFNAME="lo")
    subprocess.run([*alone, "sh", "-c", program], cwd=converted, env=own, check=True, timeout=300)
    assert same(torch.load(tmp_path / "it's a model.pt"), by_torchrun)


def _processes() -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.append((process / "environ").read_bytes().decode(errors="replace") + os.readlink(process / "exe"))
        except OSError:
            continue
    return found
