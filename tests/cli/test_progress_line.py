"""How far a conversion is: a line at a terminal, after a while; nowhere else, and nothing of it stays."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

import pytest
from command_line import CommandLine

from distify import progress
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
            seen()
            until = time.monotonic() + 10
            while patience == 0 and stream.isatty() and f"run {run}" not in stream.getvalue():
                assert time.monotonic() < until
                time.sleep(0.01)
    return stream.getvalue()


def test_a_line_at_a_terminal(modules: LocalModules, monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown_in(Screen(), modules, monkeypatch, 0)
    assert "following 1 file, run 1 ..." in text
    assert "following 1 file, run 2 ..." in text
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


def test_a_pipe_gets_what_it_got_before(distify: CommandLine, script: Path) -> None:
    ended = distify("convert", "train.py", "--yes")
    assert ended.code == 0
    assert "following" not in ended.err
