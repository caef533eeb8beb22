"""What the watch makes of ranks that share forward passes."""

from __future__ import annotations

import re

import pytest
from ranks import run_script

TRAIN = """
import sys, torch
import distify_runtime as rt
from torch import nn

rt.init_process_group(whole_batches=True)
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 1)

    def forward(self, x):
        if rt.is_main_process():
            len(x)
        return nn.functional.dropout(self.net(x), 0.2)


model, other = Net(), Net()
if sys.argv[1] != "another branch":
    rt.data_parallel(model)
trained = other if sys.argv[1] in ("another model", "evaluated") else model
optimizer = torch.optim.SGD(trained.parameters(), 0.01)
samples = torch.randn(8, 8)
for step in range(30 if sys.argv[1] != "few steps" else 8):
    optimizer.zero_grad()
    if sys.argv[1] == "another model" and step < 2:
        model(torch.randn(8, 8))
    if sys.argv[1] == "evaluated":
        with torch.no_grad():
            model(torch.randn(8, 8))
    if sys.argv[1] == "one number more" and step == 3 and rt.rank() == 1:
        torch.rand(1)
    trained(samples).square().mean().backward()
    optimizer.step()
    if rt.is_main_process():
        torch.save(model.state_dict(), sys.argv[2])
print("trained")
"""
SAID = "no forward pass has been shared in the course of 20 steps: every rank does all of the work here"


@pytest.mark.parametrize(
    ("case", "said"), [("shared", 0), ("few steps", 0), ("another branch", 1), ("another model", 1), ("evaluated", 1)]
)
def test_steps_in_which_nothing_is_shared_are_told_once(case: str, said: int, tmp_path: object) -> None:
    """And a forward pass that asks whether this is rank 0, on a stream of its own, is nothing that draws apart."""
    ended = run_script(TRAIN, case, f"{tmp_path}/model.pt")
    assert [(one.code, one.out) for one in ended] == [(0, "trained\n")] * 2, ended
    assert [one.err.count(SAID) for one in ended] == [said, 0]


def test_a_rank_that_has_drawn_one_number_more_is_told(tmp_path: object) -> None:
    """Of its stream, hardly anything moves by that."""
    ended = run_script(TRAIN, "one number more", f"{tmp_path}/model.pt")[0]
    assert ended.code == 1
    assert re.search(
        r"rank 1 and rank 0 do not draw the same random numbers any more after step [45] of SGD", ended.err
    )


WHOLE = """
import sys, torch
import distify_runtime as rt
from torch import nn

rt.init_process_group(whole_batches=True)
torch.manual_seed(0)


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4))

    def forward(self, rows):
        return rows @ self.weight @ rows.T


class Reading(nn.Module):
    # What comes later in a sample depends on what came before.
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(4, 4, batch_first=True)

    def forward(self, steps):
        return self.layer(steps)[0]


model = Pairs() if sys.argv[1] == "Pairs" else Reading()
rt.data_parallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for step in range(25):
    optimizer.zero_grad()
    x = torch.randn(5, 4) if sys.argv[1] == "Pairs" else torch.randn(1, 6 + step % 2, 4)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.6f}")
"""


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("Pairs", r"\(Pairs: its outputs do not follow the batch[^\n]*\)$"),
        ("Reading", r"\(Reading: its batch is one sample, [^\n]*; of larger batches there may be something [^\n]*\)$"),
    ],
)
def test_where_nothing_can_be_shared_the_run_goes_on_and_says_why(case: str, why: str) -> None:
    """It takes the steps of one process, no faster."""
    [alone] = run_script(WHOLE, case, ranks=1)
    ended = run_script(WHOLE, case)
    assert [(one.code, one.out) for one in ended] == [(0, alone.out)] * 2, ended
    assert re.search(f"{SAID}, which is right, but no faster than one process {why}", ended[0].err, re.MULTILINE)
    assert SAID not in ended[1].err
