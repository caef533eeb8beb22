"""OUT03: functions that Python or a library calls, at a place that is not seen."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options

from tests.rules.scripts import (
    DATA,
    IMPORTS,
    LOADER,
    blocked,
    conversion_of,
    converted,
    findings,
    line_of,
    script,
)

WRITE = "with open('log.txt', 'a') as file:\n{indent}    file.write('x')\n"
IN_FUNCTION = "    " + WRITE.format(indent="    ")
IN_METHOD = "        " + WRITE.format(indent="        ")


FUNCTION = f"def save(*given):\n{IN_FUNCTION}\n\n"
LIBRARIES = """\
import asyncio
import atexit
import concurrent.futures
import functools
import json
import logging
import operator
import os
import requests
import somewhere
import sys
import threading
"""


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
        pytest.param(f"{FUNCTION}threading.Timer(5, save).start()\n", id="a timer"),
        pytest.param(f"{FUNCTION}threading.Timer(5, function=save).start()\n", id="a timer, by its name"),
        pytest.param(f"{FUNCTION}atexit.register(functools.partial(save, 1))\n", id="a part of a function"),
        pytest.param(f"{FUNCTION}threading.Timer(5, lambda: save(1)).start()\n", id="by a lambda"),
        pytest.param(f"{FUNCTION}w = torch.zeros(3, requires_grad=True)\nw.register_hook(save)\n", id="a hook"),
        pytest.param(f"{FUNCTION}torch.zeros(3).apply_(save)\n", id="a method of a tensor"),
        pytest.param(f"{FUNCTION}with concurrent.futures.ThreadPoolExecutor() as pool:\n    pool.submit(save, 1)\n",
                     id="an executor"),
        pytest.param(f"{FUNCTION}somewhere.Runner(callbacks=[save])\n", id="in a list, of an unknown class"),
        pytest.param(f"{FUNCTION}runner = somewhere.Runner()\nrunner.callback = save\n", id="kept by a library"),
        pytest.param(f"class Log:\n    def save(self):\n{IN_METHOD}\n\noperator.methodcaller('save')(Log())\n",
                     id="a method by its name"),
        pytest.param(f"class Log:\n    def __call__(self):\n{IN_METHOD}\n\natexit.register(Log())\n", id="an object"),
        pytest.param(f"class Log:\n    def __del__(self):\n{IN_METHOD}\n\nlog = Log()\n", id="the end of an object"),
        pytest.param(f"class Log(threading.Thread):\n    def run(self):\n{IN_METHOD}\n\nLog().start()\n",
                     id="a thread's own method"),
        pytest.param(f"class Log(logging.Handler):\n    def emit(self, record):\n{IN_METHOD}\n\n"
                     "logging.getLogger().addHandler(Log())\n",
                     id="a handler"),
    ],
)  # fmt: skip
def test_rank_zero_writes(setup: str) -> None:
    new = converted(script(imports=LIBRARIES + IMPORTS, setup=setup))
    assert "if rt.is_main_process():\n" in new[: new.index("open('log.txt'")]


@pytest.mark.parametrize("shared", [False, True])
def test_what_a_timer_saves_is_saved_once(shared: bool) -> None:
    setup = "def keep():\n    torch.save(model.state_dict(), 'last.pt')\n\n\nthreading.Timer(60, keep).start()\n"
    before = script(imports=f"import threading\n{IMPORTS}", setup=setup)
    new = converted(before, Options(strategy="shared" if shared else "sharded"))
    assert f"if rt.is_main_process():\n        torch.save(model.{'' if shared else 'module.'}state_dict()" in new


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param(f"def report(kind, error, trace):\n{IN_FUNCTION}\n\nsys.excepthook = report\n", id="who fails"),
        pytest.param(
            "def count():\n    seen = json.load(open('seen.json'))\n    with open('seen.json', 'w') as file:\n"
            "        json.dump(seen, file)\n\n\nthreading.Timer(5, count).start()\n", id="what it has read"),
        pytest.param(
            "def keep():\n    if not os.path.exists('a.pt'):\n        torch.save(1, 'a.pt')\n\n\n"
            "threading.Timer(5, keep).start()\n", id="what is not there"),
        pytest.param(
            "def keep():\n    torch.save(requests.get('http://a').json(), 'a.pt')\n\n\n"
            "threading.Timer(5, keep).start()\n", id="what somebody outside tells"),
    ],
)  # fmt: skip
def test_ranks_do_not_meet_at_a_time_that_nobody_knows(setup: str) -> None:
    before = script(imports=LIBRARIES + IMPORTS, setup=setup)
    function = setup[: setup.rindex("\n\n\n") if "\n\n\n" in setup else setup.index("sys.")]
    assert function in converted(before), "it stays as it is"
    assert "each rank writes with" in findings("OUT03", before, Level.ADVICE)[0].message
    assert findings("OUT03", before, Level.NOT_NEEDED) == []


@pytest.mark.parametrize(
    ("data", "loader"),
    [
        pytest.param(
            "class Cached(torch.utils.data.Dataset):\n    def __len__(self):\n        return 64\n\n"
            "    def __getitem__(self, index):\n        x = torch.randn(4), torch.randn(1)\n"
            "        torch.save(x, f'{index}.pt')\n        return x\n\n\ndata = Cached()\n", LOADER,
            id="a data set"),
        pytest.param(
            f"def keep(items):\n    torch.save(items, 'last.pt')\n    return torch.stack(items)\n\n\n{DATA}",
            LOADER.replace(")", ", collate_fn=keep)"), id="what puts samples together"),
    ],
)  # fmt: skip
def test_workers_of_loaders_are_several_on_each_rank(data: str, loader: str) -> None:
    before = script(data=data, loader=loader)
    new = conversion_of(before, options=Options()).files[0].after.decode()
    assert data.split("\n\n\n")[0] in new
    assert "maybe several processes" in " ".join(one.message for one in findings("OUT03", before, Level.ADVICE))


@pytest.mark.parametrize(
    "setup",
    [
        "def double(x):\n    return 2 * x\n\n\nw = torch.zeros(3, requires_grad=True)\nw.register_hook(double)\n",
        "def never():\n    with open('log.txt', 'w') as file:\n        file.write('x')\n\n\n",
        "def parse(text):\n    return json.loads(text)\n\n\nsomewhere.Runner(parse)\n",
    ],
)
def test_what_writes_nothing_stays(setup: str) -> None:
    function, _, use = setup.partition("\n\n\n")
    new = converted(script(imports=LIBRARIES + IMPORTS, setup=setup))
    assert f"{function}\n" in new
    assert use in new


def test_shelf_that_is_written() -> None:
    setup = "shelf = shelve.open('cache')\nshelf['a'] = 1\nprint(shelf['a'])\n"
    before = script(imports=f"import shelve\n{IMPORTS}", setup=setup)
    assert ("OUT03", line_of(before, "shelve.open")) in blocked(before)
    only_read = before.replace("shelf['a'] = 1\n", "")
    assert blocked(only_read) == set()
