"""A script that only starts another one says which one is to be converted."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Outcome

from tests.rules.scripts import conversion_of


@pytest.mark.parametrize(
    ("started", "fix"),
    [
        ('run_module("pkg.go", run_name="__main__")',
         "line 4 starts `pkg.go`: convert that one, `distify convert -m pkg.go`"),
        ('run_path("go.py", run_name="__main__")', "line 4 starts `go.py`: convert that one, `distify convert go.py`"),
        ('run_module(f"tasks.{sys.argv[1]}")',
         "line 4 starts another script by a name that only a run knows: name that script"),
        ("find_spec()", "name the script that starts the training"),
    ],
)  # fmt: skip
def test_what_is_started_is_named(started: str, fix: str) -> None:
    conversion = conversion_of(f"import runpy\nimport sys\n\nrunpy.{started}\n")
    assert conversion.outcome is Outcome.REFUSED
    (needed,) = conversion.of(Level.BLOCKING)
    assert (needed.code, needed.fix) == ("REFUSE02", fix)
