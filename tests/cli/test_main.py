"""The command itself: its help imports little, its commands are listed unimported, its failures are one line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import ROOT, TRAIN, CommandLine

from distify import __version__
from distify.cli import COMMANDS


def imported(err: str) -> set[str]:
    """The top packages in what `python -X importtime` wrote."""
    return {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in err.splitlines() if "|" in line}


def test_help_lists_the_commands_and_imports_none_of_them(distify: CommandLine) -> None:
    ended = distify("--help", python=("-X", "importtime"))
    assert ended.code == 0
    for name, line in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", ended.out.decode(), re.MULTILINE)
    assert "click" in imported(ended.err)
    assert not imported(ended.err) & {"torch", "libcst", "rich", "distify_codemods", "distify_runtime"}


def test_a_conversion_imports_no_torch_and_without_a_terminal_no_rich(distify: CommandLine, script: Path) -> None:
    ended = distify("convert", "--diff", script.name, python=("-X", "importtime"))
    assert ended.code == 0
    assert "distify_codemods" in imported(ended.err)
    assert not imported(ended.err) & {"torch", "rich", "distify_runtime"}


def test_every_listed_command_is_there(distify: CommandLine) -> None:
    for name in COMMANDS:
        ended = distify(name, "--help")
        assert ended.code == 0
        assert f"distify {name}" in ended.out.decode()


def test_the_version_is_the_distributions_version(distify: CommandLine) -> None:
    assert distify("--version").out.decode() == f"distify {__version__}\n"
    assert f'\nversion = "{__version__}"\n' in (ROOT / "pyproject.toml").read_text()


def test_a_folder_that_is_gone_is_one_line(distify: CommandLine, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    start = "import os, sys; os.rmdir(os.getcwd()); from distify.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, "check", "train.py"], cwd=gone, env=distify.env, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"distify: the working directory cannot be used: No such file or directory\n"


def test_an_interrupt_while_commands_are_imported_is_no_traceback(distify: CommandLine) -> None:
    start = (
        "import sys\nfrom distify.__main__ import main\n"
        "class Interrupting:\n    def find_spec(self, name, *rest):\n"
        "        if name == 'click':\n            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", start, "rules"], env=distify.env, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_mistyped_command_is_bad_usage(distify: CommandLine) -> None:
    ended = distify("convrt", "train.py")
    assert ended.code == 2
    assert "No such command 'convrt'" in ended.err


@pytest.fixture
def broken(tmp_path_factory: pytest.TempPathFactory, distify: CommandLine) -> str:
    """A PYTHONPATH on which libcst cannot be imported."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "libcst").mkdir()
    (folder / "libcst" / "__init__.py").write_text("raise RuntimeError('two\\nlines')\n")
    return os.pathsep.join([str(folder), distify.env["PYTHONPATH"]])


def test_what_nobody_foresaw_is_one_line(distify: CommandLine, script: Path, broken: str) -> None:
    ended = distify("convert", script.name, PYTHONPATH=broken)
    assert (ended.code, ended.out) == (70, b"")
    assert ended.err.startswith("distify: internal error (RuntimeError: two lines)")
    assert "report" in ended.err
    assert ended.err.count("\n") == 1


def test_the_traceback_is_there_on_demand(distify: CommandLine, script: Path, broken: str) -> None:
    ended = distify("convert", script.name, PYTHONPATH=broken, DISTIFY_DEBUG="1")
    assert ended.code == 70
    assert ended.err.startswith("Traceback (most recent call last):")
    assert "RuntimeError: two\nlines" in ended.err


def test_a_reader_that_leaves_is_no_error(distify: CommandLine, script: Path) -> None:
    for args in (["convert", "--diff", script.name], ["check", script.name]):
        reading, writing = os.pipe()
        os.close(reading)
        ended = subprocess.run(
            [sys.executable, "-m", "distify", *args],
            cwd=distify.folder,
            env=dict(distify.env),
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=60,
        )
        os.close(writing)
        assert ended.returncode == 141
        assert b"rror" not in ended.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full device")
def test_a_full_disk_is_one_line(distify: CommandLine, script: Path) -> None:
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "distify", "check", script.name],
            cwd=distify.folder,
            env=dict(distify.env),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert ended.returncode == 2
    assert ended.stderr == b"distify: cannot write the output: No space left on device\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_is_asked_to_end_ends_what_it_has_started(
    distify: CommandLine, number: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scratch = tmp_path_factory.mktemp("scratch")
    pids = scratch / "pids"
    pids.mkdir()
    (distify.folder / "train.py").write_bytes(
        f"import os, time\nopen(os.path.join({str(pids)!r}, str(os.getpid())), 'w').close()\n".encode()
        + TRAIN.replace(b"        print(", b"        time.sleep(60)\n        print(")
    )
    words = [sys.executable, "-m", "distify", "verify", "train.py"]
    # What tests start may ignore the signal, as under nohup.
    start = f"import signal; signal.signal({int(number)}, signal.SIG_DFL); "
    start += f"import os; os.execv({words[0]!r}, {words!r})"
    command = [sys.executable, "-c", start]
    env = {**distify.env, "TMPDIR": str(scratch)}
    with subprocess.Popen(command, cwd=distify.folder, env=env, stderr=subprocess.DEVNULL) as process:
        while not any(pids.iterdir()):
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    for pid in pids.iterdir():
        assert not Path(f"/proc/{pid.name}").exists()
    assert list(scratch.iterdir()) == [pids]
