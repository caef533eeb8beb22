"""Converted runs watch themselves: a mistake that torch is silent about ends them, and what is right goes on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from ranks import Ended, run_script

TRAIN = """
import os, sys, tempfile, time, numpy, torch
import distify_runtime as rt
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split

case = sys.argv[1]
rt.init_process_group(watch="warn" if case == "warned" else None)
torch.manual_seed(0)


class Noisy(nn.Module):
    def forward(self, x):
        return x + torch.from_numpy(numpy.random.rand(len(x), 1)).float()


noisy = Noisy() if case.startswith("NumPy") else nn.Identity()
net = nn.Sequential(noisy, nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 1))
if case in ("unwrapped", "warned"):
    model = net
else:  # torch sends rank 0's buffers before each pass
    how = {"forward_sync_buffers": False} if case == "statistics" else {}
    model = DistributedDataParallel(rt.convert_sync_batchnorm(net), **how)
scale = torch.zeros((), requires_grad=True)
optimizer = torch.optim.SGD([*model.parameters(), *([scale] if case == "beside a module" else [])], 0.01)
data = TensorDataset(torch.randn(512, 8), torch.randn(512, 1))

if case == "torch's sampler":
    loader = DataLoader(data, 32, sampler=DistributedSampler(data, seed=rt.rank()))
elif case in ("other samples", "split apart", "split"):
    if case == "other samples":
        data = TensorDataset(torch.randn(512, 8) + rt.rank(), data.tensors[1])
    else:
        draw = torch.Generator().manual_seed(rt.rank() if case == "split apart" else 0)
        data = random_split(TensorDataset(*(one.repeat(2, 1) for one in data.tensors)), [512, 512], draw)[0]
    loader = DataLoader(**rt.shard_training(data, 64, shuffle=True))
elif case in ("listed otherwise", "listed"):
    class Files(torch.utils.data.Dataset):
        def __init__(self, files):
            self.files, self.folder = files, [f"/scratch/{rt.rank()}"]
        def __len__(self):
            return len(self.files)
        def __getitem__(self, index):
            return data[int(self.files[index][0].rpartition("/")[2])]
    names = [(f"/scratch/{rt.rank()}/{one}", one % 2) for one in range(512)]
    other = names[::-1] if case == "listed otherwise" and rt.rank() == 1 else names
    loader = DataLoader(**rt.shard_training(Files(other), 64, shuffle=True))
elif case == "other sizes":
    data = TensorDataset(*(one[rt.rank():] for one in data.tensors))
    loader = DataLoader(**rt.shard_training(data, 64, shuffle=True, drop_last=True))
else:
    loader = DataLoader(**rt.shard_training(data, 64, shuffle=True))
rt.seed_ranks_apart()
step = 0
for epoch in range(2):
    if case != "epoch":
        loader.sampler.set_epoch(epoch)
    for x, y in loader:
        step += 1
        if case == "cast" and step == 3:
            model.double().float()
        if case == "made anew" and step == 3:
            model.module[4] = nn.Linear(8, 1)
        if case == "seed" and step == 3:
            torch.manual_seed(0)
        if case == "NumPy's seed" and step == 1:
            numpy.random.seed(0)
        if case == "file" and step == 4:
            open(sys.argv[2], "w").close()
        if case == "main file" and step == 4:
            with rt.main_process_first():
                open(sys.argv[2], "w").close()
            rt.main_process_open(sys.argv[2], "a").close()
            tempfile.TemporaryFile().close()
            os.makedirs(sys.argv[2] + ".d/.cache", exist_ok=True)
            open(sys.argv[2] + ".d/.cache/fonts", "w").close()
        if case == "caught" and step == 5 and rt.rank() == 1:
            x = x[:, :3]
        optimizer.zero_grad()
        try:
            nn.functional.mse_loss(model(x) * scale.exp(), y).backward()
        except RuntimeError:
            continue
        if case == "left out" and rt.rank() == 1 and step == 16:
            continue
        optimizer.step()
        if case == "statistics" and step == 4 and rt.rank() == 1:
            model.module[2].running_mean.add_(1)
        if case in ("late", "last") and step == 13 and rt.rank() == 1:
            nn.init.zeros_(net[1].weight)
        if case == "input" and step < 3:
            noise = torch.zeros(32, requires_grad=True)  # of this rank's samples alone
            attack = torch.optim.SGD([noise], 1.0)
            (noise * rt.rank()).sum().backward()
            attack.step()
        if case == "waiting" and step == 4 and rt.rank() == 1:
            time.sleep(1000)
