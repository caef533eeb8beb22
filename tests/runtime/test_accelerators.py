"""Ranks use what `torch.accelerator` says, one device each, over what torch has for it. It is made up here."""

from __future__ import annotations

import distify_runtime as rt
import pytest
import torch
from distify_runtime import accelerators, backends
from ranks import run_script

if not hasattr(torch, "accelerator"):
    pytest.skip("this torch is older than torch.accelerator", allow_module_level=True)


def _machine_with(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device(kind))
    monkeypatch.setattr(torch.xpu, "device_count", lambda: 2)


def test_each_rank_has_a_device_of_the_kind_that_torch_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    _machine_with(monkeypatch, "xpu")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "1")
    assert rt.device() == torch.device("xpu", 1)
    assert backends.backend() == "cpu:gloo,xpu:xccl"


def test_numbers_of_devices_are_each_ranks_own(monkeypatch: pytest.MonkeyPatch) -> None:
    _machine_with(monkeypatch, "xpu")
    assert [rt.device_kind(one) for one in ("xpu:1", "cuda:1", "xpu", "cpu", 1)] == ["xpu", "cuda", "xpu", "cpu", "xpu"]


def test_more_ranks_than_devices_end(monkeypatch: pytest.MonkeyPatch) -> None:
    _machine_with(monkeypatch, "xpu")
    monkeypatch.setattr(torch.xpu, "device_count", lambda: 0)
    with pytest.raises(SystemExit, match="local rank 0 sees 0 GPUs"):
        rt.device()


def test_a_device_that_torch_cannot_join_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _machine_with(monkeypatch, "maia")
    with pytest.raises(SystemExit, match=r"knows nothing over which devices of kind maia speak$"):
        backends.backend()


def test_apples_is_none_for_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    _machine_with(monkeypatch, "mps")
    assert rt.device() == torch.device("cpu")
    assert backends.backend() == "gloo"


def test_without_one_there_is_no_stream_to_keep() -> None:
    assert accelerators.random_state() is None
    before = torch.get_rng_state()
    accelerators.seed(5)
    accelerators.set_random_state(None)
    assert torch.equal(torch.get_rng_state(), before)


ASKED = """
import distify_runtime as rt
rt.init_process_group()
print("trained")
"""


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            "mpi",
            "distify: DISTIFY_BACKEND=mpi: this torch was built without MPI, as those from pip are; leave it out: ",
        ),
        ("nccl", "distify: DISTIFY_BACKEND=nccl: ranks speak over gloo or mpi on CPUs; GPUs have their own\n"),
    ],
)
def test_what_cannot_be_had_is_refused_in_a_line(asked: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if asked == "mpi" and torch.distributed.is_mpi_available():
        pytest.skip("this torch has MPI")
    monkeypatch.setenv("DISTIFY_BACKEND", asked)
    for ended in run_script(ASKED, fresh=True):
        assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)
        assert ended.err.startswith(said)


def test_gloo_may_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTIFY_BACKEND", "gloo")
    for ended in run_script(ASKED, fresh=True):
        assert (ended.code, ended.out, ended.err) == (0, "trained\n", "")
