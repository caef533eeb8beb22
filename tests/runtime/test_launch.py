"""The launcher's parts; whole launches are in tests/cli/test_run.py."""

from __future__ import annotations

import contextlib
import ctypes.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from distify_runtime.launch import (
    LaunchConfig,
    LaunchError,
    check_gpus,
    find_module,
    find_script,
    fresh_logs,
    gpu_count,
    launch_command,
    looks_distributed,
)
from distify_runtime.launch.config import SUPERVISOR
from distify_runtime.launch.gpus import ask_driver
from distify_runtime.launch.logs import prepare_logs
from distify_runtime.launch.report import RankEnd, failure_lines, first_failure, traceback_of

SCRATCH = Path("/scratch")


class TestCommand:
    def test_torchrun_gets_the_ranks_and_the_scripts_words_unseen(self) -> None:
        config = LaunchConfig("train.py", ("--m", "5", "--"), nproc=3, python="python3", launcher="torchrun")
        argv, _ = launch_command(config, {}, SCRATCH)
        command = argv[argv.index("-m") :]
        assert argv[0] == "python3"
        assert command[:3] == ["-m", "torch.distributed.run", "--standalone"]
        assert command[command.index("--nproc-per-node") + 1] == "3"
        assert command[command.index("--max-restarts") + 1] == "0"
        assert command[command.index("--local-addr") + 1] == "127.0.0.1"
        assert command[command.index(str(SUPERVISOR)) + 1 :] == [":train.py", ":--m", ":5", ":--"]

    def test_a_module_stays_a_module(self) -> None:
        argv, _ = launch_command(LaunchConfig("pkg.train", ("-m",), module=True), {}, SCRATCH)
        assert argv[-3:] == [":-m", ":pkg.train", ":-m"]

    @pytest.mark.parametrize(("nproc", "cores", "threads"), [(1, 16, None), (2, 16, "8"), (3, 16, "5"), (8, 2, "1")])
    def test_the_cores_are_shared_out(self, nproc: int, cores: int, threads: str | None) -> None:
        _, env = launch_command(LaunchConfig("train.py", nproc=nproc, cores=cores), {}, SCRATCH)
        assert env.get("OMP_NUM_THREADS") == threads

    def test_the_users_environment_is_kept_but_for_what_would_change_torchrun(self) -> None:
        environ = {
            "OMP_NUM_THREADS": "7",
            "GLOO_SOCKET_IFNAME": "eth0",
            "PET_NNODES": "4",
            "PYTHON_EXEC": "/other/python",
            "HOME": "/root",
        }
        _, env = launch_command(LaunchConfig("train.py", nproc=2), environ, SCRATCH)
        assert (env["OMP_NUM_THREADS"], env["GLOO_SOCKET_IFNAME"], env["HOME"]) == ("7", "eth0", "/root")
        assert not {"PET_NNODES", "PYTHON_EXEC"} & set(env)

    def test_torchrun_kills_no_earlier_than_the_grace_period_ends(self) -> None:
        _, env = launch_command(LaunchConfig("train.py", grace=90.5), {}, SCRATCH)
        assert int(env["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]) > 90.5

    def test_importing_the_launcher_imports_no_torch(self) -> None:
        """Whatever the package around it imports: that is stood in for."""
        code = (
            "import sys, types; package = types.ModuleType('distify_runtime')\n"
            f"package.__path__ = [{str(SUPERVISOR.parents[1])!r}]\n"
            "sys.modules['distify_runtime'] = package; sys.modules['torch'] = None\n"
            "import distify_runtime.launch; print(distify_runtime.launch.LaunchConfig.__name__)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.stderr) == ("LaunchConfig\n", "")


class TestGpus:
    @pytest.mark.parametrize("hidden", ["", "-1", " "])
    def test_hidden_gpus_are_not_counted(self, hidden: str) -> None:
        assert gpu_count("python", {"CUDA_VISIBLE_DEVICES": hidden}, lambda: True, lambda python: 8) == 0

    def test_torch_is_asked_only_where_there_may_be_gpus(self) -> None:
        asked: list[str] = []

        def ask(python: str) -> int:
            asked.append(python)
            return 8

        assert gpu_count("python", {}, lambda: False, ask) == 0
        assert asked == []
        assert gpu_count("python", {"CUDA_VISIBLE_DEVICES": "0,1"}, lambda: True, ask) == 8
        assert asked == ["python"]

    @pytest.mark.parametrize(
        ("driver", "suffice", "expected", "torch_is_asked"),
        [(8, 4, 8, False), (4, 4, 4, False), (2, 4, 6, True), (0, 4, 6, True), (8, 0, 6, True)],
    )
    def test_torch_is_not_asked_where_the_driver_has_enough(
        self, driver: int, suffice: int, expected: int, torch_is_asked: bool
    ) -> None:
        asked: list[str] = []

        def ask(python: str) -> int:
            asked.append(python)
            return 6

        found = gpu_count("python", {}, lambda: True, ask, suffice=suffice, quick=lambda python: driver)
        assert (found, bool(asked)) == (expected, torch_is_asked)

    @pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ("*count = 3; return 0;", 3),
            ("*count = 3; return 100;", 0),
            ("abort();", 0),  # as a driver that is broken
        ],
    )
    def test_the_driver_is_asked_through_its_library(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, expected: int
    ) -> None:
        source = "#include <stdlib.h>\nint cuInit(unsigned flags) { return flags; }\n"
        source += f"int cuDeviceGetCount(int *count) {{ {body} }}\n"
        (tmp_path / "cuda.c").write_text(source)
        built = ["cc", "-shared", "-fPIC", "-o", str(tmp_path / "libcuda.so.1"), str(tmp_path / "cuda.c")]
        subprocess.run(built, check=True, timeout=60)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
        assert ask_driver(sys.executable) == expected

    def test_without_a_driver_there_is_nothing_to_ask(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if ctypes.util.find_library("cuda"):
            pytest.skip("there is one here")
        assert ask_driver(sys.executable) == 0

    def test_ranks_have_a_gpu_each_or_none_at_all(self) -> None:
        check_gpus(4, 4)
        check_gpus(2, 4)
        check_gpus(4, 0)
        with pytest.raises(LaunchError, match=r"-np 2 is more than the 1 GPU of this machine; use -np 1"):
            check_gpus(2, 1)


TRACEBACK = "Traceback (most recent call last):\n  File 'x.py', line 1, in <module>\n"
LOST = TRACEBACK + "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:21897. GLHF!\n"
NCCL_ABORT = "[rank0]:[E] Watchdog caught collective operation timeout\nterminate called after throwing\n"


class TestFirstFailure:
    def first(self, *ends: RankEnd, logs: dict[int, str] | None = None) -> int | None:
        found = first_failure(ends, logs or {})
        return None if found is None else found.rank

    def test_it_is_the_earliest(self) -> None:
        assert self.first(RankEnd(0, 1, 5.0), RankEnd(1, 1, 4.0), RankEnd(2, 0, 3.0)) == 1

    def test_a_rank_that_was_told_to_end_did_not_fail(self) -> None:
        assert self.first(RankEnd(0, -15, 4.0, stopped=True), RankEnd(1, 3, 4.1)) == 1
        assert self.first(RankEnd(0, -15, 4.0, stopped=True), RankEnd(1, 0, 4.1)) is None

    def test_a_rank_that_lost_another_is_not_the_cause_even_if_it_leaves_earlier(self) -> None:
        logs = {0: LOST, 1: TRACEBACK + "ValueError: boom\n"}
        assert self.first(RankEnd(0, 1, 4.0), RankEnd(1, 1, 4.1), logs=logs) == 1
        assert self.first(RankEnd(0, 1, 4.0), RankEnd(1, -9, 4.1), logs={0: LOST}) == 1
        assert self.first(RankEnd(0, -6, 4.0), RankEnd(1, -11, 4.1), logs={0: NCCL_ABORT}) == 1

    def test_where_all_lost_each_other_the_earliest_is_named(self) -> None:
        assert self.first(RankEnd(0, 1, 4.1), RankEnd(1, 1, 4.0), logs={0: LOST, 1: LOST}) == 1

    def test_words_about_connections_before_the_error_do_not_count(self) -> None:
        logs = {1: "Connection reset, trying again\n" * 20 + TRACEBACK + "ValueError: boom\n", 0: LOST}
        assert self.first(RankEnd(0, 1, 4.0), RankEnd(1, 1, 4.1), logs=logs) == 1

    def test_of_ranks_that_give_up_together_the_one_that_says_why_is_named(self) -> None:
        ends = RankEnd(0, 1, 4.1), RankEnd(1, 1, 4.0)
        assert self.first(*ends, logs={0: "a batch of 5 does not divide by 2\n", 1: ""}) == 0


class TestReport:
    @pytest.mark.parametrize(
        ("code", "said", "exit_code"),
        [
            (3, "failed with exit code 3", 3),
            (-9, "was killed by SIGKILL (out of memory?)", 137),
            (-7, "was killed by SIGBUS (is /dev/shm full?)", 135),
            (-11, "was killed by SIGSEGV", 139),
            (-40, "was killed by signal 40", 168),
        ],
    )
    def test_how_a_rank_ended(self, code: int, said: str, exit_code: int) -> None:
        end = RankEnd(1, code, 0.0)
        assert (end.describe(), end.exit_code) == (said, exit_code)

    def test_a_chain_of_errors_stays_together(self) -> None:
        chain = (
            TRACEBACK
            + "KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n"
            + TRACEBACK
            + "ValueError: boom\nException ignored in atexit callback:\n"
            + TRACEBACK
            + "OSError\n"
        )
        assert traceback_of("epoch 0\n" + TRACEBACK + "Handled: 1\nepoch 1\n" + chain) == chain.splitlines()

    def test_torchs_rank_prefix_and_colours_hide_no_traceback(self) -> None:
        for start in ("[rank1]: ", "\x1b[35m", "  + Exception Group "):
            lines = [f"{start}{line}" for line in (TRACEBACK + "ValueError: boom").splitlines()]
            assert traceback_of("\n".join(["epoch 0", *lines])) == lines

    def test_a_workers_traceback_inside_the_message_is_no_start(self) -> None:
        text = TRACEBACK + "ValueError: Caught in worker 0.\nOriginal " + TRACEBACK + "ValueError: boom\n"
        assert traceback_of(text) == text.splitlines()

    def test_an_endless_traceback_keeps_its_end(self) -> None:
        lines = failure_lines(
            RankEnd(1, 1, 0.0), 2, Path("rank1.log"), TRACEBACK + "  frame\n" * 5000 + "ValueError: boom\n"
        )
        assert len(lines) < 120
        assert lines[1] == "Traceback (most recent call last):"
        assert lines[-1] == "ValueError: boom"


class TestTarget:
    def test_a_script_needs_no_py_and_no_utf8(self, tmp_path: Path) -> None:
        script = tmp_path / "train"
        script.write_bytes(b"# -*- coding: latin-1 -*-\nname = '\xfc\\d'\n")
        assert find_script(str(script)) == script

    def test_a_pipe_is_refused_at_once(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        with pytest.raises(LaunchError, match="is not a regular file"):
            find_script(str(pipe))

    def test_a_module_is_found_without_being_imported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package = tmp_path / "launched_package"
        package.mkdir()
        (package / "__init__.py").write_text("raise SystemExit('imported')")
        (package / "train.py").write_text("")
        (package / "__main__.py").write_text("")
        monkeypatch.chdir(tmp_path)
        assert find_module("launched_package.train") == package / "train.py"
        assert find_module("launched_package") == package / "__main__.py"
        with pytest.raises(LaunchError, match="there is no such module"):
            find_module("launched_package.train.more")

    @pytest.mark.parametrize(
        ("source", "answer"),
        [
            ("import distify_runtime as rt", True),
            ("def main():\n    from distify_runtime import rank", True),
            ("from torch import distributed", True),
            ("import torch.distributed as dist", True),
            ("import horovod.torch as hvd", True),
            ("import engine", True),
            ("from steps import engine", True),
            ("from steps.plain import run", False),
            ("import torch, missing, distify_runtime_x", False),
            ("x = 'import distify_runtime'", False),
            ("from accelerate import Accelerator", True),
            ("from transformers import Trainer", True),
            ("from transformers import AutoModel, get_scheduler", False),
            ("import os\nrank = int(os.environ.get('LOCAL_RANK', 0))", True),
            ("RANK = 16  # of a matrix", False),
        ],
    )
    def test_what_knows_of_other_ranks(self, tmp_path: Path, source: str, answer: bool) -> None:
        (tmp_path / "steps").mkdir()
        (tmp_path / "engine.py").write_text("import engine, steps.engine")
        (tmp_path / "steps" / "engine.py").write_text("import distify_runtime")
        (tmp_path / "steps" / "plain.py").write_text("")
        script = tmp_path / "train.py"
        script.write_text(source)
        assert looks_distributed(script) is answer


class TestLogs:
    def test_a_fresh_folder_each_time(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        folders = []
        for _ in range(3):
            folders.append(fresh_logs("some/train.v2.py"))
            prepare_logs(LaunchConfig("train.v2.py", logs=folders[-1]))
        assert len(set(folders)) == 3
        assert all(str(folder).startswith("distify_logs/train.v2-") for folder in folders)
        assert Path("distify_logs/.gitignore").read_text() == "*\n"
        assert fresh_logs("pkg.train", module=True).name.startswith("train-")

    def test_logs_of_an_earlier_run_do_not_pass_for_this_ones(self, tmp_path: Path) -> None:
        for name in ("rank0.log", "rank3.log", "ranks.log"):
            (tmp_path / name).write_text("old")
        prepare_logs(LaunchConfig("train.py", nproc=2, logs=tmp_path))
        assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
            "rank0.log": "",
            "rank1.log": "",
            "ranks.log": "old",
        }


#: A supervisor, the channel to it, and the descriptor with its script's output, for a script's code.
Start = Callable[[str], tuple[subprocess.Popen[bytes], socket.socket, int]]


def end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class TestSupervisor:
    """One supervisor with a real script, and this test in the launcher's place."""

    @pytest.fixture
    def listener(self) -> Iterator[socket.socket]:
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/channel")
            listener.listen()
            listener.settimeout(20)
            yield listener

    @pytest.fixture
    def start(self, listener: socket.socket) -> Iterator[Start]:
        """Starts a supervisor; returns it, the channel to it, and where its script's output can be read."""
        with contextlib.ExitStack() as stack:

            def start(code: str) -> tuple[subprocess.Popen[bytes], socket.socket, int]:
                supervisor = subprocess.Popen(
                    [sys.executable, str(SUPERVISOR), ":-c", f":{code}"],
                    env={**os.environ, "DISTIFY_CHANNEL": listener.getsockname(), "RANK": "1"},
                    start_new_session=True,
                )
                stack.callback(end_group, supervisor)
                channel, _ = listener.accept()
                stack.callback(channel.close)
                assert json.loads(channel.recv(4096)) == {"rank": 1, "pid": supervisor.pid, "host": ""}
                reader, writer = os.pipe()
                stack.callback(os.close, reader)
                socket.send_fds(channel, [b"\0"], [writer, writer])
                os.close(writer)
                return supervisor, channel, reader

            yield start

    def test_a_rank_ends_with_its_launcher(self, start: Start) -> None:
        supervisor, channel, reader = start("import os, time; os.write(1, b'1\\n'); time.sleep(300)")
        assert os.read(reader, 10) == b"1\n"
        channel.close()
        assert supervisor.wait(20) == -signal.SIGTERM
        assert os.read(reader, 10) == b""  # nobody has it open: the script is gone too

    def test_the_script_decides_what_a_signal_does(self, start: Start) -> None:
        code = (
            "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
            "import os; os.write(1, b'1\\n'); time.sleep(300)"
        )
        supervisor, channel, reader = start(code)
        assert os.read(reader, 10) == b"1\n"
        os.killpg(supervisor.pid, signal.SIGTERM)
        end = json.loads(channel.recv(4096))
        assert (end["code"], end["stopped"]) == (5, True)
        assert supervisor.wait(20) == 5
