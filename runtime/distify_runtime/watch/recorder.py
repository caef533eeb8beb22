"""The last collective in torch's flight recorder, which notes those of NCCL, and with newer torch those of Gloo: a
script's own and those of backward passes among them. NCCL's could never be looked at here, for lack of GPUs.
"""

from __future__ import annotations

import json
import os
from typing import Any

import torch._C._distributed_c10d as of_torch

#: What gives the recorders' entries, as JSON without stacks; which of them there are depends on how torch was built.
_DUMPS = ("_dump_nccl_trace_json", "_dump_fr_trace_json")
#: Entries that NCCL's keeps, where torch is so old that it keeps none unless it is told to.
_SIZE, _ENTRIES = "TORCH_NCCL_TRACE_BUFFER_SIZE", "200"


def begin() -> None:
    """Before the process group is made."""
    if hasattr(of_torch, _DUMPS[0]) and not hasattr(of_torch, _DUMPS[1]):
        os.environ.setdefault(_SIZE, _ENTRIES)


def last() -> str:
    """`gloo:all_reduce of [[4, 3]], number 5, scheduled`; nothing where there is none, or it cannot be read."""
    entries: list[Any] = []
    for name in _DUMPS:
        try:
            entries += json.loads(getattr(of_torch, name)()).get("entries", [])
        except (AttributeError, RuntimeError, ValueError):  # there is none, or it has another form
            continue
    try:
        one = max(entries, key=lambda entry: int(entry["time_created_ns"]), default=None)
        return _told(one) if one else ""
    except (KeyError, TypeError, ValueError):
        return ""


def _told(entry: dict[str, Any]) -> str:
    number = entry["p2p_seq_id"] if entry["is_p2p"] else entry["collective_seq_id"]
    return f"{entry['profiling_name']} of {entry['input_sizes']}, number {number}, {entry['state']}"
