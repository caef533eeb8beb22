"""Who a rank is, and that all ranks begin alike."""

from __future__ import annotations

import os
import random
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import distify_runtime as rt
import numpy as np
import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks, run_script
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler, TensorDataset


def _identity() -> tuple[int, int, int, bool, str]:
    rt.init_process_group()  # a second time
    return rt.rank(), rt.local_rank(), rt.world_size(), rt.is_main_process(), str(rt.device())


def test_each_rank_knows_who_it_is() -> None:
    assert on_ranks(_identity, ranks=3) == [(rank, rank, 3, rank == 0, "cpu") for rank in range(3)]


def test_before_the_group_the_environment_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (rt.rank(), rt.local_rank(), rt.world_size(), rt.is_main_process()) == (0, 0, 1, True)
    for name, value in {"WORLD_SIZE": "8", "RANK": "5", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert (rt.rank(), rt.local_rank(), rt.world_size(), rt.is_main_process()) == (5, 1, 8, False)
    assert not dist.is_initialized()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WORLD_SIZE": "2", "RANK": "0"}, "LOCAL_RANK is not set: start the script with torchrun"),
        ({"RANK": "1"}, "WORLD_SIZE is not set"),
        ({"WORLD_SIZE": "two", "RANK": "0", "LOCAL_RANK": "0"}, "WORLD_SIZE is 'two', not a number"),
        ({"OMPI_COMM_WORLD_SIZE": "4"}, "OMPI_COMM_WORLD_LOCAL_SIZE is not set"),
        ({"HOROVOD_SIZE": "2"}, "2 processes that horovodrun started"),
    ],
)
def test_an_environment_that_cannot_be_followed_stops_in_one_line(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    monkeypatch.delitem(sys.modules, "horovod.torch", raising=False)  # no script of Horovod's, whatever ran before
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match=message):
        rt.rank_zero_print("hello")


def test_a_launch_of_one_process_is_a_world_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "1", "RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    assert (rt.rank(), rt.world_size()) == (0, 1)


WORLD_OF_ONE = """
import random, numpy, torch
import distify_runtime as rt
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset, DistributedSampler
torch.manual_seed(3); random.seed(3); numpy.random.seed(3)
state = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()
rt.init_process_group()
rt.init_process_group()
rt.seed_ranks_apart()
rt.barrier()
with rt.main_process_first():
    pass
assert torch.get_rng_state().equal(state[0]) and random.getstate() == state[1]
assert numpy.random.get_state()[1].tolist() == state[2]
data = TensorDataset(torch.arange(6.0).view(6, 1))
model = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.BatchNorm1d(2))
model = DistributedDataParallel(rt.convert_sync_batchnorm(model), device_ids=rt.device_ids(model))
sampler = DistributedSampler(data, seed=rt.common_seed())
loader = DataLoader(data, batch_size=rt.per_rank_batch_size(3), sampler=sampler)
for (batch,) in loader:
    model(batch).sum().backward()
evaluation = DataLoader(data, batch_sampler=rt.ShardedBatchSampler(data, 4))
rows = [rt.gather_batch(evaluation, batch).tolist() for (batch,) in evaluation]
assert rows == [[[0.0], [1.0], [2.0], [3.0]], [[4.0], [5.0]]]
assert rt.common_seed() == 3 and rt.all_reduce_sum(2, 0.5) == (2, 0.5) and rt.any_rank(True)
rt.rank_zero_print("done", rt.rank(), rt.world_size())
"""


def test_everything_works_under_plain_python() -> None:
    (ended,) = run_script(WORLD_OF_ONE, ranks=0)
    assert (ended.code, ended.out, ended.err) == (0, "done 0 1\n", "")


def _draw() -> list[float]:
    return [float(torch.rand(())), random.random(), float(np.random.rand())]


def _states() -> list[object]:
    numpy_state: Any = np.random.get_state()
    return [torch.get_rng_state().tolist(), random.getstate(), numpy_state[1].tolist()]


def _common_numbers() -> Any:
    begun = _draw()
    torch.manual_seed(7 + 10 * rt.rank())
    seeds = rt.common_seed(), rt.common_seed()
    before = _states()
    rt.seed_ranks_apart()
    kept = tuple(old == new for old, new in zip(before, _states(), strict=True))
    return begun, seeds, kept, _draw()


