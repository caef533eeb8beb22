"""Side effects happen on rank 0, and the other ranks go on without them."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import logging
import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import distify_runtime as rt
import numpy as np
import pytest
import torch
from distify_runtime import communicator
from distify_runtime.main_process import StandIn

from tests.runtime.ranks import RankFailed, on_ranks, run_script


def _values(_: None) -> Any:
    return rt.from_main_process({"rank": rt.rank(), "pid": os.getpid()}), rt.from_main_process(rt.rank() + 10)


def test_value_of_rank_zero_on_all_ranks() -> None:
    first, *others = on_ranks(_values, None, ranks=3)
    assert first[0]["rank"] == 0
    assert first[1] == 10
    assert others == [first, first]


def _value_first(_: None) -> Any:
    """Rank 0 waits for nobody: it may be alone in the block."""
    with rt.main_process_first():
        return rt.from_main_process(rt.rank())


def test_value_inside_main_process_first() -> None:
    assert on_ranks(_value_first, None) == [0, 0]


def test_value_joins_the_group_itself() -> None:
    script = "import distify_runtime as rt\nprint(rt.from_main_process(rt.rank() + 5))\nrt.init_process_group()\n"
    ended = run_script(script)
    assert [(one.code, one.out) for one in ended] == [(0, "5\n"), (0, "5\n")], ended[1].err


def _calls(folder: str) -> Any:
    def make(name: str, *, text: str) -> str:
        path = Path(folder) / name
        path.write_text(text)
        return str(path)

    made = rt.call_on_main_process(make, f"{rt.rank()}.txt", text="x")
    try:
        rt.call_on_main_process(os.makedirs, folder)
    except FileExistsError as error:
        return made, error.errno
    return made, None


def test_call_on_rank_zero_returns_and_raises_everywhere(tmp_path: Path) -> None:
    first, second = on_ranks(_calls, str(tmp_path))
    assert first == second
    assert first[0].endswith("0.txt")
    assert first[1] is not None
    assert os.listdir(tmp_path) == ["0.txt"]


class _Odd(Exception):
    """Whose arguments are not those that it is made with, so that it cannot be unpickled."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


def _fails_together(folder: str) -> list[str]:
    found = []
    for error in (None, FileNotFoundError(2, "gone"), _Odd("this", "that")):
        try:
            with rt.fail_together():
                if rt.is_main_process():
                    time.sleep(0.2)
                    (Path(folder) / "written").write_text(repr(error))
                    if error is not None:
                        raise error
            found.append((Path(folder) / "written").read_text())
        except Exception as caught:
            found.append(f"{type(caught).__name__}: {caught}")
        rt.barrier()
    return found


def test_what_rank_zero_raises_in_the_block_all_raise(tmp_path: Path) -> None:
    first, *others = on_ranks(_fails_together, str(tmp_path), ranks=3)
    assert first == ["None", "FileNotFoundError: [Errno 2] gone", "_Odd: this that"]
    assert others == [["None", "FileNotFoundError: [Errno 2] gone", "RuntimeError: _Odd: this that"]] * 2


def _cannot_be_sent() -> list[str]:
    found = []
    for call in (rt.from_main_process, rt.call_on_main_process):
        value = (lambda: lambda: None) if call is rt.call_on_main_process else (lambda: None)
        try:
            call(value)  # type: ignore[operator]
        except TypeError as error:
            found.append(str(error))
    return [*found, rt.from_main_process("and on it goes")]


def test_what_cannot_be_sent_is_an_error_of_all_ranks() -> None:
    first, second = on_ranks(_cannot_be_sent)
    assert first == second
    *errors, last = first
    assert [one.startswith("what rank 0 has made cannot be sent to the other ranks: ") for one in errors] == [True] * 2
    assert last == "and on it goes"


def _another_fails() -> str:
    try:
        with rt.fail_together():
            if rt.rank() == 1:
                raise FileNotFoundError(2, "gone")
    except FileNotFoundError as error:
        return f"{error} {rt.any_rank(False)}"
    return ""


