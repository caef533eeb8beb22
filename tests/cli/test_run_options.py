"""`distify run` with more than ranks and a script: starts anew, other machines, other output, a command to copy."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
from pathlib import Path

import pytest
from command_line import TRAIN, CommandLine, Ended
from distify_runtime.trace.processes import free_port

#: Looks converted, but starts without torch's second.
CONVERTED = """\
import os, signal, sys, time
rank = os.environ['RANK']
if False:
    import distify_runtime
"""


def text(ended: Ended) -> str:
    return ended.out.decode()


def run(distify: CommandLine, script: str, *words: str, nproc: int = 2) -> Ended:
    Path("train_dist.py").write_text(CONVERTED + script)
    given = ("--nproc", str(nproc)) if nproc else ()
    return distify("run", *given, "--logs", "logs", *words, "train_dist.py", python=(), CUDA_VISIBLE_DEVICES="")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


FAILS_ONCE = """
first = not os.path.exists(f'been{rank}')
open(f'been{rank}', 'a').write('x')
print('rank', rank, 'starts', 'for the first time' if first else 'again', flush=True)
open(f'said{rank}', 'w').close()
while not os.path.exists('said0'):
    time.sleep(0.05)
if first and rank == '1':
    sys.exit(3)
if first:
    time.sleep(60)
