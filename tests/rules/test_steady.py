"""A branch that goes the same way in all turns keeps nothing of a batch for the next one."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import conversion_of

SCRIPT = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--kind", default="a")
parser.add_argument("--twice", action="store_true")
args = parser.parse_args()
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), batch_size=16, shuffle=True)
for epoch in range(2):
    for x, y in loader:
BODY
        loss = nn.functional.mse_loss(model(given), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def is_kept(*lines: str) -> bool:
    body = "\n".join(f"        {line}" for line in lines)
    conversion = conversion_of(SCRIPT.replace("BODY", body), options=Options())
    why = [one.message for one in conversion.of(Level.ADVICE) if one.code == "SHARE01"]
    assert (conversion.strategy is Strategy.SHARED) is bool(why)
    return any("keeps samples from one batch to the next" in one for one in why)


@pytest.mark.parametrize(
    "lines",
    [
        ('if args.kind == "a":', "    given = x", 'elif args.kind == "b":', "    given = x * 2"),
        ('if args.kind in ("a", "c"):', "    given = x", "elif args.twice and not args.kind:", "    given = x * 2"),
        ('if args.kind == "a":', "    given = x", "else:", "    if args.twice:", "        given = x * 2"),
        ("if args.twice:", "    given = x"),
    ],
)
def test_the_same_in_all_turns(lines: tuple[str, ...]) -> None:
    assert not is_kept(*lines)


@pytest.mark.parametrize(
    "lines",
    [
        ("if args.twice and epoch == 0:", "    given = x"),
        ('if args.kind == "a":', "    given = x", "elif epoch:", "    given = x * 2"),
        ("if args.twice:", "    if epoch == 0:", "        given = x"),
        ("if args.twice:", "    given = x", "args.twice = not args.twice"),
        ("if args.kind:", "    if args.twice:", "        x = given", "    given = x"),
        ("kind = epoch", "if kind:", "    given = x"),
        ("if epoch == 0:", "    given = x", "if args.twice:", "    given = x * 2"),
        ('if "a" in args.kind:', "    given = x", "args.kind.append(1)"),
    ],
)
def test_not_so(lines: tuple[str, ...]) -> None:
    assert is_kept(*lines)
