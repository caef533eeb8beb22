"""MEET01: a figure is put together where all ranks come to it, and nowhere else."""

from __future__ import annotations

import distify_runtime
import pytest
from distify_codemods.rules.meetings import BY_ITSELF

from tests.rules.scripts import IMPORTS, LOOP, blocked, converted, script

TORCHS = (
    IMPORTS
    + "import os\nimport torch.distributed as dist\n"
    + "from torch.nn.parallel import DistributedDataParallel as DDP\n"
)
SETUP = 'dist.init_process_group("nccl")\nhistory = []\n'
WRAPPED = "model = DDP(nn.Linear(4, 1))\n"
RANKS = ("dist.get_rank()", 'int(os.environ["RANK"])', 'int(os.environ.get("LOCAL_RANK", 0))')


def _half_done(after: str, setup: str = "") -> str:
    return script(imports=TORCHS, setup=SETUP + setup, model=WRAPPED, loop=LOOP + after + "print(history)\n")


@pytest.mark.parametrize("rank", RANKS)
def test_what_rank_0_alone_keeps_stays_its_own(rank: str) -> None:
    new = converted(_half_done(f"        if {rank} == 0:\n            history.append(loss.item())\n"))
    assert "            history.append(loss.item())\n" in new


def test_a_function_that_other_ranks_leave_keeps_it_too() -> None:
    function = "def note(loss):\n    if dist.get_rank() != 0:\n        return\n    history.append(loss.item())\n"
    new = converted(_half_done("        note(loss)\n", function))
    assert "    history.append(loss.item())\n" in new


@pytest.mark.parametrize(
    ("after", "setup"),
    [
        ("    if dist.get_rank() == 0:\n        if loss.item() < best:\n            best = loss.item()\n"
         '            torch.save(model.module.state_dict(), "net.pt")\n', "best = 9.0\n"),
        ("    if dist.get_rank() == 0 and loss.item() < best:\n        best = loss.item()\n"
         '        torch.save(model.module.state_dict(), "net.pt")\n', "best = 9.0\n"),
        ("    check()\n", "best = 9.0\ndef check():\n    if dist.get_rank() != 0:\n        return\n"
         '    if loss.item() < best:\n        torch.save(model.module.state_dict(), "net.pt")\n'),
        ("    if dist.get_rank() != 0:\n        continue\n    if loss.item() < best:\n"
         '        torch.save(model.module.state_dict(), "net.pt")\n', "best = 9.0\n"),
        ("    if dist.get_rank() != 0:\n        continue\n    check()\n",
         "best = 9.0\ndef check():\n    if loss.item() < best:\n"
         '        torch.save(model.module.state_dict(), "net.pt")\n'),
    ],
    ids=["under it", "behind `and`", "after `return`", "after `continue`", "called after `continue`"],
)  # fmt: skip
def test_a_decision_that_not_all_ranks_come_to_needs_a_person(after: str, setup: str) -> None:
    assert "MEET01" in {code for code, _ in blocked(_half_done(after, setup))}


def test_what_a_rank_calls_by_itself_is_there() -> None:
    assert set(distify_runtime.__all__) >= BY_ITSELF
