"""Starts ranks for tests: each a fresh interpreter, or a fork of one that has imported torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from distify_runtime.trace.processes import Ranks, RunError

from tests.equivalence.forks import Fork

ROOT = Path(__file__).resolve().parents[2]

__all__ = ["ROOT", "RunError", "run_ranks"]


def run_ranks(command: Sequence[str], world_size: int, workdir: Path, logs: Path, forked: bool = False) -> list[str]:
    """Runs `python COMMAND` once per rank and returns each one's stdout; see `Ranks`.

    forked: each rank is a fork of an interpreter that has torch already; the command begins with a script.
    """
    return Ranks(command, world_size, workdir, logs).run(Fork if forked else None)
