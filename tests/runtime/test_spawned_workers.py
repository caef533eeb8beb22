"""What a rank starts is no rank: workers that import the script anew join nobody, and do what those of one do."""

from __future__ import annotations

import os
import subprocess
import sys

import distify_runtime as rt
import pytest
from distify_runtime.environment import is_a_ranks_child
from ranks import RUNTIME, on_ranks, run_script

from tests.grid import some

#: Its top level runs again in each worker, with all that lets ranks meet.
SCRIPT = """
import multiprocessing, os, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
import distify_runtime as rt
from distify_runtime import rank_zero_print as print
from torch.nn.parallel import DistributedDataParallel

rt.init_process_group()
torch.manual_seed(0)
print("prepared by", rt.from_main_process("all"), rt.call_on_main_process(str.upper, "main"), rt.common_seed())
rt.seed_ranks_apart()
rt.seed_ranks_alike()
rt.barrier()
with rt.main_process_first():
    model = nn.Linear(4, 1).double()
rt.broadcast_parameters(model)
model = DistributedDataParallel(model)
assert rt.all_reduce_sum(1) == (1 if __name__ == "__mp_main__" else rt.world_size())


class Rows(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        here = torch.tensor([rt.rank(), rt.world_size()])
        return torch.arange(4.0).double() * index, torch.tensor([index / 8]).double(), here


if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    data = Rows()
    loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8), num_workers=1, sampler=rt.TrainingSampler(data))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0001)
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        for x, y, here in loader:
            assert here.unique(dim=0).tolist() == [[rt.rank(), rt.world_size()]]  # its rank's
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            weights = model.module.weight.detach().flatten().tolist()
            sys.stdout.write(f"step {[round(one, 12) for one in weights]}\\n")
"""


@pytest.mark.parametrize("method", some(["spawn", "forkserver"], ["spawn"]))
def test_spawned_workers_take_the_steps_of_one_process_and_end(method: str) -> None:
    (alone,) = run_script(SCRIPT, method, ranks=0, timeout=90)
    first, second = run_script(SCRIPT, method, ranks=2, timeout=90)
    assert (alone.code, first.code, second.code) == (0, 0, 0), (alone.err, first.err, second.err)
    assert first.out == alone.out  # the workers of rank 0 print what those of one process print
    assert second.out == "".join(line for line in alone.out.splitlines(keepends=True) if line.startswith("step"))
    assert alone.out.count("prepared by all MAIN 0\n") == 3
    assert alone.out.count("step") == 4
    assert first.err.count("batches of 8") == 1


TELLS = """
import distify_runtime as rt
rt.init_process_group()
rt.barrier()
print(rt.rank(), rt.world_size(), rt.is_main_process(), rt.from_main_process("mine"), rt.any_rank(rt.rank() == 0))
"""


def _tells(**environment: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(RUNTIME), **environment}
    return subprocess.run(
        [sys.executable, "-c", TELLS], env=env, timeout=60, check=True, capture_output=True
    ).stdout.decode()


def test_a_program_that_a_rank_starts_joins_nobody() -> None:
    assert on_ranks(_tells) == ["0 2 True mine True\n", "1 2 False mine False\n"]


def _launches() -> tuple[str, bool]:
    """A launcher that a rank starts has ranks of its own."""
    return _tells(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"), is_a_ranks_child()


def test_a_launcher_that_a_rank_starts_has_ranks_of_its_own() -> None:
    assert on_ranks(_launches) == [("0 1 True mine True\n", False)] * 2


def test_no_rank_without_a_launch() -> None:
    assert not is_a_ranks_child()
    assert "DISTIFY_RANK_TAKEN" not in os.environ
    assert rt.is_main_process()
