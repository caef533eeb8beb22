"""The command of torchrun: what starts ranks that torch finds, on this machine or on several of which this is one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from distify_runtime.launch.config import LaunchConfig, python_command


def torchrun(config: LaunchConfig, worker: Sequence[str], scratch: Path) -> list[str]:
    return [*_command(config), "--log-dir", str(scratch), *map(literal, worker)]


def plain_torchrun(config: LaunchConfig) -> list[str]:
    # Else torchrun takes what looks like its own, and a first `--`.
    separator = ["--"] * any(word.startswith("-") for word in config.args)
    return [*_command(config), *["-m"] * config.module, *separator, *map(literal, [config.target, *config.args])]


def literal(word: str) -> str:
    """For torchrun, which puts in for `${local_rank}` what that is, and a dollar for two, as string.Template does."""
    return word.replace("$", "$$")


def _command(config: LaunchConfig) -> list[str]:
    where = ["--standalone", "--local-addr", "127.0.0.1"] if config.nodes is None else config.nodes.options()
    count = ["--nproc-per-node", str(config.nproc), "--max-restarts", str(config.max_restarts)]
    return [*python_command(config.python), "-m", "torch.distributed.run", *where, *count]
