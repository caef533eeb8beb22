"""Losses that are weighted by figures of the batch: each rank has others."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import conversion_of, script

SETUP = "counts = torch.ones(2)\nfixed = torch.tensor([1.0, 3.0])\nstate = torch.zeros(8, 4)\n"


def _strategy(turn: str, after: str = "pass") -> tuple[Strategy | None, str]:
    lines = "".join(f"        {line}\n" for line in turn.splitlines())
    loop = f"""\
for epoch in range(3):
    for x, y in loader:
{lines}        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {after}
"""
    conversion = conversion_of(script(setup=SETUP, loop=loop), options=Options())
    return conversion.strategy, conversion.files[0].after.decode()


CLASSES = "k = y[:, 0].long()\n"
OF_K = "loss = nn.CrossEntropyLoss({})(model(x).expand(-1, 2), k)"


@pytest.mark.parametrize(
    "turn",
    [
        f"{CLASSES}w = torch.bincount(k, minlength=2).float()\n{OF_K.format('weight=w.sum() / w')}",
        f"{CLASSES}w = torch.bincount(k, minlength=2).float()\n{OF_K.format('w.sum() / w')}",
        f"{CLASSES}counts = counts + torch.bincount(k, minlength=2)\n{OF_K.format('weight=1 / counts')}",
        f"{CLASSES}counts += torch.bincount(k, minlength=2)\n{OF_K.format('weight=1 / counts')}",
    ],
)
def test_a_criterion_that_is_made_of_a_batch_is_given_whole_batches(turn: str) -> None:
    """Its weights are those of one rank, whatever its loss is averaged by."""
    assert _strategy(turn)[0] is Strategy.SHARED


def test_what_adds_up_over_the_ranks_is_added_up_where_the_criterion_is_made() -> None:
    weight = "w = (y == 0).sum() / (y == 1).sum()\n"
    strategy, text = _strategy(f"{weight}loss = nn.BCEWithLogitsLoss(pos_weight=w)(model(x), y)")
    assert strategy is Strategy.SHARDED
    assert "w = rt.sum_over_ranks((y == 0).sum()) / rt.sum_over_ranks((y == 1).sum())" in text


@pytest.mark.parametrize("weight", ["weight=fixed", "fixed", "weight=fixed / fixed.sum()", "label_smoothing=0.1"])
def test_weights_of_the_script_s_own_stay(weight: str) -> None:
    assert _strategy(CLASSES + OF_K.format(weight))[0] is Strategy.SHARDED


@pytest.mark.parametrize("rows", ["[: len(x)]", "[:]"])
def test_rows_that_are_kept_of_the_batch_before_are_no_rank_s_own(rows: str) -> None:
    """Put together over the ranks when they are kept, they would meet a rank's own share in the next turn."""
    turn = f"x = x + 0.5 * state{rows}\nloss = nn.functional.mse_loss(model(x), y)"
    assert _strategy(turn, f"state{rows} = x")[0] is Strategy.SHARED
