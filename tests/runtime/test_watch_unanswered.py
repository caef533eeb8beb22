"""A rank that waits while nobody answers is ended; one that gets on is not."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys, threading, time
from distify_runtime.watch.mode import Mode
from distify_runtime.watch.unanswered import Unanswered

asks, patience, does, mode = sys.argv[1:]
unanswered = Unanswered(Mode(mode), float(patience))
unanswered.start()

def ask():
    while asks == "answered":
        with unanswered.asking():
            time.sleep(0.01)
    with unanswered.asking():
        time.sleep(60)

threading.Thread(target=ask, daemon=True).start()
until = time.monotonic() + 5
while does == "computes" and time.monotonic() < until:
    sum(range(1000))
threading.Event().wait(5)
print("went on")
unanswered.end()
"""


@pytest.mark.parametrize(
    ("asks", "patience", "does", "mode", "ends", "told"),
    [
        ("unanswered", "2", "waits", "on", True, True),
        ("unanswered", "2", "waits", "warn", False, True),
        ("unanswered", "0", "waits", "on", False, False),
        ("unanswered", "30", "waits", "on", False, False),
        ("answered", "2", "waits", "on", False, False),
    ],
)
def test_who_is_ended(asks: str, patience: str, does: str, mode: str, ends: bool, told: bool) -> None:
    words = [sys.executable, "-c", SCRIPT, asks, patience, does, mode]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == ((1, "") if ends else (0, "went on\n"))
    assert ("distify: rank 0's machine has not answered for" in done.stderr) == told


def test_as_long_as_it_computes_it_does_not_wait() -> None:
    words = [sys.executable, "-c", SCRIPT.replace("Event().wait(5)", "Event().wait(1)"), "unanswered", "4"]
    done = subprocess.run([*words, "computes", "on"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")
