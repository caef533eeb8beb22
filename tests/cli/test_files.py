"""Writing is all or nothing, keeps mode bits and follows links; reading says what is wrong with a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from distify.errors import DistifyError
from distify.files import Write, check_target, read_script, write_all


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def original() -> str:
    Path("train.py").write_bytes(b"old\n")
    Path("train.py").chmod(0o754)
    return "train.py"


def contents() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def test_a_new_file_has_the_mode_of_the_original(original: str) -> None:
    write_all([Write("train_dist.py", b"new\r\n", mode_of=original)])
    assert contents() == {"train.py": b"old\n", "train_dist.py": b"new\r\n"}
    assert Path("train_dist.py").stat().st_mode & 0o7777 == 0o754


def test_a_file_is_changed_in_place(original: str) -> None:
    write_all([Write(original, b"new\n", mode_of=original, expected=b"old\n")])
    assert contents() == {"train.py": b"new\n"}
    assert Path("train.py").stat().st_mode & 0o7777 == 0o754


def test_a_link_stays_a_link(original: str) -> None:
    os.symlink(original, "link.py")
    write_all([Write("link.py", b"new\n", mode_of="link.py", expected=b"old\n")])
    assert Path("link.py").is_symlink()
    assert Path(original).read_bytes() == b"new\n"


@pytest.mark.parametrize("bad", ["train.py/b.py", "new/" + "b" * 300 + ".py"], ids=["no folder", "name too long"])
def test_when_one_file_cannot_be_written_none_is(original: str, bad: str) -> None:
    # A name that is too long fails only when the file is moved into place, after the others.
    writes = [
        Write(original, b"new\n", mode_of=original, expected=b"old\n"),
        Write("fresh.py", b"new\n", mode_of=original),
        Write(bad, b"new\n", mode_of=original),
    ]
    with pytest.raises(DistifyError, match=r"cannot be written.*nothing was written"):
        write_all(writes)
    assert contents() == {"train.py": b"old\n"}
    assert Path(original).stat().st_mode & 0o7777 == 0o754


def test_a_file_that_changed_meanwhile_is_left_alone(original: str) -> None:
    with pytest.raises(DistifyError, match="changed by someone else"):
        write_all([Write(original, b"new\n", mode_of=original, expected=b"older\n")])
    assert contents() == {"train.py": b"old\n"}


def test_a_file_that_appeared_meanwhile_is_left_alone(original: str) -> None:
    Path("train_dist.py").write_bytes(b"mine\n")
    with pytest.raises(DistifyError, match=r"train_dist\.py: exists already"):
        write_all([Write("train_dist.py", b"new\n", mode_of=original)])
    write_all([Write("train_dist.py", b"new\n", mode_of=original, force=True)])
    assert contents() == {"train.py": b"old\n", "train_dist.py": b"new\n"}


def test_targets_that_cannot_be_written_are_named() -> None:
    Path("folder").mkdir()
    os.mkfifo("pipe")
    for path, why in [
        ("no/such/f.py", "no folder no/such"),
        ("folder", "is a folder"),
        ("pipe", "not a regular"),
    ]:
        with pytest.raises(DistifyError, match=why):
            check_target(path)


def test_permissions_are_asked_first(original: str) -> None:
    Path(original).chmod(0o200)
    if os.access(original, os.R_OK):
        pytest.skip("this user may do everything")
    with pytest.raises(DistifyError, match=r"train\.py: cannot be read: Permission denied"):
        read_script(original)
    Path("folder").mkdir(mode=0o500)
    Path("locked.py").touch(mode=0o400)
    for path in ("folder/train.py", "locked.py"):
        with pytest.raises(DistifyError, match="permission denied"):
            check_target(path)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x7fELF\0\0", "train.py: is a binary file"),
        (b"a = 1\nb = '\xe9'\n", "train.py:2: is not utf-8 (byte 0xe9)"),
        (b"\xff\xfea\n", "train.py:1: is not utf-8 (byte 0xff)"),
        (b"# coding: klingon\n", "train.py: its encoding cannot be told: unknown encoding: klingon"),
        (b"# coding: rot13\n", "train.py: its encoding cannot be told: 'rot13' is not a text encoding"),
        (b"# coding: ascii\n\nb = '\xe9'\n", "train.py:3: is not ascii (byte 0xe9)"),
    ],
)
def test_what_is_no_text_is_refused(data: bytes, says: str) -> None:
    Path("train.py").write_bytes(data)
    with pytest.raises(DistifyError) as raised:
        read_script("train.py")
    assert raised.value.message.startswith(says)


@pytest.mark.parametrize(
    "data", ["é\n".encode(), b"\xef\xbb\xbfa\r\n", b"#!x\n# -*- coding: latin-1 -*-\n\xe9\n", b"", b"\ta"]
)
def test_any_text_that_python_reads_is_read_byte_for_byte(data: bytes) -> None:
    Path("train.py").write_bytes(data)
    assert read_script("./train.py").data == data


def test_one_file_has_one_name() -> None:
    Path("a").mkdir()
    Path("train.py").touch()
    assert read_script("./a/../train.py").path == "train.py"
    assert read_script(os.path.abspath("train.py")).path == os.path.abspath("train.py")
    Path("elsewhere/inner").mkdir(parents=True)
    Path("elsewhere/train.py").write_bytes(b"other")
    os.symlink("elsewhere/inner", "link")
    assert read_script("link/../train.py").data == b"other"
    assert Path(read_script("link/../train.py").path).read_bytes() == b"other"
