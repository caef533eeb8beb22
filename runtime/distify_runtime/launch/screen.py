"""Rank 0 on the screen: its bytes as they come, and once more into its log."""

from __future__ import annotations

import fcntl
import os
import pty
import termios
from dataclasses import dataclass, field

READ_BYTES = 64 * 1024
#: What a pipe that select calls writable takes without blocking, on every POSIX system.
WRITE_BYTES = 512
STDOUT, STDERR = 1, 2


@dataclass
class Stream:
    """What rank 0 writes to (`target`), read at `source`, and what of it has not reached `sink` yet."""

    source: int
    target: int
    sink: int
    pending: bytearray = field(default_factory=bytearray)
    at_line_start: bool = True
    #: False once whoever read the sink has gone (`| head`); the log goes on.
    open: bool = True

    def add(self, data: bytes) -> None:
        if self.open and data:
            self.pending += data
            self.at_line_start = data.endswith(b"\n")

    def close_sink(self) -> None:
        self.open = False
        self.pending.clear()


@dataclass
class Teed:
    """What a rank writes to with `--tee all`: its log, and whole lines of it on the screen, behind its name."""

    log: int
    prefix: bytes
    begun: bytes = b""

    def lines(self, data: bytes) -> bytes:
        """What is to be shown now that this has come; at the end, nothing, a line that was begun."""
        *whole, self.begun = (self.begun + data).split(b"\n") if data else (self.begun, b"")
        return b"".join(self.prefix + line + b"\n" for line in whole if data or line)


class Screen:
    """Rank 0's stdout and stderr. Where ours are one (a terminal, `2>&1`), so are they: order is kept.

    A terminal is given to rank 0 as a terminal, of the same size, so that colours and progress bars look as
    they do without a launcher; a pipe or file as a pipe.
    """

    def __init__(self, log: int) -> None:
        self._log = log
        out = _stream(STDOUT)
        self.err = out if os.path.sameopenfile(STDOUT, STDERR) else _stream(STDERR)
        self.streams = [out] if self.err is out else [out, self.err]
        self._out = out
        self._teed: dict[int, Teed] = {}  # by what their ranks' output is read at

    def tee(self, rank: int, log: int) -> int:
        """A descriptor for the stdout and stderr of a rank: what is written there goes into its log, and here."""
        source, target = os.pipe()
        os.set_blocking(source, False)
        self._teed[source] = Teed(os.dup(log), f"[rank{rank}] ".encode())
        return target

    def targets(self) -> tuple[int, int]:
        """The descriptors for rank 0's stdout and stderr."""
        return self._out.target, self.err.target

    def sources(self) -> list[int]:
        """What to wait for; a stream whose reader is slow is left alone until it has caught up."""
        teed = self._teed if len(self._out.pending) < READ_BYTES else ()
        return [*(stream.source for stream in self.streams if len(stream.pending) < READ_BYTES), *teed]

    def sinks(self) -> list[int]:
        return [stream.sink for stream in self.streams if stream.pending]

    def read(self, source: int) -> bool:
        """Takes what has come, at most READ_BYTES; False where nothing has."""
        if source in self._teed:
            return self._read_teed(source)
        stream = next(stream for stream in self.streams if stream.source == source)
        try:
            data = os.read(source, READ_BYTES)
        except BlockingIOError:
            return False
        _write_all(self._log, data)
        stream.add(data)
        return bool(data)

    def _read_teed(self, source: int) -> bool:
        teed = self._teed[source]
        try:
            data = os.read(source, READ_BYTES)
        except BlockingIOError:
            return False
        _write_all(teed.log, data)
        self._out.add(teed.lines(data))
        if not data:  # all who could write there have ended
            del self._teed[source]
            os.close(source)
            os.close(teed.log)
        return bool(data)

    def write(self, sink: int) -> None:
        """Passes some on."""
        stream = next(stream for stream in self.streams if stream.sink == sink)
        try:
            del stream.pending[: os.write(sink, stream.pending[:WRITE_BYTES])]
        except BlockingIOError:
            pass  # a descriptor that another process made non-blocking; select will say when to go on
        except OSError:
            stream.close_sink()

    def say(self, text: str) -> None:
        """A line of the launcher's own on stderr; never in the middle of a line of rank 0's."""
        start = b"" if self.err.at_line_start else b"\n"
        self.err.add(start + text.encode(errors="backslashreplace") + b"\n")

    @property
    def broken(self) -> bool:
        """Whether someone who read along has gone."""
        return not all(stream.open for stream in self.streams)

    def mute(self) -> None:
        """Shows nothing any more."""
        for stream in self.streams:
            stream.close_sink()

    def resize(self) -> None:
        """Tells rank 0's terminal the size of ours."""
        for stream in self.streams:
            if os.isatty(stream.sink):
                _copy_size(stream.sink, stream.source)

    def close(self) -> None:
        for stream in self.streams:
            os.close(stream.source)
            os.close(stream.target)
        for source, teed in self._teed.items():
            os.close(source)
            os.close(teed.log)


def open_standard_streams() -> None:
    """Gives descriptors 0 to 2 that are closed to /dev/null, so that no log or socket ends up there."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one


def _stream(sink: int) -> Stream:
    if os.isatty(sink):
        source, target = pty.openpty()
        attributes = termios.tcgetattr(target)
        attributes[1] &= ~termios.OPOST  # bytes as they are: the real terminal makes its own line ends
        termios.tcsetattr(target, termios.TCSANOW, attributes)
        _copy_size(sink, source)
    else:
        source, target = os.pipe()
    os.set_blocking(source, False)
    return Stream(source, target, sink)


def _copy_size(terminal: int, ours: int) -> None:
    size = fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(8))
    fcntl.ioctl(ours, termios.TIOCSWINSZ, size)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
