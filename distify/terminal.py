"""The two streams: stdout carries the product (a diff, an asked-for checklist), stderr everything else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TextIO

import click

from distify.errors import DistifyError, ExitCode

#: A span of a line: text and the style that it has on a terminal (rich's words; "" for none).
Span = tuple[str, str]
Line = tuple[Span, ...]

#: Control characters of a user's source would move the cursor or recolour the terminal: shown as `\x1b`.
VISIBLE_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(9), *range(10, 32), *range(127, 160))}


def is_terminal(stream: TextIO | None) -> bool:
    """Whether someone reads along; False for a stream that is closed."""
    return stream is not None and not stream.closed and stream.isatty()


def can_ask() -> bool:
    """Whether a question would be seen and could be answered."""
    return all(is_terminal(stream) for stream in (sys.stdin, sys.stdout, sys.stderr))


def put(data: bytes) -> None:
    """Writes the product on stdout byte for byte."""
    try:
        click.echo(data, nl=False)
    except BrokenPipeError:
        # The reader (`head`, a pager) has seen enough. What is still buffered must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(ExitCode.BROKEN_PIPE) from None
    except OSError as error:
        raise DistifyError(f"cannot write the output: {error.strerror}") from None


def say(text: str) -> None:
    """Writes a line on stderr."""
    click.echo(text, err=True)


def show(lines: Iterable[Line], err: bool) -> None:
    """Writes styled lines: with rich where a terminal is, else as plain text."""
    stream = sys.stderr if err else sys.stdout
    if is_terminal(stream):
        _show_styled(lines, stream)
        return
    text = "".join("".join(part for part, _ in line) + "\n" for line in lines)
    if err:
        click.echo(text, nl=False, err=True)
    else:
        put(text.encode(stream.encoding, "backslashreplace"))


def width(stream: TextIO) -> int | None:
    """Columns of the terminal, or None where text is not to be broken into lines."""
    if not is_terminal(stream):
        return None
    from rich.console import Console

    return Console(file=stream).width


def ask(question: str) -> bool:
    """Asks on stderr; anything but yes, also the end of the input, is no. Ctrl-C raises KeyboardInterrupt."""
    click.echo(f"{question} [y/N] ", nl=False, err=True)
    answer = sys.stdin.buffer.readline()  # bytes: an answer that is not UTF-8 is a no, not an error
    if not answer.endswith(b"\n"):
        say("")
    return answer.strip().lower() in (b"y", b"yes")


def _show_styled(lines: Iterable[Line], stream: TextIO) -> None:
    from rich.console import Console  # 70 ms: only where a terminal is
    from rich.text import Text

    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    for line in lines:
        visible = [(part.translate(VISIBLE_CONTROLS), style) for part, style in line]
        console.print(Text.assemble(*visible), soft_wrap=True)
