"""What is built, and where it is kept; the build itself is `make horovod`."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from distify import horovod
from distify.horovod import Build

BUILD = Build("2.13.0+cpu", "cpython-311", "linux-x86_64", mpi=False, nccl=False)


def test_another_torch_or_option_is_another_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    others = [replace(BUILD, torch="2.12.0"), replace(BUILD, python="cpython-312"), replace(BUILD, mpi=True),
              replace(BUILD, nccl=True)]  # fmt: skip
    assert len({one.folder for one in (BUILD, *others)}) == 5
    assert BUILD.wheel() is None
    BUILD.folder.mkdir(parents=True)
    wheel = BUILD.folder / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
    wheel.touch()
    assert BUILD.wheel() == wheel
    assert all(one.wheel() is None for one in others)


def test_the_build_is_told_what_to_leave_out() -> None:
    text = horovod.described(BUILD)
    for word in ("HOROVOD_WITH_GLOO=1", "HOROVOD_WITHOUT_MPI=1", "--no-build-isolation", "horovod==0.28.1"):
        assert word in text
    assert "HOROVOD_WITH_MPI=1" in horovod.described(replace(BUILD, mpi=True))
    assert "HOROVOD_GPU_OPERATIONS=NCCL" in horovod.described(replace(BUILD, nccl=True))


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(horovod.HorovodError, match="no C\\+\\+ compiler"):
        horovod.install(lambda line: None, BUILD)


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("has_header", [True, False])
def test_mpi_is_built_in_where_it_can_be_compiled_for(
    has_header: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Debian's openmpi-bin has the compiler, and not what it is to include."""
    include, compiler = tmp_path / "include", tmp_path / "mpicxx"
    include.mkdir()
    if has_header:
        (include / "mpi.h").touch()
    compiler.write_text(f'#!/bin/sh\nexec c++ -nostdinc -I"{include}" "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert horovod.planned().mpi is has_header
