"""Signals to processes that are stopped."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from distify_runtime.arriving import ASKS_FOR_STACK
from distify_runtime.launch.processes import send, send_to_main_thread

STOPS_AND_GOES_ON = f"""
import faulthandler, os, signal, sys, threading
faulthandler.register({ASKS_FOR_STACK}, file=open(sys.argv[1], "w"), all_threads=True)
for _ in range(6):
    threading.Thread(target=lambda: threading.Event().wait(60), daemon=True).start()
def goes_on():
    os.kill(os.getpid(), signal.SIGSTOP)
    turn = 0
    for _ in range(10**9):
        turn += 1
goes_on()
"""


def test_a_process_goes_on_no_further_than_where_it_was_stopped(tmp_path: Path) -> None:
    """Eight of them: another thread would take a signal that any may take, now and then."""
    for turn in range(8):
        stack = tmp_path / str(turn)
        with subprocess.Popen([sys.executable, "-c", STOPS_AND_GOES_ON, str(stack)]) as process:
            os.waitpid(process.pid, os.WUNTRACED)
            assert send_to_main_thread(process.pid, ASKS_FOR_STACK)
            send(process.pid, signal.SIGCONT)
            while "in goes_on" not in stack.read_text():
                assert process.poll() is None
            process.kill()
        assert "line 7 in goes_on" in stack.read_text()
    assert not send_to_main_thread(process.pid, ASKS_FOR_STACK)
