"""What is shown of a rank's samples, and cannot be put together over the ranks: forward passes are shared then."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import IMPORTS, conversion_of, script

CLASSES = f"""\
{IMPORTS}from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace


class Spoken:
    def __init__(self, loss, n):
        self.loss, self.n = loss, n

    def __str__(self):
        return f"{{self.loss:.4f}} ({{self.n}})"

    def line(self):
        return "%.4f (%d)" % (self.loss, self.n)


class Silent:
    def __init__(self, loss, n):
        self.loss, self.n = loss, n


@dataclass
class Row:
    loss: float
    n: int


class Entries(dict):
    pass


Pair = namedtuple("Pair", "loss n")


def told(loss, n):
    return f"{{loss:.4f}} ({{n}})"


def both(loss, n):
    return loss, "{{:.4f}} {{}}".format(loss, n)
"""


def _converted(line: str, sharded: bool = False) -> tuple[Strategy | None, list[str]]:
    loop = f"""\
for epoch in range(3):
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value, n = loss.item(), len(x)
        {line}
"""
    conversion = conversion_of(
        script(imports=CLASSES, loop=loop), options=Options(strategy="sharded") if sharded else Options()
    )
    return conversion.strategy, [one.message for one in conversion.of(Level.ADVICE)]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("r = Spoken(value, n); print(r)", "r"),
        ("r = Spoken(value, n); print(f'{step} {r}')", "f'{step} {r}'"),
        ("r = Spoken(value, n); print(r.line())", "r.line()"),
        ("r = Row(value, n); print(r)", "n"),
        ("r = Pair(value, n); print(r)", "n"),
        ("r = SimpleNamespace(loss=value, n=n); print(r)", "n"),
        ("r = Entries(loss=value, n=n); print(r)", "r"),
        ("r = Entries(loss=value, n=n); print('{loss:.3f} {n}'.format_map(r))", "r"),
        ("r = told(value, n); print(r)", "r"),
        ("first, r = both(value, n); print(first, r)", "r"),
        ("print('{value:.3f}'.format(**locals()))", "locals()"),
        ("print(x.std(), x.max())", "x"),
        ("print(x.shape)", "x.shape"),
    ],
)
def test_what_is_shown_whole_and_cannot_be_put_together(line: str, shown: str) -> None:
    """With sharded data, where they are asked for, it is told."""
    strategy, said = _converted(line)
    assert strategy is Strategy.SHARED
    assert any(f"`{shown}` is shown, and would be that of rank 0's samples" in one for one in said), said
    strategy, said = _converted(line, sharded=True)
    assert strategy is Strategy.SHARDED
    assert any(one.startswith("printed here for rank 0's share of the batch alone: ") for one in said)


@pytest.mark.parametrize(
    "line",
    [
        "r = Silent(value, n); print(r)",  # as an object that says nothing of what it holds
        "r = Spoken(epoch, step); print(r)",
        "r = Silent(value, n); print(vars(r), r.__dict__)",  # put together where they are kept
        "r = told(epoch, step); print(r)",
        "print(f'{step} {value:.4f}')",
        "r = f'{step} {value:.4f}'; print(r)",
        "r = {'loss': value, 'n': n}; print(r)",
        "r = Row(value, step); print(r)",
        "print(model, optimizer, x.shape[1], x.size(1), x.dtype, x.device, x.ndim, x.dim())",
        "print('{step}'.format(step=step), '%s %d' % (epoch, step))",
        "print(vars(optimizer).keys())",
    ],
)
def test_what_is_put_together_or_alike_on_all_ranks_is_no_such_thing(line: str) -> None:
    strategy, said = _converted(line)
    assert strategy is Strategy.SHARDED, said
    assert not any("rank 0's s" in one for one in said)
