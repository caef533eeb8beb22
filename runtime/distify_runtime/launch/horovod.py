"""The horovodrun command for a script that uses Horovod."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from distify_runtime.launch.config import LaunchConfig, python_command, script_command


def _options(config: LaunchConfig) -> list[str]:
    told, hosts = config.horovod, config.hosts
    words = ["-np", str(config.nproc)]
    words += ["--hostfile", hosts.file] if hosts.file else ["-H", hosts.listed or f"localhost:{config.nproc}"]
    words += [f"--{told.controller}"] if told.controller else []
    words += ["--verbose"] if told.verbose else []
    words += ["--timeline-filename", os.path.abspath(told.timeline)] if told.timeline else []
    interface = told.interface or ("lo" if hosts.is_local and sys.platform == "linux" else "")
    words += ["--network-interface", interface] if interface else []
    return [*words, "--disable-cache"] if hosts.is_local else words  # of checks over ssh, in the home folder


def horovodrun(config: LaunchConfig, worker: Sequence[str], scratch: Path) -> list[str]:
    return _command(config, [*python_command(config.python), *worker])


def plain_horovodrun(config: LaunchConfig) -> list[str]:
    return ["horovodrun", *_options(config), *script_command(config)]


def _command(config: LaunchConfig, command: list[str]) -> list[str]:
    # Not the script `horovodrun`: that may be another Python's.
    run = "import sys; from horovod.runner.launch import run_commandline; sys.argv[0] = 'horovodrun'; run_commandline()"
    return [*python_command(config.python), "-c", run, *_options(config), *command]
