"""What one rank catches around a step is told of with its step, however gradients are averaged and wherever it is
raised; what all ranks catch, or one that takes part in the step all the same, is not.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from ranks import run_script

from tests.grid import slow

TRAIN = """
import sys, torch
import distify_runtime as rt
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

way, case = sys.argv[1:]
rt.init_process_group()
torch.manual_seed(0)
data = TensorDataset(torch.randn(480, 8), torch.randn(480, 1))
if way == "shared":
    loader = DataLoader(data, 12, shuffle=True)
else:
    loader = DataLoader(**rt.shard_training(data, 12, shuffle=True))
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
if way == "line":
    rt.broadcast_parameters(model)
elif way == "wrap":
    model = DistributedDataParallel(model)
else:
    rt.data_parallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)


def refuses(gradient):
    raise RuntimeError("out of memory behind")


rt.seed_ranks_apart() if way != "shared" else None
turn = 0
for epoch in range(2):
    if way != "shared":
        loader.sampler.set_epoch(epoch)
    for x, y in loader:
        turn += 1
        fails = turn == 41 and (rt.rank() == 1 or "all" in case)
        optimizer.zero_grad()
        try:
            if fails and case == "batch":
                raise RuntimeError("out of memory before")
            out = model(x[:, :3] if fails and "forward" in case else x)
            if fails and case == "loss":
                raise RuntimeError("out of memory between")
            loss = nn.functional.mse_loss(out, y)
            if fails and case == "backward":
                loss.register_hook(refuses)
            loss.backward()
        except RuntimeError:
            if "takes part" not in case:
                continue
        if way == "line":
            rt.all_reduce_gradients(optimizer)
        optimizer.step()
        if case == "looked at" and rt.is_main_process():
            for x, _ in DataLoader(data, 100):
                with torch.set_grad_enabled(way == "line"):  # ranks meet in passes of what is wrapped
                    model(x)
    if case == "looked at" and rt.is_main_process():
        next(iter(DataLoader(data, 12)))
    with torch.no_grad():
        for x, _ in DataLoader(data, 100):
            model(x)
    if way != "shared":
        rt.all_reduce_mean(float(turn))
rt.rank_zero_print("trained", turn)
"""

ERROR = "has gone on after an error that the others have not had: RuntimeError: "


def at(text: str) -> str:
    number = next(index for index, line in enumerate(TRAIN.splitlines(), 1) if text in line)
    return rf"\(\S*script.py:{number}\)"


@pytest.mark.parametrize(
    ("way", "case", "said"),
    [
        pytest.param("line", "forward", rf"{ERROR}mat1 and mat2 .* {at('out = model')}", marks=slow),
        ("line", "loss", r"went forward 2 times \(before: 1\), the others did not"),
        ("line", "backward", f"{ERROR}out of memory behind {at('loss.backward')}"),
        ("wrap", "batch", r"took a batch 2 times \(before: 1\), the others did not"),
        pytest.param("wrap", "forward", rf"{ERROR}mat1 and mat2 .* {at('out = model')}", marks=slow),
        pytest.param("wrap", "backward", f"{ERROR}out of memory behind {at('loss.backward')}", marks=slow),
        pytest.param("shared", "backward", f"{ERROR}out of memory behind {at('loss.backward')}", marks=slow),
    ],
)
def test_a_run_that_dies_of_what_one_rank_catches_ends_with_the_cause(
    way: str, case: str, said: str, tmp_path: Path
) -> None:
    """The watch ends it, or torch does before, as the collectives do not match."""
    (tmp_path / "script.py").write_text(TRAIN)
    words = ["run", "-np", "2", "--oversubscribe", "--as-is", "--hang-timeout", "20", "script.py", way, case]
    done = subprocess.run(
        [sys.executable, "-m", "distify", *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    last = done.stderr.rpartition("distify: the ranks are not at the same step: ")[2]
    assert re.match(f"before step 41, rank 1 {said}", last), done.stderr
    if case == "backward":  # with the calls that it came through
        assert 'in refuses\n    raise RuntimeError("out of memory behind")\n' in last, done.stderr


def test_who_waits_for_ever_hears_of_a_batch_that_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTIFY_HANG_TIMEOUT", "8")
    zero, _ = run_script(TRAIN, "shared", "loss")
    assert zero.code == 1
    assert re.search(r"the run is ended: .*; the ranks .*: before step 41, rank 1 took a batch 2 times", zero.err)


@pytest.mark.parametrize(
    ("way", "case"),
    [
        ("line", "forward of all"),
        ("line", "forward, takes part"),
        ("line", "looked at"),
        ("wrap", "forward of all"),
        ("wrap", "looked at"),
    ],
)
def test_what_is_even_goes_on(way: str, case: str) -> None:
    for ended in run_script(TRAIN, way, case):
        said = [line for line in ended.err.splitlines() if "distify: batches of" not in line]
        assert (ended.code, said) == (0, [])
