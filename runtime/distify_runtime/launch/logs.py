"""The folder of the logs: rank0.log, rank1.log … and the launcher's own, where it had something to say."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from pathlib import Path

from distify_runtime.launch.config import LaunchConfig, LaunchError
from distify_runtime.launch.report import RankEnd

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
    make_folder(config.logs)
    try:
        for old in config.logs.iterdir():
            if re.fullmatch(r"rank\d+\.(log|end)", old.name):
                old.unlink()  # a rank 3 of an earlier run of four would pass for one of this run
        is_known = config.nodes is None and config.here  # else the logs show which ranks are here
        for rank in range(config.nproc if is_known else 0):
            config.log(rank).touch()
    except OSError as error:
        raise LaunchError(f"{config.logs}: cannot hold the logs: {error.strerror}") from None


def make_folder(logs: Path) -> None:
    """Raises LaunchError where that is not possible."""
    try:
        logs.mkdir(parents=True, exist_ok=True)
        if DEFAULT_FOLDER in (logs, logs.parent):
            (DEFAULT_FOLDER / ".gitignore").write_text("*\n")
    except OSError as error:
        raise LaunchError(f"{logs}: cannot hold the logs: {error.strerror}") from None


def take_notes(logs: Path) -> dict[int, RankEnd]:
    """How ranks on other machines have ended, if they write into the same folder: takes their notes away."""
    found = {}
    for note in logs.glob("rank*.end"):
        end = RankEnd(**json.loads(note.read_text(encoding="utf-8")))
        found[end.rank] = end
        note.unlink()
    return found


def open_log(path: Path) -> int:
    """A descriptor that appends: stdout and stderr share it."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)


def short_folder() -> str | None:
    """Where the scratch folder goes: a socket's path has room for about a hundred characters."""
    return "/tmp" if len(tempfile.gettempdir()) > 60 else None