def test_what_another_rank_raises_in_the_block_all_raise() -> None:
    assert on_ranks(_another_fails, ranks=3) == ["[Errno 2] gone False"] * 3


def _call_fails(_: None) -> str:
    def fail() -> None:
        raise _Odd("this", "that")

    try:
        rt.call_on_main_process(fail)
    except Exception as caught:
        return f"{type(caught).__name__}: {caught}"
    return "nothing"


def test_an_exception_that_cannot_be_sent_is_told() -> None:
    assert on_ranks(_call_fails, None) == ["_Odd: this that", "RuntimeError: _Odd: this that"]


_MEETINGS: dict[str, Callable[[], Any]] = {
    "told": lambda: rt.from_main_process(7),
    "told a tensor": lambda: rt.from_main_process(torch.ones(2)),
    "called": lambda: rt.call_on_main_process(int, "7"),
    "summed": lambda: rt.all_reduce_sum(torch.ones(2)),
    "waited": lambda: rt.barrier(),
    "in turns": lambda: rt.main_process_first().__enter__(),
    "caught": lambda: _caught(lambda: rt.from_main_process(7)),
    "beside it": lambda: [*map(str, _in_a_thread())],
    "nothing": lambda: (rt.rank(), rt.world_size(), rt.is_main_process()),
}


def _caught(function: Callable[[], Any]) -> str:
    try:
        return str(function())
    except Exception as error:
        return type(error).__name__


def _in_a_thread() -> list[bool]:
    """What goes on beside it may meet the others: a thread that sends what rank 0 has to say of its own accord."""
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(communicator.store() is not None))
    thread.start()
    thread.join()
    return seen


def _meets(name: str) -> tuple[str, list[int]]:
    """What comes of it on this rank, and what the next messages say."""
    found = _caught(lambda: rt.call_on_main_process(_MEETINGS[name]))
    return found, [rt.from_main_process(10 * number + rt.rank()) for number in range(3)]


@pytest.mark.parametrize("name", _MEETINGS)
def test_ranks_do_not_meet_in_what_rank_zero_does_alone(name: str) -> None:
    """The others would take each later message for the one before: silently, if its form is the same."""
    expected = {"beside it": "['True']", "nothing": "(0, 2, True)"}.get(name, "MetAlone")
    assert on_ranks(_meets, name) == [(expected, [0, 10, 20])] * 2


def test_the_group_is_not_joined_in_what_rank_zero_does_alone() -> None:
    script = (
        "import distify_runtime as rt\n"
        "try:\n    rt.call_on_main_process(rt.barrier)\n"
        "except RuntimeError as error:\n    print(type(error).__name__)\n"
        "print(rt.from_main_process(rt.rank() + 5))\nrt.init_process_group()\n"
    )
    ended = run_script(script)
    assert [(one.code, one.out) for one in ended] == [(0, "MetAlone\n5\n")] * 2, ended[0].err


def _in_threads(kind: str) -> Any:
    """What rank 0 tells of each of four tasks; two of a pool's threads are in a task at the same time, or one is."""
    both = threading.Barrier(2 if kind == "several" else 1)

    def task(number: int) -> int:
        both.wait(10)
        return rt.from_main_process(10 * number + rt.rank())

    with ThreadPoolExecutor(2 if kind == "several" else 1) as pool:
        first = list(pool.map(task, range(4)))
        return first, rt.from_main_process(rt.rank() + 7), list(pool.map(task, range(4)))


def test_threads_do_not_take_what_rank_zero_tells_another() -> None:
    with pytest.raises(RankFailed, match=r"ranks would meet in the threads `\S+` and `\S+` at the same time"):
        on_ranks(_in_threads, "several", watch="off")


def test_a_thread_that_others_wait_for_may_meet() -> None:
    assert on_ranks(_in_threads, "one") == [([0, 10, 20, 30], 7, [0, 10, 20, 30])] * 2