if case in ("late", "saved") and rt.is_main_process():
    torch.save(net.state_dict(), sys.argv[2])
if case != "last":  # nor does it come to where ranks ask which of them writes
    rt.rank_zero_print("trained", step)
"""


def at(text: str) -> str:
    """The line with this text, as messages name it."""
    number = next(index for index, line in enumerate(TRAIN.splitlines(), 1) if text in line)
    return rf"\(\S*script.py:{number}\)"


def trained(case: str, *arguments: str) -> Ended:
    """Rank 0, which speaks for all; without the note on batches."""
    ended = run_script(TRAIN, case, *arguments)[0]
    said = [line for line in ended.err.splitlines(keepends=True) if "distify: batches of 64" not in line]
    return replace(ended, err="".join(said))


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("unwrapped", "after step 1 of SGD, parameter `1.weight` and \\d more of rank 1 is not rank 0's. Something"),
        (
            "beside a module",
            r"after step 1 of SGD, a trained tensor of shape \(\), which is of no module, of rank 1 is not rank 0's",
        ),
        ("cast", "before step 3, `1.weight` of a wrapped model was moved, cast or made anew " + at("model.double")),
        ("made anew", "before step 3, `4.weight` of a wrapped model was moved, cast or made anew " + at("module[4]")),
        ("epoch", r"TrainingSampler deals out pass 2 in the order of the pass before: sampler.set_epoch\(epoch\)"),
        ("torch's sampler", r"DistributedSampler, pass 1: \d+ of 512 samples are dealt out by more than one rank"),
        ("other sizes", "rank 1 and rank 0 deal out different orders, of data sets of 511 and 512 samples"),
        ("other samples", "rank 1 and rank 0 hold other samples each: are they drawn by a seed of each rank's?"),
        ("split apart", "rank 1 and rank 0 hold other parts of a data set each: is it split by a seed of each rank's?"),
        (
            "listed otherwise",
            "rank 1 and rank 0 list other samples each, in `files`: is there a folder",
        ),
        ("seed", "ranks 0 and 1 draw the same random numbers in the forward pass before step 5 of SGD: dropout"),
        ("statistics", "after step 5 of SGD, running statistic `2.running_mean` of rank 1 is not rank 0's"),
        ("left out", "the ranks have not taken equally many steps: rank 0 took 16, rank 1 took 15"),
    ],
)
def test_what_is_not_as_it_should_be_ends_the_run(case: str, said: str) -> None:
    ended = trained(case)
    assert ended.code == 1
    assert re.search(said, ended.err), ended.err


def test_what_one_rank_catches_the_others_hear_of() -> None:
    ended = trained("caught")
    assert ended.code == 1
    assert (
        "before step 5, rank 1 has gone on after an error that the others have not had: RuntimeError: mat1" in ended.err
    )


CAUGHT = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
import distify_runtime as rt
rt.init_process_group()
failing = [rank for rank in range(2) if sys.argv[1] in (str(rank), "all")]

class Rows(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        if rt.rank() in failing and len(read) == 8:
            raise ValueError("cannot be read")
        read.append(i)
        return torch.randn(4), i % 2

def main():
    data = Rows()
    loader = DataLoader(data, batch_size=4, sampler=rt.TrainingSampler(data))
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

read = []
try:
    main()
except Exception as error:
    print("gave up")
"""


