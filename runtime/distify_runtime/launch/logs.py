"""The folder of the logs: rank0.log, rank1.log … and the launcher's own, where it had something to say."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from distify_runtime.launch.config import LaunchConfig, LaunchError

DEFAULT_FOLDER = Path("distify_logs")


def fresh_logs(target: str, module: bool = False) -> Path:
    """A folder in the working directory that does not exist yet: `distify_logs/<script>-<date>-<time>`."""
    name = target.rpartition(".")[2] if module else Path(target).stem
    wanted = DEFAULT_FOLDER / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder, number = wanted, 1
    while folder.exists():
        number += 1
        folder = wanted.with_name(f"{wanted.name}-{number}")
    return folder


def prepare_logs(config: LaunchConfig) -> None:
    """Makes the folder with an empty log for each rank. Raises LaunchError where that is not possible."""
    try:
        config.logs.mkdir(parents=True, exist_ok=True)
        if config.logs.parent == DEFAULT_FOLDER:
            (DEFAULT_FOLDER / ".gitignore").write_text("*\n")
        for old in config.logs.iterdir():
            if re.fullmatch(r"rank\d+\.log", old.name):
                old.unlink()  # a rank 3 of an earlier run of four would pass for one of this run
        for rank in range(config.nproc if config.nodes is None else 0):  # else it shows which ranks are here
            config.log(rank).touch()
    except OSError as error:
        raise LaunchError(f"{config.logs}: cannot hold the logs: {error.strerror}") from None


def open_log(path: Path) -> int:
    """A descriptor that appends: stdout and stderr share it."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
