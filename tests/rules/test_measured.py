"""DECIDE01: the time and the machine's figures, of which training is made: rank 0's."""

from __future__ import annotations

import pytest
from distify_codemods.results import Options

from tests.rules.scripts import IMPORTS, LOOP, blocked, changes, conversion_of, line_of, script

TOOLS = (
    "import os\nimport subprocess\nimport time\nfrom datetime import datetime\n"
    f"from timeit import default_timer\nimport psutil\n{IMPORTS}"
)


def times_loss(lines: str) -> str:
    """The loss is multiplied by what the last of the lines calls `w`."""
    block = "".join(f"        {line}\n" for line in lines.splitlines())
    return script(imports=TOOLS, loop=LOOP.replace("        loss =", f"{block}        loss = w *"))


@pytest.mark.parametrize("strategy", ["sharded", "shared"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("w = time.time() % 1", "w = rt.from_main_process(time.time()) % 1"),
        ("w = default_timer()", "w = rt.from_main_process(default_timer())"),
        ("w = datetime.now().timestamp()", "w = rt.from_main_process(datetime.now().timestamp())"),
        ("w = psutil.virtual_memory().percent", "w = rt.from_main_process(psutil.virtual_memory().percent)"),
        ("w = os.getpid() % 7", "w = rt.from_main_process(os.getpid()) % 7"),
        ('w = float(os.popen("a").read())', 'w = float(rt.from_main_process(os.popen("a").read()))'),
        ('w = float(subprocess.check_output(["nproc"]).decode())',
         'w = float(rt.from_main_process(subprocess.check_output(["nproc"]).decode()))'),
        ('w = float(subprocess.check_output(["a"]).decode())',
         'w = float(rt.call_on_main_process(subprocess.check_output, ["a"]).decode())'),
        ("w = torch.cuda.memory_allocated()", "w = rt.from_main_process(torch.cuda.memory_allocated())"),
    ],
)  # fmt: skip
def test_a_loss_is_made_of_rank_0s(before: str, after: str, strategy: str) -> None:
    (new,) = conversion_of(times_loss(before), options=Options(strategy=strategy)).files
    assert f"        {after}\n" in new.after.decode()


def test_a_rate_by_the_clock_is_rank_0s() -> None:
    rate = '    optimizer.param_groups[0]["lr"] = 1 / (1 + time.monotonic())\n'
    changed = changes("DECIDE01", script(imports=TOOLS, loop=LOOP + rate))
    assert [change.reason for change in changed] == ["training depends on it: rank 0's"]


@pytest.mark.parametrize("strategy", ["sharded", "shared"])
def test_a_decision_by_the_machine_is_rank_0s(strategy: str) -> None:
    stop = "    if psutil.virtual_memory().percent > 90: break\n"
    (new,) = conversion_of(script(imports=TOOLS, loop=LOOP + stop), options=Options(strategy=strategy)).files
    assert "    if rt.from_main_process(psutil.virtual_memory().percent > 90): break\n" in new.after.decode()


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param('f = os.popen("a")\nw = float(f.read())', id="still to be read"),
        pytest.param("w = 1\nif loss_of(x) > 3: w = time.time()", id="where not all ranks come"),
    ],
)
def test_a_person_is_needed(lines: str) -> None:
    before = times_loss(lines).replace("loss_of(x)", "model(x).sum().item()")
    assert ("DECIDE01", line_of(before, "loss.backward()")) in blocked(before)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("    print(time.time(), psutil.virtual_memory().percent)\n", id="shown"),
        pytest.param("    took = time.perf_counter()\n    took = time.perf_counter() - took\n", id="kept"),
        pytest.param("    if psutil.cpu_percent() > 90: print('busy')\n", id="decides what is shown"),
        pytest.param("    if torch.cuda.memory_allocated() > 9: torch.cuda.empty_cache()\n", id="cleans up"),
        pytest.param("    time.sleep(0.1)\n", id="waited"),
        pytest.param('    name = subprocess.check_output(["git", "rev-parse", "HEAD"]).decode()\n', id="the commit"),
    ],
)
@pytest.mark.parametrize("strategy", ["sharded", "shared"])
def test_what_training_does_not_hang_on_stays(lines: str, strategy: str) -> None:
    (new,) = conversion_of(script(imports=TOOLS, loop=LOOP + lines), options=Options(strategy=strategy)).files
    assert not [change for change in new.changes if change.code == "DECIDE01"]
    assert lines in new.after.decode()
