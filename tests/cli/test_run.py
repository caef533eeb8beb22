"""`distify run`, with two real ranks wherever ranks matter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import TRAIN, CommandLine, Ended
from distify_runtime.launch import causes
from distify_runtime.launchers import usable_cores

from distify.commands.run import rank_count, run
from distify.room import too_many

#: Looks converted, but starts without torch's second.
CONVERTED = """\
import os, signal, subprocess, sys, time
rank = os.environ['RANK']
if False:
    import distify_runtime
"""

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a script that looks converted and returns its name."""

    def write(body: str, name: str = "train_dist.py", head: str = CONVERTED) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(head + body)
        return name

    return write


def two_ranks(distify: CommandLine, *words: str, **env: str) -> Ended:
    """Runs on two ranks; the logs are in the folder `logs`."""
    return distify("run", "-np", "2", "--logs", "logs", *words, python=(), CUDA_VISIBLE_DEVICES="", **env)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_rank_0_is_on_the_screen_and_each_rank_in_its_log(distify: CommandLine, write: Write, tmp_path: Path) -> None:
    script = write(
        "print(rank, ascii(sys.argv), os.environ['WORLD_SIZE'])\n"
        "print('stdin', sys.stdin.read() == '', 'threads', os.environ['OMP_NUM_THREADS'])\n"
        "for step in range(3):\n    sys.stderr.write(f'\\r{rank}: {step + 1}/3')\n"
    )
    words = ["--", "-x", "--m", "5", "-np", "3", "--logs=a b", "", "ü", "$HOME", "-"]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = two_ranks(distify, script, *words, TMPDIR=str(scratch), PYTHONUTF8="1")
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    printed = [f"{rank} {[script, *words]!a} 2\nstdin True threads {threads}\n".encode() for rank in "01"]
    assert done.code == 0
    assert done.out == printed[0]
    # Nothing but one line of ours: no warning of torchrun's, no prefix, and the bar's returns as they were.
    assert done.err == "distify: 2 ranks, logs in logs\n\r0: 1/3\r0: 2/3\r0: 3/3"
    assert (tmp_path / "logs" / "rank1.log").read_bytes() == printed[1] + b"\r1: 1/3\r1: 2/3\r1: 3/3"
    log = (tmp_path / "logs" / "rank0.log").read_bytes()
    assert sorted(log) == sorted(printed[0] + b"\r0: 1/3\r0: 2/3\r0: 3/3")
    assert sorted(os.listdir(tmp_path / "logs")) == ["rank0.log", "rank1.log"]
    assert os.listdir(scratch) == []


def test_the_first_failing_rank_is_shown_last_and_ends_the_others(
    distify: CommandLine, write: Write, tmp_path: Path
) -> None:
    script = write(
        "if rank == '1':\n"
        "    while not os.path.exists('ready'): time.sleep(0.01)\n"
        "    try:\n        {}['loss']\n"
        "    except KeyError as error:\n        raise ValueError('boom') from error\n"
        "helper = subprocess.Popen(['sleep', '300'])\n"
        "with open('pids', 'w') as file:\n    print(os.getpid(), helper.pid, file=file)\n"
        "print('epoch 0', end='')\n"
        "open('ready', 'w').close()\n"
        "time.sleep(300)\n"
    )
    done = two_ranks(distify, script)
    assert done.code == 1
    assert done.out == b"epoch 0"
    lines = done.err.splitlines()
    assert lines[1] == "distify: rank 1 of 2 failed with exit code 1; its log is logs/rank1.log"
    assert lines[2] == "Traceback (most recent call last):"
    assert "KeyError: 'loss'" in lines
    assert lines[-1] == "ValueError: boom"
    assert not any(alive(int(pid)) for pid in (tmp_path / "pids").read_text().split())


