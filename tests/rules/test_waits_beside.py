"""PATH01: what threads and processes of the script read is waited for where the ranks can meet, or not at all."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Outcome

from tests.rules.scripts import (
    DATA,
    GROUP,
    IMPORTS,
    LOADER,
    LOOP,
    MODEL,
    OPTIMIZER,
    blocked,
    conversion_of,
    converted,
    findings,
    indented,
    line_of,
    script,
)

HEAD = (
    "import multiprocessing\nimport os\nimport shutil\nimport sys\nimport threading\n"
    "from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor\n"
    "from multiprocessing.pool import ThreadPool\n"
    f"import numpy as np\nfrom absl import app\nfrom joblib import Parallel, delayed\n{IMPORTS}"
)
FUNCTIONS = """\
def read(path):
    return np.load(path)


def work(path):
    return read(path) + 1


"""
WRITE = 'np.save("a.npy", [1])\n'
WRITTEN = 'if rt.is_main_process():\n    np.save("a.npy", [1])\n'
WAIT = "rt.barrier()\n"
START = "names = sys.argv[1:]\n"
FIRST = "first = read(names[0])\n"
POOL = "with ProcessPoolExecutor() as pool:\n    rows = [pool.submit(work, one) for one in names]\n"


def beside(lines: str, functions: str = FUNCTIONS) -> str:
    return script(imports=HEAD, setup=f"{functions}{START}{lines}")


def made_of(lines: str, functions: str = FUNCTIONS) -> str:
    """What becomes of some lines, whose functions stay as they are."""
    new = converted(beside(lines, functions))
    assert functions in new
    return new[new.index(START) + len(START) : new.index(DATA)].replace(GROUP, "")


# ---- where they wait


@pytest.mark.parametrize(
    "starts",
    [
        "with ProcessPoolExecutor() as pool:\n{wait}    rows = [pool.submit(work, one) for one in names]\n",
        "with ThreadPoolExecutor() as pool:\n{wait}    rows = list(pool.map(work, names))\n",
        "with ThreadPoolExecutor() as pool:\n{wait}    rows = list(pool.map(lambda one: work(one), names))\n",
        "with ProcessPoolExecutor() as pool:\n{wait}    for one in names:\n        pool.submit(work, one)\n",
        "with ThreadPool(2) as pool:\n{wait}    for row in pool.imap(work, names):\n        len(row)\n",
        "with multiprocessing.Pool(2) as pool:\n{wait}    rows = pool.map(work, names)\n",
        "{wait}rows = Parallel(n_jobs=2)(delayed(work)(one) for one in names)\n",
        "{wait}process = multiprocessing.Process(target=work, args=(names[0],))\nprocess.start()\nprocess.join()\n",
    ],
)
def test_ranks_wait_in_front_of_what_starts_it(starts: str) -> None:
    wait = f"    {WAIT}" if starts.startswith("with") else WAIT
    assert made_of(WRITE + starts.format(wait="")) == WRITTEN + starts.format(wait=wait)


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (f"{WRITE}{FIRST}{POOL}", f"{WRITTEN}{WAIT}{FIRST}{POOL}"),
        (f"{POOL}{WRITE}{FIRST}", f"{POOL}{WRITTEN}{WAIT}{FIRST}"),
        (
            f"{POOL}{WRITE}for one in names:\n    first = read(one)\n",
            f"{POOL}{WRITTEN}{WAIT}for one in names:\n    first = read(one)\n",
        ),
        (
            f'{POOL}{WRITE}if os.path.exists("b"):\n    {FIRST}',
            f'{POOL}{WRITTEN}{WAIT}if os.path.exists("b"):\n    {FIRST}',
        ),
    ],
    ids=["before it is started", "behind", "in a loop", "under a test of what there is"],
)
def test_what_runs_beside_the_script_and_in_it_is_waited_for_where_it_is_called(lines: str, after: str) -> None:
    """A wait in the function would be one of threads, too, and none in another process."""
    assert made_of(lines) == after


def test_a_file_is_read_in_each_turn_and_written_at_its_end() -> None:
    lines = f"for turn in range(2):\n{indented(POOL)}    np.save(str(turn), [1])\n"
    new = made_of(lines)
    assert new.startswith("for turn in range(2):\n    with ProcessPoolExecutor() as pool:\n        rt.barrier()\n")


STARTED = "with ThreadPool() as pool:\n{wait}    pool.map(work, names)\n"


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (f"save(1)\n{STARTED.format(wait='')}", f"{WAIT}save(1)\n{STARTED.format(wait='')}"),
        (f"{STARTED.format(wait='')}save(1)\n", f"{STARTED.format(wait='    ' + WAIT)}save(1)\n"),
    ],
    ids=["called first", "started first"],
)
def test_rank_zero_waits_where_it_starts_what_writes_anew(lines: str, after: str) -> None:
    functions = FUNCTIONS.replace("return np.load(path)", 'np.save("a.npy", [1])').replace("read", "save")
    old = 'old = np.load("a.npy")\n'
    new = converted(beside(old + lines, functions))
    assert functions.replace("    np.save(", "    if rt.is_main_process():\n        np.save(") in new
    assert f"{old}{after}{DATA}" in new


# ---- where there is nobody to wait for


@pytest.mark.parametrize(
    "lines",
    [
        f"{POOL}{WRITE}",
        f"{FIRST}{POOL}for turn in range(2):\n    pass\n{WRITE}",
        f"if len(names) > 3:\n    {WRITE}else:\n    {FIRST}{indented(POOL)}",
        f"if len(names) > 3:\n    {FIRST}{indented(POOL)}elif names:\n    {WRITE}else:\n    {FIRST}",
        f"if len(names) > 3:\n    {WRITE}    sys.exit()\n{FIRST}{POOL}",
        f"if len(names) > 3:\n    {WRITE}    raise SystemExit\n{FIRST}{POOL}",
        f"def main():\n    if names:\n        {WRITE}        return\n    {FIRST}{indented(POOL)}\n\nmain()\n",
    ],
)
def test_what_is_written_later_or_in_another_run_is_not_waited_for(lines: str) -> None:
    conversion = conversion_of(beside(lines))
    assert conversion.outcome is Outcome.CONVERTED, [one.message for one in conversion.of(Level.BLOCKING)]
    assert WAIT not in conversion.files[0].after.decode()
    said = [one.message for one in conversion.of(Level.APPLIED) if one.code == "PATH01"]
    assert not any("before they read" in one or "once rank 0 has written" in one for one in said), said


EACH = "def each(one):\n    if one:\n        {}    else:\n        {}\n\n"


@pytest.mark.parametrize(
    "lines",
    [
        f"{EACH.format(WRITE, FIRST)}for one in names:\n    each(one)\n",
        f"{EACH.format(WRITE, FIRST)}[each(one) for one in names]\n",
        f"{EACH.format(WRITE, FIRST)}list(map(each, names))\n",
        f"{EACH.format(WRITE, FIRST)}each(names)\neach(sys.argv)\n",
        f"{EACH.format(WRITE, FIRST)}while each(names):\n    pass\n",
        f"if names:\n    {WRITE}    names or sys.exit()\n{FIRST}",
        f"if names:\n    {WRITE}    if len(names) > 3:\n        sys.exit()\n{FIRST}",
        f"def main():\n    if names:\n        {WRITE}        return\n\n\nmain()\n{FIRST}",
        f'if os.path.exists("b"):\n    {WRITE}else:\n    {FIRST}',
    ],
    ids=["a loop", "a comprehension", "`map`", "twice", "a condition", "perhaps", "in some runs", "the function alone",
         "what there is on the disk"],
)  # fmt: skip
def test_two_arms_of_which_one_run_may_take_both(lines: str) -> None:
    assert WAIT in converted(beside(lines))


# ---- where nobody can wait


BOTH = 'def work(path):\n    np.save("a.npy", [1])\n    return np.load("a.npy")\n\n\n'
REFUSED = "the others cannot wait for that in between"


@pytest.mark.parametrize(
    ("functions", "starts"),
    [
        (BOTH, "with ThreadPoolExecutor() as pool:\n    rows = list(pool.map(work, names))\n"),
        (BOTH, "with ThreadPool() as pool:\n    rows = [pool.apply_async(work, (one,)) for one in names]\n"),
        (BOTH, "first = work(names)\nwith ProcessPoolExecutor() as pool:\n    rows = list(pool.map(work, names))\n"),
        (
            BOTH.replace("np.", "torch.").replace('"a.npy", [1]', '[1], "a.npy"'),
            "rows = Parallel(n_jobs=2)(delayed(work)(one) for one in names)\n",
        ),
        (
            BOTH.replace("np.save", 'file = open("a.npy", "w")\n    file.write("x")\n    file.close()\n    len'),
            "with ThreadPoolExecutor() as pool:\n    rows = list(pool.map(work, names))\n",
        ),
        (BOTH.replace("path", "*given"), "torch.nn.Linear(1, 1).register_forward_hook(work)\n"),
        (
            'def work(path):\n    shutil.rmtree("b")\n    os.makedirs("b")\n\n\n',
            "with ThreadPoolExecutor() as pool:\n    rows = list(pool.map(work, names))\n",
        ),
    ],
)
def test_what_is_written_and_read_in_there_needs_a_person(functions: str, starts: str) -> None:
    before = beside(starts, functions)
    found = conversion_of(before).of(Level.BLOCKING)
    told = {one.place.line for one in found if one.place and REFUSED in one.message}
    assert told == {line_of(before, next(one for one in ('load("a', 'makedirs("b') if one in functions))}, found
    assert {one.code for one in found} <= {"PATH01", "LOAD01"}
    new = conversion_of(before, partial=True).files[0].after.decode()
    assert WAIT not in new[: new.index(START)]


@pytest.mark.parametrize(
    "lines",
    [
        f"{WRITE}with ThreadPoolExecutor() as pool:\n    rows = list(pool.map(work, names))\n",
        "with ThreadPoolExecutor() as pool:\n    rows = list(pool.map(save, names))\nrow = work(names)\n",
    ],
    ids=["written before", "read behind"],
)
def test_what_is_done_as_the_person_is_told_needs_nobody(lines: str) -> None:
    functions = 'def save(path):\n    np.save("a.npy", [1])\n\n\ndef work(path):\n    return np.load("a.npy")\n\n\n'
    new = converted(beside(lines, functions))
    wait = new.index(WAIT)
    assert new.rindex('np.save("a.npy", [1])') < wait or new.rindex("pool.map(save") < wait
    assert wait < new.rindex("work")


def test_what_reads_and_writes_anew_in_there_needs_a_person() -> None:
    functions = 'def work(path):\n    old = np.load("a.npy")\n    np.save("a.npy", old + 1)\n\n\n'
    before = beside("with ThreadPoolExecutor() as pool:\n    rows = list(pool.map(work, names))\n", functions)
    assert blocked(before) == {("PATH01", line_of(before, "np.save"))}
    (found,) = findings("PATH01", before, Level.BLOCKING)
    assert f"what line {line_of(before, 'pool.map')} starts, which reads it, too" in found.message
    behind = functions.replace('    np.save("a.npy", old + 1)\n', "    return old\n")
    lines = 'with ThreadPoolExecutor() as pool:\n    rows = list(pool.map(work, names))\nnp.save("a.npy", rows)\n'
    assert made_of(lines, behind).endswith('rt.barrier()\nif rt.is_main_process():\n    np.save("a.npy", rows)\n')


# ---- what a library calls, and where the ranks train


TRAINS = 'def main(*given):\n    np.save("a.npy", [1])\n    old = np.load("a.npy")\n{}\n\n{}'


@pytest.mark.parametrize("run", ["app.run(main)\n", "threading.Thread(target=main).start()\n"])
def test_ranks_meet_in_what_trains(run: str) -> None:
    """In front of what a library calls, they would wait for nothing: rank 0 writes in there."""
    trains = indented(DATA + LOADER + MODEL + OPTIMIZER + LOOP)
    new = converted(f"{HEAD}\n\n{TRAINS.format(trains, run)}")
    assert '        np.save("a.npy", [1])\n    rt.barrier()\n    old = np.load("a.npy")\n' in new
    assert new.endswith(f"\n{run}")


def test_a_hook_reads_what_was_written_before_it_was_registered() -> None:
    hook = 'def hook(*given):\n    np.load("a.npy")\n\n\n'
    lines = f"{WRITE}nn.Linear(1, 1).register_forward_hook(hook)\n"
    assert made_of(lines, hook) == f"{WRITTEN}{WAIT}nn.Linear(1, 1).register_forward_hook(hook)\n"


# ---- a function that is called again


def test_a_file_that_is_read_again_is_another_by_then() -> None:
    """Calls with the same arguments are not followed twice, but where they may find something else."""
    new = converted(beside(f"{FIRST}{WRITE}{FIRST}"))
    assert f"def read(path):\n    {WAIT}    return np.load(path)\n" in new


FEED = """\
import sys
import threading
from queue import Queue


