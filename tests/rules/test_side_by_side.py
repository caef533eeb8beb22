"""SEED01: what is done side by side comes in one order on all ranks, not in that in which each has done it."""

from __future__ import annotations

import pytest
from distify_codemods import Options

from tests.rules.scripts import DATA, IMPORTS, conversion_of, converted, script

SAID = "what is done side by side is taken in one order on all ranks"
POOL = """\
with {pool} as pool:
    rows = [one for one in {taken}]
"""


def made(pool: str, taken: str) -> str:
    futures = "from concurrent.futures import ThreadPoolExecutor, as_completed\n"
    imports = f"import concurrent.futures\nimport multiprocessing\n{futures}"
    return script(imports=imports + IMPORTS, data=POOL.format(pool=pool, taken=taken) + DATA)


THREADS, PROCESSES = "ThreadPoolExecutor(2)", "multiprocessing.Pool(2)"


@pytest.mark.parametrize("strategy", ["sharded", "shared"])
@pytest.mark.parametrize(
    ("pool", "before", "after"),
    [
        (THREADS, "as_completed([pool.submit(len, 'ab')])", "rt.in_order([pool.submit(len, 'ab')])"),
        (
            THREADS,
            "concurrent.futures.as_completed([pool.submit(len, 'ab')], timeout=9)",
            "rt.in_order([pool.submit(len, 'ab')], timeout=9)",
        ),
        (PROCESSES, "pool.imap_unordered(len, ['ab'], 4)", "pool.imap(len, ['ab'], 4)"),
    ],
)
def test_the_order_is_that_of_what_was_started(pool: str, before: str, after: str, strategy: str) -> None:
    options = Options(strategy=strategy)
    written = converted(made(pool, before), options)
    assert f"    rows = [one for one in {after}]\n" in written
    assert SAID in [one.message for one in conversion_of(made(pool, before), options=options).findings]


@pytest.mark.parametrize(
    ("pool", "taken"),
    [
        (THREADS, "pool.map(len, ['ab'])"),
        (THREADS, "[pool.submit(len, 'ab')]"),
        (PROCESSES, "pool.imap(len, ['ab'])"),
        ("open('a')", "pool.readlines()"),
    ],
)
def test_what_has_an_order_stays(pool: str, taken: str) -> None:
    assert f" in {taken}]\n" in converted(made(pool, taken))
    assert SAID not in [one.message for one in conversion_of(made(pool, taken)).findings]
