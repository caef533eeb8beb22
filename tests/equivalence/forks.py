"""Interpreters that have imported torch already, and become a run of a script by forking: in milliseconds.

    python forks.py    reads requests from stdin, one JSON object per line, and answers each with a line

A fork ends as an interpreter does, with its exit functions and its exit code. What it must not share with the next
one is drawn anew: the random numbers of Python and NumPy. Of the ranks, each has a server of its own, so that the
order of sets differs between them as it does in life.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import IO, Any

#: What is read when Python or torch starts, and was meant for one run.
_OF_ONE_FORK = ("PYTHONWARNINGS", "TORCHDYNAMO_DISABLE")
_servers: dict[int, _Server] = {}


class _Server:
    def __init__(self, env: dict[str, str]) -> None:
        command = [sys.executable, str(Path(__file__).resolve())]
        pipe = subprocess.PIPE
        env = {name: value for name, value in env.items() if name not in _OF_ONE_FORK}
        env["PYTHONHASHSEED"] = "0"  # what ranks are started with; it is read when Python starts
        self.process = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
        atexit.register(self.close)

    def ask(self, **request: Any) -> int | None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: int | None = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Fork:
    """A run of a script, as `subprocess.Popen` is one of a command."""

    def __init__(
        self, words: list[str], cwd: Path, env: dict[str, str], out: IO[bytes], err: IO[bytes], rank: int
    ) -> None:
        if rank not in _servers:
            _servers[rank] = _Server(env)
        self._server = _servers[rank]
        self.returncode: int | None = None
        pid = self._server.ask(words=words, cwd=str(cwd), env=env, out=out.name, err=err.name)
        assert pid is not None
        self.pid = pid

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.ask(pid=self.pid)
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        while self.poll() is None:
            signal.sigtimedwait([], 0.01)
        assert self.returncode is not None
        return self.returncode


# ---- in the server


def _serve() -> dict[str, Any]:
    """Answers requests; returns, in a fork, what the fork is to run."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    while line := sys.stdin.readline():
        request: dict[str, Any] = json.loads(line)
        if "pid" in request:
            pid, status = os.waitpid(request["pid"], os.WNOHANG)
            answers.write(f"{json.dumps(os.waitstatus_to_exitcode(status) if pid else None)}\n")
            continue
        pid = os.fork()
        if pid == 0:
            answers.close()
            return request
        answers.write(f"{pid}\n")
    sys.exit()


def _folders_of_python() -> list[str]:
    """What Python puts into its path as it starts, from the environment."""
    return os.environ.get("PYTHONPATH", "").split(os.pathsep)


def _become(request: dict[str, Any]) -> None:
    for number, name in ((1, request["out"]), (2, request["err"])):
        os.dup2(os.open(name, os.O_WRONLY | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(request["cwd"])
    of_the_server = _folders_of_python()
    os.environ.clear()
    os.environ.update(request["env"])
    for action in filter(None, os.environ.get("PYTHONWARNINGS", "").split(",")):
        warnings.simplefilter(action)  # type: ignore[arg-type]  # one of the interpreter's words
    random.seed()
    sys.modules["numpy"].random.seed()
    sys.argv = request["words"]
    others = [folder for folder in sys.path[1:] if folder not in of_the_server]
    sys.path[:] = [str(Path(sys.argv[0]).parent), *_folders_of_python(), *others]
    code = compile(Path(sys.argv[0]).read_bytes(), sys.argv[0], "exec")
    names = vars(sys.modules["__main__"])  # which live until the interpreter ends, as the script's do in life
    for name in [name for name in names if not name.startswith("__")]:
        del names[name]
    names["__file__"] = code.co_filename
    exec(code, names)


if __name__ == "__main__":
    import frozen  # noqa: F401  it lies beside this file

    _become(_serve())
