"""Ranks that never join the others: the run is ended in the time given, with which rank it is, where, and who waits."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from command_line import CommandLine, Ended

from tests.grid import slow

#: What each rank does before it joins the others is the case's.
SCRIPT = """\
import os
import signal
import sys
import time

import distify_runtime as rt

rank = int(os.environ["RANK"])
open(f"pid{{rank}}.{{os.getpid()}}", "w").close()


def prepare():
    {case}


prepare()
rt.init_process_group()
print("trained", rt.world_size())
"""
SLEEPS = "time.sleep(1000 * (rank == 1))"


def run(distify: CommandLine, case: str, *words: str, count: int = 2) -> Ended:
    (distify.folder / "train.py").write_text(SCRIPT.format(case=case))
    given = ("-np", str(count), "--oversubscribe", "--logs", "logs", "--hang-timeout", "4", "--grace", "3", *words)
    return distify("run", *given, "train.py", CUDA_VISIBLE_DEVICES="")


def last_lines(ended: Ended) -> list[str]:
    """Behind the line that says where the logs are; how long a rank has stood still differs."""
    return [re.sub(r"for \d+ s", "for N s", line) for line in ended.err.splitlines()[1:]]


@pytest.mark.parametrize("launcher", ["processes", pytest.param("torchrun", marks=slow)])
def test_a_rank_that_hangs_before_it_joins_ends_the_run(distify: CommandLine, launcher: str) -> None:
    began = time.monotonic()
    ended = run(distify, SLEEPS, "--launcher", launcher)
    assert time.monotonic() - began < 60  # most of it the start
    assert (ended.code, ended.out) == (1, b"")
    train = distify.folder / "train.py"
    assert last_lines(ended) == [
        "distify: rank 1 of 2 has not joined the others, and computed nothing for N s: it is at train.py:13; its log "
        "is logs/rank1.log",
        f'  File "{train}", line 16, in <module>',
        "    prepare()",
        f'  File "{train}", line 13, in prepare',
        f"    {SLEEPS}",
        "distify: rank 0 waits for it, and the run is ended (--hang-timeout)",
    ]
    pids = [int(path.suffix[1:]) for path in distify.folder.glob("pid*")]
    assert len(pids) == 2
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@slow
def test_rank_0_is_named_too_and_all_that_wait(distify: CommandLine) -> None:
    ended = run(distify, "time.sleep(1000 * (rank == 0))", count=3)
    assert ended.code == 1
    assert last_lines(ended)[0].startswith("distify: rank 0 of 3 has not joined the others, and computed nothing for N")
    assert last_lines(ended)[-1] == "distify: ranks 1, 2 wait for it, and the run is ended (--hang-timeout)"


def test_a_rank_that_has_ended_before_it_joined_ends_the_run(distify: CommandLine) -> None:
    ended = run(distify, "sys.exit(0) if rank == 1 else None", "--hang-timeout", "300")
    assert ended.code == 1
    assert last_lines(ended) == [
        "distify: rank 1 of 2 ended with exit code 0 before it had joined the others; its log is logs/rank1.log",
        "distify: rank 0 waits for it, and the run is ended (--hang-timeout)",
    ]


def test_ranks_that_all_hang_are_ended(distify: CommandLine) -> None:
    ended = run(distify, "time.sleep(1000)")
    assert ended.code == 1
    lines = last_lines(ended)
    said = " of 2 has not joined the others, and computed nothing for N s: it is at train.py:13; its log is logs/rank"
    assert [line for line in lines if "joined" in line] == [f"distify: rank {rank}{said}{rank}.log" for rank in (0, 1)]
    assert lines[-1] == "distify: the run is ended (--hang-timeout)"


@slow
def test_a_rank_that_is_stopped_from_outside_does_not_say_where_it_is(distify: CommandLine) -> None:
    ended = run(distify, "os.kill(os.getpid(), signal.SIGSTOP) if rank == 1 else None")
    assert ended.code == 1
    assert "computed nothing for N s: it does not say where it is; its log is logs/rank1.log" in last_lines(ended)[0]


@slow
def test_where_ranks_start_anew_they_do(distify: CommandLine) -> None:
    once = "open('been', 'a').write('x') if rank else None; time.sleep(1000 * (rank and len(open('been').read()) == 1))"
    ended = run(distify, once, "--max-restarts", "1")
    assert (ended.code, ended.out) == (0, b"trained 2\n"), ended.err
    said = [line for line in last_lines(ended) if line.startswith("distify:")]
    assert said[-2:] == [  # on a busy machine, more may be said of who has not joined yet
        "distify: rank 0 waits for it",
        "distify: rank 1 was killed by SIGKILL (out of memory?); all ranks start anew (1 of 1)",
    ]


def test_a_rank_that_computes_is_waited_for(distify: CommandLine) -> None:
    """Longer than a run may stand still: what it computes, not what it says, shows that it gets on."""
    ended = run(distify, "[None for _ in iter(lambda: rank == 1 and time.process_time() < 6, False)]")
    assert (ended.code, ended.out, ended.err.count("\n")) == (0, b"trained 2\n", 1), ended.err


def test_where_nothing_is_watched_nothing_is_said(distify: CommandLine) -> None:
    ended = run(distify, "time.sleep(7 * (rank == 1))", "--watch", "off")
    assert (ended.code, ended.out, ended.err.count("\n")) == (0, b"trained 2\n", 1), ended.err


@slow
def test_it_is_only_said_where_one_asks_for_that(distify: CommandLine) -> None:
    ended = run(distify, "time.sleep(12 * (rank == 1))", "--watch", "warn")
    assert (ended.code, ended.out) == (0, b"trained 2\n")
    assert last_lines(ended)[-1] == "distify: rank 0 waits for it"


def test_a_script_that_meets_in_another_way_is_left_alone(distify: CommandLine) -> None:
    (distify.folder / "other.py").write_text("import time\nif False:\n    import distify_runtime\ntime.sleep(7)\n")
    given = ("-np", "2", "--oversubscribe", "--hang-timeout", "2", "--logs", "logs")
    ended = distify("run", *given, "other.py", CUDA_VISIBLE_DEVICES="")
    assert (ended.code, ended.err.count("\n")) == (0, 1), ended.err
