"""What the watching thread tells of the one that trains, and what it leaves as it is."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from traceback import FrameSummary

from distify_runtime.watch import frames
from distify_runtime.watch.pulse import Pulse


class _Kept:
    pass


def _looked_at(pulse: Pulse) -> tuple[list[FrameSummary], weakref.ref[_Kept]]:
    kept = [_Kept()]
    with ThreadPoolExecutor(1) as other:
        return other.submit(pulse.stack).result(), weakref.ref(kept[0])


def test_a_stack_is_told_by_names_and_lines_and_holds_nothing_that_a_call_had() -> None:
    stack, kept = _looked_at(Pulse())
    assert kept() is None  # else what a pass computes would be alive when it is over
    line = _looked_at.__code__.co_firstlineno + 3
    assert frames.last_of_script(stack) == f"tests/runtime/test_pulse.py:{line}"
    text = frames.told(stack)
    assert f'test_pulse.py", line {line}, in _looked_at\n    return other.submit(pulse.stack).result(), ' in text
    assert text.index("in test_a_stack_is_told") < text.index("in _looked_at")


def _over() -> weakref.ref[_Kept]:
    kept = _Kept()
    return weakref.ref(kept)


def test_what_a_call_had_goes_with_it_however_often_it_is_looked_at() -> None:
    pulse, done = Pulse(), threading.Event()

    def look() -> None:
        while not done.is_set():
            pulse.stack()

    with ThreadPoolExecutor(1) as other:
        looking = other.submit(look)
        alive = sum(_over()() is not None for _ in range(200_000))
        done.set()
        looking.result()
    assert alive == 0