class Feed:
    def __init__(self, load):
        self.load, self.queue = load, Queue()
        self.fill()

    def fill(self):
        if any(one.name == "filling" for one in threading.enumerate()):
            return
        threading.Thread(target=self.work, name="filling").start()

    def work(self):
        while self.queue.qsize() < 8:
            self.queue.put(self.load())

    def __iter__(self):
        for _ in range(8):
            if self.queue.qsize() <= 4:
                self.fill()
            yield self.queue.get()


"""
TABLE = "torch.save(torch.randn(8, 4), 'table.pt')\n\n\ndef load():\n    return torch.load({path})\n\n\n"


@pytest.mark.parametrize(("path", "waits"), [("'table.pt'", 1), ("sys.argv[1]", 1), ("'another.pt'", 0)])
def test_a_thread_that_is_started_again_by_how_far_it_is(path: str, waits: int) -> None:
    """Ranks wait where the first one is started, and not where some may start another."""
    loop = LOOP.replace("for x, y in loader", "for x in Feed(load)").replace("model(x), y", "model(x), x[:, :1]")
    text = converted(
        script(imports=IMPORTS + FEED, setup=TABLE.format(path=path), loop=loop), Options(strategy="shared")
    )
    assert text.count("rt.barrier()") == waits
    assert "rt.barrier()\n        threading.Thread" not in text


def test_what_a_class_of_the_scripts_own_calls_full_is_no_queue() -> None:
    level = "class Level:\n    def full(self):\n        return len(sys.argv) > 1\n\n\nlevel = Level()\n"
    read = "if level.full():\n    table = torch.load('table.pt')\n"
    before = script(imports=f"import sys\n{IMPORTS}", setup=f"torch.save(torch.ones(4), 'table.pt')\n{level}{read}")
    assert "    rt.barrier()\n    table = torch.load('table.pt'" in converted(before, Options(strategy="shared"))
