"""Figures that are put into lists and dictionaries by builtins' own methods, under whatever name."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, converted, script

TOOLS = f"import functools\nimport operator\nimport numpy as np\n{IMPORTS}"
SETUP = """\
class Log(list):
    log = list.append


box, table, kept = [], {}, Log()
add = functools.partial(list.append, box)
"""
PUT = {
    "list.append": "list.append(box, {})",
    "list.insert": "list.insert(box, 0, {})",
    "partial": "add({})",
    "of a class": "kept.log({})",
    "map": "list(map(box.append, [{}]))",
    "handed on": "any(map(box.append, ({}, 0)))",
    "operator.setitem": "operator.setitem(table, epoch, {})",
    "dict.__setitem__": "dict.__setitem__(table, epoch, {})",
}


def _script(line: str) -> str:
    return script(imports=TOOLS, setup=SETUP, loop=f"{LOOP}        {line}\nprint(box, table, kept)\n")


@pytest.mark.parametrize("put", PUT.values(), ids=PUT)
def test_figures_that_are_put_there(put: str) -> None:
    assert f"        {put.format('rt.all_reduce_mean(loss.item())')}\n" in converted(_script(put.format("loss.item()")))


@pytest.mark.parametrize(
    ("made", "put"),
    [
        ('array.array("d")', "box.append({})"),
        ("bytearray()", 'box.extend(f"{{{}:.3f}}".encode())'),
        ("queue.Queue()", "box.put({})"),
    ],
)
def test_what_is_filled_as_a_list_is(made: str, put: str) -> None:
    loop = f"{LOOP}        {put.format('loss.item()')}\nprint(box)\n"
    before = script(imports=f"import array\nimport queue\n{IMPORTS}", setup=f"box = {made}\n", loop=loop)
    assert f"        {put.format('rt.all_reduce_mean(loss.item())')}\n" in converted(before)


@pytest.mark.parametrize("put", PUT.values(), ids=PUT)
def test_what_is_alike_on_all_ranks(put: str) -> None:
    assert "all_reduce" not in converted(_script(put.format("epoch")))


@pytest.mark.parametrize(
    ("put", "strategy"),
    [
        ("np.copyto(rows[epoch : epoch + 1], loss.item())", Strategy.SHARED),
        ("rows[epoch : epoch + 1].fill(loss.item())", Strategy.SHARED),
        ("rows.put(epoch, loss.item())", Strategy.SHARED),
        ("rows[epoch : epoch + 1].fill(epoch)", Strategy.SHARDED),
        ("rows.put(epoch, epoch)", Strategy.SHARDED),
    ],
)
def test_a_part_of_a_table_that_is_written_by_a_function(put: str, strategy: Strategy) -> None:
    before = script(imports=TOOLS, setup="rows = np.zeros(3)\n", loop=f"{LOOP}        {put}\nprint(rows)\n")
    assert conversion_of(before, options=Options()).strategy is strategy
