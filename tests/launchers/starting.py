"""What the tests of launchers start things with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]

State = dict[str, torch.Tensor]
#: What a script's parameters are under a launcher: of the command line in front of `python`, and its environment.
Trained = Callable[..., State]


def same(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


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


def distify_run(
    folder: Path, *words: str, before: Sequence[str] = (), seconds: float = 300, **env: str
) -> subprocess.CompletedProcess[str]:
    """`distify run`, in that folder; `before`: the words in front of it."""
    command = [*before, sys.executable, "-m", "distify", "run", *words]
    return subprocess.run(command, cwd=folder, env=environment(**env), capture_output=True, text=True, timeout=seconds)


#: Rank 1 fails, and the others would go on; `{words}` of the command line are in rank 0's output.
FAILING = """
import os, sys, time
if False:
    import distify_runtime
print("given", sys.argv[1:], "in", os.getcwd(), flush=True)
if os.environ["RANK"] == "1":
    raise ValueError("what went wrong")
time.sleep(200)
"""
#: Words that shells, and options of what starts ranks, take for something else.
ODD_WORDS = ["a b", "c'd", 'e"f', "$HOME", "g\nh", "--m", "-x", "--", "*", "#i", "\\j", "%k", "$(touch pwned)", "ü"]


def failed_with_rank_1(
    done: subprocess.CompletedProcess[str], folder: Path, words: Sequence[str], elsewhere: bool = True
) -> bool:
    """Whether it says what it has to say of FAILING. `elsewhere`: of ranks that may be on another machine."""
    assert (done.returncode, done.stdout) == (1, f"given {list(words)} in {os.path.realpath(folder)}\n"), done.stderr
    where = f" on {os.uname().nodename}" if elsewhere else ""
    assert f"distify: rank 1 of 2{where} failed with exit code 1; its log is " in done.stderr
    return done.stderr.endswith("ValueError: what went wrong\n")
