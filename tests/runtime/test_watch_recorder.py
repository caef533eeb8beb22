"""What a waiting rank came to last, as torch itself has noted it."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import torch
import torch._C._distributed_c10d as of_torch
import torch.distributed as dist
from distify_runtime.watch import recorder
from ranks import on_ranks


def of_a_script() -> str:
    dist.all_reduce(torch.ones(4, 3))
    dist.broadcast(torch.ones(7), 0)
    return recorder.last()


@pytest.mark.of_torch
@pytest.mark.skipif(not hasattr(of_torch, "_dump_fr_trace_json"), reason="this torch notes none of Gloo's")
def test_a_collective_of_the_script_is_seen() -> None:
    assert all(said.startswith("gloo:broadcast of [[7]], number ") for said in on_ranks(of_a_script))


def entry(name: str, made: int, state: str) -> dict[str, Any]:
    return {
        "profiling_name": name, "time_created_ns": made, "state": state, "is_p2p": False, "p2p_seq_id": 0,
        "collective_seq_id": 12, "input_sizes": [[26, 2]],
    }  # fmt: skip


def test_nccls_is_read_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the form that torch documents: there is no GPU here."""
    entries = [entry("nccl:all_reduce", 3, "started"), entry("nccl:broadcast", 2, "completed")]
    told = json.dumps({"version": "2.10", "entries": entries}).encode()
    monkeypatch.setattr(of_torch, "_dump_nccl_trace_json", lambda: told, raising=False)
    monkeypatch.delattr(of_torch, "_dump_fr_trace_json", raising=False)
    monkeypatch.delenv("TORCH_NCCL_TRACE_BUFFER_SIZE", raising=False)
    recorder.begin()
    assert int(os.environ.pop("TORCH_NCCL_TRACE_BUFFER_SIZE")) > 0
    assert recorder.last() == "nccl:all_reduce of [[26, 2]], number 12, started"


@pytest.mark.parametrize("told", [b"", b"{}", b'{"entries": [{"state": 1}]}'])
def test_what_has_another_form_is_nothing(told: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_dump_nccl_trace_json", "_dump_fr_trace_json"):
        monkeypatch.setattr(of_torch, name, lambda: told, raising=False)
    assert recorder.last() == ""
