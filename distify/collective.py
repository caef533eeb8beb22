"""One real all-reduce over the launcher: whether it works here, and how fast."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import Any

from distify.all_reduce import LARGE, SMALL
from distify.machine import Item

#: For the whole run: a network that answers nobody is an answer, too.
SECONDS = 120


def measured(ranks: int) -> Item:
    """Starts so many ranks, and tells what came of it."""
    name, many = "all-reduce", f"{ranks} rank{'s' * (ranks != 1)}"
    try:
        found = all_reduced(ranks, LARGE)
    except CollectiveError as error:
        advice = f"all of it: distify run -np {ranks} -m distify.all_reduce"
        return Item(name, "missing", f"{many}: {error}", advice)
    much = f", {found['bandwidth'] / 1e9:.2f} GB/s for {LARGE // 2**20} MiB" if ranks > 1 else ""
    little = f"{found['latency'] * 1e6:.0f} µs for {SMALL} bytes"
    return Item(name, "ok", f"{many} over {found['backend']}: {little}{much}")


class CollectiveError(Exception):
    """It did not come to its end: what distify said last, or somebody else."""


def all_reduced(ranks: int, size: int) -> dict[str, Any]:
    """What `all_reduce.py` found, with so many bytes. Raises CollectiveError."""
    with tempfile.TemporaryDirectory(prefix="distify-") as logs:
        how = ["-np", str(ranks), "--oversubscribe", "--timeout", str(SECONDS), "--logs", logs]
        words = [sys.executable, "-m", "distify", "run", *how, "-m", "distify.all_reduce", str(size)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CollectiveError(_why(done.stderr))
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _why(said: str) -> str:
    """distify's own last sentence, or the last line there is."""
    lines = [line for line in said.splitlines() if line.strip()]
    own = [line.removeprefix("distify: ") for line in lines if line.startswith("distify: ")]
    return (own or lines or ["it ended without a word"])[-1]
