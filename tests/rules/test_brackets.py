"""Words that stand right before a bracket, as people write who come from C: what is put in their place keeps it."""

from __future__ import annotations

import ast

import pytest

from tests.rules.scripts import IMPORTS, converted, script

FOUND = "rt.from_main_process((os.path.exists('a')))"


@pytest.mark.parametrize("space", ["", " "])
def test_what_is_told_to_all_ranks(space: str) -> None:
    before = script(imports=f"import os\n{IMPORTS}", setup=f"while{space}(os.path.exists('a')):\n    break\n")
    written = converted(before)
    found = f"({FOUND})" if not space else f" {FOUND}"
    assert f"\nwhile{found}:\n    break\n" in written
    ast.parse(written)


def test_what_stays_as_it_is_keeps_its_brackets() -> None:
    written = converted(script(imports=f"import os\n{IMPORTS}", setup="if(1 > 2):\n    raise SystemExit\n"))
    assert "\nif(1 > 2):\n" in written
