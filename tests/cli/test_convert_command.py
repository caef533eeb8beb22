"""`distify convert`: what it shows, asks, writes and refuses, and the exit code that says which."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import TRAIN, CommandLine

NO_TRAINING = b"import torch\n\nprint(torch.zeros(2))\n"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def converted(distify: CommandLine, script: Path) -> bytes:
    """The conversion of `script`, which is left as the only file."""
    assert distify("convert", script.name, "--yes").code == 0
    target = script.with_name("train_dist.py")
    result = target.read_bytes()
    target.unlink()
    return result


# --- without a terminal


def test_without_a_terminal_the_diff_is_shown_and_nothing_written(distify: CommandLine, script: Path) -> None:
    ended = distify("convert", "train.py")
    assert ended.code == 4
    assert ended.out.startswith(b"--- a/train.py\n+++ b/train.py\n@@ ")
    assert b"\x1b" not in ended.out
    assert ended.err.startswith("sharded data and DistributedDataParallel\napplied (")
    assert "train.py:8: " in ended.err  # the line of the DataLoader
    assert ended.err.endswith("nothing was written: no terminal to ask at; --yes writes train_dist.py\n")
    assert files(distify.folder) == {"train.py": TRAIN}


def test_what_is_up_to_date_is_said_to_be_without_a_terminal_too(distify: CommandLine, converted: bytes) -> None:
    (distify.folder / "train_dist.py").write_bytes(converted)
    ended = distify("convert", "train.py")
    assert (ended.code, ended.out, ended.err) == (0, b"", "train_dist.py is there already, and up to date\n")


def test_what_is_not_needed_is_one_line_unless_it_is_asked_for(distify: CommandLine, script: Path) -> None:
    short, long = distify("convert", "train.py").err, distify("convert", "train.py", "-v").err
    assert "; -v says what, and why)\n" in short
    assert "  MODEL02 " not in short
    assert "  MODEL02 " in long
    assert set(short.splitlines()) - set(long.splitlines()) == {
        line for line in short.splitlines() if line.startswith("not needed (")
    }


@pytest.mark.parametrize(
    ("name", "library"),
    [("torch.py", "torch"), ("torch/__init__.py", "torch"), ("distify_runtime.py", "distify_runtime")],
)
@pytest.mark.parametrize("command", ["convert", "check", "run"])
def test_what_hides_a_library_is_named(
    distify: CommandLine, script: Path, name: str, library: str, command: str
) -> None:
    hiding = distify.folder / "here" / name
    hiding.parent.mkdir(parents=True, exist_ok=True)
    hiding.write_text("")
    (distify.folder / "here" / "train.py").write_bytes(TRAIN)
    ended = distify(command, "here/train.py")
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err == (
        f"distify: here/{name}: is imported by the script in place of the library {library}: rename it\n"
    )


def test_what_hides_no_library(distify: CommandLine, script: Path) -> None:
    for name in ("torch/data.py", "distify_runtime/__init__.py", "torchvision.py", "other/torch.py"):
        (distify.folder / name).parent.mkdir(exist_ok=True)
        (distify.folder / name).write_text("")
    assert distify("convert", "train.py", "--yes").code == 0


def test_the_diff_makes_of_the_script_what_yes_would_have_written(
    distify: CommandLine, script: Path, converted: bytes
) -> None:
    ended = distify("convert", "train.py", "--diff")
    assert ended.code == 0
    subprocess.run(["git", "apply"], cwd=distify.folder, input=ended.out, check=True, timeout=60)
    assert files(distify.folder) == {"train.py": converted}


def test_yes_writes_beside_the_script_and_ends_with_the_launch_line(distify: CommandLine, script: Path) -> None:
    script.chmod(0o750)
    ended = distify("convert", "train.py", "--yes")
    assert ended.code == 0
    assert "wrote train_dist.py\n" in ended.err
    assert "`python train_dist.py ...` still runs" in ended.err
    assert ended.err.endswith("\n  distify run -np 2 train_dist.py ...\n")
    target = script.with_name("train_dist.py")
    assert b"import distify_runtime" in target.read_bytes()
    assert target.stat().st_mode & 0o777 == 0o750
    compile(target.read_bytes(), target.name, "exec")
    assert sorted(files(distify.folder)) == ["train.py", "train_dist.py"]
    assert script.read_bytes() == TRAIN


def test_output_names_the_file(distify: CommandLine, script: Path, converted: bytes) -> None:
    (distify.folder / "my out").mkdir()
    ended = distify("convert", "./train.py", "--yes", "-o", "my out/ddp.py")
    assert ended.code == 0
    assert files(distify.folder) == {"train.py": TRAIN, "my out/ddp.py": converted}
    assert ended.err.endswith("distify run -np 2 'my out/ddp.py' ...\n")


def test_in_place_changes_the_script_itself(distify: CommandLine, script: Path, converted: bytes) -> None:
    assert distify("convert", "train.py", "--in-place", "--yes").code == 0
    assert files(distify.folder) == {"train.py": converted}


def test_a_script_elsewhere_is_converted_there(distify: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "train.py").write_bytes(TRAIN)
    ended = distify("convert", str(folder / "train.py"), "--yes")
    assert ended.code == 0
    assert sorted(files(folder)) == ["train.py", "train_dist.py"]
    assert ended.out.startswith(b"--- a/train.py\n")
    assert files(distify.folder) == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.removesuffix(b"\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"    ", b"\t"),
        lambda data: b"# -*- coding: latin-1 -*-\n" + data.replace(b"[epoch]", b"[\xe9poque]"),
    ],
    ids=["CRLF", "no newline at end", "BOM", "tabs", "latin-1"],
)
def test_only_the_lines_of_the_diff_change(distify: CommandLine, script: Path, change: object) -> None:
    assert callable(change)
    script.write_bytes(original := change(TRAIN))
    ended = distify("convert", "train.py", "--yes")
    assert ended.code == 0
    subprocess.run(["git", "apply"], cwd=distify.folder, input=ended.out, check=True, timeout=60)
    assert script.read_bytes() == script.with_name("train_dist.py").read_bytes()
    removed = [line[1:] for line in ended.out.split(b"\n")[2:] if line.startswith(b"-")]
    assert len(removed) < 10
    kept = [line for line in original.split(b"\n") if line not in removed]
    assert [line for line in script.read_bytes().split(b"\n") if line in kept] == kept


# --- nothing to do


def test_converting_twice_changes_nothing(distify: CommandLine, script: Path, converted: bytes) -> None:
    script.write_bytes(converted)
    for args in (["--yes"], ["--yes", "-o", "again.py"], ["--in-place", "--yes"], ["--check"], []):
        ended = distify("convert", "train.py", *args)
        assert (ended.code, ended.out) == (0, b"")
        assert "already converted" in ended.err
    assert files(distify.folder) == {"train.py": converted}


def test_a_target_that_is_up_to_date_is_left_alone(distify: CommandLine, script: Path) -> None:
    assert distify("convert", "train.py", "--yes").code == 0
    target = script.with_name("train_dist.py")
    before = target.stat().st_mtime_ns
    for option in ("--yes", "--check"):
        ended = distify("convert", "train.py", option)
        assert ended.code == 0
        assert ended.err == "train_dist.py is there already, and up to date\n"
    assert target.stat().st_mtime_ns == before


def test_check_says_by_its_exit_code_whether_there_is_work(distify: CommandLine, script: Path) -> None:
    ended = distify("convert", "train.py", "--check")
    assert (ended.code, ended.out) == (1, b"")
    assert "train.py: would be converted" in ended.err
    assert distify("convert", "train.py", "--check", "--diff").out.startswith(b"--- a/train.py")
    script.write_bytes(NO_TRAINING)
    assert distify("convert", "train.py", "--check").code == 3
    assert files(distify.folder) == {"train.py": NO_TRAINING}


# --- refusals


def test_a_script_that_trains_nothing_is_refused_with_the_reason(distify: CommandLine, script: Path) -> None:
    script.write_bytes(NO_TRAINING)
    for args in ([], ["--yes"], ["--diff"], ["--yes", "--partial"], ["--in-place", "--yes"]):
        ended = distify("convert", "train.py", *args)
        assert (ended.code, ended.out) == (3, b"")
        assert ended.err.startswith("needs you (1)\n")
        assert ended.err.endswith("nothing was written\n")
    assert files(distify.folder) == {"train.py": NO_TRAINING}


def test_what_is_there_is_not_overwritten_without_force(distify: CommandLine, script: Path, converted: bytes) -> None:
    target = script.with_name("train_dist.py")
    target.write_bytes(b"mine\n")
    ended = distify("convert", "train.py", "--yes")
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err.startswith("distify: train_dist.py exists already: --force overwrites it")
    assert target.read_bytes() == b"mine\n"
    assert distify("convert", "train.py", "--yes", "--force").code == 0
    assert target.read_bytes() == converted


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["missing.py"], "missing.py: there is no such file"),
        (["empty"], "empty: is a folder without Python files"),
        (["."], "is a folder: name the training script, like ./train.py"),
        (["latin.py"], "latin.py:1: is not utf-8"),
        (["binary.py"], "binary.py: is a binary file"),
        (["bad.py"], "bad.py:2:"),
        (["python2.py"], "Python 2"),
        (["train.py", "-o", "no/such/out.py"], "no folder no/such"),
        (["train.py", "-o", "./train.py"], "train.py is the script itself; --in-place changes it"),
        (["train.py", "-o", "/dev/null", "--force"], "/dev/null: is not a regular file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(distify: CommandLine, script: Path, args: list[str], says: str) -> None:
    folder = distify.folder
    (folder / "empty").mkdir()
    (folder / "latin.py").write_bytes(b"name = '\xe9'\n")
    (folder / "binary.py").write_bytes(b"\x7fELF\0\1\2")
    (folder / "bad.py").write_bytes(b"a = 1\nb = (1,\n")
    (folder / "python2.py").write_bytes(b"for epoch in range(2):\n    print 'epoch', epoch\n")
    before = files(folder)
    ended = distify("convert", "--yes", *args)
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err.startswith("distify: ")
    assert says in ended.err
    assert ended.err.count("\n") == 1
    assert files(folder) == before


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["train.py", "--backend", "smoke-signals"], "'smoke-signals' is not one of 'ddp', 'allreduce'"),
        (["train.py", "--in-place", "-o", "x.py"], "exclude each other"),
        (["train.py", "--diff", "--yes"], "write nothing"),
        ([], "Missing argument 'PATH'"),
    ],
    ids=" ".join,
)
def test_bad_usage_says_so(distify: CommandLine, script: Path, args: list[str], says: str) -> None:
    ended = distify("convert", *args)
    assert ended.code == 2
    assert says in ended.err
    assert files(distify.folder) == {"train.py": TRAIN}


def test_names_that_are_not_utf8_are_no_trouble(distify: CommandLine) -> None:
    name = os.fsencode(distify.folder) + b"/tr\xe9.py"
    with open(name, "wb") as file:
        file.write(TRAIN)
    ended = distify("convert", b"tr\xe9.py", "--yes")
    assert ended.code == 0
    assert ended.out.startswith(b"--- a/tr\xe9.py\n")
    assert os.path.exists(name.replace(b".py", b"_dist.py"))


# --- at a terminal


def test_at_a_terminal_reasons_stand_beside_changes_and_yes_writes(
    distify: CommandLine, script: Path, converted: bytes
) -> None:
    ended = distify.at_terminal("convert", "train.py", answer=b"y\n")
    assert ended.code == 0
    assert b"\x1b[32m+import distify_runtime as rt" in ended.out
    assert b"<- " in ended.out
    assert b"# [bold]" in ended.out  # not taken for markup
    assert b"write train_dist.py? [y/N] " in ended.out
    assert ended.out.index(b"@@") < ended.out.index(b"applied") < ended.out.index(b"[y/N]")
    assert files(distify.folder) == {"train.py": TRAIN, "train_dist.py": converted}


@pytest.mark.parametrize("answer", [b"n\n", b"\n", b"\xff\n", b"\x04"], ids=["no", "empty", "odd", "end"])
def test_anything_but_yes_writes_nothing(distify: CommandLine, script: Path, answer: bytes) -> None:
    ended = distify.at_terminal("convert", "train.py", answer=answer)
    assert ended.code == 0
    assert ended.out.endswith(b"nothing was written\r\n")
    assert files(distify.folder) == {"train.py": TRAIN}


def test_control_c_at_the_prompt_ends_quietly(distify: CommandLine, script: Path) -> None:
    ended = distify.at_terminal("convert", "train.py", number=signal.SIGINT)
    assert ended.code == 130
    assert ended.out.endswith(b"\r\ndistify: interrupted\r\n")
    assert b"Traceback" not in ended.out
    assert files(distify.folder) == {"train.py": TRAIN}


def test_a_terminal_without_colours_gets_none(distify: CommandLine, script: Path) -> None:
    ended = distify.at_terminal("convert", "train.py", answer=b"n\n", NO_COLOR="1")
    assert b"+import distify_runtime as rt" in ended.out
    assert b"\x1b[3" not in ended.out


def test_escapes_in_the_source_do_not_reach_the_terminal(distify: CommandLine, script: Path) -> None:
    script.write_bytes(TRAIN.replace(b"import torch\n", b"import torch  # \x1b[2J\n", 1))
    ended = distify.at_terminal("convert", "train.py", answer=b"n\n")
    assert ended.code == 0
    assert b"\\x1b[2J" in ended.out
    assert b"\x1b[2J" not in ended.out


def test_a_script_changed_during_the_question_is_not_overwritten(distify: CommandLine, script: Path) -> None:
    def edit() -> bytes:
        script.write_bytes(b"saved in the editor\n")
        return b"y\n"

    ended = distify.at_terminal("convert", "train.py", "--in-place", answer=edit)
    assert ended.code == 2
    assert b"changed by someone else meanwhile" in ended.out
    assert files(distify.folder) == {"train.py": b"saved in the editor\n"}


# --- how long it looks


def test_a_small_budget_shares_forward_passes_and_says_why(distify: CommandLine, script: Path) -> None:
    ended = distify("convert", "train.py", "--yes", "--budget", "1000000000")
    assert ended.code == 0
    plenty = (distify.folder / "train_dist.py").read_bytes()
    assert b"DistributedDataParallel" in plenty
    ended = distify("convert", "train.py", "--yes", "--force", "--budget", "5")
    assert ended.code == 0
    assert "takes more than the 5 statements that may be followed (a larger --budget follows more)" in ended.err
    assert b"rt.data_parallel(model)" in (distify.folder / "train_dist.py").read_bytes()
    ended = distify("convert", "train.py", "--yes", "--force")
    assert (distify.folder / "train_dist.py").read_bytes() == plenty


@pytest.mark.parametrize("budget", ["0", "-1", "many"])
def test_a_budget_is_a_number_of_statements(distify: CommandLine, script: Path, budget: str) -> None:
    ended = distify("convert", "train.py", "--yes", "--budget", budget)
    assert ended.code == 2
    assert files(distify.folder) == {"train.py": TRAIN}


# --- what it imports


@pytest.mark.parametrize("args", [["convert", "--help"], ["check", "--help"], ["convert", "missing.py"]])
def test_what_converts_nothing_imports_no_engine(distify: CommandLine, args: list[str]) -> None:
    """Nor libcst, which takes a quarter of a second."""
    code = f"""
import sys
from distify.cli import cli
cli.main({args!r}, standalone_mode=False)
"""
    loaded = "print(*(name for name in sys.modules if name.partition('.')[0] in ('libcst', 'distify_codemods')))"
    done = subprocess.run(
        [sys.executable, "-c", f"import atexit, sys\natexit.register(lambda: {loaded})\n{code}"],
        cwd=distify.folder, env=distify.env, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    names = done.stdout.splitlines()[-1].split()
    assert "distify_codemods.results" in names
    assert not {"libcst", "distify_codemods.conversion", "distify_codemods.interpreter", "distify_codemods.rules"} & {
        *names
    }
