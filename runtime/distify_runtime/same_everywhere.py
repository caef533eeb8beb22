"""One script, one runtime and one torch on all machines: what differs would train something else there."""

from __future__ import annotations

import hashlib
import platform
import socket
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from distify_runtime import communicator
from distify_runtime.output import note
from distify_runtime.watch.mode import Mode, mode
from distify_runtime.watch.verdict import end_process

_LAST_WORDS = 1.0


def check_machines(watch: str | None, several: bool) -> None:
    """A collective, where ranks are on several machines. Ends the run where they differ, or says so, as is watched.

    watch: as `init_process_group` was given it.
    """
    how = mode(watch)
    if not several or how is Mode.OFF:
        return
    everyone = communicator.all_gather_object((socket.gethostname(), what_runs()))
    message = differences(everyone)
    if message:
        note(message, on_each_machine=True)
        if how is Mode.ON:
            time.sleep(_LAST_WORDS)  # all have spoken then
            end_process()  # torch's threads abort a rank that is still at its end when the others have gone


def what_runs() -> dict[str, str]:
    """By what it is; code by a checksum of its files."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    runtime = sorted(Path(__file__).parent.rglob("*.py"))
    return {
        "script": checksum([Path(script)] if script else []),
        "distify_runtime": checksum(runtime),
        "torch": str(torch.__version__),
        "Python": ".".join(platform.python_version_tuple()[:2]),
    }


def checksum(files: list[Path]) -> str:
    """Of what is in the files, in their order; "" where one cannot be read."""
    found = hashlib.sha256()
    try:
        for file in files:
            found.update(file.name.encode() + b"\0" + file.read_bytes())
    except OSError:
        return ""
    return found.hexdigest()[:12]


def differences(everyone: list[Any]) -> str:
    """Which ranks run something else than most (of as many, than rank 0), by rank; "" where none does."""
    said = []
    for what in everyone[0][1]:
        found = [told[what] for _, told in everyone]
        usual = max(Counter(found).items(), key=lambda pair: (pair[1], pair[0] == found[0]))[0]
        others = [rank for rank, one in enumerate(found) if one != usual]
        if others:
            places = ", ".join(f"rank {rank} on {everyone[rank][0]} has {found[rank] or 'none'}" for rank in others[:4])
            more = f", and {len(others) - 4} more" if len(others) > 4 else ""
            said.append(f"{what} is {usual or 'no file'} on most ranks; {places}{more}")
    return f"machines do not run the same: {'; '.join(said)}" if said else ""
