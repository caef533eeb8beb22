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