def test_one_process_meets_nobody() -> None:
    assert on_ranks(_one, ranks=1) == [(7, 7, 2.0)]


def _one() -> tuple[int, int, float]:
    told, called = (rt.call_on_main_process(_MEETINGS[name]) for name in ("told", "called"))
    return told, called, float(rt.call_on_main_process(_MEETINGS["summed"]).sum())


def _files(folder: str) -> list[Any]:
    path = os.path.join(folder, "a.txt")
    for mode, text in (("x", "one\n"), ("a", "two\n")):
        with rt.main_process_open(path, mode) as file:
            file.write(text)
            print("line", file=file)
            file.flush()
            os.fsync(file.fileno())
            os.fdatasync(file)
    with rt.main_process_open(os.path.join(folder, "b.csv"), "w", newline="") as file:
        csv.writer(file).writerow([1, 2])
    rt.barrier()
    with rt.main_process_open(path) as file:
        return [file.read(), str(rt.main_process_path(Path("a")))]


def _named(folder: str) -> list[str]:
    """What each rank reads where a file says that it is, and as what it is there."""
    found = []
    for mode, given in (("w", {}), ("wb", {}), ("ab", {"buffering": 0}), ("w+", {}), ("wb+", {})):
        path = os.path.join(folder, "log")
        file = rt.main_process_open(path, mode, **given)
        file.write(b"row" if "b" in mode else "row")
        file.flush()
        rt.barrier()
        with open(file.name) as again:
            found.append(again.read())
        file.close()
        rt.barrier()
    with rt.main_process_open(Path(folder) / "other", "w") as other:
        return [*found, os.path.basename(other.name)]


def _emptied(path: str) -> list[str]:
    """What is left of a file that is cut before it is written on."""
    found = []
    for mode, given in (("a", {}), ("r+", {}), ("ab", {"buffering": 0}), ("r+b", {})):
        with rt.main_process_open(path, mode, **given) as file:
            file.seek(0)
            file.truncate()
            file.write(b"anew" if "b" in mode else "anew")
            file.truncate(2)
        rt.barrier()
        found.append(Path(path).read_text())
        rt.barrier()
    return found


def test_a_file_is_cut_where_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("of the run before")
    assert on_ranks(_emptied, str(tmp_path / "log")) == [["an"] * 4] * 2


def _locked(path: str) -> int:
    """How many locks this rank could have, of a file that each opens to write it."""
    found = 0
    with rt.main_process_open(path, "w") as file:
        for lock in (fcntl.flock, fcntl.lockf):
            rt.barrier()
            with contextlib.suppress(BlockingIOError):
                lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found += 1
        rt.barrier()
    return found


