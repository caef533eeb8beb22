"""Checks that end the run: whether a rank's share may fail them where the whole batch does not."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options

from tests.rules.scripts import IMPORTS, LOOP, Finding, conversion_of, findings, script

BUT = "checks of a rank's own samples"
LOSS = "nn.functional.mse_loss(model(x), y)"
CUT = """\
inputs, labels = torch.randn(64, 4), torch.randn(64, 1)
for epoch in range(20):
    rows = torch.randint(0, len(inputs), (8,))
    x, y = inputs[rows], labels[rows]
    loss = nn.functional.mse_loss(model(x), y)
    {check}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def in_training(check: str) -> str:
    check = check.replace("\n", "\n        ")
    return script(imports=f"import math\n{IMPORTS}", loop=LOOP.replace(f"{LOSS}\n", f"{LOSS}\n        {check}\n"))


def said(before: str, level: Level = Level.ADVICE) -> list[Finding]:
    return [one for one in findings("DECIDE01", before, level) if "checks" in one.message]


@pytest.mark.parametrize(
    "check",
    [
        "assert (y > 0).sum() > 0",
        "assert y.ne(-1).any()",
        "if y.ne(-1).sum() == 0:\n    raise ValueError('no labels')",
        "if not (y > 0).any():\n    raise ValueError",
        "if (y == 1).sum() < 2:\n    raise ValueError",
        "if (y > 0).any():\n    x = x + 0\nelse:\n    raise ValueError",
        "assert y.unique().numel() > 1",
        "assert x.max() > 0",
        "assert x.mean().item() < 3",
        "assert 0 < x.std()",
        "assert len(x) == 8",
        "if loss > 1e4:\n    raise RuntimeError",
        "assert not (torch.isnan(loss) and loss < 3)",
        "assert torch.allclose(x.mean(0), torch.zeros(4), atol=1.0)",
        "assert (x.mean(0) > -1).all()",
    ],
)
def test_a_share_may_fail_where_its_batch_does_not(check: str) -> None:
    before = in_training(check)
    assert len(said(before)) == 1
    claims = [one.message for one in findings("DECIDE01", before, Level.NOT_NEEDED)]
    assert all(one.startswith(f"every decision is the same on all ranks, but {BUT}") for one in claims)


def test_of_a_batch_that_is_cut_by_hand() -> None:
    before = script(data="", loader="", loop=CUT.replace("{check}", "assert (y > 0).any()"))
    assert len(said(before)) == 1


def test_whole_batches_are_checked_where_forward_passes_are_shared() -> None:
    conversion = conversion_of(in_training("assert (y > 0).any()"), options=Options(strategy="shared"))
    assert not [one for one in conversion.of(Level.ADVICE) if one.code == "DECIDE01"]


@pytest.mark.parametrize(
    "check",
    [
        "assert x.size(1) == 4",
        "assert x.shape[1] == 4 and x.dim() == 2",
        "assert x.ndim == 2 and x.dtype == torch.float32",
        "assert isinstance(x, torch.Tensor) and x is not None",
        "assert len(x) == len(y) and x.shape[0] == y.shape[0]",
        "assert model(x).shape == y.shape",
        "assert len(x) > 0",
        "assert epoch < 10 and model.training",
        "assert not torch.isnan(loss)",
        "assert torch.isfinite(x).all()",
        "assert loss == loss, 'no number'",
        "if loss != loss:\n    raise RuntimeError",
        "if torch.isnan(loss):\n    raise RuntimeError",
        "if not math.isfinite(loss.item()):\n    raise RuntimeError",
        "if x.isnan().any() or x.isinf().any():\n    raise ValueError",
        "assert not (x.isnan().any() and epoch > 1)",
        "assert x.min() >= -100 and x.max() <= 100",
        "assert -100 <= x.min().item()",
        "assert (y >= -100).all()",
        "assert all(one < 100 for one in y[:, 0].tolist())",
        "if (y > 100).any():\n    raise ValueError",
        "if (y > 100).sum() > 0:\n    raise ValueError",
        "if (y > 0).any():\n    x = x + 0",  # ends nothing
    ],
)
def test_a_batch_fails_if_a_share_of_it_does(check: str) -> None:
    before = in_training(check)
    assert not said(before)
    assert not [one for one in findings("DECIDE01", before, Level.NOT_NEEDED) if "checks" in one.message]


def test_before_training_all_ranks_check_the_same() -> None:
    loop = f"first = next(iter(loader))[0]\nassert (first > 0).any()\n{LOOP}"
    assert not said(script(loop=loop))
