"""Starts ranks for tests: each a fresh interpreter, or a fork of one that has imported torch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from distify_runtime.trace.processes import Ranks, RunError, torchrun
from distify_runtime.trace.rendezvous import rendezvous

from tests import gpus
from tests.equivalence.forks import Fork

ROOT = Path(__file__).resolve().parents[2]

__all__ = ["ROOT", "RunError", "run_ranks"]


def run_ranks(
    command: Sequence[str], world_size: int, workdir: Path, logs: Path, forked: bool = False, horovod: bool = False
) -> list[str]:
    """Runs `python COMMAND` once per rank and returns each one's stdout; see `Ranks`.

    horovod: the launcher is Horovod's, else torch's.
    forked: each rank is a fork of an interpreter that has torch already; the command begins with a script.
    """
    with rendezvous(world_size) if horovod else nullcontext(gpus.spread(torchrun(world_size))) as worlds:
        ranks = Ranks(command, world_size, workdir, logs, env=gpus.environment(), worlds=worlds)
        return ranks.run(Fork if forked else None)
