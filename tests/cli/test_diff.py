"""The diff is what `patch` and `git apply` take, whatever the bytes of the file are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from distify_codemods.results import NewFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distify.diff import hunks, split_lines, unified

APPLIERS = [["patch", "-p1", "--binary", "--fuzz=0"], ["git", "apply", "-p1"]]
LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"c\r\n", b"\x0cd\xe9\n", b"\te\rf\n", b"\\ no\n"]))
FILES = st.tuples(LINES, st.sampled_from([b"", b"end", b"end\r", b"\n"])).map(lambda f: b"".join(f[0]) + f[1])


def applied(patch: bytes, command: list[str], folder: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, cwd=folder, input=patch, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()


@pytest.mark.parametrize("command", APPLIERS, ids=lambda command: command[0])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(FILES, FILES), min_size=12, max_size=30))
def test_any_change_of_any_bytes_can_be_applied(
    command: list[str], pairs: list[tuple[bytes, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # An emptied file would be removed by both tools, and no conversion empties a file.
    files = {f"f{n}.py": pair for n, pair in enumerate(pairs) if all(pair) and pair[0] != pair[1]}
    for name, (before, _) in files.items():
        Path(name).write_bytes(before)
    patch = b"".join(unified(NewFile(name, *pair, ())) for name, pair in files.items())
    if patch:
        applied(patch, command, tmp_path)
    assert {name: Path(name).read_bytes() for name in files} == {name: new for name, (_, new) in files.items()}


@pytest.mark.parametrize("command", APPLIERS, ids=lambda command: command[0])
@pytest.mark.parametrize("name", ["my train.py", "sub folder/train.py", 'a "b" \\c.py', "entraînement.py"])
def test_odd_file_names_can_be_applied(
    command: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_bytes(b"a\n")
    applied(unified(NewFile(name, b"a\n", b"b\n", ())), command, tmp_path)
    assert Path(name).read_bytes() == b"b\n"


def test_the_text_is_a_unified_diff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = b"".join(b"%d\n" % n for n in range(1, 21)) + b"last"
    after = before.replace(b"\n5\n", b"\nfive\r\n").replace(b"last", b"last\n")
    assert unified(NewFile("sub/train.py", before, after, ())).decode() == (
        "--- a/sub/train.py\n+++ b/sub/train.py\n"
        "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\r\n 6\n 7\n 8\n"
        "@@ -18,4 +18,4 @@\n 18\n 19\n 20\n-last\n\\ No newline at end of file\n+last\n"
    )


def test_a_file_outside_of_the_working_directory_has_its_bare_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for path in ("../train.py", str(tmp_path / "train.py")):
        assert unified(NewFile(path, b"a\n", b"b\n", ())).startswith(b"--- a/train.py\n+++ b/train.py\n")


def test_equal_files_have_no_diff() -> None:
    assert unified(NewFile("train.py", b"a\n", b"a\n", ())) == b""


def test_changes_far_apart_are_hunks_of_their_own_and_near_ones_share_one() -> None:
    before = b"".join(b"%d\n" % n for n in range(40))
    near = before.replace(b"\n10\n", b"\nx\n").replace(b"\n17\n", b"\nx\n")
    far = before.replace(b"\n10\n", b"\nx\n").replace(b"\n18\n", b"\nx\n")
    assert [len(hunks(before, after)) for after in (near, far)] == [1, 2]


@given(FILES)
def test_lines_add_up_to_the_file(data: bytes) -> None:
    lines = split_lines(data)
    assert b"".join(lines) == data
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines[:-1])
