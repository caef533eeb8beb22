"""What a working copy links to is changed in the copy alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from distify_runtime.trace.own_copies import make_own

from tests.runtime.ranks import RUNTIME

RUN = """\
import os, shutil, sys
from pathlib import Path
from distify_runtime.trace.writes import watch_writes
watch_writes(written := [], Path.cwd(), Path(sys.argv[1]), Path("refused"))
{code}
print(written)
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a link to one of the user's, `data`, and to a file of the user's, `log.txt`."""
    data = tmp_path / "users" / "data"
    (data / "deep").mkdir(parents=True)
    (data / "deep" / "a.txt").write_text("a")
    (data / "b.txt").write_text("b")
    (tmp_path / "users" / "log.txt").write_text("1")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "data").symlink_to(data)
    (copy / "log.txt").symlink_to(tmp_path / "users" / "log.txt")
    (copy / "own.txt").write_text("own")
    (copy / "inside").symlink_to("own.txt")
    return copy


def _contents(folder: Path) -> dict[str, str]:
    return {str(one.relative_to(folder)): one.read_text() for one in sorted(folder.rglob("*.txt"))}


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ('open("log.txt", "a").write("2")', {"log.txt": "12"}),
        ('open("log.txt", "w").write("2")', {"log.txt": "2"}),
        ('open("log.txt", "r+").write("3")', {"log.txt": "3"}),
        ('os.truncate("log.txt", 0)', {"log.txt": ""}),
        ('open("data/deep/new.txt", "w").write("n")', {"data/deep/new.txt": "n"}),
        ('open("data/deep/a.txt", "a").write("z")', {"data/deep/a.txt": "az"}),
        ('os.makedirs("data/more/c"); open("data/more/c/c.txt", "x").write("c")', {"data/more/c/c.txt": "c"}),
        ('os.rename("data/b.txt", "data/deep/a.txt")', {"data/deep/a.txt": "b", "data/b.txt": None}),
        ('os.remove("data/b.txt"); os.remove("log.txt")', {"data/b.txt": None, "log.txt": None}),
        ('shutil.rmtree("data")', {"data/b.txt": None, "data/deep/a.txt": None}),
        ('open("inside", "a").write("!")', {"own.txt": "own!"}),
        ('open("data/b.txt").read()', {}),
    ],
)  # fmt: skip
def test_what_is_changed_is_the_copys_own(copy: Path, code: str, changed: dict[str, str | None]) -> None:
    users = _contents(copy.parent / "users")
    expected = {name: text for name, text in ({**users, "own.txt": "own"} | changed).items() if text is not None}
    command = [sys.executable, "-c", RUN.format(code=code), str(copy.parent / "users")]
    ended = subprocess.run(command, cwd=copy, env={**os.environ, "PYTHONPATH": str(RUNTIME)}, capture_output=True)
    assert ended.returncode == 0, ended.stderr.decode()
    seen = {name: (copy / name).read_text() for name in {*users, *expected} if (copy / name).exists()}
    assert seen == expected
    assert _contents(copy.parent / "users") == users
    assert not list(copy.rglob(".own-*"))


def test_what_is_named_by_its_own_path_is_not_to_be_changed(copy: Path) -> None:
    log = copy.parent / "users" / "log.txt"
    command = [sys.executable, "-c", RUN.format(code=f'open({str(log)!r}, "a")'), str(log.parent)]
    ended = subprocess.run(command, cwd=copy, env={**os.environ, "PYTHONPATH": str(RUNTIME)}, capture_output=True)
    assert b"PermissionError: distify verify:" in ended.stderr
    assert (copy / "refused").read_text() == str(log)


def test_what_nobody_changes_stays_a_link(copy: Path) -> None:
    make_own(copy / "data" / "deep" / "a.txt", copy, anew=False)
    assert not (copy / "data").is_symlink()
    assert (copy / "data" / "b.txt").is_symlink()
    assert (copy / "log.txt").is_symlink()
    shutil.rmtree(copy / "data")
    assert (copy.parent / "users" / "data" / "b.txt").read_text() == "b"


def test_several_processes_at_once(copy: Path) -> None:
    code = "print('ready', flush=True)\nwhile not os.path.exists('go'): pass\n"
    code += "open(f'data/deep/{os.getpid()}.txt', 'w').write('n'); open('log.txt', 'a').write('2')"
    command = [sys.executable, "-c", RUN.format(code=code), str(copy.parent / "users")]
    env = {**os.environ, "PYTHONPATH": str(RUNTIME)}
    ranks = [
        subprocess.Popen(command, cwd=copy, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)
    ]
    for one in ranks:
        assert one.stdout is not None
        assert one.stdout.readline() == b"ready\n"
    (copy / "go").touch()
    said = [one.communicate()[1].decode() for one in ranks]
    assert [one.returncode for one in ranks] == [0] * 4, said
    assert len(list((copy / "data" / "deep").iterdir())) == 5
    assert sorted(_contents(copy.parent / "users").values()) == ["1", "a", "b"]
