"""A command line that has been imported already, and becomes `python -m distify` by forking.

    python warm.py    reads requests from stdin, one JSON object per line, and answers each with a line

A fork is a process as any other, with streams, an environment, a folder and an exit code of its own. What Python reads
as it starts is not its own: `PYTHONPATH` and options of the interpreter want a process that is started.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

#: Seconds: two trainings, on a machine that is busy.
_PATIENCE = 180


@functools.cache
def server(packages: str) -> subprocess.Popen[str]:
    """packages: its PYTHONPATH."""
    pipe, env = subprocess.PIPE, os.environ | {"PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(Path(__file__).resolve())]
    process = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True, start_new_session=True)

    def close() -> None:
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()
        process.wait()

    atexit.register(close)
    return process


def run(words: Sequence[str | bytes], folder: Path, env: Mapping[str, str]) -> tuple[int, bytes, bytes]:
    """The exit code, minus the signal's number where it was ended by one, and what it wrote to its two streams."""
    process = server(env["PYTHONPATH"])
    assert process.stdin is not None
    assert process.stdout is not None
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        request = {"words": list(map(os.fsdecode, words)), "cwd": os.fsdecode(folder), "env": dict(env)}
        process.stdin.write(json.dumps({**request, "out": out.name, "err": err.name}) + "\n")
        process.stdin.flush()
        code: int = json.loads(process.stdout.readline())
        return code, Path(out.name).read_bytes(), Path(err.name).read_bytes()


# ---- in the server


def _serve() -> dict[str, Any]:
    """Answers requests once their forks have ended; returns, in a fork, what the fork is to run."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    while line := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            answers.close()
            request: dict[str, Any] = json.loads(line)
            return request
        _, status = os.waitpid(pid, 0)
        answers.write(f"{json.dumps(os.waitstatus_to_exitcode(status))}\n")
    sys.exit()


def _become(request: dict[str, Any]) -> None:
    import signal

    for number, name in ((1, request["out"]), (2, request["err"])):
        os.dup2(os.open(name, os.O_WRONLY | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["distify", *request["words"]]
    sys.path[0] = request["cwd"]
    signal.alarm(_PATIENCE)
    from distify.__main__ import main

    main()


def _import_all() -> None:
    """All of the command line that is imported without torch."""
    import distify_codemods

    import distify.commands

    importlib.import_module("distify.engine")
    for package in (distify.commands, distify_codemods):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    assert "torch" not in sys.modules


if __name__ == "__main__":
    _import_all()
    _become(_serve())
