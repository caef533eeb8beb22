"""OUT03: functions that Python or a library calls, at a place that is not seen."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import IMPORTS, blocked, converted, findings, line_of, script

WRITE = "with open('log.txt', 'a') as file:\n{indent}    file.write('x')\n"
IN_FUNCTION = "    " + WRITE.format(indent="    ")
IN_METHOD = "        " + WRITE.format(indent="        ")


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param(f"@atexit.register\ndef done():\n{IN_FUNCTION}", id="atexit"),
        pytest.param(
            "@functools.singledispatch\ndef save(value):\n    raise TypeError\n\n\n"
            f"@save.register(int)\ndef _(value):\n{IN_FUNCTION}", id="singledispatch"),
        pytest.param(f"class Log(dict):\n    def __setitem__(self, key, value):\n{IN_METHOD}\n\n"
                     "log = Log()\nlog[1] = 2\n",
                     id="an item of a dictionary"),
        pytest.param(f"class Log:\n    def __iadd__(self, value):\n{IN_METHOD}        return self\n\n\n"
                     "log = Log()\nlog += 2\n",
                     id="adding in place"),
    ],
)  # fmt: skip
def test_rank_zero_writes(setup: str) -> None:
    new = converted(script(imports=f"import atexit\nimport functools\n{IMPORTS}", setup=setup))
    assert "if rt.is_main_process():\n" in new[: new.index("open('log.txt'")]


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param(f"def report(kind, error, trace):\n{IN_FUNCTION}\n\nsys.excepthook = report\n", id="a hook"),
        pytest.param(f"class Log:\n    def __del__(self):\n{IN_METHOD}\n\nlog = Log()\n", id="the end of an object"),
    ],
)
def test_not_said_to_write_nothing(setup: str) -> None:
    before = script(imports=f"import sys\n{IMPORTS}", setup=setup)
    (advice,) = findings("OUT03", before, Level.ADVICE)
    assert "each rank writes with `open`" in advice.message
    assert findings("OUT03", before, Level.NOT_NEEDED) == []


def test_shelf_that_is_written() -> None:
    before = script(imports=f"import shelve\n{IMPORTS}", setup="shelf = shelve.open('cache')\nshelf['a'] = 1\n")
    assert ("OUT03", line_of(before, "shelve.open")) in blocked(before)
    only_read = before.replace("shelf['a'] = 1", "print(shelf['a'])")
    assert blocked(only_read) == set()