def test_an_error_that_one_rank_has_had_does_not_pass_for_the_scripts_end() -> None:
    """The others hear no more than that it is gone; who caught that, too, would end with 0."""
    zero = run_script(CAUGHT, "1")[0]
    assert zero.code == 1
    assert "distify: the script has come to its end after 2 steps behind an error that not all ranks" in zero.err
    assert re.search(r"; rank 1: ValueError: cannot be read \(\S*script\.py:\d+\)", zero.err), zero.err


@pytest.mark.parametrize("failing", ["all", "none"])
def test_an_error_that_all_ranks_have_had_is_the_scripts_own(failing: str) -> None:
    assert [one.code for one in run_script(CAUGHT, failing)] == [0, 0]


def test_ranks_that_have_come_apart_late_are_told_before_a_checkpoint(tmp_path: Path) -> None:
    ended = trained("late", str(tmp_path / "a.pt"))
    assert re.search(r"after step 16 of SGD, parameter `1\.weight` .*of rank 1 is not rank 0's", ended.err), ended.err
    assert ended.code != 0
    assert not (tmp_path / "a.pt").exists()
    assert trained("saved", str(tmp_path / "a.pt")).code == 0
    assert (tmp_path / "a.pt").exists()


def test_ranks_that_have_come_apart_behind_the_last_look_are_told_at_the_end() -> None:
    ended = trained("last")
    assert ended.code == 0  # it may have been by right
    assert re.search(
        r"at the end of the script, the ranks have come apart: after step 16 of SGD, parameter `1\.weight`", ended.err
    )


def test_a_file_has_one_writer(tmp_path: object) -> None:
    ended = trained("file", f"{tmp_path}/log.txt")
    assert ended.code == 1
    assert re.search(f"ranks 0 and 1 write one file, {tmp_path}/log.txt {at('open(')}: let rank 0", ended.err)


def test_a_run_that_waits_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTIFY_HANG_TIMEOUT", "4")
    zero, one = run_script(TRAIN, "waiting")
    assert zero.code == 1
    assert re.search(r"no rank has got on for \d+ s, and the run is ended: rank 0 is at .*; rank 1 is at ", zero.err)
    assert "time.sleep(1000)" in zero.err
    assert "most recent call first" in one.err  # its own stack, in its own log


@pytest.mark.parametrize("case", ["right", "main file", "input", "split", "listed"])
def test_what_is_right_goes_on(case: str, tmp_path: object) -> None:
    ended = trained(case, f"{tmp_path}/log.txt")
    assert (ended.code, ended.out, ended.err) == (0, "trained 16\n", "")


def test_a_warning_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = trained("warned")
    assert (ended.code, ended.out) == (0, "trained 16\n")
    assert ended.err.count("the ranks have come apart") == 1
    monkeypatch.setenv("DISTIFY_WATCH", "off")
    assert trained("warned").err == ""


def test_what_numpy_draws_alike_is_said() -> None:
    ended = trained("NumPy's seed")
    assert (ended.code, ended.out) == (0, "trained 16\n")
    assert "ranks 0 and 1 draw the same random numbers of NumPy in the forward pass before step 1 of SGD" in ended.err
    assert trained("NumPy's noise").err == ""


def test_another_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTIFY_WATCH", "yes")
    ended = trained("right")
    assert ended.code == 1
    assert ended.err == "distify: DISTIFY_WATCH=yes: it is one of off, warn, on\n"


KEPT = """
import torch
import distify_runtime as rt
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import prune

rt.init_process_group()
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1)), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(4):
    if step == 1:
        model.module[1].weight.requires_grad_(False)
    if step == 2:
        prune.identity(model.module[0], "weight")  # the same parameter, under another name
    model.float()
    optimizer.zero_grad()
    model(torch.randn(4, 8)).mean().backward()
    optimizer.step()
rt.destroy_process_group()
print("trained")
"""


def test_a_wrapped_model_that_keeps_its_hooks_goes_on() -> None:
    for ended in run_script(KEPT):
        assert (ended.code, ended.out) == (0, "trained\n")
        assert "distify" not in ended.err  # torch says something of its own
