"""What the tests of launchers start things with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]

#: What a script's parameters are under a launcher: of the command line in front of `python`, and its environment.
Trained = Callable[..., dict[str, torch.Tensor]]


def needs(program: str) -> str:
    """Where the program is; skips the test where it is not installed."""
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if path is None:
        pytest.skip(f"{program} is not installed: `make test-launchers` installs it where there is apt")
    return path


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join(str(ROOT / name) for name in ("", "codemods", "runtime"))
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "OMPI_", "PMI"))}
    return {**plain, "PYTHONPATH": path, "PYTHONHASHSEED": "0", **more}
