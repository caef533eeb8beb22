"""Runs the command line as a user does: as a process of its own, with pipes or at a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import warm
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]

TRAIN = b"""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    dataset = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))  # [bold]
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        print("[epoch]", epoch)
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
"""


@dataclass(frozen=True)
class Ended:
    """A finished process; at a terminal, `out` has both streams."""

    code: int
    out: bytes
    err: str = ""


@dataclass(frozen=True)
class CommandLine:
    """`distify`, run in `folder`: as a process that is started where Python is told something, else as a fork."""

    folder: Path
    env: Mapping[str, str]

    def __call__(self, *args: str | bytes, python: tuple[str, ...] = (), **env: str) -> Ended:
        alone = threading.current_thread() is threading.main_thread()  # forks come one after the other
        if alone and not python and not any(name.startswith("PYTHON") for name in env):
            code, out, err = warm.run(args, self.folder, {**self.env, **env})
            return Ended(code, out, err.decode())
        done = subprocess.run(
            [sys.executable, *python, "-m", "distify", *args],
            cwd=self.folder,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=180,  # two trainings, on a machine that is busy
        )
        return Ended(done.returncode, done.stdout, done.stderr.decode())

    def at_terminal(self, *args: str, answer: bytes | Callable[[], bytes] = b"", number: int = 0, **env: str) -> Ended:
        """Runs at a pseudo-terminal of 100 columns; at the prompt, answers or sends the signal of that number."""
        ours, theirs = os.openpty()
        with subprocess.Popen(
            [sys.executable, "-m", "distify", *args],
            cwd=self.folder,
            env={**self.env, "TERM": "xterm-256color", "COLUMNS": "100", **env},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=_heed_interrupts,
        ) as process:
            os.close(theirs)
            seen = b""
            while data := _read(ours):
                seen += data
                if seen.endswith(b"[y/N] "):
                    if number:
                        process.send_signal(number)
                    else:
                        os.write(ours, answer() if callable(answer) else answer)
            os.close(ours)
            return Ended(process.wait(60), seen)


@dataclass(frozen=True)
class Here:
    """`distify`, called in this process; the runs that it starts are forks of interpreters that have torch already."""

    folder: Path

    def __call__(self, *args: str) -> Ended:
        from distify.cli import cli

        result = CliRunner().invoke(cli, args, prog_name="distify")
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ended(result.exit_code, result.stdout_bytes, result.stderr)


def _heed_interrupts() -> None:
    """A test run started with `&` in a script ignores Ctrl-C, and what it starts would inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # EIO: the last process that had the terminal open has ended
        return b""
