"""Names that nothing gives a value to: the first reason of a refusal, since a run ends there."""

from __future__ import annotations

import pytest
from distify_codemods import Finding, Options, Outcome

from tests.rules.scripts import LOOP, conversion_of, line_of, script


def said(before: str) -> list[Finding]:
    conversion = conversion_of(before, options=Options())
    assert conversion.outcome is Outcome.REFUSED
    found = [one for one in conversion.findings if "a run of the script ends here" in one.message]
    assert list(conversion.findings[: len(found)]) == found
    return found


def test_it_is_the_first_reason() -> None:
    before = script(optimizer="", loop=LOOP.replace("loss.backward()", "los.backward()"))
    first, second = said(before)
    assert (first.message, first.place and first.place.line) == (
        "nothing gives `optimizer` a value: a run of the script ends here",
        line_of(before, "optimizer.zero_grad()"),
    )
    assert "`los`" in second.message


def test_what_an_object_holds_gives_no_name_a_value() -> None:
    """`vars(args)`, which many scripts print."""
    setup = "import argparse\nargs = argparse.ArgumentParser().parse_args()\nprint(vars(args), {**vars(args)})\n"
    [found] = said(script(setup=setup, optimizer=""))
    assert "`optimizer`" in found.message


@pytest.mark.parametrize(
    ("tried", "ends"),
    [
        ("try:\n    xrange\nexcept NameError:\n    pass\n", False),
        ("try:\n    numbers = xrange\n    size = 1\nexcept (NameError, AttributeError):\n    numbers = range\n", False),
        ("try:\n    numbers = xrange\nexcept:\n    numbers = range\n", False),
        ("try:\n    numbers = xrange\nexcept ValueError:\n    numbers = range\n", True),
        ("try:\n    size = 1\n    numbers = xrange(size)\nexcept Exception as e:\n    print(e)\n", True),
        ("try:\n    size = 1\nexcept NameError:\n    size = xrange\n", True),
    ],
)
def test_a_name_that_is_only_looked_for(tried: str, ends: bool) -> None:
    found = [one.message for one in said(script(setup=tried, optimizer=""))]
    assert any("`xrange`" in one for one in found) is ends


@pytest.mark.parametrize(
    "setup",
    [
        "from somewhere import *\n",
        "globals()['optimizer'] = 1\n",
        "def make():\n    global optimizer\n    optimizer = 1\n\n\nmake()\n",
        "if len(data := [1]) > 2:\n    optimizer = 1\n",
        "for optimizer in []:\n    pass\n",
        "import somewhere as optimizer\n",
        "class optimizer:\n    pass\n",
        "vars()['optimizer'] = 1\n",
        "import sys\nitself = sys.modules[__name__]\nvars(itself)['optimizer'] = 1\n",
        "import __main__\nvars(__main__)['optimizer'] = 1\n",
        "print(vars(object()))\nnames = vars\nnames()['optimizer'] = 1\n",
        "print(__file__, __name__, [one for one in range(3)])\noptimizer = None\n",
    ],
)
def test_names_that_have_one(setup: str) -> None:
    assert not said(script(setup=setup, optimizer=""))
