"""A batch script for Slurm: it starts `distify run --launcher srun` on the job's first node, which starts the ranks."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator

from distify_runtime.launch.config import LaunchConfig, python_command, variables
from distify_runtime.launch.jobs import WrongJob

#: What `#SBATCH` lines take as it is; all else stands in quotes.
_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
#: Wherever these stand in such a line, Slurm takes them for the beginning of another job, but not like `het\job`.
_WORDS_OF_SLURM = re.compile(r"(het|pack)(job)", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "'": "\\'"}


def sbatch_script(config: LaunchConfig) -> str:
    """The script; what is no text in it stands for the bytes that os.fsencode gives."""
    return "\n".join(_lines(config)) + "\n"


def _lines(config: LaunchConfig) -> Iterator[str]:
    each = config.nproc // config.job.nodes
    yield "#!/bin/bash"
    yield "# Written by distify run --launcher slurm."
    yield from (f"#SBATCH {option(word)}" for word in _options(config))
    yield "set -euo pipefail"
    yield f"cd -- {quoted(os.getcwd())}"
    yield from (f"export {name}={quoted(value)}" for name, value in variables(config, {}).items())
    yield f"# {config.nproc} ranks, {each} on each node: rank 0's output is the job's, and each has a log of its own."
    run, script = (" ".join(map(quoted, words)) for words in (_run(config), _script(config)))
    yield f"exec {run} --logs {_folder_of(config)} {script}"


def _run(config: LaunchConfig) -> list[str]:
    """What is asked before a start was asked where this was written: whether the script is converted."""
    words = [*python_command(config.python), "-m", "distify", "run", "--launcher", "srun", "-np", str(config.nproc)]
    return [*words, "--as-is"]


def _script(config: LaunchConfig) -> list[str]:
    return [*["-m"] * config.module, "--", config.target, *config.args]


def _folder_of(config: LaunchConfig) -> str:
    """A folder for this job's ranks beside its own log."""
    return f'{quoted(os.path.join(os.path.abspath(config.logs), config.job.name))}-"$SLURM_JOB_ID"'


def _options(config: LaunchConfig) -> Iterator[str]:
    job = config.job
    yield f"--job-name={job.name}"
    yield f"--nodes={job.nodes}"
    yield f"--ntasks={config.nproc}"
    yield f"--ntasks-per-node={config.nproc // job.nodes}"
    if job.gpus:
        yield f"--gpus-per-node={job.gpus}"  # and each rank sees all of them
    if config.timeout:
        yield f"--time={_duration(config.timeout)}"
    yield f"--output={log_pattern(config)}"
    yield from job.options


def log_pattern(config: LaunchConfig) -> str:
    """Where the job's output goes, in Slurm's words: an absolute path, wherever it is submitted."""
    folder = os.path.abspath(config.logs)
    if "\\" in folder or _CONTROL.search(folder):
        raise WrongJob(f"--logs {folder!r}: Slurm writes into no folder with a backslash or a line break in its name")
    return os.path.join(folder.replace("%", "%%"), "%x-%j.log")


def option(word: str) -> str:
    """An option in a `#SBATCH` line. Raises WrongJob."""
    if not word.startswith("-") or _CONTROL.search(word):
        raise WrongJob(f"{word!r}: is no option of sbatch's; as in --sbatch=--partition=gpu")
    if _PLAIN.fullmatch(word) and not _WORDS_OF_SLURM.search(word):
        return word
    escaped = re.sub(r'[\\"]', r"\\\g<0>", word)
    return '"' + _WORDS_OF_SLURM.sub(r"\1\\\2", escaped) + '"'


def quoted(word: str) -> str:
    """A word for bash, in one line: what breaks lines is written out, sbatch takes no `\\r\\n` in a script."""
    if not _CONTROL.search(word):
        return shlex.quote(word)
    written = re.sub(r"[\x00-\x1f\x7f\\']", lambda found: _ESCAPES.get(found[0], f"\\x{ord(found[0]):02x}"), word)
    return f"$'{written}'"


def gpus_of_slurm(wanted: int) -> int:
    """Those, unless Slurm says that it has none."""
    if shutil.which("sinfo") is None:
        return wanted
    try:
        asked = subprocess.run(["sinfo", "--noheader", "--format=%G"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return wanted
    return 0 if asked.returncode == 0 and asked.stdout and "gpu" not in asked.stdout else wanted


def _duration(seconds: float) -> str:
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02}:{minutes:02}:{rest:02}"
