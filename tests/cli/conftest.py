"""The command line in an empty folder, and a script to give it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command_line import ROOT, TRAIN, CommandLine, Here
from distify_runtime.trace import processes

from tests.equivalence.forks import Fork


@pytest.fixture
def distify(tmp_path: Path) -> CommandLine:
    """The command line in an empty folder, with this checkout's packages."""
    unwanted = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "DISTIFY_DEBUG", "PYTHONWARNINGS")
    env = {name: value for name, value in os.environ.items() if name not in unwanted}
    packages = [str(ROOT / folder) for folder in (".", "codemods", "runtime")]
    env["PYTHONPATH"] = os.pathsep.join([*packages, *filter(None, [env.get("PYTHONPATH")])])
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    return CommandLine(tmp_path, env)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    """The same in this process, and in the same folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(processes, "_start", Fork)
    return Here(tmp_path)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """An ordinary training script in the command line's folder."""
    path = tmp_path / "train.py"
    path.write_bytes(TRAIN)
    return path
