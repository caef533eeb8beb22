"""What a signal's handler or a timer sets: it comes at another step on each rank, and one of them decides for all."""

from __future__ import annotations

import pytest
from distify_codemods import Strategy

from tests.rules.scripts import IMPORTS, LOOP, blocked, conversion_of, converted, indented, line_of, script

GLOBAL = "stop = False\n\n\ndef note(*given):\n    global stop\n    stop = True\n\n\n"
OBJECT = """\
class Watch:
    def __init__(self):
        self.over = False
        signal.signal(signal.SIGTERM, self.note)

    def note(self, *given):
        self.over = True


"""


def stopped(flag: str, setup: str) -> str:
    loop = LOOP + f"        if {flag}:\n            break\n"
    return script(imports=f"import signal\nimport threading\n{IMPORTS}", setup=setup, loop=loop)


@pytest.mark.parametrize(
    ("flag", "setup"),
    [
        ("stop", f"{GLOBAL}signal.signal(signal.SIGTERM, note)\n"),
        ("stop", f"{GLOBAL}signal.signal(signal.SIGTERM, note)\nstop = False\n"),
        ("stop", f"{GLOBAL}threading.Timer(60, note).start()\n"),
        ("watch.over", f"{OBJECT}watch = Watch()\n"),
        ("stop['now']", "stop = {'now': False}\nsignal.signal(signal.SIGINT, lambda *_: stop.update(now=True))\n"),
        ("stop.is_set()", "stop = threading.Event()\nsignal.signal(signal.SIGINT, lambda *_: stop.set())\n"),
    ],
)
def test_rank_0_decides(flag: str, setup: str) -> None:
    before = stopped(flag, setup)
    assert f"        if rt.from_main_process({flag}):\n            break\n" in converted(before)
    shared = conversion_of(before, strategy=Strategy.SHARED.value)
    assert f"        if rt.from_main_process({flag}):\n".encode() in shared.files[0].after


def test_a_name_of_the_function_around_the_handler() -> None:
    turns = f"    while not stop:\n{indented(indented(LOOP))}"
    handler = "    def note(*given):\n        nonlocal stop\n        stop = True\n\n"
    main = f"def main():\n{handler}    signal.signal(signal.SIGTERM, note)\n    stop = False\n{turns}\n\n"
    before = script(imports=f"import signal\n{IMPORTS}", loop=f"\n\n{main}main()\n")
    assert "    while rt.from_main_process(not stop):\n" in converted(before)


def test_where_ranks_come_unequally_often() -> None:
    """Rank 0's word would be asked for more often on one rank than on another."""
    asked = "        for _ in range(int(loss.item() * 100)):\n            if stop: raise SystemExit\n"
    setup = f"{GLOBAL}signal.signal(signal.SIGTERM, note)\n"
    before = script(imports=f"import signal\n{IMPORTS}", setup=setup, loop=LOOP + asked)
    assert ("DECIDE01", line_of(before, "if stop")) in blocked(before)


@pytest.mark.parametrize(
    ("flag", "setup"),
    [
        ("stop", GLOBAL),  # that nobody calls at a time of its own
        ("stop", f"{GLOBAL}if len(data) < 4:\n    note()\n".replace("len(data)", "len(IMAGES)")),
        ("stop", f"{GLOBAL}signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"),
        ("stop.is_set()", "stop = threading.Event()\n"),
        ("stop", f"stop = False\n{OBJECT}watch = Watch()\n"),
    ],
)
def test_what_is_set_by_nobody_else(flag: str, setup: str) -> None:
    assert "from_main_process" not in converted(stopped(flag, f"IMAGES = []\n{setup}"))
