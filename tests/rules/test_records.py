"""What training keeps for each sample, at the sample's own place: one rank has it of its own samples alone."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import IMPORTS, conversion_of, line_of, script

DATA = "data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1), torch.arange(64))\n"
MORE = f"import numpy as np\n{IMPORTS}"
LOOP = """\
for epoch in range(3):
    for step, (x, y, i) in enumerate(loader):
        out = model(x)
        loss = nn.functional.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {kept}
np.save("kept.npy", kept)
"""
TABLE, ROWS, NAMED = "kept = np.zeros((3, 64))\n", "at, kept = 0, torch.zeros(64)\n", "kept = {}\n"
WIDE = "at, kept = 0, np.zeros((64, 1))\n"


def links(setup: str, kept: str) -> list[int]:
    loop = LOOP.format(kept=kept.replace("\n", "\n        "))
    before = script(imports=MORE, data=DATA, setup=setup, loop=loop)
    conversion = conversion_of(before, options=Options())
    found = [one for one in conversion.of(Level.ADVICE) if "keeps something for each sample" in one.message]
    assert (conversion.strategy is Strategy.SHARED) is bool(found)
    lines = [one.place.line for one in found if one.place]
    assert set(lines) <= {line_of(before, one.strip()) for one in kept.split("\n")}
    return lines


@pytest.mark.parametrize(
    ("setup", "kept"),
    [
        (TABLE, "kept[epoch, i.numpy()] = out.detach().squeeze(1).numpy()"),
        (ROWS, "kept[i] = out.detach().squeeze(1)"),
        (WIDE, "kept[at : at + len(x)] = out.detach().numpy()\nat += len(x)"),
        (WIDE, "end = at + len(x)\nkept[at:end] = out.detach().numpy()\nat = end"),
        (WIDE, "kept[step * len(x) : (step + 1) * len(x)] = out.detach().numpy()"),
        (WIDE, "kept[step * 8 : step * 8 + 8] = out.detach().numpy()"),
        (ROWS, "kept[at : at + len(x)].copy_(out.detach().squeeze(1))\nat += len(x)"),
        (ROWS, "kept.narrow(0, at, len(x)).copy_(out.detach().squeeze(1))\nat += len(x)"),
        (ROWS, "for row in out.detach():\n    kept[at] = row\n    at += 1"),
        (ROWS, "for row in range(len(x)):\n    kept[at + row] = out[row].detach()\nat += len(x)"),
        (NAMED, "for name, value in zip(i.tolist(), out.squeeze(1).tolist()):\n    kept[name] = value"),
    ],
)
def test_what_is_kept_for_each_sample_shares_forward_passes(setup: str, kept: str) -> None:
    assert len(links(setup, kept)) == 1


@pytest.mark.parametrize(
    ("setup", "kept"),
    [
        (ROWS, "kept[: len(x)] = out.detach().squeeze(1)"),  # the last batch
        (NAMED, "kept[len(x)] = step"),
        (ROWS, "for row in range(len(x)):\n    torch.save(x[row], f'{epoch}-{step}-{row}.pt')"),
    ],
)
def test_what_would_be_of_rank_0s_samples_shares_forward_passes(setup: str, kept: str) -> None:
    loop = LOOP.format(kept=kept.replace("\n", "\n        "))
    conversion = conversion_of(script(imports=MORE, data=DATA, setup=setup, loop=loop), options=Options())
    assert conversion.strategy is Strategy.SHARED
    assert [one for one in conversion.of(Level.ADVICE) if "would be that of rank 0's samples" in one.message]


@pytest.mark.parametrize(
    ("setup", "kept"),
    [
        (TABLE, "kept[epoch, step] = loss.item()"),
        (NAMED, "kept[epoch] = loss.item()"),
        (ROWS, "kept[at] = loss.item()\nat += 1"),
        (ROWS, "rows = torch.zeros(64)\nrows[at : at + len(x)] = out.detach().squeeze(1)"),
        (ROWS, "rows = torch.zeros(64)\nrows[i] = out.detach().squeeze(1)"),  # gone with the turn
        (ROWS, "wanted = torch.zeros(len(x), 64)\nwanted[range(len(x)), i] = 1.0\nshown = (out - wanted).mean()"),
        (ROWS, "kept[step] = 1.0"),
    ],
)
def test_what_is_kept_for_each_batch_or_for_none(setup: str, kept: str) -> None:
    assert links(setup, kept) == []
