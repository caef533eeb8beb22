"""How far a conversion is: a line at a terminal, after a while; nowhere else, and nothing of it stays."""

from __future__ import annotations

import io
import os
import re
import sys
import time
from pathlib import Path

import pytest
from command_line import TRAIN, CommandLine
from distify_codemods import Options, SourceFile

from distify import progress
from distify.engine import convert_script
from distify.resolver import LocalModules


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def modules(tmp_path: Path) -> LocalModules:
    return LocalModules(str(tmp_path / "train.py"))


def shown_in(stream: io.StringIO, modules: LocalModules, monkeypatch: pytest.MonkeyPatch, patience: float) -> str:
    """What two runs write."""
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setattr(progress, "PAUSE", 0.01)
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.progress(modules) as seen:
        for run in (1, 2):
            seen(3)
            until = time.monotonic() + 10
            while patience == 0 and stream.isatty() and f"run {run}" not in stream.getvalue():
                assert time.monotonic() < until
                time.sleep(0.01)
    return stream.getvalue()


def test_a_line_at_a_terminal(modules: LocalModules, monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown_in(Screen(), modules, monkeypatch, 0)
    assert "reading 1 file, run 1 of about 3 ..." in text
    assert "reading 1 file, run 2 of about 3 ..." in text
    assert text.endswith("\r\x1b[K")


def test_nothing_on_a_pipe(modules: LocalModules, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_in(io.StringIO(), modules, monkeypatch, 0) == ""


def test_nothing_where_it_is_quick(modules: LocalModules, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_in(Screen(), modules, monkeypatch, 60) == ""


def test_a_terminal_that_is_gone_ends_nothing(modules: LocalModules, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Screen):
        def flush(self) -> None:
            raise OSError(5, "Input/output error")

    assert "run 2" in shown_in(Gone(), modules, monkeypatch, 0)


def what_comes_out(stream: tuple[int, int], folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a real conversion writes to a file descriptor that is its stderr; the other end is read."""
    ours, theirs = stream
    script = SourceFile(str(folder / "train.py"), TRAIN)
    (folder / "train.py").write_bytes(TRAIN)
    monkeypatch.setattr(progress, "PATIENCE", 0)
    monkeypatch.setattr(progress, "PAUSE", 0.001)
    with open(theirs, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        convert_script(script, LocalModules(script.path), Options())
        print("done", file=stderr)
    text = ""
    while not text.endswith("done\n"):
        text += os.read(ours, 65536).decode().replace("\r\n", "\n")
    os.close(ours)
    return text


def test_a_conversion_at_a_pseudo_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = what_comes_out(os.openpty(), tmp_path, monkeypatch)
    assert re.search(r"\r\x1b\[Kreading 1 file, run [1-8] of about 8 \.\.\.", text)
    assert text.endswith("\r\x1b[Kdone\n")


def test_a_conversion_at_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert what_comes_out(os.pipe(), tmp_path, monkeypatch) == "done\n"


def test_more_runs_than_were_expected(modules: LocalModules) -> None:
    seen = progress.Progress(modules)
    assert str(seen) == "reading 1 file"
    for _ in range(9):
        seen(8)
    assert str(seen) == "reading 1 file, run 9 of about 9"


def test_a_pipe_gets_what_it_got_before(distify: CommandLine, script: Path) -> None:
    ended = distify("convert", "train.py", "--yes")
    assert ended.code == 0
    assert "of about" not in ended.err
