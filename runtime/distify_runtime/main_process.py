"""Side effects that happen once: rank 0 has them, the others do without, or are told what came of them."""

from __future__ import annotations

import builtins
import functools
import itertools
import logging
import os
import pickle
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO, Any, ParamSpec, TypeVar

import torch

from distify_runtime import communicator, handing
from distify_runtime.environment import is_alone, is_main_process
from distify_runtime.meeting import by_itself, collective
from distify_runtime.one_rank import alone
from distify_runtime.output import look_at
from distify_runtime.patching import wrap
from distify_runtime.process_group import init_process_group, ranks_take_turns
from distify_runtime.randomness import DrawnByOne
from distify_runtime.watch.frames import is_defined_by_script

#: Each call of `from_main_process` has a number, the same on every rank, by which they find rank 0's value.
_calls = itertools.count()

T = TypeVar("T")
P = ParamSpec("P")


@collective
def from_main_process(value: T) -> T:
    """Rank 0's `value`, on every rank. Every rank has to call it; joins the process group where that is still to do.

    For what each process sees differently: the time, a random name, what files there are, batches of something that
    has random numbers of its own. `value` is pickled. Rank 0 leaves it for the others and waits for nobody, so that it
    may be called inside `main_process_first`. Outside of it what is large is broadcast. Tensors are on the device that
    they were on: of several GPUs, each rank's own.
    """
    if is_alone():
        return value
    init_process_group()
    if isinstance(value, torch.Tensor) and not ranks_take_turns():
        return _broadcast(value)  # type: ignore[return-value]
    store, number = communicator.store(), next(_calls)
    if not is_main_process():
        return handing.take(store, number)  # type: ignore[no-any-return]
    handing.leave(store, number, value, meets=not ranks_take_turns())
    return value


def _broadcast(tensor: torch.Tensor) -> torch.Tensor:
    """A collective."""
    shape, dtype, wants_gradient = from_main_process((tensor.shape, tensor.dtype, tensor.requires_grad))
    sent = tensor.detach() if is_main_process() else torch.empty(shape, dtype=dtype, device=tensor.device)
    communicator.broadcast(sent.contiguous() if is_main_process() else sent)
    return tensor if is_main_process() else sent.requires_grad_(wants_gradient)


@collective
def call_on_main_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Rank 0 calls `function`; what it returns or raises, every rank returns or raises. A collective.

    Random numbers that it draws are drawn on all ranks that would have drawn the same.
    Ranks cannot meet in `function`: there that raises MetAlone.
    """
    if is_alone():
        return function(*args, **kwargs)
    result: T | None = None
    error: Exception | None = None
    drawn = DrawnByOne()
    if is_main_process():
        try:
            with alone():
                result = function(*args, **kwargs)
        except Exception as caught:
            error = caught
    result, told, moved = from_main_process((result, _that_can_be_sent(error), drawn.told()))
    drawn.follow(moved)
    if told is not None:
        raise told if error is None else error
    return result  # type: ignore[return-value]


@collective
@contextmanager
def fail_together() -> Iterator[None]:
    """What a rank raises in the block, all ranks raise at its end: in a `try` after which they are to go on alike.

    At the end of the block all ranks wait for each other. Of several errors each raises its own, who has none that of
    the first rank that has one.
    """
    if is_alone():
        yield
        return
    error: Exception | None = None
    try:
        yield
    except Exception as caught:
        error = caught
    init_process_group()
    everyone = communicator.all_gather_object(_that_can_be_sent(error))
    told = error or next(filter(None, everyone), None)
    if told is not None:
        raise told


def _that_can_be_sent(error: Exception | None) -> Exception | None:
    """The exception, if it survives pickling; else one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@by_itself
def main_process_path(path: T) -> T | str:
    """`path` on rank 0, the null device on the others: for what opens a file to write to it."""
    if is_main_process():
        return path
    _pass_over_the_null_device()
    return os.devnull


@functools.cache
def _pass_over_the_null_device() -> None:
    """What is written there is nowhere: to have that on the disk, which tees of stdout ask for, is an error of the
    system's, and a lock of it would be one for all ranks but the first, and for all runs of this machine."""
    null = os.stat(os.devnull).st_rdev

    def around(original: Callable[..., Any], file: Any, *args: Any, **kwargs: Any) -> Any:
        found = os.fstat(file if isinstance(file, int) else file.fileno())
        is_null = stat.S_ISCHR(found.st_mode) and found.st_rdev == null
        return None if is_null else original(file, *args, **kwargs)

    with suppress(ImportError):  # there is none on Windows
        import fcntl

        wrap(fcntl, "flock", around)
        wrap(fcntl, "lockf", around)
    for name in ("fsync", "fdatasync"):
        if hasattr(os, name):
            wrap(os, name, around)


