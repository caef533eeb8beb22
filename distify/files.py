"""Reads scripts and writes results: bytes in, bytes out."""

from __future__ import annotations

import io
import os
import stat
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from distify_codemods import SourceFile

from distify.errors import DistifyError
from distify.notebooks import is_notebook, read_notebook


def read_script(path: str) -> SourceFile:
    """The script at `path`, or the code of the notebook there. Raises DistifyError for what is no readable text
    (whether Python or not), and for a notebook without Python."""
    data = _read(path)
    path = tidy(path)
    if is_notebook(path):
        return read_notebook(path, data)
    if b"\0" in data:
        raise DistifyError(f"{path}: is a binary file (it holds NUL bytes)")
    _check_encoding(path, data)
    return SourceFile(path, data)


def file_of_module(name: str) -> str:
    """The file that `python -m NAME` runs here. Raises DistifyError where there is none, or no source."""
    from distify_runtime.launch import LaunchError, find_module

    try:
        found = find_module(name)
    except LaunchError as error:
        raise DistifyError(str(error)) from None
    if found is None:
        raise DistifyError(f"-m {name}: is no Python source")
    return str(found)


def tidy(path: str) -> str:
    """The path as it is shown, `./a/../train.py` as `train.py`, so that one file has one name."""
    short = os.path.normpath(path) if os.path.isabs(path) else os.path.relpath(path)
    same = os.path.exists(short) and os.path.samefile(short, path)
    return short if same else path  # `link/../train.py` is a file beside the link's target


def _read(path: str) -> bytes:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise DistifyError(f"{path}: is a folder")
        if not stat.S_ISREG(mode):  # a pipe or a device could block for ever
            raise DistifyError(f"{path}: is not a regular file")
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise DistifyError(f"{path}: there is no such file") from None
    except OSError as error:
        raise DistifyError(f"{path}: cannot be read: {error.strerror}") from None


def encoding_of(data: bytes) -> str:
    """The encoding that Python reads the source with: its coding cookie's, or UTF-8. Else SyntaxError."""
    return tokenize.detect_encoding(io.BytesIO(data).readline)[0]


def _check_encoding(path: str, data: bytes) -> None:
    encoding, unknown = "utf-8", ""
    try:
        encoding = encoding_of(data)
    except SyntaxError as error:  # an odd coding cookie, or one of the first two lines is not UTF-8
        unknown = str(error).replace(f" for {path!r}", "")
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DistifyError(
            f"{path}:{line}: is not {encoding} (byte 0x{data[error.start]:02x}); "
            "a comment like '# -*- coding: latin-1 -*-' in the first line names the encoding"
        ) from None
    except LookupError as error:
        unknown = str(error)
    if unknown:
        raise DistifyError(f"{path}: its encoding cannot be told: {unknown}")


@dataclass(frozen=True)
class Write:
    """A file to be written. `expected`: what has to be there at that moment, None for nothing; without it
    (`force`), whatever is there is overwritten. `mode_of`: the file whose mode bits it takes. Without `data`,
    it becomes a copy of that file, or a link to `link`."""

    path: str
    data: bytes | None
    mode_of: str
    expected: bytes | None = None
    force: bool = False
    link: str = ""


def check_target(path: str, new_folders: bool = False) -> None:
    """Raises DistifyError where no file can be written at `path`; with `new_folders`, some may be missing."""
    folder = os.path.dirname(path) or "."
    while new_folders and not os.path.lexists(folder):
        folder = os.path.dirname(folder) or "."
    if not os.path.isdir(folder):
        raise DistifyError(f"{path}: cannot be written: there is no folder {folder}")
    if os.path.isdir(path):
        raise DistifyError(f"{path}: is a folder: name the file to write")
    if os.path.exists(path) and not os.path.isfile(path):
        raise DistifyError(f"{path}: is not a regular file")
    # The new file replaces the old one, which only the folder's permissions could stop: ask the file, too.
    if not os.access(folder, os.W_OK | os.X_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise DistifyError(f"{path}: cannot be written: permission denied")


def content(path: str) -> bytes | None:
    """What is in the file at `path`; None where there is none, DistifyError where it cannot be read."""
    return _read(path) if os.path.lexists(path) else None


def write_all(writes: Sequence[Write], folders: Iterable[str] = ()) -> None:
    """Writes all files or none: each beside its target first, then all are moved into place.

    Folders that are missing are made, those of `folders`, too. Raises DistifyError when a target is not as expected
    (any more) or cannot be written; then all files are as they were.
    """
    before = {write.path: content(write.path) for write in writes}
    for write in writes:
        if not write.force and before[write.path] != write.expected:
            what = "exists already" if write.expected is None else "was changed by someone else meanwhile"
            raise DistifyError(f"{write.path}: {what}; nothing was written")
    waiting: list[tuple[str, Write]] = []
    moved: list[Write] = []
    made: list[str] = []
    try:
        for write in writes:
            _make_folders(os.path.dirname(write.path), made)
            waiting.append((_write_beside(write), write))
        for folder in folders:
            _make_folders(folder, made)
        for temporary, write in waiting:
            os.replace(temporary, os.path.realpath(write.path))
            moved.append(write)
    except BaseException as error:
        for write in moved:
            _put_back(write.path, before[write.path])
        for temporary, _ in waiting[len(moved) :]:
            os.unlink(temporary)
        for folder in reversed(made):
            os.rmdir(folder)
        if isinstance(error, OSError):
            message = f"{write.path}: cannot be written: {error.strerror}; nothing was written"
            raise DistifyError(message) from None
        raise


def _make_folders(folder: str, made: list[str]) -> None:
    """Makes a folder and those above it that are missing, and notes them, outermost first."""
    if folder and not os.path.lexists(folder):
        _make_folders(os.path.dirname(folder), made)
        os.mkdir(folder)
        made.append(folder)


def _write_beside(write: Write) -> str:
    """Writes the data into a temporary file in the folder of the target (a link: of what it names)."""
    import shutil  # only here: these two take 5 ms
    import tempfile

    target = os.path.realpath(write.path)
    descriptor, temporary = tempfile.mkstemp(prefix=".distify-", dir=os.path.dirname(target))
    try:
        with os.fdopen(descriptor, "wb") as file:
            if write.link:
                os.unlink(temporary)
                os.symlink(write.link, temporary)
                return temporary
            if write.data is None:
                with open(write.mode_of, "rb") as original:
                    shutil.copyfileobj(original, file)
            else:
                file.write(write.data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, stat.S_IMODE(os.stat(write.mode_of).st_mode))
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary


def _put_back(path: str, before: bytes | None) -> None:
    """Undoes a file that had been moved into place when a later one failed."""
    if before is None:
        os.unlink(path)
    else:
        os.replace(_write_beside(Write(path, before, mode_of=path)), os.path.realpath(path))
