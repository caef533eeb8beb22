"""One real all-reduce over the launcher: whether it works here, and how fast."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

from distify.all_reduce import LARGE, SMALL
from distify.machine import Item

#: For the whole run: a network that answers nobody is an answer, too.
SECONDS = 120


def measured(ranks: int) -> Item:
    """Starts so many ranks, and tells what came of it."""
    with tempfile.TemporaryDirectory(prefix="distify-") as logs:
        how = ["-np", str(ranks), "--oversubscribe", "--timeout", str(SECONDS), "--logs", logs]
        words = [sys.executable, "-m", "distify", "run", *how, "-m", "distify.all_reduce"]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    name, many = "all-reduce", f"{ranks} rank{'s' * (ranks != 1)}"
    if done.returncode:
        advice = f"all of it: distify run -np {ranks} -m distify.all_reduce"
        return Item(name, "missing", f"{many}: {_why(done.stderr)}", advice)
    found = json.loads(done.stdout.splitlines()[-1])
    much = f", {found['bandwidth'] / 1e9:.2f} GB/s for {LARGE // 2**20} MiB" if ranks > 1 else ""
    little = f"{found['latency'] * 1e6:.0f} µs for {SMALL} bytes"
    return Item(name, "ok", f"{many} over {found['backend']}: {little}{much}")


def _why(said: str) -> str:
    """distify's own last sentence, or the last line there is."""
    lines = [line for line in said.splitlines() if line.strip()]
    own = [line.removeprefix("distify: ") for line in lines if line.startswith("distify: ")]
    return (own or lines or ["it ended without a word"])[-1]
