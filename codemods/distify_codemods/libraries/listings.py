"""What tells which files there are: ranks see another answer while one of them writes."""

from __future__ import annotations

#: What makes its answer bit by bit, as it is gone through: no other process can be sent it, but a list of it.
LAZY = frozenset({"glob.iglob", "os.walk", "glob", "rglob", "iterdir", "walk"})
#: What is gone through likewise, and whose parts cannot be sent either.
ENTRIES = frozenset({"os.scandir"})
#: What a folder holds: functions, and methods of paths.
FUNCTIONS_THAT_LIST = frozenset({"os.listdir", "os.scandir", "os.walk", "glob.glob", "glob.iglob"})
METHODS_THAT_LIST = frozenset({"glob", "rglob", "iterdir"})
LISTS = FUNCTIONS_THAT_LIST | METHODS_THAT_LIST
#: Those of them that fail where there is no such folder; the others find nothing there.
LISTS_A_FOLDER = frozenset({"os.listdir", "os.scandir", "iterdir"})
#: What one file or folder is.
FUNCTIONS_THAT_TELL = frozenset(
    ["os.stat", "os.lstat", *(f"os.path.{name}" for name in "exists lexists isfile isdir islink".split()),
     *(f"os.path.get{name}" for name in ("size", "mtime", "ctime", "atime"))]
)  # fmt: skip
METHODS_THAT_TELL = frozenset({"exists", "is_file", "is_dir", "is_symlink", "stat", "lstat"})
#: Those that fail where the file is gone, and what takes it away.
RAISES = frozenset(
    {"os.stat", "os.lstat", "stat", "lstat", *(f"os.path.get{name}" for name in "size mtime ctime atime".split())}
)
REMOVES = frozenset({"os.remove", "os.unlink", "unlink"})
#: What asks for all that is known of a file at once.
STATUS = frozenset({"os.stat", "os.lstat", "stat", "lstat"})

#: Those whose answer is a truth or a number, and no path.
ANSWERS = FUNCTIONS_THAT_TELL | METHODS_THAT_TELL

FUNCTIONS = FUNCTIONS_THAT_LIST | FUNCTIONS_THAT_TELL
METHODS = METHODS_THAT_LIST | METHODS_THAT_TELL


def is_of_the_disk(name: str) -> bool:
    """Whether a function, by its full name, or a method of a path tells what files there are."""
    return name in FUNCTIONS or name in METHODS
