"""A part of the loss that is None, or a number: by the script's settings, or by the numbers themselves."""

from __future__ import annotations

import pytest
from distify_codemods import Options
from distify_codemods.results import Strategy

from tests.rules.scripts import IMPORTS, conversion_of, indented, script

SETUP = """
import argparse
import time

import unheard_of

parser = argparse.ArgumentParser()
parser.add_argument('--more', action='store_true')
parser.add_argument('--kind', default='plain')
args = parser.parse_args()
known = {}


def spread(out):
    return out.pow(2).sum(1).mean()


def by_options(out, more=None):
    if more is None or not args.more:
        return None
    return spread(out)


def by_numbers(out):
    if out.sum() > 3:
        return None
    return spread(out)


def by_numbers_without_a_word(out):
    if out.sum() > 3:
        return
    return spread(out)


def both(out):
    if out.max() > 3:
        return out, None
    return out, spread(out)


def one_of_two(out):
    return (out, None) if args.kind == 'plain' else (out, spread(out))


"""
TURN = """
for epoch in range(3):
    for x, y in loader:
        out = model(x)
        loss = nn.functional.mse_loss(out, y)
{lines}
        if more is not None:
            loss = loss + more
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def is_decided_by_numbers(lines: str) -> bool:
    """Whether ranks would decide apart: they are made to see the same numbers, or share forward passes."""
    loop = TURN.format(lines=indented(lines, " " * 8))
    conversion = conversion_of(script(imports=IMPORTS, setup=SETUP, loop=loop), options=Options())
    (new,) = conversion.files
    alike = (b"rt.gather_samples(", b"rt.all_reduce_mean(", b"rt.from_main_process(")
    return conversion.strategy is Strategy.SHARED or any(one in new.after for one in alike)


@pytest.mark.parametrize(
    "lines",
    [
        "more = None\nif args.more:\n    more = spread(out)",
        "more = spread(out) if args.more else None",
        "more = spread(out)\nif not args.more:\n    more = None",
        "more = by_options(out, args.kind)",
        "out, more = one_of_two(out)",
        "parts = {}\nif args.more:\n    parts['more'] = spread(out)\nmore = parts.get('more')",
        "more = None\nfor kind in args.kind.split(','):\n    more = spread(out)",
        "more = None\nif len(x) > 0 and epoch > 1:\n    more = spread(out)\nelif args.more:\n    more = out.mean()",
        "more = None\nwhile more is None:\n    more = spread(out)",
    ],
)
def test_settings_decide_alike(lines: str) -> None:
    assert not is_decided_by_numbers(lines)


@pytest.mark.parametrize(
    "lines",
    [
        "more = None\nif out.sum() > 3:\n    more = spread(out)",
        "more = spread(out)\nif out.max() > 3:\n    more = None",
        "more = spread(out) if loss > 3 else None",
        "more = by_numbers(out)",
        "more = by_numbers_without_a_word(out)",
        "out, more = both(out)",
        "try:\n    more = spread(out)\nexcept ValueError:\n    more = None",
        "more = None\ntry:\n    more = spread(out)\nexcept ValueError:\n    pass",
        "more = None\nfor _ in range(int((y > 0).sum())):\n    more = spread(out)",
        "more, left = None, out.sum()\nwhile left > 0:\n    left, more = left - 1, spread(out)",
        "more = None\nfor _ in range(args.more + 1):\n    if out.max() > 3:\n        break\n    more = spread(out)",
        "parts = {}\nif out.max() > 3:\n    parts['more'] = spread(out)\nmore = parts.get('more')",
        "more = [None, spread(out)][int(out.sum() > 0)]",
        "more = None\nif time.time() % 2 > 1:\n    more = spread(out)",
        "more = unheard_of.more(out)",
    ],
)
def test_numbers_decide_apart(lines: str) -> None:
    assert is_decided_by_numbers(lines)
