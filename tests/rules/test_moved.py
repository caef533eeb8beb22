"""Models that are moved or cast between steps: on all ranks, and without the hooks that would be lost."""

from __future__ import annotations

import pytest
from distify_codemods import Options

from tests.rules.scripts import LOOP, converted, script

SETUP = "device = torch.device('cuda')\n"
MODEL = "model = nn.Linear(4, 1).to(device)\n"


def written(after_a_step: str, after: str = "") -> str:
    turn = "".join(f"        {line}\n" for line in after_a_step.splitlines())
    return converted(script(setup=SETUP, model=MODEL, loop=LOOP + turn, after=after), options=Options())


@pytest.mark.parametrize(
    "moved",
    [
        "model.cpu()",
        "model.half()",
        "model.to('cpu')",
        "model.to(device='cpu')",
        "model.to(torch.float16)",
        "model.to(dtype=torch.bfloat16)",
    ],
)
def test_what_is_moved_between_steps_is_not_wrapped(moved: str) -> None:
    after = written(f"{moved}\ntorch.save(model.state_dict(), 'm.pt')\nmodel.to(device)")
    assert "DistributedDataParallel(" not in after
    assert "rt.all_reduce_gradients(optimizer)\n" in after


@pytest.mark.parametrize(
    "kept",
    [
        "model.to(device)",
        "model.cuda()",
        "torch.save({name: one.cpu() for name, one in model.state_dict().items()}, 'm.pt')",
        "str(model(x).cpu()), loss.cpu()",
        "shown = x.to('cpu')",
        "copied = copy.deepcopy(model).cpu()",
    ],
)
def test_what_stays_where_it_is_is_wrapped(kept: str) -> None:
    assert "model = DistributedDataParallel(" in written(kept)


def test_what_is_moved_behind_training_is_wrapped() -> None:
    after = written("pass", "model.cpu()\ntorch.save(model.state_dict(), 'm.pt')\n")
    assert "model = DistributedDataParallel(" in after


@pytest.mark.parametrize("saved", ["model.cpu().state_dict()", "{'model': model.cpu().state_dict(), 'epoch': epoch}"])
def test_all_ranks_move_what_rank_0_saves(saved: str) -> None:
    after = written(f"torch.save({saved}, 'm.pt')\nmodel.to(device)")
    assert f"        rt.main_process_only(torch.save)({saved}, 'm.pt')\n        model.to(device)\n" in after


def test_what_is_saved_where_it_is_is_rank_0_s_alone() -> None:
    after = written("torch.save(model.state_dict(), 'm.pt')")
    assert "        if rt.is_main_process():\n            torch.save(model.module.state_dict(), 'm.pt')\n" in after
