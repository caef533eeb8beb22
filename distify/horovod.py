"""Builds the last release of Horovod beside the torch that is installed, and installs it.

    python -m distify.horovod [--print]

Horovod 0.28.1 says C++14 in its own build files, and torch's headers need C++17 since 2.1: CXXFLAGS do not reach
every part of the build, so the compiler itself is one that ends each command line with -std=c++17. A wheel is kept in
the user's cache, under a name that says what it was built for; nothing but Horovod is added to the environment.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from distify.errors import DistifyError

VERSION = "0.28.1"
#: What the build needs, kept apart from the environment: no setuptools of the user's is changed.
TOOLS = ("cmake>=3.13", "setuptools>=77")
MINUTES = "2 to 4 minutes on two cores"


class HorovodError(Exception):
    """Why Horovod cannot be built here, in one line."""


def check_installed() -> None:
    """Raises DistifyError where a script that uses Horovod cannot run."""
    if importlib.util.find_spec("horovod") is None:
        raise DistifyError(
            f"Horovod is not installed for {sys.executable}, and the script uses it: "
            f"`distify doctor --fix horovod` builds it"
        )


@dataclass(frozen=True)
class Build:
    """One build: what it is for, and with what. The same build has the same wheel."""

    torch: str
    python: str
    platform: str
    mpi: bool
    nccl: bool

    @property
    def key(self) -> str:
        options = ["gloo", *(["mpi"] if self.mpi else []), *(["nccl"] if self.nccl else [])]
        return f"horovod-{VERSION}-torch-{self.torch}-{self.python}-{self.platform}-{'-'.join(options)}"

    @property
    def folder(self) -> Path:
        return cache_folder() / self.key

    def wheel(self) -> Path | None:
        """The one that was built before, if any."""
        return next(iter(sorted(self.folder.glob("horovod-*.whl"))), None)

    def variables(self) -> dict[str, str]:
        """The environment of the build, but for the compiler."""
        found = {
            "MAKEFLAGS": "-j2",  # a file of Horovod's takes a gigabyte to compile
            "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
            "HOROVOD_WITH_PYTORCH": "1",
            "HOROVOD_WITH_GLOO": "1",
            "HOROVOD_WITHOUT_TENSORFLOW": "1",
            "HOROVOD_WITHOUT_MXNET": "1",
            f"HOROVOD_{'WITH' if self.mpi else 'WITHOUT'}_MPI": "1",
        }
        if self.nccl:
            found |= {"HOROVOD_GPU_OPERATIONS": "NCCL", "CUDAFLAGS": "-std=c++17"}
        return found


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/distify/wheels`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "distify" / "wheels"


def planned() -> Build:
    """The build for this interpreter. Raises HorovodError where there is no torch to build for."""
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        raise HorovodError(f"torch is not installed for {sys.executable}: install it first") from None
    tag = f"{sys.implementation.cache_tag}{sysconfig.get_config_var('abiflags') or ''}"
    return Build(torch, tag, sysconfig.get_platform(), _has_mpi(), _has_cuda())


def _has_mpi() -> bool:
    """Whether something can be compiled for MPI: where it is only to be run, its compiler has nothing to include."""
    compiler = shutil.which("mpicxx")
    words = ["-E", "-x", "c++", "-include", "mpi.h", os.devnull]
    return compiler is not None and subprocess.run([compiler, *words], capture_output=True, check=False).returncode == 0


def _has_cuda() -> bool:
    """Whether torch was built with CUDA, and the compiler for it is there."""
    if shutil.which("nvcc") is None:
        return False
    ask = [sys.executable, "-c", "import torch; print(torch.version.cuda or '')"]
    return bool(subprocess.run(ask, capture_output=True, text=True, check=False).stdout.strip())


def is_installed() -> bool:
    return importlib.util.find_spec("horovod") is not None


def command() -> list[str]:
    """What to run: for those who would rather do it by hand."""
    return [sys.executable, "-m", "distify.horovod"]


def described(build: Build) -> str:
    """The build as one shell command, with `$CXX17` for the compiler that adds -std=c++17."""
    words = [f"{name}={shlex.quote(value)}" for name, value in build.variables().items()]
    return " ".join([*words, "CXX=$CXX17", *_build_command("python", build.folder)])


def install(say: Callable[[str], None], build: Build | None = None) -> Path:
    """Build Horovod, or take the wheel of an earlier time, and install it. Returns the wheel.

    Raises HorovodError with the place of the build's log where it fails.
    """
    build = build or planned()
    wheel = build.wheel()
    if wheel is None:
        say(f"building Horovod {VERSION} for torch {build.torch}: {MINUTES}")
        wheel = _built(build)
        say(f"kept {wheel}")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    _run([*pip, *_constraints(), str(wheel)], os.environ, build.folder / "install.log")
    say(f"Horovod {VERSION} is installed for {sys.executable}")
    return wheel


def _built(build: Build) -> Path:
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise HorovodError("there is no C++ compiler: on Debian and Ubuntu, apt install g++")
    try:
        build.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HorovodError(f"{build.folder}: cannot hold the wheel: {error.strerror}") from None
    with tempfile.TemporaryDirectory(prefix="distify-horovod-") as name:
        scratch = Path(name)
        log = build.folder / "build.log"
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        _run([*pip, "--target", str(scratch / "tools"), *TOOLS], os.environ, log)
        wrapper = scratch / "c++17"
        wrapper.write_text(f'#!/bin/sh\nexec {compiler} "$@" -std=c++17\n', encoding="utf-8")
        wrapper.chmod(0o755)
        environ = {**os.environ, **build.variables(), "CXX": str(wrapper)}
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(scratch / "tools"), os.environ.get("PYTHONPATH")]))
        environ["PATH"] = os.pathsep.join([str(scratch / "tools" / "bin"), os.environ.get("PATH", "")])
        _run(_build_command(sys.executable, scratch), environ, log)
        (wheel,) = scratch.glob("horovod-*.whl")
        return Path(shutil.move(wheel, build.folder / wheel.name))


def _build_command(python: str, folder: Path) -> list[str]:
    pip = [python, "-m", "pip", "--disable-pip-version-check", "wheel"]
    return [*pip, "--no-build-isolation", "--no-cache-dir", "--no-deps", "-v", "-w", str(folder), f"horovod=={VERSION}"]


def _constraints() -> list[str]:
    """The versions that a checkout is tested with, where this is one."""
    file = Path(__file__).resolve().parent.parent / "constraints.txt"
    return ["-c", str(file)] if file.is_file() else []


def _run(words: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
    with log.open("ab") as output:
        code = subprocess.run(words, env=environ, stdout=output, stderr=output, check=False).returncode
    if code:
        raise HorovodError(f"`{shlex.join(words[:5])} …` ended with {code}: see {log}")


def main(arguments: Sequence[str]) -> int:
    try:
        build = planned()
        if "--print" in arguments:
            print(described(build))
        else:
            install(lambda line: print(f"distify: {line}", file=sys.stderr, flush=True), build)
    except HorovodError as error:
        print(f"distify: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