@by_itself
def main_process_open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> IO[Any]:
    """Python's `open`, with a file that swallows what the other ranks write.

    Opened for reading it is the file itself on every rank. Its `name` is the file's own on every rank, so that all can
    read there what rank 0 has written.
    """
    if is_main_process() or not set(mode) & set("wax+"):
        return builtins.open(file, mode, *args, **kwargs)
    return _called(builtins.open(main_process_path(file), mode.replace("x", "w"), *args, **kwargs), file)


def _called(opened: IO[Any], file: Any) -> IO[Any]:
    """The null device, which takes no length, as an open file that says it were another one."""
    shown: Any = opened
    shown.truncate = lambda size=None: opened.tell() if size is None else size
    binary = getattr(opened, "buffer", opened)
    raw: Any = getattr(binary, "raw", binary)
    raw.name = file if isinstance(file, int) else os.fspath(file)
    return opened


@by_itself
def main_process_only(function: Callable[..., Any], share: Sequence[str] = ()) -> Callable[..., Any]:
    """`function` on rank 0; on the others something that takes every call and does nothing.

    What it returns there takes every call, too: `writer = main_process_only(SummaryWriter)(folder)` may be kept,
    passed on and called by all ranks. `share`: attributes of the result, and methods without arguments, that
    answer on all ranks as they do on rank 0; the call is a collective then.
    """
    name = getattr(function, "__name__", str(function))
    if not share:
        return function if is_main_process() else StandIn(name)

    @functools.wraps(function)
    def shared(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs) if is_main_process() else StandIn(name)
        answers = from_main_process({one: _answer(made, one) for one in share} if is_main_process() else {})
        for one, (callable_, answer) in () if is_main_process() else answers.items():
            setattr(made, one, functools.partial(_same, answer) if callable_ else answer)
        return made

    return shared


def _answer(made: Any, name: str) -> tuple[bool, Any]:
    value = getattr(made, name)
    return callable(value), value() if callable(value) else value


def _same(answer: Any) -> Any:
    return answer


class StandIn:
    """In place of something that rank 0 alone has."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> StandIn:
        return StandIn(f"{self._name}()")

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __getitem__(self, key: Any) -> StandIn:
        return StandIn(f"{self._name}[{key!r}]")

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __contains__(self, one: object) -> bool:
        raise TypeError(f"what is in {self._name}, rank 0 alone knows")

    def __str__(self) -> str:
        # In a message it does no harm. The null character keeps it from ever becoming part of a file's name.
        return f"<{self._name} of rank 0>\0"

    def __format__(self, spec: str) -> str:
        return str(self)

    __repr__ = __str__


@by_itself
@functools.cache  # once, however often it is called
def rank_zero_logging() -> None:
    """Log records come from rank 0 alone; those of other ranks only from ERROR on. For `logging` and loguru.

    Handlers that the script defines have them on all ranks: what such a handler keeps, training may read.
    """

    if is_alone():
        return

    def around(original: Callable[..., Any], logger: logging.Logger, record: logging.LogRecord) -> None:
        look_at(functools.partial(_message, record), _logs(sys._getframe(1)))
        if is_main_process() or record.levelno >= logging.ERROR:
            original(logger, record)
            return
        for handler in filter(_is_of_script, _handlers(logger)):
            if record.levelno >= handler.level:
                handler.handle(record)

    wrap(logging.Logger, "callHandlers", around)
    if not is_main_process() and "loguru" in sys.modules:
        sys.modules["loguru"].logger.disable("")


def _handlers(logger: logging.Logger | None) -> Iterator[logging.Handler]:
    """Those that its records come to."""
    while logger:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None


def _is_of_script(handler: logging.Handler) -> bool:
    """Whether the script says what becomes of a record; not where it may hand it on to what writes to a stream."""
    return not isinstance(handler, logging.StreamHandler) and is_defined_by_script(type(handler), "emit")


def _message(record: logging.LogRecord) -> str:
    with suppress(Exception):  # what cannot be put together, handlers tell of
        return record.getMessage()
    return ""


def _logs(frame: FrameType) -> FrameType:
    """What calls a function of `logging`."""
    while frame.f_back and frame.f_globals.get("__name__") in (__name__, logging.__name__, wrap.__module__):
        frame = frame.f_back
    return frame