@pytest.mark.parametrize(
    ("death", "code", "said"),
    [
        ("sys.exit(3)", 3, "failed with exit code 3"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was killed by SIGKILL (out of memory?)"),
    ],
)
def test_the_exit_code_is_the_failing_ranks(
    distify: CommandLine, write: Write, death: str, code: int, said: str
) -> None:
    done = two_ranks(distify, write(f"if rank == '1':\n    print('last words')\n    {death}\ntime.sleep(300)\n"))
    assert done.code == code
    last = "last words\n" + (f"distify: {causes.SIGNALS[signal.SIGKILL]}\n" if code == 137 else "")
    assert done.err.endswith(f"distify: rank 1 of 2 {said}; its log is logs/rank1.log\n{last}")


def test_rank_0s_own_traceback_is_shown_once(distify: CommandLine, write: Write) -> None:
    done = two_ranks(distify, write("if rank == '0':\n    raise ValueError('boom')\ntime.sleep(300)\n"))
    assert done.code == 1
    assert done.err.count("ValueError: boom") == 1
    assert done.err.endswith("distify: rank 0 of 2 failed with exit code 1; its log is logs/rank0.log\n")


def test_a_rank_that_lost_its_peer_is_not_taken_for_the_cause(distify: CommandLine, write: Write) -> None:
    script = write(
        "import torch\nfrom torch import distributed\n"
        "distributed.init_process_group('gloo')\n"
        "for step in range(9):\n"
        "    if rank == '1' and step == 5:\n        raise ValueError('boom')\n"
        "    distributed.all_reduce(torch.ones(10))\n"
    )
    done = two_ranks(distify, script)
    assert done.code != 0
    assert "distify: rank 1 of 2" in done.err
    assert "ValueError: boom" in done.err[done.err.index("distify: rank 1 of 2") :]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_no_process_behind(
    distify: CommandLine, write: Write, tmp_path: Path, number: int, code: int
) -> None:
    script = write(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"  # rank 0 would not go by itself ...
        "if rank == '1':\n    signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "workers = [subprocess.Popen(['sleep', '300'], start_new_session=own) for own in (False, True)]\n"
        "with open(f'pids{rank}', 'w') as file:\n"
        "    print(os.getpid(), os.getppid(), *(worker.pid for worker in workers), file=file)\n"
        "while not (os.path.exists('pids0') and os.path.exists('pids1')): time.sleep(0.01)\n"
        "print('training')\n"
        "time.sleep(300)\n"
    )
    # The test run may ignore SIGINT (started with & in a script), and what it starts would inherit that.
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "from distify.__main__ import main; main()"
    words = ["run", "-np", "2", "--logs", "logs", "--grace", "0.5", script]
    process = subprocess.Popen(
        [sys.executable, "-c", start, *words],
        cwd=tmp_path,
        env={**distify.env, "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    pids: list[int] = []
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"training\n"  # live: the script is far from its end
        pids += [int(pid) for rank in "01" for pid in (tmp_path / f"pids{rank}").read_text().split()]
        assert len(pids) == 8
        assert all(alive(pid) for pid in pids)
        started = time.monotonic()
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        assert process.returncode == code
        assert time.monotonic() - started < 15
        assert err.decode().endswith(f"distify: ended by {signal.Signals(number).name}; logs in logs\n")
        assert [pid for pid in pids if alive(pid)] == []
    finally:
        for pid in filter(alive, (process.pid, *pids)):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_that_the_script_knows_is_every_ranks(
    distify: CommandLine, write: Write, tmp_path: Path, number: int
) -> None:
    """As batch systems send one before time is up: "save, and end"."""
    script = write(
        "told = []\n"
        f"signal.signal({int(number)}, lambda number, frame: told.append(number))\n"
        "open(f'ready{rank}', 'w').close()\n"
        "while not all(os.path.exists(f'ready{one}') for one in (0, 1)): time.sleep(0.01)\n"
        "print('training', flush=True)\n"
        "while not told: time.sleep(0.01)\n"
        "open(f'saved{rank}', 'w').close()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "distify", "run", "-np", "2", "--logs", "logs", script],
        cwd=tmp_path, env={**distify.env, "CUDA_VISIBLE_DEVICES": ""}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"training\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err.decode()) == (0, "distify: 2 ranks, logs in logs\n")
        assert (tmp_path / "saved0").exists()
        assert (tmp_path / "saved1").exists()
    finally:
        if process.poll() is None:
            process.kill()


def test_a_terminal_stays_one_for_rank_0(distify: CommandLine, write: Write, tmp_path: Path) -> None:
    script = write("print(rank, sys.stdout.isatty(), sys.stderr.isatty())\n")
    done = distify.at_terminal("run", "-np", "2", "--logs", "logs", script, CUDA_VISIBLE_DEVICES="")
    assert (done.code, done.out) == (0, b"distify: 2 ranks, logs in logs\r\n0 True True\r\n")
    assert (tmp_path / "logs" / "rank0.log").read_bytes() == b"0 True True\n"
    assert (tmp_path / "logs" / "rank1.log").read_bytes() == b"1 False False\n"


def test_a_reader_that_has_enough_ends_the_run(distify: CommandLine, write: Write) -> None:
    script = write("while True:\n    print('step')\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "distify", "run", "-np", "1", script],
        cwd=distify.folder,
        env={**distify.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"step\n"
        process.stdout.close()
        assert process.wait(30) == 141


def test_a_module_runs_on_one_rank_with_all_threads(distify: CommandLine, write: Write, tmp_path: Path) -> None:
    write("", "pkg/__init__.py", head="")
    write(
        "import train\nprint(__spec__.name, sys.argv[1:], os.environ['WORLD_SIZE'], sys.path[0])\n",
        "pkg/go.py",
    )
    write("print('OMP_NUM_THREADS' in os.environ)\n", "train.py", head="import os\n")
    safe_path = ("-P",) if sys.version_info >= (3, 11) else ()
    if safe_path:  # torchrun imports logging; that must not be the script's neighbour
        write("raise SystemExit('not the standard library')\n", "logging.py", head="")
    env = {name: value for name, value in distify.env.items() if name != "OMP_NUM_THREADS"}
    done = CommandLine(tmp_path, env)("run", "-np", "1", "-m", "pkg.go", "-m", "x", python=safe_path)
    assert done.code == 0
    assert done.out.decode() == f"False\npkg.go ['-m', 'x'] 1 {tmp_path}\n"
    [logs] = (path for path in (tmp_path / "distify_logs").iterdir() if path.is_dir())
    assert logs.name.startswith("go-")
    assert done.err == f"distify: 1 rank, logs in {logs.relative_to(tmp_path)}\n"


def test_a_rank_that_ended_early_is_the_one_that_is_named(distify: CommandLine, write: Write) -> None:
    script = write(
        "import torch\nfrom torch import distributed\n"
        "distributed.init_process_group('gloo')\n"
        "for step in range(9):\n"
        # Python's own way out does not wait for Gloo's threads: now and then they abort it.
        "    if rank == '1' and step == 5:\n        os._exit(0)\n"
        "    try:\n        distributed.all_reduce(torch.ones(10))\n"
        "    except RuntimeError:\n        import traceback\n        traceback.print_exc()\n        os._exit(1)\n"
    )
    done = two_ranks(distify, script)
    assert done.code == 1
    assert done.err.splitlines()[-2:] == [
        "distify: rank 0 of 2 failed with exit code 1; its log is logs/rank0.log",
        "distify: rank 1 of 2 ended before the others, with exit code 0, and they waited for it: ranks have to take "
        "equally many steps; its log is logs/rank1.log",
    ]


def test_a_rank_that_ended_first_is_not_blamed_for_anothers_error(distify: CommandLine, write: Write) -> None:
    body = "if rank == '1':\n    sys.exit(0)\ntime.sleep(2)\nraise ValueError('boom')\n"
    done = two_ranks(distify, write(body))
    assert done.code == 1
    assert done.err.splitlines()[-1] == "distify: rank 0 of 2 failed with exit code 1; its log is logs/rank0.log"


def test_when_a_rank_is_killed_the_cause_comes_last(distify: CommandLine, write: Write) -> None:
    script = write(
        "import torch\nfrom torch import distributed\n"
        "distributed.init_process_group('gloo')\n"
        "for step in range(9):\n"
        "    if rank == '1' and step == 5:\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    distributed.all_reduce(torch.ones(10))\n"
    )
    done = two_ranks(distify, script)
    assert done.code == 137
    assert done.err.splitlines()[-2:] == [
        "distify: rank 1 of 2 was killed by SIGKILL (out of memory?); its log is logs/rank1.log",
        f"distify: {causes.SIGNALS[signal.SIGKILL]}",
    ]


@pytest.mark.parametrize(("seconds", "told"), [(1, 1), (60, 0)])
def test_that_a_rank_has_ended_and_others_go_on_is_said_once(
    write: Write, tmp_path: Path, seconds: int, told: int
) -> None:
    script = write("if rank == '0':\n    time.sleep(4)\n")
    start = (
        "from distify_runtime.launch import LaunchConfig, launch\n"
        f"raise SystemExit(launch(LaunchConfig({script!r}, nproc=2, patience={seconds})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", start], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    line = "distify: rank 1 ended 1 s ago with exit code 0, and rank 0 goes on; where they wait for it, it has ended"
    assert done.stderr.count(line) == told


def test_one_rank_of_a_script_that_is_not_converted_is_no_mistake(distify: CommandLine, write: Write) -> None:
    done = distify("run", "-np", "1", "--logs", "logs", write("print('trained')\n", "train.py", head=""))
    assert (done.code, done.out, done.err) == (0, b"trained\n", "distify: 1 rank, logs in logs\n")


def test_without_a_terminal_a_script_that_is_not_converted_is_an_error(distify: CommandLine, write: Write) -> None:
    script = write("print('trained')\n", "train.py", head="")
    done = two_ranks(distify, script)
    assert (done.code, done.out) == (2, b"")
    assert done.err == (
        "distify: train.py is not converted: each rank would train on its own; `distify convert train.py` converts "
        "it, and --as-is starts it as it is\n"
    )
    done = two_ranks(distify, "--as-is", script)
    assert (done.code, done.out, done.err) == (0, b"trained\n", "distify: 2 ranks, logs in logs\n")


def test_at_a_terminal_it_is_converted_first_if_the_user_wants(distify: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(TRAIN)
    words = ("run", "-np", "2", "--logs", "logs", "train.py")
    done = distify.at_terminal(*words, answer=b"n\n", CUDA_VISIBLE_DEVICES="")
    assert done.code == 2
    assert b"Convert it first? [y/N]" in done.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]
    done = distify.at_terminal(*words, answer=b"y\n", CUDA_VISIBLE_DEVICES="")
    assert done.code == 0
    assert b"wrote train_dist.py" in done.out
    assert b"[epoch] 1" in done.out
    assert (tmp_path / "model.pt").exists()


def test_more_ranks_than_there_is_room_for_are_asked_about(distify: CommandLine, write: Write) -> None:
    script, ranks = write("print(os.environ['WORLD_SIZE'])\n"), str(usable_cores() * 4 + 1)
    done = distify("run", "-np", "100000", script, CUDA_VISIBLE_DEVICES="")
    assert (done.code, done.out) == (2, b"")
    assert done.err.startswith("distify: -np 100000 is 100000 processes on ")
    assert done.err.endswith("; --oversubscribe starts them all the same\n")
    done = distify.at_terminal("run", "-np", ranks, script, answer=b"n\n", CUDA_VISIBLE_DEVICES="")
    assert done.code == 2
    assert done.out.endswith(b"Start them all the same? [y/N] n\r\ndistify: nothing was started\r\n")


@pytest.mark.parametrize(
    ("ranks", "cores", "memory", "said"),
    [
        (8, 2, 64e9, ""),
        (9, 2, 64e9, "-np 9 is 9 processes on 2 cores"),
        (5, 1, 64e9, "-np 5 is 5 processes on 1 core"),
        (8, 8, 1e9, "-np 8 takes 2.0 GB to begin with, and 1.0 GB are free"),
        (8, 8, 0, ""),
    ],
)
def test_what_there_is_too_little_of(ranks: int, cores: int, memory: float, said: str) -> None:
    assert too_many(ranks, cores, int(memory)) == said


def test_what_python_cannot_read_for_its_depth_is_one_line(distify: CommandLine, write: Write) -> None:
    done = two_ranks(distify, write(f"x = {'**'.join(['1'] * 30000)}\n", "deep.py"))
    assert (done.code, done.err) == (2, "distify: deep.py: is nested too deeply for Python\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-np", "2", "no.py"], "no.py: cannot be read: No such file or directory"),
        (["-np", "2", "."], ".: is a folder; name the training script in it, or a module with -m"),
        (["-np", "2", "binary.py"], "binary.py"),
        (["-np", "2", "words.py"], "words.py:2: is not Python: invalid syntax"),
        (
            ["-np", "2", "train.ipynb"],
            "train.ipynb: is a notebook; convert it, then run the script that comes out",
        ),
        (["-np", "0", "ok.py"], "-np 0: at least one rank is needed"),
        (["-np", "-1", "ok.py"], "-np -1: at least one rank is needed"),
        (["-np", "1", "--logs", "ok.py", "ok.py"], "ok.py: cannot hold the logs: File exists"),
        (["-np", "1", "-m", "pkg.none"], "-m pkg.none: there is no such module"),
        (["-np", "1", "-m", "ok.py"], "-m ok.py: there is no such module"),
        (
            ["-np", "1", "-m", "./ok.py"],
            "-m ./ok.py: is not a module's name; for a script's path leave out -m",
        ),
    ],
)
def test_what_cannot_be_launched_is_one_line(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    write("", "ok.py")
    write("import torch\nplease train\n", "words.py", head="")
    write('{"cells": []}', "train.ipynb", head="")
    (tmp_path / "binary.py").write_bytes(b"\x7fELF\0\0")
    done = CliRunner().invoke(run, words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"distify: {said}")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "distify_logs").exists()


def test_an_option_before_the_script_is_distifys(distify: CommandLine, write: Write) -> None:
    done = distify("run", "--lr", "0.1", write(""))
    assert done.code == 2
    assert "--lr" in done.err


def test_without_torch_it_says_so(distify: CommandLine, write: Write) -> None:
    start = "import sys; sys.modules['torch'] = None; from distify.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, "run", write("")],
        cwd=distify.folder,
        env={**distify.env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"distify: torch is not installed for {sys.executable}, which the ranks are started with\n"


def test_ranks_are_counted_against_the_gpus(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count alone is stood in for; a launch would need the GPUs."""
    gpus = 2
    monkeypatch.setattr("distify_runtime.launch.gpu_count", lambda python, suffice=0: gpus)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(run, ["-np", "4", write("")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "distify: -np 4 is more than the 2 GPUs of this machine; use -np 2, "
        "or CUDA_VISIBLE_DEVICES='' to train on the CPU\n"
    )
    assert (rank_count(None, here=True), rank_count(1, here=True), rank_count(2, here=True)) == (2, 1, 2)
    gpus = 0
    assert (rank_count(None, here=True), rank_count(4, here=True)) == (1, 4)
