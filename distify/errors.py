"""How a command ends: the exit codes, and the error that is one line on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import IO, Any

import click


class ExitCode(IntEnum):
    DONE = 0
    WORK_TO_DO = 1  # only with --check
    BAD_INPUT = 2  # also a wrong option: click's own code for it
    NEEDS_PERSON = 3
    NOTHING_WRITTEN = 4  # nobody could be asked
    CRASHED = 70  # EX_SOFTWARE of sysexits.h
    INTERRUPTED = 130  # 128 + SIGINT
    BROKEN_PIPE = 141  # 128 + SIGPIPE


class DistifyError(click.ClickException):
    """What the user can put right: one line, `distify: message`, without click's usage text."""

    exit_code = ExitCode.BAD_INPUT

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"distify: {self.format_message()}", file=file, err=True)


class Interrupted(DistifyError):
    """By Ctrl-C."""

    exit_code = ExitCode.INTERRUPTED

    def show(self, file: IO[Any] | None = None) -> None:
        if sys.stderr.isatty():
            click.echo(err=True)  # ends the line that ^C stands in
        super().show(file)


@contextmanager
def told_if_interrupted() -> Iterator[None]:
    """Ctrl-C ends a command with one line; files are written all together or not at all."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted") from None
