"""Files that several processes write and read at one time, such as what a data set keeps of its samples.

Every rank may load the same samples, and a loader has processes of its own: none of them can wait for the others there.
"""

from __future__ import annotations

import functools
import io
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from typing import Any

from distify_runtime.meeting import by_itself


@by_itself
def in_one_piece(function: Callable[..., Any], place: int = 0) -> Callable[..., Any]:
    """`function`, which writes a file, so that nobody finds half of it: `in_one_piece(np.save)(path, values)`.

    It writes into a hidden folder beside, and what comes of that takes its place once it is whole; of two processes
    that write the same file, the later one has it. A file that `open` gives is in its place once it is closed.

    place: which argument is the path. Where that is none, or nothing can be made beside it, the function is called as
    it is.
    """

    @functools.wraps(function)
    def whole(*args: Any, **kwargs: Any) -> Any:
        path = args[place] if place < len(args) else None
        beside = _folder_beside(path) if isinstance(path, str | os.PathLike) else ""
        if not beside:
            return function(*args, **kwargs)
        kind: Any = str if isinstance(path, str) else type(path)
        given = [*args]
        given[place] = kind(os.path.join(beside, os.path.basename(os.path.realpath(str(path)))))
        try:
            found = function(*given, **kwargs)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        if isinstance(found, io.IOBase) and not found.closed:
            _put_when_closed(found, beside)
        else:
            _put(beside)
        return found

    return whole


def _folder_beside(path: str | os.PathLike[Any]) -> str:
    """Empty where none can be made: whoever writes there says why."""
    try:
        return tempfile.mkdtemp(prefix=".unfinished-", dir=os.path.dirname(os.path.realpath(str(path))))
    except OSError:
        return ""


def _put_when_closed(file: Any, beside: str) -> None:
    """Also where nobody closes it: so it goes out of use as soon as any other."""
    itself = weakref.ref(file)

    def close() -> None:
        written = itself()
        if written is not None and not written.closed:
            type(written).close(written)
            _put(beside)

    file.close = close


def _put(beside: str) -> None:
    folder = os.path.dirname(beside)
    for name in os.listdir(beside):
        os.replace(os.path.join(beside, name), os.path.join(folder, name))
    os.rmdir(beside)
