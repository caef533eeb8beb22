"""A checkpoint is whole or not there, and otherwise the file that `torch.save` writes."""

from __future__ import annotations

import io
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from distify_runtime.saving import whole

START = """
import os, sys, torch
import distify_runtime as rt
if "atomic" in sys.argv:
    rt.init_process_group()
"""
#: It is pickled after the file has been opened.
FATAL = """
class Fatal:
    def __init__(self, do): self.do = do
    def __reduce__(self):
        if self.do == "raise": raise ValueError("no")
        if self.do == "kill": os.kill(os.getpid(), 9)
        return str, ()
"""


def run(script: str, *words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-c", START + FATAL + script, *words)
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=120, env={**os.environ, **env})


def test_the_last_checkpoint_outlives_one_that_is_not_finished(tmp_path: Path) -> None:
    script = """
from torch import save
torch.save({"step": 1}, "a.pt")
torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), "scripted.pt")
for do in ("raise", "kill"):
    try: save({"step": 2, "fatal": Fatal(do)}, "a.pt")
    except ValueError: pass
"""
    done = run(script, "atomic", cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert torch.load(tmp_path / "a.pt") == {"step": 1}
    assert sorted(os.listdir(tmp_path)) == ["a.pt", "a.pt-unfinished", "scripted.pt"]
    assert run('save = torch.save({"step": 2}, "a.pt")', "atomic", cwd=tmp_path).returncode == 0
    assert torch.load(tmp_path / "a.pt") == {"step": 2}
    assert sorted(os.listdir(tmp_path)) == ["a.pt", "scripted.pt"]  # what was left is gone with the next


def test_where_there_is_no_room_for_two_it_can_be_written_in_place(tmp_path: Path) -> None:
    """As torch does it: this is what the other tests would see without distify's part."""
    script = 'torch.save(1, "a.pt")\ntorch.save(Fatal("kill"), "a.pt")'
    assert run(script, "atomic", cwd=tmp_path, DISTIFY_SAVE="plain").returncode == -signal.SIGKILL
    assert (tmp_path / "a.pt").stat().st_size == 0


def test_the_files_are_those_of_torch(tmp_path: Path) -> None:
    """Byte for byte, with the same names and permissions."""
    script = """
from pathlib import Path
os.umask(0o027)
for name in ("a.pt", "model", "b.c.pt", "grün.pt", Path("x") / "p.pt"):
    os.makedirs("x", exist_ok=True)
    torch.save({"w": torch.arange(9.0)}, name)
    torch.save({"w": torch.ones(9)}, name)
torch.save([1], "old.pt", _use_new_zipfile_serialization=False)
module = torch.jit.script(torch.nn.ReLU())
torch.jit.save(module, Path("j.pt"))
"""
    found = []
    for kind in ("plain", "atomic"):
        folder = tmp_path / kind
        folder.mkdir()
        done = run(script, kind, cwd=folder)
        assert done.returncode == 0, done.stderr
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        found.append([(str(one.relative_to(folder)), one.stat().st_mode, one.read_bytes()) for one in files])
    assert len(found[0]) == 7
    assert found[0] == found[1]


def write(path: object, text: str) -> None:
    with whole(path) as where:
        Path(where).write_text(text)


def test_a_file_keeps_its_permissions_and_a_link_its_target(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_text("old")
    (tmp_path / "a.pt").chmod(0o640)
    (tmp_path / "link.pt").symlink_to("a.pt")
    (tmp_path / "later.pt").symlink_to("new.pt")
    write(tmp_path / "link.pt", "new")
    write(tmp_path / "later.pt", "new")
    assert (tmp_path / "a.pt").read_text() == (tmp_path / "new.pt").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "a.pt").stat().st_mode) == 0o640
    assert sorted(one.name for one in tmp_path.iterdir() if one.is_symlink()) == ["later.pt", "link.pt"]


def test_what_a_rename_would_change_is_written_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_text("old")
    os.link(tmp_path / "a.pt", tmp_path / "b.pt")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    long = "x" * 250
    for path in ("a.pt", "pipe", "folder", long):
        with whole(tmp_path / path) as where:
            assert where == tmp_path / path
    for path in (os.devnull, "no/such/folder", 3, io.BytesIO(), None, b"bytes"):
        with whole(path) as where:
            assert where is path
    if hasattr(os, "setxattr"):
        (tmp_path / "c.pt").write_text("old")
        try:
            os.setxattr(tmp_path / "c.pt", "user.of", b"somebody")
        except OSError:
            pytest.skip("this file system has no attributes")
        with whole(tmp_path / "c.pt") as where:
            assert where == tmp_path / "c.pt"


def test_two_who_write_one_file_do_not_share_what_is_unfinished(tmp_path: Path) -> None:
    path, begun, done = tmp_path / "a.pt", threading.Event(), threading.Event()

    def other() -> None:
        with whole(path) as where:
            Path(where).write_text("of the other")
            begun.set()
            done.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    assert begun.wait(10)
    with whole(path) as where:
        assert where == path
        Path(where).write_text("mine")
    done.set()
    thread.join()
    assert path.read_text() == "of the other"
    assert os.listdir(tmp_path) == ["a.pt"]


def test_a_buffer_is_written_as_ever(tmp_path: Path) -> None:
    script = """
import io
buffer = io.BytesIO()
torch.save({"step": 1}, buffer)
with open("a.pt", "wb") as file:
    torch.save({"step": 1}, file)
print(torch.load(io.BytesIO(buffer.getvalue())), torch.load("a.pt"), os.listdir())
"""
    done = run(script, "atomic", cwd=tmp_path)
    assert done.stdout == "{'step': 1} {'step': 1} ['a.pt']\n", done.stderr
