"""The page about libraries says of each fixture what conversion does."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures" / "libraries"


def test_the_table_names_each_fixture_with_the_rung_that_it_takes() -> None:
    page = (ROOT / "docs" / "libraries.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|[^|]*\| (\w+) \| (\w+) \|$", page, re.MULTILINE)
    told = {name: rung for name, rung in rows if name != "fixture"}
    texts = {one.parent.name: one.read_text(encoding="utf-8") for one in FIXTURES.glob("*/expected_ddp.py")}
    assert told == {name: "shared" if "rt.data_parallel(" in text else "sharded" for name, text in texts.items()}