def test_ranks_begin_with_common_random_numbers_and_go_apart_when_told() -> None:
    results = on_ranks(_common_numbers, ranks=3)
    begun, seeds, kept, apart = zip(*results, strict=True)
    assert begun[0] == begun[1] == begun[2]
    assert seeds == ((7, 7),) * 3
    assert kept == ((True,) * 3, (False,) * 3, (False,) * 3)
    assert all(len(set(column)) == 3 for column in zip(*apart, strict=True))


def _parted_and_joined() -> Any:
    torch.manual_seed(7)
    rt.seed_ranks_apart()
    first = _draw()
    torch.manual_seed(7)  # a script that sets a seed for each epoch
    rt.seed_ranks_apart()
    second = _draw()
    rt.seed_ranks_alike()
    return first, second, _draw()


def test_ranks_part_again_and_join_rank_0() -> None:
    first, second, joined = zip(*on_ranks(_parted_and_joined), strict=True)
    assert first[0][0] == second[0][0]  # rank 0 goes on as the script has it
    assert not set(first[1]) & {*second[0], *second[1]}
    assert joined[0] == joined[1]
    torch.manual_seed(7)
    assert [torch.rand(()).item() for _ in range(2)][1] == joined[0][0]


def _seeded_in_turn() -> list[int]:
    torch.manual_seed(5 + rt.rank())
    with rt.main_process_first():
        seeds = [rt.common_seed(), rt.common_seed()]
    return [*seeds, rt.common_seed()]


def test_a_sampler_can_be_seeded_while_the_main_process_goes_first() -> None:
    assert on_ranks(_seeded_in_turn, ranks=3) == [[5, 5, 5]] * 3


RANK_ZERO_KEEPS_ITS_STREAM = """
import random, numpy, torch
torch.manual_seed(11); random.seed(11); numpy.random.seed(11)
torch.rand(5); random.random(); numpy.random.rand()
import distify_runtime as rt
if rt.rank(): torch.manual_seed(12); random.seed(12); numpy.random.seed(12)
rt.init_process_group()
print(float(torch.rand(())), random.random(), numpy.random.rand(), torch.initial_seed())
"""


def test_all_ranks_go_on_with_the_stream_of_rank_zero() -> None:
    torch.manual_seed(11), random.seed(11), np.random.seed(11)
    torch.rand(5), random.random(), np.random.rand()
    expected = f"{float(torch.rand(()))} {random.random()} {np.random.rand()} 11\n"
    assert [(e.code, e.out, e.err) for e in run_script(RANK_ZERO_KEEPS_ITS_STREAM)] == [(0, expected, "")] * 2


def _order(folder: str, local_ranks: list[int]) -> None:
    os.environ["LOCAL_RANK"] = str(local_ranks[rt.rank()])
    with rt.main_process_first():
        time.sleep(0.05)
        Path(folder, f"{time.monotonic_ns()}-{rt.rank()}").touch()
    with pytest.raises(FileNotFoundError), rt.main_process_first():  # caught alike on all ranks
        raise FileNotFoundError
    rt.barrier()


def test_the_main_process_goes_first_then_one_rank_of_every_other_node(tmp_path: Path) -> None:
    on_ranks(_order, str(tmp_path), [0, 1, 0, 1], ranks=4)
    order = [int(path.name.split("-")[1]) for path in sorted(tmp_path.iterdir())]
    assert order[0] == 0
    assert order[1] == 2
    assert set(order[2:]) == {1, 3}


def _slow_first() -> float:
    dist.distributed_c10d._get_default_store().set_timeout(timedelta(seconds=1))
    begun = time.monotonic()
    with rt.main_process_first():
        time.sleep(1.5 * (rt.rank() == 0))
    return time.monotonic() - begun


def test_the_main_process_may_take_longer_than_the_group_waits() -> None:
    first, second = on_ranks(_slow_first, ranks=2)
    assert first >= 1.5
    assert second >= 1.0


PRINTS = """
from distify_runtime import rank_zero_print as print
import distify_runtime as rt, sys
print("before", 1)
rt.init_process_group()
print("a", "b", sep="-", end="!", file=sys.stderr, flush=True)
"""


def test_only_rank_zero_prints() -> None:
    ended = run_script(PRINTS)
    assert [(e.code, e.out, e.err) for e in ended] == [(0, "before 1\n", "a-b!"), (0, "", "")]


STOPS = "import distify_runtime as rt; rt.init_process_group(); rt.per_rank_batch_size(7)"