def test_what_goes_nowhere_is_locked_by_nobody(tmp_path: Path) -> None:
    with open(os.devnull, "w") as null:
        fcntl.flock(null, fcntl.LOCK_EX)  # as another run would have it
        assert on_ranks(_locked, str(tmp_path / "lock"), ranks=3) == [2, 2, 2]
    with (tmp_path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert on_ranks(_locked, str(tmp_path / "lock")) == [1, 2]


def test_open_writes_on_rank_zero_and_reads_everywhere(tmp_path: Path) -> None:
    first, second = on_ranks(_files, str(tmp_path))
    assert first[0] == second[0] == "one\nline\ntwo\nline\n"
    assert (first[1], second[1]) == ("a", os.devnull)
    assert (tmp_path / "b.csv").read_text() == "1,2\n"
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.csv"]


def test_all_read_where_a_file_says_that_it_is(tmp_path: Path) -> None:
    assert on_ranks(_named, str(tmp_path)) == [["row", "row", "rowrow", "row", "row", "other"]] * 2


class Writer:
    """As TensorBoard's: a folder named by the time, calls that write, a context manager."""

    def __init__(self, folder: str) -> None:
        self.log_dir = os.path.join(folder, f"{time.time_ns()}-{os.getpid()}")
        os.makedirs(self.log_dir)

    def get_logdir(self) -> str:
        return self.log_dir

    def add(self, text: str) -> int:
        return Path(self.log_dir, "log").write_text(text)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.add("closed")


def _writes(folder: str) -> Any:
    with rt.main_process_only(Writer, share=("log_dir", "get_logdir"))(folder) as writer:
        held = {"writer": writer}
        held["writer"].add("x")
        if rt.rank() != 0:
            writer.anything.at["all"] = writer.add("y").and_then(3)
    return writer.log_dir, writer.get_logdir()


def test_stand_in_takes_every_call_and_knows_what_is_shared(tmp_path: Path) -> None:
    first, second = on_ranks(_writes, str(tmp_path))
    assert first == second
    assert os.listdir(tmp_path) == [os.path.basename(first[0])]
    assert Path(first[0], "log").read_text() == "closed"


def _paths_of_stand_ins(folder: str) -> str:
    stand_in = rt.main_process_only(Writer)(folder)
    if rt.rank() == 0:
        return ""
    assert bool(stand_in)
    assert list(stand_in) == []
    message = f"in {stand_in.log_dir}, {stand_in.total:.3f} in all"  # a message does no harm
    with pytest.raises(ValueError, match="null"):
        os.makedirs(f"{folder}/{stand_in.log_dir}")
    with pytest.raises(TypeError):
        os.path.join(folder, stand_in.log_dir)
    return message


def test_a_stand_in_does_not_say_what_is_in_it() -> None:
    with pytest.raises(TypeError, match=r"what is in ZipFile\.namelist"):
        assert "a" in StandIn("ZipFile").namelist()


def test_stand_in_never_becomes_a_path(tmp_path: Path) -> None:
    assert "rank 0" in on_ranks(_paths_of_stand_ins, str(tmp_path))[1]
    assert len(os.listdir(tmp_path)) == 1


LOGS = """\
import logging
import sys

import distify_runtime as rt
import numpy as np

rt.rank_zero_logging()
logger = logging.getLogger("a")
handler = logging.FileHandler(rt.main_process_path(sys.argv[1]), mode="w")
logger.addHandler(handler)
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format="%(message)s")
logger.info("info")
logging.warning("warning")
logging.getLogger("made.later").error("error of %d", rt.rank())
"""


def test_log_records_are_rank_zeros_and_errors_everybodys(tmp_path: Path) -> None:
    first, second = run_script(LOGS, str(tmp_path / "log.txt"))
    assert first.out == "info\nwarning\nerror of 0\n"
    assert second.out == "error of 1\n"
    assert (tmp_path / "log.txt").read_text() == "info\n"


PRINTS = """\
import io
import sys
from contextlib import redirect_stdout

import distify_runtime as rt
from distify_runtime import rank_zero_print as print
import numpy as np

kept, other = io.StringIO(), io.StringIO()
with redirect_stdout(kept):
    print("caught", 1, sep="-")
print("put there", file=other)
print("shown")
print("shown too", file=sys.stdout)
sys.stderr.write(kept.getvalue() + other.getvalue())
"""


def test_what_is_printed_into_memory_is_there_on_every_rank() -> None:
    first, second = run_script(PRINTS)
    assert first.err == second.err == "caught-1\nput there\n"
    assert (first.out, second.out) == ("shown\nshown too\n", "")


TEES = """\
import builtins
import sys

import distify_runtime as rt
from distify_runtime import rank_zero_print as print
import numpy as np


class Tee:
    def __init__(self, stream):
        self.stream, self.lines = stream, 0

    def write(self, text):
        self.lines += text.count("\\n")
        self.stream.write(text)

    def flush(self):
        self.stream.flush()


terminal = sys.stdout
sys.stdout = Tee(terminal)
print("one")
print("two", file=sys.stdout)
sys.stdout, tee = terminal, sys.stdout
print("three")
seen, before = [], print


def spy(*values, **how):
    seen.append(values)
    before(*values, **how)


builtins.print = spy
print("four")
sys.stderr.write(f"{tee.lines} {len(seen)}\\n")
"""


def test_what_a_stream_or_a_print_of_the_scripts_own_counts_is_the_same_on_every_rank() -> None:
    first, second = run_script(TEES)
    assert first.out == "one\ntwo\nthree\nfour\n"
    assert second.out == ""
    assert first.err == second.err == "2 1\n"


STARTED = """\
import sys


class Recorder:
    def __init__(self, stream):
        self.stream = stream

    def write(self, text):
        self.stream.write(text)

    def flush(self):
        self.stream.flush()


sys.stdout = Recorder(sys.stderr)
from distify_runtime import rank_zero_print as print
import numpy as np

print("shown")
"""


def test_what_has_started_the_script_sees_what_rank_0_shows() -> None:
    first, second = run_script(STARTED)
    assert (first.err, second.err) == ("shown\n", "")


HANDLERS = """\
import logging
import sys

import distify_runtime as rt
import numpy as np


class Memory(logging.Handler):
    def __init__(self, level):
        super().__init__(level)
        self.kept = []

    def emit(self, record):
        self.kept.append(record.getMessage())


class Loud(logging.StreamHandler):
    def emit(self, record):
        super().emit(record)


rt.rank_zero_logging()
logger = logging.getLogger("a.b")
far, near, other = Memory(logging.DEBUG), Memory(logging.WARNING), Memory(logging.DEBUG)
logging.getLogger().addHandler(far)
logger.addHandler(near)
logger.addHandler(Loud(sys.stderr))
logging.getLogger("a.c").addHandler(other)
logger.setLevel(logging.INFO)
for say in (logger.debug, logger.info, logger.warning, logger.error):
    say("%d", len(far.kept))
print(far.kept, near.kept, other.kept)
"""


def test_what_a_handler_of_the_scripts_own_keeps_is_on_every_rank() -> None:
    first, second = run_script(HANDLERS)
    assert first.out == second.out == "['0', '1', '2'] ['1', '2'] []\n"
    assert (first.err, second.err) == ("0\n1\n2\n", "2\n")


LOGURU = """\
import sys
from loguru import logger

import distify_runtime as rt
import numpy as np

rt.rank_zero_logging()
logger.remove()
logger.add(sys.stdout, format="{message}")
logger.info("info")
"""


def test_loguru() -> None:
    pytest.importorskip("loguru")
    first, second = run_script(LOGURU)
    assert (first.out, second.out) == ("info\n", "")


def test_world_of_one(tmp_path: Path) -> None:
    assert rt.from_main_process(3) == 3
    assert rt.call_on_main_process(max, 1, 2) == 2
    assert rt.main_process_only(max)(1, 2) == 2
    assert rt.main_process_path("a") == "a"
    with rt.main_process_open(tmp_path / "a", "w") as file:
        file.write("x")
    assert (tmp_path / "a").read_text() == "x"
    before = logging.root.manager.disable
    rt.rank_zero_logging()
    assert logging.root.manager.disable == before


def _tensors() -> Any:
    made = torch.full((2, 3), float(rt.rank()), dtype=torch.float64, requires_grad=True)
    other = torch.arange(2 + rt.rank())  # even of another length
    with rt.main_process_first():
        inside = rt.from_main_process(torch.tensor(rt.rank()))
    found = rt.from_main_process(made)
    return found.tolist(), found.dtype, found.requires_grad, rt.from_main_process(other).tolist(), inside.item()


def test_a_tensor_of_rank_0_is_on_every_rank_also_while_ranks_take_turns() -> None:
    assert on_ranks(_tensors) == [([[0.0] * 3] * 2, torch.float64, True, [0, 1], 0)] * 2


LARGE = 3_000_000  # numbers: more than a store takes at once


def _large() -> list[Any]:
    mine = torch.full((LARGE,), float(rt.rank() + 1)), {"words": ["a"] * 3, "rank": rt.rank()}
    found = [rt.from_main_process(mine)]
    with rt.main_process_first():
        found.append(rt.from_main_process((*mine, np.full(LARGE, rt.rank()))))
    return [(one[0].sum().item(), one[1]) for one in found] + [int(found[1][2].sum())]


def test_large_values_in_tuples_reach_all_ranks() -> None:
    expected = [(float(LARGE), {"words": ["a"] * 3, "rank": 0})] * 2 + [0]
    assert on_ranks(_large, ranks=3) == [expected] * 3


def _keys_left() -> list[int]:
    """Keys of the store after each of some hundred values."""
    counts = []
    for number in range(200):
        assert rt.from_main_process((number, rt.rank())) == (number, 0)
        rt.barrier()
        counts.append(communicator.store().num_keys())
    return counts


@pytest.mark.of_torch
def test_what_all_ranks_have_read_is_forgotten() -> None:
    for counts in on_ranks(_keys_left, ranks=3):
        assert max(counts) - min(counts) < 80


SOURCES: dict[str, Callable[[], float]] = {
    "torch": lambda: float(torch.rand(())),
    "Python": random.random,
    "NumPy": lambda: float(np.random.rand()),
}


def _drawn_alone(name: str) -> list[float]:
    """One number at a time, behind others: the state of a stream hardly moves then."""
    draw = SOURCES[name]
    torch.manual_seed(3), random.seed(3), np.random.seed(3)
    drawn = [draw(), rt.call_on_main_process(draw), draw()]
    with rt.main_process_first():
        if rt.is_main_process():
            draw()
    drawn.append(draw())
    with rt.main_process_first():
        drawn.append(draw())  # each of them, as where each node has a disk of its own
    return [*drawn, draw()]


@pytest.mark.parametrize("name", SOURCES)
def test_what_one_rank_draws_alone_all_have_drawn(name: str) -> None:
    first, second, third = on_ranks(_drawn_alone, name, ranks=3)
    assert first == second == third
    assert len(set(first)) == len(first)


def _drawn_apart() -> list[float]:
    torch.manual_seed(5 + rt.rank())
    rt.call_on_main_process(torch.rand, 1)
    with rt.main_process_first():
        if rt.is_main_process():
            torch.rand(1)
    return torch.rand(1).tolist()


def test_ranks_that_draw_apart_go_on_with_their_own_streams() -> None:
    torch.manual_seed(6)
    own = torch.rand(1).tolist()
    first, second = on_ranks(_drawn_apart)
    assert second == own
    assert first != own


TRACKED = """\
import random, sys, threading, types
import distify_runtime as rt

tracker = types.ModuleType("tracker.names")
exec("import random\\ndef start(): return random.choice('abc'), random.random()", vars(tracker))

random.seed(3)
rt.init_process_group(own_random=sys.argv[1:])
drawn = [random.random()]
if rt.is_main_process():
    tracker.start()
    thread = threading.Thread(target=tracker.start)
    thread.start()
    thread.join()
random.shuffle(drawn := [*drawn, random.random(), random.randint(0, 9)])
print(drawn, random.Random(1).random())
"""


def test_packages_that_rank_zero_calls_leave_the_random_numbers_of_the_script_alone() -> None:
    first, second = run_script(TRACKED, "tracker", "another")
    assert (first.code, first.out) == (0, second.out), first.err
    random.seed(3)
    random.shuffle(drawn := [random.random(), random.random(), random.randint(0, 9)])
    assert first.out == f"{drawn} {random.Random(1).random()}\n"


def test_packages_that_are_not_named_draw_as_before() -> None:
    """So does a package that is called as if it were a part of one that is named, or whose name begins alike."""
    first, second = run_script(TRACKED, "track", "names")
    assert (first.code, second.code) == (0, 0), first.err
    assert first.out != second.out


def test_alone_nothing_draws_by_itself() -> None:
    """As in the original: in one process there is nobody to go apart from."""
    (named,), (unnamed,) = (run_script(TRACKED, name, ranks=0) for name in ("tracker", "another"))
    assert (named.code, named.out) == (0, unnamed.out), named.err
