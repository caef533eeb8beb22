"""`distify check`: the checklist of one script, a line for each of several, JSON for machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import TRAIN, CommandLine

NO_TRAINING = b"import torch\n\nprint(torch.zeros(2))\n"


@pytest.fixture
def tree(distify: CommandLine) -> Path:
    """A folder with a script, a module, and much that is not to be looked at."""
    folder = distify.folder / "work"
    unwanted = [".git/hook.py", "venv/lib/site.py", "env/x.py", "__pycache__/y.py", "notes.txt"]
    for name in ["train.py", "sub/deep/train2.py", "sub/util.py", *unwanted]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(TRAIN if "train" in name else NO_TRAINING)
    (folder / "venv/pyvenv.cfg").touch()
    (folder / "env/conda-meta").mkdir()
    (folder / "sub/loop").symlink_to(folder)
    return folder


def test_one_script_gives_its_checklist_on_stdout(distify: CommandLine, script: Path) -> None:
    ended = distify("check", "train.py")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.decode().splitlines()
    assert lines[0] == "sharded data and DistributedDataParallel"
    assert lines[1].startswith("applied (")
    assert any(line.startswith("    train.py:8: ") for line in lines)
    assert lines[-1].startswith("train.py: convertible (")


def test_a_converted_script_is_fine(distify: CommandLine, script: Path) -> None:
    assert distify("convert", "train.py", "--yes").code == 0
    ended = distify("check", "train_dist.py")
    assert ended.code == 0
    assert ended.out.decode().splitlines()[-1].startswith("train_dist.py: already converted")


def test_a_script_that_needs_someone_is_exit_3(distify: CommandLine, script: Path) -> None:
    script.write_bytes(NO_TRAINING)
    ended = distify("check", "train.py")
    assert ended.code == 3
    assert ended.out.startswith(b"needs you (1)\n")


def test_a_folder_gives_a_line_for_each_python_file_of_the_users(distify: CommandLine, tree: Path) -> None:
    ended = distify("check", "work")
    assert (ended.code, ended.err) == (0, "")
    verdicts = [tuple(line.split(" (")[0].split(": ")) for line in ended.out.decode().splitlines()]
    assert verdicts == [
        ("work/train.py", "convertible"),
        ("work/sub/util.py", "no training script"),
        ("work/sub/deep/train2.py", "convertible"),
    ]


def test_a_file_named_by_the_user_is_judged_also_inside_a_folder(distify: CommandLine, tree: Path) -> None:
    ended = distify("check", "work", "work/sub/util.py")
    assert ended.code == 3
    assert "work/sub/util.py: needs you" in ended.out.decode()
    assert ended.out.count(b"\n") == 3


def test_an_unreadable_file_is_named_and_the_others_are_still_checked(distify: CommandLine, tree: Path) -> None:
    (tree / "bad.py").write_bytes(b"def f(:\n")
    ended = distify("check", "work")
    assert ended.code == 2
    assert "work/bad.py: unreadable (" in ended.out.decode()
    assert "work/train.py: convertible" in ended.out.decode()


@pytest.mark.parametrize(
    ("path", "says"),
    [("empty", "empty: no Python files in this folder"), ("none.py", "none.py: there is no such file")],
)
def test_bad_input_is_one_line(distify: CommandLine, path: str, says: str) -> None:
    (distify.folder / "empty").mkdir()
    ended = distify("check", path)
    assert (ended.code, ended.out, ended.err) == (2, b"", f"distify: {says}\n")


def test_an_empty_name_is_one_line(distify: CommandLine) -> None:
    ended = distify("check", "")
    assert (ended.code, ended.err) == (2, "distify: an empty name is the path of no script\n")


def test_json_has_what_the_checklist_says(distify: CommandLine, script: Path) -> None:
    (distify.folder / "bad.py").write_bytes(b"def f(:\n")
    ended = distify("check", "--json", "train.py", "bad.py")
    assert ended.code == 2
    good, bad = json.loads(ended.out)
    assert (good["path"], good["verdict"], good["error"]) == ("train.py", "convertible", None)
    assert (good["strategy"], bad["strategy"]) == ("sharded", None)
    assert any(f["level"] == "applied" and (f["path"], f["line"]) == ("train.py", 8) for f in good["findings"])
    for finding in good["findings"]:
        assert set(finding) == {"level", "code", "title", "message", "path", "line", "fix"}
    assert (bad["path"], bad["verdict"], bad["findings"]) == ("bad.py", "unreadable", [])
    assert bad["error"].startswith("bad.py:1:")


def test_the_strategy_is_told_and_can_be_chosen(distify: CommandLine, script: Path) -> None:
    ended = distify("check", "train.py", "--strategy", "shared")
    lines = ended.out.decode().splitlines()
    assert lines[0].startswith("shared forward passes: every rank runs the script as it stands")
    assert lines[-1].startswith("train.py: convertible (shared forward passes: ")
    [report] = json.loads(distify("check", "--json", "--strategy", "shared", "train.py").out)
    assert report["strategy"] == "shared"
    assert distify("check", "--strategy", "split", "train.py").code == 2
    ended = distify("check", "--strategy", "shared", "--op", "adasum", "--backend", "horovod", "train.py")
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err.startswith("distify: --op adasum goes with --strategy sharded: ")


def test_at_a_terminal_messages_are_wrapped_and_coloured(distify: CommandLine, script: Path) -> None:
    ended = distify.at_terminal("check", "train.py")
    assert ended.code == 0
    # Where it took long, a line of progress came before.
    assert b"\x1b[1msharded data and DistributedDataParallel\x1b[0m\r\n\x1b[32mapplied" in ended.out
    ended = distify.at_terminal("check", "train.py", "train.py", ".")
    assert ended.code == 0
    assert "train.py: " in ended.out.decode().rstrip().splitlines()[-1]  # behind what clears a line of progress
