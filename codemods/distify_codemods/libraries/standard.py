"""Python's own modules that stay on the machine: none of them asks anybody outside, or fetches anything."""

from __future__ import annotations

#: Modules that compute, or do nothing to files but by what other tables name.
_COMPUTE = frozenset(
    "__future__ abc argparse array ast atexit base64 binascii bisect builtins bz2 cProfile calendar cmath codecs "
    "collections colorsys configparser contextlib contextvars copy copyreg dataclasses datetime decimal difflib dis "
    "doctest email enum errno faulthandler fnmatch fractions functools gc getopt getpass gettext glob graphlib gzip "
    "hashlib heapq hmac html imghdr inspect io ipaddress itertools json keyword linecache locale lzma math mimetypes "
    "numbers "
    "operator optparse os pathlib pdb pickle pickletools pkgutil platform posixpath pprint profile pstats queue random "
    "re reprlib resource sched secrets select shlex signal stat statistics string struct sys sysconfig textwrap "
    "threading time timeit token tokenize traceback tracemalloc types typing unicodedata unittest uuid warnings wave "
    "weakref xml zipfile zlib zoneinfo".split()
)
#: Modules that keep files of their own.
_KEEP = frozenset(
    "aifc csv ctypes dbm filecmp fileinput logging mailbox marshal mmap plistlib shelve shutil sqlite3 "
    "sunau tarfile tempfile trace".split()
)

#: What calls a function that it is given at a time of its own, which is another one in each process.
CALL_AT_ANY_TIME = ("signal.signal", "threading.Timer", "keyboard.", "pynput.")
#: What such a function sets, and tells others of.
FLAGS = frozenset(
    f"{library}.{name}" for library in ("threading", "multiprocessing", "torch.multiprocessing", "asyncio", "queue")
    for name in ("Event", "Condition", "Semaphore", "Queue", "SimpleQueue", "Value")
)  # fmt: skip


def computes(name: str) -> bool:
    """Whether a function, by its full name, is of a module that does nothing to files by itself."""
    return name.partition(".")[0] in _COMPUTE


def stays_inside(name: str) -> bool:
    """Whether it is of a module that has nothing to do with the world outside."""
    return name.partition(".")[0] in _COMPUTE | _KEEP