"""


def test_after_a_failure_all_ranks_start_anew(distify: CommandLine) -> None:
    ended = run(distify, FAILS_ONCE, "--max-restarts", "1")
    assert (ended.code, text(ended)) == (0, "rank 0 starts for the first time\nrank 0 starts again\n")
    assert "distify: rank 1 failed with exit code 3; all ranks start anew (1 of 1)\n" in ended.err
    assert [Path(f"been{rank}").read_text() for rank in (0, 1)] == ["xx", "xx"]


def test_the_last_failure_is_the_end(distify: CommandLine) -> None:
    script = "print('rank', rank, flush=True)\nif rank == '1': sys.exit(3)\ntime.sleep(60)"
    ended = run(distify, script, "--max-restarts", "1")
    assert ended.code == 3
    said = "distify: rank 1 of 2 failed with exit code 3; its log is logs/rank1.log\nrank 1\nrank 1\n"
    assert ended.err.endswith(said)


def test_every_rank_on_the_screen(distify: CommandLine) -> None:
    script = "print('one', flush=True); print('two', file=sys.stderr); sys.stdout.write('no end of a line')"
    ended = run(distify, script, "--tee", "all")
    lines = ["one", "two", "no end of a line"]
    assert sorted(text(ended).splitlines()) == sorted(f"[rank{rank}] {line}" for rank in (0, 1) for line in lines)
    assert Path("logs/rank1.log").read_text() == "one\ntwo\nno end of a line"


@pytest.mark.parametrize("tee", [True, False], ids=["all ranks", "rank 0"])
def test_what_brought_rank_0_down_is_last_on_the_screen(distify: CommandLine, tee: bool) -> None:
    """Whatever other ranks have said after it; and it is not said twice where they say nothing there."""
    script = (
        "if rank == '0':\n    while not os.path.exists('waits'): time.sleep(0.01)\n    raise ValueError('boom')\n"
        "def say_so(*_):\n    sys.stderr.write('peer is gone\\n' * 30)\n    sys.exit(1)\n"
        "signal.signal(signal.SIGTERM, say_so)\nopen('waits', 'w').close()\ntime.sleep(60)"
    )
    ended = run(distify, script, *(("--tee", "all") if tee else ()))
    assert ended.code == 1
    assert ("[rank1] peer is gone" in text(ended)) is tee
    last = ended.err[ended.err.index("distify: rank 0 of 2 failed with exit code 1; its log is logs/rank0.log\n") :]
    assert ("Traceback (most recent call last):" in last) is tee
    assert ("peer is gone" in last) is False
    assert (text(ended) + ended.err).count("ValueError: boom") == 1 + tee
    assert ended.err.splitlines()[-1] == ("ValueError: boom" if tee else last.rstrip("\n"))


def test_a_run_that_takes_too_long_is_ended(distify: CommandLine) -> None:
    ended = run(distify, "time.sleep(60)", "--timeout", "2")
    assert (ended.code, text(ended)) == (124, "")
    assert ended.err.endswith("distify: not done within 2 s (--timeout); ending all ranks\n")


def test_torchrun_puts_nothing_into_words_of_the_script(distify: CommandLine) -> None:
    Path("train_dist.py").write_text(CONVERTED + "print(sys.argv[1:])")
    words = ("$$", "${local_rank}", "$local_rank", "$HOME", "a$b$$$c")
    ended = distify("run", "-np", "1", "--launcher", "torchrun", "train_dist.py", *words, CUDA_VISIBLE_DEVICES="")
    assert (ended.code, text(ended)) == (0, f"{list(words)}\n")


def test_variables_are_for_the_ranks(distify: CommandLine) -> None:
    ended = run(distify, "print(os.environ['GREETING'])", "--env", "GREETING=a = b", nproc=1)
    assert (ended.code, text(ended)) == (0, "a = b\n")


def test_the_command_that_would_be_started(distify: CommandLine) -> None:
    """What is printed starts the same ranks without distify: words that look like torchrun's are the script's."""
    line = "f\"{os.environ['RANK']} {os.environ['WHAT']} {sys.argv[1:]}\\n\""
    Path("show.py").write_text(f"import os, sys\nsys.stdout.write({line})\n")
    words = ("-np", "2", "--dry-run", "--env", "WHAT=a 'b'", "show.py", "--m", "1", "--", "c d", "$$ ${local_rank}")
    ended = distify("run", *words, python=())
    assert ended.code == 0
    assert ended.err == "distify: the ranks of one machine are started without an engine; the same with torchrun:\n"
    by_torchrun = distify("run", "--launcher", "torchrun", *words, python=())
    assert (by_torchrun.code, by_torchrun.out, by_torchrun.err) == (0, ended.out, "")
    assert not Path("distify_logs").exists()
    (command,) = text(ended).splitlines()
    assert "torch.distributed.run" in shlex.split(command)
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert sorted(done.stdout.splitlines()) == [
        f"{rank} a 'b' ['--m', '1', '--', 'c d', '$$ ${{local_rank}}']" for rank in (0, 1)
    ]


def test_each_of_two_machines_starts_its_ranks(distify: CommandLine) -> None:
    Path("train_dist.py").write_text(CONVERTED + "print(rank, os.environ['WORLD_SIZE'], os.environ['LOCAL_RANK'])")
    port, ended = free_port(), dict[int, Ended]()

    def start(node: int) -> None:
        where = ("--nnodes", "2", "--node-rank", str(node), "--rdzv-endpoint", f"127.0.0.1:{port}")
        words = ("run", "-np", "2", "--oversubscribe", *where, "--logs", f"logs{node}", "train_dist.py")
        ended[node] = distify(*words, python=(), CUDA_VISIBLE_DEVICES="")

    machines = [threading.Thread(target=start, args=(node,)) for node in (0, 1)]
    for machine in machines:
        machine.start()
    for machine in machines:
        machine.join()
    assert [ended[node].code for node in (0, 1)] == [0, 0], ended
    assert (text(ended[0]), text(ended[1])) == ("0 4 0\n", "")
    assert Path("logs1/rank3.log").read_text() == "3 4 1\n"
    # Not torchrun's own: it has something to say where the other machine is gone first.
    assert sorted(path.name for path in Path("logs1").glob("rank*")) == ["rank2.log", "rank3.log"]


HERE = ("--rdzv-endpoint", "localhost:1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nnodes", "2"), "--nnodes 2: where do they meet? --rdzv-endpoint HOST:PORT, a port of node 0's"),
        (("--nnodes", "2", *HERE), "--nnodes 2: which of them is this one? --node-rank R"),
        (("--nnodes", "2:1", *HERE), "--nnodes 2:1: how many machines"),
        (("--node-rank", "1"), "--nnodes is missing: how many machines"),
        (("--nnodes", "2", "--node-rank", "2", *HERE), "--node-rank 2: of 2 machines the last"),
        (("--nnodes", "2:3", "--rdzv-endpoint", "localhost:x"), "--rdzv-endpoint localhost:x: HOST:PORT"),
        (("--nnodes", "1:2", "--rdzv-endpoint", "no.such.host.invalid"), "no.such.host.invalid cannot be found"),
        (("--env", "NAME"), "--env NAME: NAME=VALUE is wanted"),
        (("--nproc", "many"), "-np many: a number of ranks is wanted, or auto"),
    ],
)
def test_what_cannot_be_followed_is_one_line(distify: CommandLine, words: tuple[str, ...], message: str) -> None:
    ended = run(distify, "", *words, nproc=0)
    assert (ended.code, text(ended), ended.err.count("\n")) == (2, "", 1)
    assert message in ended.err
    assert not Path("logs").exists()


ANEW = "if it has changed, `distify convert train.py --force` makes that anew\n"
STALE = f"distify: train.py is newer than train_dist.py: {ANEW}"


@pytest.mark.parametrize(("seconds", "told"), [(9, STALE), (-9, "")])
def test_a_conversion_that_is_older_than_its_script_is_told(seconds: int, told: str, distify: CommandLine) -> None:
    Path("train.py").write_text("")
    Path("train_dist.py").write_text(CONVERTED)
    when = Path("train_dist.py").stat().st_mtime + seconds
    os.utime("train.py", (when, when))
    ended = distify("run", "-np", "2", "--dry-run", "train_dist.py", python=(), CUDA_VISIBLE_DEVICES="")
    assert (ended.code, ended.err.startswith("distify: train.py")) == (0, bool(told))
    assert told in ended.err


@pytest.mark.parametrize(("asked", "told"), [(["--yes"], False), (["--check"], True)])
def test_a_conversion_that_is_found_up_to_date_is_not_old(asked: list[str], told: bool, distify: CommandLine) -> None:
    Path("train.py").write_bytes(TRAIN)
    assert distify("convert", "train.py", "--yes").code == 0
    os.utime("train_dist.py", (1, 1))
    assert "is there already, and up to date" in distify("convert", "train.py", *asked).err
    ended = distify("run", "-np", "2", "--dry-run", "train_dist.py", CUDA_VISIBLE_DEVICES="")
    assert (STALE in ended.err) is told


@pytest.mark.parametrize(
    "importing", ["from net_dist import Net", "import net_dist as net", "from pkg import net_dist"]
)
def test_a_module_that_is_newer_than_its_conversion_is_told(importing: str, distify: CommandLine) -> None:
    folder = Path("pkg" if "pkg" in importing else ".")
    folder.mkdir(exist_ok=True)
    for path in (Path("train.py"), Path("train_dist.py"), folder / "net.py", folder / "net_dist.py"):
        path.write_text(f"{CONVERTED}{importing}\n" if path.name == "train_dist.py" else "")
    when = (folder / "net_dist.py").stat().st_mtime + 9
    os.utime(folder / "net.py", (when, when))
    ended = distify("run", "-np", "2", "--dry-run", "train_dist.py", python=(), CUDA_VISIBLE_DEVICES="")
    assert f"distify: {folder / 'net.py'} is newer than {folder / 'net_dist.py'}: {ANEW}" in ended.err


def test_a_module_that_is_not_converted_is_none_of_it(distify: CommandLine) -> None:
    for name, content in (("train_dist.py", f"{CONVERTED}import other\n"), ("other_dist.py", ""), ("other.py", "")):
        Path(name).write_text(content)
    os.utime("other_dist.py", (1, 1))
    assert "is newer" not in distify("run", "-np", "2", "--dry-run", "train_dist.py", CUDA_VISIBLE_DEVICES="").err


def test_a_script_that_nothing_was_made_of_is_not_old(distify: CommandLine) -> None:
    assert "is newer than" not in run(distify, "").err
