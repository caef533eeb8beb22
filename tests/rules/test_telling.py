"""What is rank 0's already is told to the others once, however many rules want it."""

from __future__ import annotations

import pytest

from tests.rules.scripts import IMPORTS, converted, script

TOOLS = f"import glob\nimport os\nimport random\nimport tempfile\nimport time\nfrom pathlib import Path\n{IMPORTS}"
LISTED = 'sorted(glob.glob("runs/*.pt"), key=os.path.getmtime)'
MAKES = 'os.makedirs(f"runs/{%s}", exist_ok=True)\n'
SEEDS = "random.seed(%s)\n"


@pytest.mark.parametrize(
    ("asked", "used", "told"),
    [
        pytest.param(LISTED, "len(one)", f"rt.call_on_main_process(lambda: {LISTED})", id="a listing by age"),
        pytest.param('os.listdir("runs")', "len(one)", 'rt.from_main_process(os.listdir("runs"))', id="a listing"),
        pytest.param('os.path.exists("runs/0")', "int(one)", 'rt.from_main_process(os.path.exists("runs/0"))',
                     id="whether a file is there"),
        pytest.param("time.time()", "int(one)", "rt.from_main_process(time.time())", id="the time"),
        pytest.param("tempfile.mkdtemp()", "one", "rt.call_on_main_process(tempfile.mkdtemp)", id="a folder"),
    ],
)  # fmt: skip
def test_a_seed_and_a_path_of_one_origin(asked: str, used: str, told: str) -> None:
    """Told twice, the inner message would be rank 0's alone: the others would take every later one too late."""
    for uses in (SEEDS % used, MAKES % used, SEEDS % used + MAKES % used, MAKES % used + SEEDS % used):
        new = converted(script(imports=TOOLS, setup=f"one = {asked}\n{uses}"))
        assert f"\none = {told}\n" in new


def test_nothing_is_told_of_the_parts_of_what_rank_zero_alone_asks() -> None:
    day = 'time.strftime("%d")'
    listed = f'sorted(glob.glob("runs/" + {day} + "*"), key=os.path.getmtime)'
    new = converted(script(imports=TOOLS, setup=f"one = {listed}\n{SEEDS % 'len(one)'}{MAKES % 'len(one)'}"))
    assert f"\none = rt.call_on_main_process(lambda: {listed})\n" in new
    apart = f'day = {day}\none = sorted(glob.glob("runs/" + day + "*"), key=os.path.getmtime)\n{SEEDS % "len(one)"}'
    new = converted(script(imports=TOOLS, setup=f"{apart}{MAKES % 'day'}"))
    assert f"\nday = rt.from_main_process({day})\n" in new
    assert "one = rt.call_on_main_process(lambda: sorted(" in new
