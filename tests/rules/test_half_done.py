"""OLD02: what is half distributed is finished, what is wholly distributed is recognised."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Outcome

from tests.rules.scripts import IMPORTS, LOADER, LOOP, MODEL, OPTIMIZER, blocked, conversion_of, converted, script

TORCHS = (
    IMPORTS
    + "import torch.distributed as dist\n"
    + "from torch.nn.parallel import DistributedDataParallel as DDP\n"
    + "from torch.utils.data.distributed import DistributedSampler\n"
)
INIT = 'dist.init_process_group("nccl")\n'
SHARDED = "sampler = DistributedSampler(data)\nloader = DataLoader(data, batch_size=8, sampler=sampler)\n"
WRAPPED = "model = DDP(nn.Linear(4, 1))\n"


def test_what_is_wrapped_is_sharded() -> None:
    new = converted(script(imports=TORCHS, setup=INIT, model=WRAPPED))
    assert "sampler=rt.TrainingSampler(data)" in new
    assert "model = nn.Linear(4, 1)\nmodel = DDP(model, device_ids=rt.device_ids(model))\n" in new
    assert "dist.init_process_group" not in new
    assert "    loader.sampler.set_epoch(epoch)\n" in new


def test_what_is_sharded_is_wrapped() -> None:
    new = converted(script(imports=TORCHS, setup=INIT, loader=SHARDED))
    assert "loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8), sampler=sampler)\n" in new
    assert "model = DDP(model, device_ids=rt.device_ids(model))\n" in new


def test_what_the_script_has_done_itself_is_not_done_twice() -> None:
    loader = (
        "sampler = DistributedSampler(data, num_replicas=dist.get_world_size(), rank=dist.get_rank())\n"
        "loader = DataLoader(data, batch_size=8 // dist.get_world_size(), sampler=sampler)\n"
    )
    loop = LOOP.replace("    for x", "    sampler.set_epoch(epoch)\n    for x")
    new = converted(script(imports=TORCHS, setup=INIT, loader=loader, loop=loop))
    assert "sampler = DistributedSampler(data)\n" in new
    assert "batch_size=8 // dist.get_world_size(), sampler=sampler)" in new
    assert new.count("set_epoch") == 1


SPAWNED = """\
import os
import torch.multiprocessing as mp
def work(rank, size, rate):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("gloo", rank=rank, world_size=size)
{body}    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(work, args=(2, 0.1), nprocs=2)
"""


def _spawned(*parts: str) -> str:
    body = "".join(f"    {line}" for part in parts for line in part.splitlines(keepends=True))
    return TORCHS + SPAWNED.format(body=body)


DATA = "data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n"


def test_the_launcher_starts_the_processes() -> None:
    new = converted(_spawned(DATA, LOADER, WRAPPED, OPTIMIZER, LOOP))
    assert "    work(rt.rank(), rt.world_size(), 0.1)\n" in new
    assert not any(gone in new for gone in ("mp.spawn", "MASTER_", "dist.init", "dist.destroy"))


ARGUMENT = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("before", "line"),
    [
        (script(imports=TORCHS, setup=INIT, loader=SHARDED, model=WRAPPED), "torchrun --nproc-per-node N train.py"),
        (script(imports=TORCHS, setup=ARGUMENT + INIT, loader=SHARDED, model=WRAPPED), "--local_rank=$LOCAL_RANK"),
        (_spawned(DATA, SHARDED, WRAPPED, OPTIMIZER, LOOP), "launch it as it is: python train.py"),
    ],
)
def test_what_is_done_has_its_launch_line(before: str, line: str) -> None:
    conversion = conversion_of(before)
    assert conversion.outcome is Outcome.REFUSED
    (finding,) = conversion.of(Level.BLOCKING)
    assert finding.code == "REFUSE01"
    assert line in finding.fix


REDUCED = LOOP.replace("        optimizer.step()", "        optimizer.step()\n        dist.all_reduce(loss)")


@pytest.mark.parametrize(
    ("before", "code"),
    [
        (script(imports=TORCHS, setup=INIT, model=WRAPPED, loop=REDUCED), "OLD02"),
        (script(imports=TORCHS, setup=INIT, model=WRAPPED, data=DATA + "rows = list(range(64))[dist.get_rank()::2]\n"
                "data = torch.utils.data.Subset(data, rows)\n"), "OLD02"),
        (script(imports=TORCHS, setup=INIT, model=MODEL, loop="if dist.get_rank() == 0:\n" + "".join(
            f"    {line}" for line in LOOP.splitlines(keepends=True))), "MEET01"),
    ],
)  # fmt: skip
def test_left_to_a_person(before: str, code: str) -> None:
    assert code in {one for one, _ in blocked(before)}


@pytest.mark.parametrize("strategy", ["sharded", "shared"])
def test_a_script_that_says_it_is_alone_is_told_otherwise_by_its_launcher(strategy: str) -> None:
    """Without that, each rank would believe to be the only one."""
    setup = 'os.environ["WORLD_SIZE"] = "1"\nos.environ["RANK"] = str(0)\nos.environ["OMP_NUM_THREADS"] = "1"\n'
    new = converted(script(imports=f"import os\n{IMPORTS}", setup=setup), Options(strategy=strategy))
    assert 'os.environ["WORLD_SIZE"] = os.environ.get("WORLD_SIZE", "1")\n' in new
    assert 'os.environ["RANK"] = os.environ.get("RANK", str(0))\n' in new
    assert 'os.environ["OMP_NUM_THREADS"] = "1"\n' in new


def test_several_at_once_are_left_to_a_person() -> None:
    setup = 'os.environ["RANK"] = os.environ["LOCAL_RANK"] = "0"\n'
    assert "OLD02" in {code for code, _ in blocked(script(imports=f"import os\n{IMPORTS}", setup=setup))}