def test_rank_zero_says_in_one_line_why_all_ranks_stop() -> None:
    first, second = run_script(STOPS)
    assert first.err.count("\n") == 1
    assert "6 or 8" in first.err
    assert (first.code, second.code, second.err) == (1, 1, "")


def test_wrappers_come_off() -> None:
    model = nn.Linear(2, 2)
    assert rt.unwrap(model) is model
    assert rt.device_ids(model) is None
    assert rt.device_ids(nn.Flatten()) is None
    compiled: Any = torch.compile(model, backend="eager")
    assert rt.unwrap(compiled) is compiled
    assert on_ranks(_unwrapped, ranks=1) == [[True, True, True]]


class Grid(nn.Module):
    """One of its buffers shows the same memory in each column; `later`: from the first pass on."""

    def __init__(self, later: bool) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 3), nn.BatchNorm1d(3)
        self.register_buffer("grid", None if later else torch.arange(2.0)[:, None].expand(2, 3))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self.grid is None:
            self.grid, _ = torch.meshgrid(torch.arange(2.0), torch.zeros(3), indexing="ij")
        return self.norm(self.layer(rows)) * self.grid[1]  # type: ignore[no-any-return]


def _with_a_grid(later: bool) -> list[list[float]]:
    model = Grid(later)
    replica = DistributedDataParallel(model, device_ids=rt.device_ids(model))
    for turn in range(3):
        replica(torch.randn(8, 4, generator=torch.Generator().manual_seed(turn))).square().mean().backward()
    assert model.grid is not None
    return model.grid.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("later", [False, True])
def test_buffers_that_are_views_can_be_broadcast(later: bool) -> None:
    assert on_ranks(_with_a_grid, later) == [[[0.0] * 3, [1.0] * 3]] * 2


def _unwrapped() -> list[bool]:
    model = nn.Linear(2, 2)
    replica = DistributedDataParallel(model)
    compiled: Any = torch.compile(replica, backend="eager")
    inside = rt.unwrap({"nets": [replica, 1], "pair": (compiled,)}) == {"nets": [model, 1], "pair": (model,)}
    return [rt.unwrap(replica) is model, rt.unwrap(compiled) is model, inside]


def test_checkpoints_from_gpus_load_here(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(2)}, tmp_path / "cpu.pt")
    assert torch.load(tmp_path / "cpu.pt", map_location=rt.map_location)["weight"].tolist() == [1, 1]
    storage: Any = torch.ones(2).untyped_storage()
    assert rt.map_location(storage, "cuda:3").device == rt.device()
    assert rt.map_location(storage, "mps:0").device == rt.device()
    assert rt.map_location(storage, "cpu").data_ptr() == storage.data_ptr()


def test_the_prefix_of_data_parallel_comes_off_where_every_key_has_it() -> None:
    assert rt.strip_module_prefix({"module.a": 1, "module.b.module.c": 2}) == {"a": 1, "b.module.c": 2}
    assert rt.strip_module_prefix({"module.a": 1, "b": 2}) == {"module.a": 1, "b": 2}
    assert rt.strip_module_prefix({}) == {}


def test_samplers_of_torch_work_in_a_world_of_one() -> None:
    assert on_ranks(_sampled, ranks=1) == [[0, 1, 2]]


def _sampled() -> list[int]:
    return list(DistributedSampler(TensorDataset(torch.ones(3)), shuffle=False))


def test_the_prefix_of_data_parallel_goes_on_again() -> None:
    state = {"weight": 1, "module.bias": 2}
    assert rt.strip_module_prefix(rt.add_module_prefix(state)) == state


def test_ranks_with_hashes_of_their_own_are_told_what_to_set() -> None:
    first, second = run_script("import distify_runtime as rt\nrt.init_process_group()", fresh=True, hash_seed="random")
    assert (first.code, second.code, first.err) == (0, 0, "")
    assert "start all ranks with PYTHONHASHSEED=0" in second.err


@pytest.mark.parametrize(
    ("named", "kind"),
    [("cuda:0", "cuda"), ("cuda:13", "cuda"), ("cuda", "cuda"), ("cpu", "cpu"), ("cpu:0", "cpu:0"), ("mps", "mps"),
     ("float16", "float16"), ("cuda:", "cuda:"), ("", ""), (torch.float16, torch.float16), (None, None),
     (0, "cuda"), (1, "cuda"), (-1, -1), (True, True)],
)  # fmt: skip
def test_the_number_of_a_gpu_on_the_command_line_is_nobodys(named: object, kind: object) -> None:
    assert rt.device_kind(named) == kind
