"""What is running once an engine was started: it starts the ranks, and ends with them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import Protocol

from distify_runtime.launch.config import LaunchConfig
from distify_runtime.launch.processes import end_with_parent

#: Descriptors for what an engine itself writes to stdout and stderr.
Output = tuple[int, int]


class Agent(Protocol):
    """A part of `subprocess.Popen`."""

    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def send_signal(self, sig: int, /) -> None: ...
    def kill(self) -> None: ...


def one_process(
    config: LaunchConfig,
    argv: Sequence[str],
    env: Mapping[str, str],
    output: Output,
    kind: type[subprocess.Popen[bytes]] = subprocess.Popen,
) -> Agent:
    """The engine as a process of its own, in a session of its own: Ctrl-C in the terminal is for this process."""
    out, err = output
    # Here, the ranks' supervisors see to it themselves that they do not outlive this process. But an engine that other
    # machines know of would go on to start ranks with them, which nobody leads.
    prepare = None if config.here and config.nodes is None else end_with_parent
    return kind(argv, env=env, stdout=out, stderr=err, start_new_session=True, preexec_fn=prepare)
