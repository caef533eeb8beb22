"""The same program is converted alike in every process, whatever the hashes there and whatever was converted before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from distify_codemods.ordered import EMPTY, Ordered

from tests.grid import slow

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(
    str(path.relative_to(ROOT))
    for where in ("fixtures/*", "fixtures/projects/*", "tests/determinism/programs/*")
    for path in ROOT.glob(f"{where}/train.py")
)


def told(seeds: Sequence[int]) -> dict[int, dict[str, list[str]]]:
    """What a process with each seed says of each program; two processes at a time."""
    command = [sys.executable, "tests/determinism/scrambled.py"]
    found: dict[int, dict[str, list[str]]] = {}
    for pair in (seeds[:2], seeds[2:4], seeds[4:]):
        running = {
            seed: subprocess.Popen(
                [*command, str(seed), *SCRIPTS],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            for seed in pair
        }
        for seed, process in running.items():
            found[seed] = json.loads(process.communicate()[0])
    return found


@pytest.mark.parametrize("seeds", [pytest.param((0, 1), id="two"), pytest.param(range(5), id="five", marks=slow)])
def test_each_process_says_the_same(seeds: Sequence[int]) -> None:
    first, *others = told(seeds).values()
    assert [script for script in SCRIPTS if "== " + script not in first[script]] == [], "nothing was converted"
    for script in SCRIPTS:
        for other in others:
            assert other[script] == first[script], script


def test_hashes_are_scattered() -> None:
    """Else the test above would show nothing."""
    code = (
        "import sys; sys.path[:0] = ['tests/determinism']; import scrambled; scrambled._scatter(int(sys.argv[1]))\n"
        "from distify_codemods.values import Obj, Scale; import libcst as cst\n"
        "for kind in (lambda: Obj(None), lambda: cst.Name('x')):\n"
        "    made = [kind() for _ in range(40)]; print([made.index(one) for one in set(made)])\n"
        "print([one.name for one in set(Scale)])"
    )
    orders = [
        subprocess.run([sys.executable, "-c", code, factor], cwd=ROOT, capture_output=True, text=True, check=True)
        for factor in ("1000003", "99194853094755497")
    ]
    one, other = (run.stdout.splitlines() for run in orders)
    assert len(one) == len(other) == 3
    assert all(mine != theirs for mine, theirs in zip(one, other, strict=True))


def test_an_ordered_set_keeps_the_order_in_which_it_was_put_together() -> None:
    assert list(Ordered("cabac")) == ["c", "a", "b"]
    assert list(Ordered("ca") | "bc") == ["c", "a", "b"]
    assert list(EMPTY.union("b", Ordered("ac"), "d")) == ["b", "a", "c", "d"]
    assert list(Ordered("dcba") & {"a", "d", "x"}) == ["d", "a"]
    assert list(Ordered("dcba") - {"c"}) == ["d", "b", "a"]


def test_a_union_is_the_one_that_has_all_that_the_other_has() -> None:
    more, less = Ordered("cab"), Ordered("bc")
    assert more | less is more
    assert less | more is more
    assert more | EMPTY is more
    assert EMPTY | more is more


def test_ordered_sets_are_sets() -> None:
    assert Ordered("ab") == Ordered("ba") == {"a", "b"} != Ordered("abc")
    assert hash(Ordered("ab")) == hash(Ordered("ba"))
    assert Ordered("ab") <= Ordered("cba") >= {"a"}
    assert not Ordered("ab") >= {"c"}
    assert Ordered("ab").isdisjoint("cd")
    assert ("a" in Ordered("ab"), "c" in Ordered("ab"), len(Ordered("aab")), bool(EMPTY)) == (True, False, 2, False)


def test_with_a_plain_set_on_the_left_the_result_is_one() -> None:
    """It has no order to keep."""
    for plain, expected in (
        ({"a", "x"} | Ordered("ab"), {"a", "b", "x"}),
        ({"a", "x"} & Ordered("ab"), {"a"}),
        ({"a", "x"} - Ordered("ab"), {"x"}),
    ):
        assert type(plain) is set
        assert plain == expected
