"""The harness passes a right conversion written by hand, and can fail: each known mistake is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from distify_runtime.trace.processes import Ranks, RunError

from tests.equivalence.harness import Save, Trace, assert_equivalent, run_converted, run_original

ORIGINAL = """
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(51, 6)
y = (x.sum(dim=1) > 0).long()
train_set, test_set = TensorDataset(x[:40], y[:40]), TensorDataset(x[40:], y[40:])
train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
test_loader = DataLoader(test_set, batch_size=4)
model = torch.nn.Linear(6, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for epoch in range(2):
    for x, y in train_loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
correct = total = 0
with torch.no_grad():
    for x, y in test_loader:
        correct += (model(x).argmax(dim=1) == y).sum().item()
        total += len(y)
torch.save(model.state_dict(), "linear.pt")
print(f"accuracy {correct} of {total}")
"""

# By hand, and with torch alone but for the group: a plain Gloo group may abort the interpreter as it ends.
CONVERTED = """
import distify_runtime as rt
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

rt.init_process_group()
rank, world_size = distributed.get_rank(), distributed.get_world_size()
torch.manual_seed(0)
x = torch.randn(51, 6)
y = (x.sum(dim=1) > 0).long()
train_set, test_set = TensorDataset(x[:40], y[:40]), TensorDataset(x[40:], y[40:])
train_loader = DataLoader(train_set, batch_size=8 // world_size, sampler=DistributedSampler(train_set))
test_loader = DataLoader(Subset(test_set, range(rank, len(test_set), world_size)), batch_size=4)
model = DistributedDataParallel(torch.nn.Linear(6, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for epoch in range(2):
    train_loader.sampler.set_epoch(epoch)
    for x, y in train_loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
correct = total = 0
with torch.no_grad():
    for x, y in test_loader:
        correct += (model.module(x).argmax(dim=1) == y).sum().item()
        total += len(y)
counts = torch.tensor([correct, total])
distributed.all_reduce(counts)
correct, total = counts.tolist()
if rank == 0:
    torch.save(model.module.state_dict(), "linear.pt")
    print(f"accuracy {correct} of {total}")
"""


@dataclass(frozen=True)
class Runs:
    original: Trace
    ranks: list[Trace]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("pair")
    (folder / "original.py").write_text(ORIGINAL, encoding="utf-8")
    (folder / "converted.py").write_text(CONVERTED, encoding="utf-8")
    ranks = run_converted(folder / "converted.py", [], 2, folder / "dist")
    return Runs(run_original(folder / "original.py", [], folder / "base"), ranks)


def test_right_conversion_is_equivalent(runs: Runs) -> None:
    assert_equivalent(runs.original, runs.ranks)
    assert len(runs.original.steps) == 10
    assert runs.original.final_accuracy.endswith(" of 11")
    moved = (runs.original.steps[0][1] - runs.original.steps[-1][1]).abs().max().item()
    assert moved > 0.1, "nothing was learnt: agreement would mean little"


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        pytest.param(
            "    train_loader.sampler.set_epoch(epoch)\n",
            "",
            "DistributedSampler deals out pass 2 in the order of the pass before",
            id="set_epoch",
        ),
        pytest.param("8 // world_size", "8", "6 optimizer steps instead of 10", id="batch"),
        pytest.param("distributed.all_reduce(counts)\n", "", "printed 'accuracy", id="evaluation"),
    ],
)
def test_wrong_conversion_is_told(runs: Runs, tmp_path: Path, right: str, wrong: str, told: str) -> None:
    assert right in CONVERTED
    (tmp_path / "converted.py").write_text(CONVERTED.replace(right, wrong), encoding="utf-8")
    ranks = run_converted(tmp_path / "converted.py", [], 2, tmp_path / "dist")
    with pytest.raises(AssertionError, match=told):
        assert_equivalent(runs.original, ranks)


def _nudged(trace: Trace) -> Trace:
    steps = [(number, vector.clone()) for number, vector in trace.steps]
    steps[4][1][0] += 1e-10
    return replace(trace, steps=steps)


def _renamed(trace: Trace) -> Trace:
    contents = {f"module.{key}": value for key, value in trace.saves[0].contents.items()}
    return replace(trace, saves=[Save(trace.saves[0].path, contents)])


def _other_values(trace: Trace) -> Trace:
    contents = {key: value + 1e-9 for key, value in trace.saves[0].contents.items()}
    return replace(trace, saves=[Save(trace.saves[0].path, contents)])


@pytest.mark.parametrize(
    ("rank", "spoil", "told"),
    [
        pytest.param(0, _nudged, "rank 0: after step 5 parameters differ by 1e-10", id="parameters"),
        pytest.param(
            1,
            lambda trace: replace(trace, steps=[(n, v + 1e-15) for n, v in trace.steps]),
            "rank 1 against rank 0: after step 1",
            id="ranks-apart",
        ),
        pytest.param(0, _renamed, "other keys .*module.bias", id="prefix"),
        pytest.param(0, _other_values, "linear.pt: weight differs", id="saved-values"),
        pytest.param(0, lambda trace: replace(trace, saves=[]), "saved", id="not-saved"),
        pytest.param(1, lambda trace: replace(trace, lines=["accuracy 1 of 2"]), "rank 1 printed", id="prints"),
        pytest.param(0, lambda trace: replace(trace, lines=["", *trace.lines]), "3 lines, the original 2", id="lines"),
        pytest.param(0, lambda trace: replace(trace, files=[]), "left the files", id="files"),
        pytest.param(1, lambda trace: replace(trace, passes=[]), "another order", id="order"),
        pytest.param(1, lambda trace: replace(trace, world_size=1), "a world of 1", id="world"),
        pytest.param(1, lambda trace: replace(trace, group_left_open=True), "without destroying", id="teardown"),
        pytest.param(
            0,
            lambda trace: replace(trace, training_inputs=2 * trace.training_inputs),
            "rank 0 of 2 trained on 100% of the data",
            id="share",
        ),
    ],
)
def test_spoilt_trace_is_told(runs: Runs, rank: int, spoil: Callable[[Trace], Trace], told: str) -> None:
    ranks = list(runs.ranks)
    ranks[rank] = spoil(ranks[rank])
    with pytest.raises(AssertionError, match=told):
        assert_equivalent(runs.original, ranks)


def test_an_original_that_saves_its_wrap(runs: Runs) -> None:
    """All of its keys begin with `module.`, by nn.DataParallel; what stands beside others is no wrap."""
    assert_equivalent(_renamed(runs.original), runs.ranks)
    assert_equivalent(_renamed(runs.original), [_renamed(runs.ranks[0]), *runs.ranks[1:]])
    averaged = _renamed(runs.original)
    averaged.saves[0].contents["n_averaged"] = 1
    kept = replace(
        runs.ranks[0], saves=[Save(averaged.saves[0].path, {**runs.ranks[0].saves[0].contents, "n_averaged": 1})]
    )
    with pytest.raises(AssertionError, match="other keys"):
        assert_equivalent(averaged, [kept, *runs.ranks[1:]])


def test_losses_that_see_whole_batches_are_no_work(runs: Runs) -> None:
    """Where ranks share methods, losses may be the only modules that are called from outside."""

    def shared(trace: Trace, numbers: int) -> Trace:
        return replace(trace, shares_forwards=True, training_inputs=2 * trace.training_inputs, share=(numbers, numbers))

    assert_equivalent(runs.original, [shared(trace, 0) for trace in runs.ranks])
    with pytest.raises(AssertionError, match="rank 0 of 2 trained on 100% of the data"):
        assert_equivalent(runs.original, [shared(trace, 8) for trace in runs.ranks])


def test_two_writers_of_a_file_are_told(runs: Runs) -> None:
    ranks = [runs.ranks[0], replace(runs.ranks[1], saves=runs.ranks[0].saves)]
    with pytest.raises(AssertionError, match=r"linear.pt was written by ranks \[0, 1\]"):
        assert_equivalent(runs.original, ranks)


OWN_SAMPLER = """
import random

class Shuffled:
    def __len__(self):
        return 40
    def __iter__(self):
        return iter(random.sample(range(40), 40))
"""


def _with_own_sampler(script: str, make: str) -> str:
    head, loader, rest = script.partition("train_loader = ")
    rest = rest.replace("shuffle=True", make).replace("sampler=DistributedSampler(train_set)", make)
    assert make in rest
    return head + OWN_SAMPLER + loader + rest


def test_own_samplers_choose_the_same(tmp_path: Path) -> None:
    """And what they choose is dealt out: another order in each pass, the same in one process as on two ranks."""
    (tmp_path / "original.py").write_text(_with_own_sampler(ORIGINAL, "sampler=Shuffled()"), encoding="utf-8")
    wrapped = _with_own_sampler(CONVERTED, "sampler=rt.DistributedSamplerWrapper(Shuffled())")
    (tmp_path / "converted.py").write_text(wrapped, encoding="utf-8")
    ranks = run_converted(tmp_path / "converted.py", [], 2, tmp_path / "dist")
    assert_equivalent(run_original(tmp_path / "original.py", [], tmp_path / "base"), ranks)
    (tmp_path / "converted.py").write_text(
        wrapped.replace("train_loader.sampler.set_epoch(epoch)", "pass"), encoding="utf-8"
    )
    ranks = run_converted(tmp_path / "converted.py", [], 2, tmp_path / "dist")
    with pytest.raises(AssertionError, match="after step 6 parameters differ"):
        assert_equivalent(run_original(tmp_path / "original.py", [], tmp_path / "base"), ranks)


def test_failing_rank_ends_the_run(tmp_path: Path) -> None:
    started = time.monotonic()
    code = "import os, time\nif os.environ['RANK'] == '1': raise SystemExit('out of luck')\ntime.sleep(60)"
    ranks = Ranks(["-c", code], 2, tmp_path / "work", tmp_path / "logs", grace=0.2)
    with pytest.raises(RunError, match=r"(?s)rank 0 was stopped.*rank 1 ended with 1:\s+out of luck"):
        ranks.run()
    assert time.monotonic() - started < 30
