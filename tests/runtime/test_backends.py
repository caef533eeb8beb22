"""A torch without what ranks speak over is named by each rank in one line, before anything is trained."""

from __future__ import annotations

import pytest
from ranks import run_script

#: No such torch is here: what it answers is put in its place.
WITHOUT = """
import sys
import torch
import torch.distributed as dist

gpus, gloo, nccl = (word == "True" for word in sys.argv[1:])
torch.cuda.is_available = lambda: gpus
torch.cuda.set_device = lambda device: None
torch.cuda.device_count = lambda: 2
dist.is_gloo_available = lambda: gloo
dist.is_nccl_available = lambda: nccl
import distify_runtime as rt
rt.init_process_group()
print("trained")
"""


@pytest.mark.parametrize(
    ("gpus", "gloo", "nccl", "said"),
    [
        (False, False, False, "distify: this torch was built without Gloo, over which ranks speak: a torch from pip"),
        (True, True, False, "distify: this torch was built without NCCL, over which GPUs speak: a torch for CUDA from"),
    ],
)
def test_what_torch_was_built_without_is_named(gpus: bool, gloo: bool, nccl: bool, said: str) -> None:
    for ended in run_script(WITHOUT, str(gpus), str(gloo), str(nccl), fresh=True):
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.startswith(said)
        assert ended.err.count("\n") == 1


def test_the_cpu_needs_no_nccl() -> None:
    for ended in run_script(WITHOUT, "False", "True", "False", fresh=True):
        assert (ended.code, ended.out, ended.err) == (0, "trained\n", "")
