"""Ranks that are started by something else than `distify run`, and tell it over the network how they fare."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = os.uname().nodename
#: An engine as Spark and Ray are: processes of its own call `run_rank`.
ENGINE = """
import json, os, subprocess, sys
from distify_runtime.launch import ENGINES, Engine, LaunchConfig, launch
from distify_runtime.launch.elsewhere import Elsewhere, launch_elsewhere, run_rank

def engine(task, count):
    words = [sys.executable, __file__, "rank", json.dumps(task)]
    ranks = [subprocess.Popen(words, env={**os.environ, "RANK": str(rank)}) for rank in range(count)]
    if any([rank.wait() for rank in ranks]):
        raise ValueError("the engine has lost a rank")

def start(config, worker, scratch):
    return [sys.executable, __file__, "agent", json.dumps(launch_elsewhere(config)), str(config.nproc)]

if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "rank":
        run_rank(json.loads(words[0]))
    elif what == "agent":
        with Elsewhere("127.0.0.1", json.loads(words[0]), int(words[1])) as ranks:
            sys.exit(ranks.see_through(lambda: engine(ranks.task, int(words[1]))))
    else:
        ENGINES["engine"] = Engine("engine", frozenset(), start, lambda config: [])
        env = (("WHAT", "it is"),)
        sys.exit(launch(LaunchConfig("script.py", tuple(words), 2, launcher="engine", env=env, grace=float(what))))
"""


def started(folder: Path, script: str, *words: str, grace: float = 10) -> subprocess.Popen[str]:
    (folder / "engine.py").write_text(ENGINE)
    (folder / "script.py").write_text("import os, sys, time, signal\nrank = os.environ['RANK']\n" + script)
    paths = os.pathsep.join(str(ROOT / name) for name in ("", "runtime"))
    # Ctrl-C is heeded, also where these tests run in the background of a shell.
    heed = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    return subprocess.Popen(
        [sys.executable, "-c", heed + "runpy.run_path('engine.py', run_name='__main__')", str(grace), *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(folder: Path, script: str, *words: str) -> tuple[int, str, str]:
    process = started(folder, script, *words)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_a_rank_finds_the_modules_beside_its_script(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("said = 'helped'\n")
    code, out, err = ended(tmp_path, "import helper; print(helper.said)")
    assert (code, out) == (0, "helped\n"), err


def test_what_a_rank_says_is_here(tmp_path: Path) -> None:
    script = "print(rank, sys.argv[1:], os.environ['WHAT'], os.getcwd())\nsys.stderr.write('none of ' + rank)"
    words = ("a 'b' $c\n", "--m", "--")
    code, out, err = ended(tmp_path, script, *words)
    line = f"{list(words)} it is {os.path.realpath(tmp_path)}\n"
    assert (code, out) == (0, f"0 {line}")
    assert err == "distify: 2 ranks, logs in distify_logs\nnone of 0"
    assert sorted((tmp_path / "distify_logs/rank1.log").read_text().splitlines()) == sorted(
        [f"1 {line[:-1]}", "none of 1"]
    )
    assert (tmp_path / "distify_logs/engine.log").read_text().count(" is on ") == 2


def test_the_first_that_fails_is_named_and_ends_the_others(tmp_path: Path) -> None:
    begun = time.monotonic()
    code, _, err = ended(tmp_path, "if rank == '1': raise KeyError('what is missing')\ntime.sleep(100)")
    assert code == 1
    assert (
        f"distify: rank 1 of 2 on {HERE} failed with exit code 1; its log is distify_logs/rank1.log\nTraceback" in err
    )
    assert err.endswith("KeyError: 'what is missing'\n")
    assert time.monotonic() - begun < 60


def test_a_rank_that_is_killed(tmp_path: Path) -> None:
    code, _, err = ended(tmp_path, "if rank == '1': os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(100)")
    assert code == 137
    assert f"rank 1 of 2 on {HERE} was killed by SIGKILL" in err


def test_a_machine_that_is_lost(tmp_path: Path) -> None:
    """What has started the script there is gone without a word."""
    script = "open(f'pid{rank}', 'w').write(str(os.getpid()))\nif rank == '1': os.kill(os.getppid(), signal.SIGKILL)\n"
    code, _, err = ended(tmp_path, script + "time.sleep(5)")
    assert code == 137
    assert f"rank 1 of 2 on {HERE} was killed by SIGKILL" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_ranks(tmp_path: Path, number: signal.Signals) -> None:
    script = """
def save(number, frame):
    open(f'saved{rank}', 'w').write(signal.Signals(number).name)
    sys.exit(0)
signal.signal(signal.SIGINT, save)
signal.signal(signal.SIGTERM, save)
print('ready', flush=True)
open(f'ready{rank}', 'w').close()
time.sleep(100)
"""
    process = started(tmp_path, script)
    _wait_for(tmp_path / "ready0", tmp_path / "ready1")
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert [(tmp_path / f"saved{rank}").read_text() for rank in (0, 1)] == [number.name] * 2


def test_ranks_that_do_not_want_to_end(tmp_path: Path) -> None:
    script = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen(f'pid{rank}', 'w').write(str(os.getpid()))\n"
    process = started(tmp_path, script + "time.sleep(100)", grace=1)
    _wait_for(tmp_path / "pid0", tmp_path / "pid1")
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 143
    pids = [int((tmp_path / f"pid{rank}").read_text()) for rank in (0, 1)]
    give_up_at = time.monotonic() + 30  # their side has seconds of its own before it kills
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < give_up_at:
        time.sleep(0.2)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def _wait_for(*files: Path) -> None:
    give_up_at = time.monotonic() + 60
    while not all(file.exists() and (file.stat().st_size or "pid" not in file.name) for file in files):
        assert time.monotonic() < give_up_at
        time.sleep(0.05)
