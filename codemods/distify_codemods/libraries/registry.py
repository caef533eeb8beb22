"""What functions, classes and methods of libraries do: records, and the questions that are asked of them.

The records stand in `apis/`, one file a library: a new file there is all that a new library needs.
"""

from __future__ import annotations

import os
from enum import Enum, Flag, auto
from functools import cache
from importlib import import_module
from typing import NamedTuple

from distify_codemods.libraries import apis as folder

#: The path is that of the object itself: `path.write_text(text)`.
ITSELF = -1
#: Which files are written or read is not told by one argument.
UNSEEN = -2


class Role(Enum):
    """What something of a library is."""

    FUNCTION = "any function, class or method"
    CHECKPOINT = "writes a checkpoint"
    DATA = "keeps data in a file, and changes nothing else"
    IN_PLACE = "puts a file, of whatever kind, where there was none or another one"
    INTO_A_HANDLE = "writes an object into a file that is open"
    SHELL = "another process: which files it writes is not seen"
    FILE = "opens a file"
    BY_PATH = "opens a file, if it is given a path"
    THROUGH = "text goes through it into a file that is open"
    STORE = "stands for a file: it writes it, or reads it"
    WRITER = "stands for a file that it writes"
    IN_MEMORY = "what is written into it is no file, and each rank reads it back for itself"
    MAPPED = "a file in memory, of which every rank needs the contents"
    DATABASE = "is opened to be read and written"
    CACHE = "keeps what was computed in files of its own, and each rank finds there what it looks for"
    FOLDER = "makes a folder by itself, named by the time, wherever it runs"
    BAR = "draws a progress bar, and knows no `disable`, or has another word for it"
    CONSOLE = "an object that puts text on the screen"
    LOG_FILE = "a handler of log records that opens a file"
    LOG_SINK = "takes log records elsewhere than to the screen"
    LOG_BASICS = "may open a log file"
    LOG_SETUP = "says where log records go"
    TRACKER = "reports to an experiment's log: rank 0 alone has it"
    RUN = "makes a run, which can be told to do nothing"
    OF_A_RUN = "reports to a run; where that does nothing, neither does this"
    AGENT = "starts runs of its own"
    FOR_ALL = "of a tracker's library, but each rank needs what it gives, or what it runs"


TRACKERS = (Role.TRACKER, Role.RUN, Role.OF_A_RUN, Role.AGENT)


class Effect(Flag):
    """What it does besides computing."""

    NONE = 0
    READS = auto()
    OPENS = auto()  # a file, if it is given a path: of a picture that it is given, nothing is read
    RESTORES = auto()  # a checkpoint: rules of its own say who reads it, and when
    WRITES = auto()
    REMOVES = auto()  # a folder or file may be gone then
    SHOWS = auto()  # in a window
    LOGS = auto()  # keeps figures that it is given
    PRINTS = auto()


class Api(NamedTuple):
    """One record: what is so of all of these names. Methods begin with a dot; names that end with a dot or an
    underscore stand for all that begin so.
    """

    names: str
    role: Role = Role.FUNCTION
    effect: Effect = Effect.NONE
    #: Which argument names the file, and which says how it is opened.
    path: int = UNSEEN
    mode: int = 1
    #: By which name it is told how, and how it is opened where nothing is said of that.
    told_by: str = "mode"
    default: str = "r"
    #: The path is one file's, and no folder's; with this ending, whatever it says.
    one_file: bool = False
    adds: str = ""
    #: What the file holds, where it is the only thing that it may be: who writes pictures writes no table.
    holds: str = ""
    #: Of a method that other things have, too: how the names begin of what it does this to.
    of: tuple[str, ...] = ()
    #: It is given nothing but a path; what others mean by its name takes more: `text.replace("a", "b")`.
    path_alone: bool = False
    #: The methods of what it makes that write; `[]` where its parts are set.
    writes_by: str = ""
    #: Of a tracker: whether it may report over a network.
    online: bool = False
    #: Its code draws from the script's random numbers, of Python's `random`.
    draws: bool = False
    #: Attributes and methods that stay as they are once it is made, and those that are asked anew each time.
    answers: str = ""
    tells: str = ""
    #: What its `mode` is to be for a run that does nothing, and what may be given by position.
    quiet: str = ""
    parameters: str = ""
    #: It begins a run where it is called, or has another tracker do so: how the names begin of what reports to that.
    begins: str = ""
    #: Of what makes a folder by itself: settings by which it has one name, and nothing of each rank's own in it; and
    #: the arguments that name the folder and the file of its configuration, which may have them.
    settings: str = ""
    config: tuple[str, ...] = ()
    #: Values with which such a setting is as if it were not there; what begins with `$` is a part of one.
    unset: str = ""
    #: What to do about it, for a person.
    advice: str = ""


@cache
def apis() -> tuple[Api, ...]:
    names = sorted(name.removesuffix(".py") for name in os.listdir(*folder.__path__) if name.endswith(".py"))
    modules = (import_module(f"{folder.__name__}.{name}") for name in names if name != "__init__")
    return tuple(api for module in modules for api in module.APIS)


@cache
def _kinds() -> dict[Role | Effect, dict[str, Api]]:
    found: dict[Role | Effect, dict[str, Api]] = {}
    for api in apis():
        kinds: list[Role | Effect] = [api.role, *(one for one in Effect if one.value & api.effect.value)]
        for kind in kinds:
            found.setdefault(kind, {}).update(dict.fromkeys(api.names.split(), api))
    return found


@cache
def functions(*kinds: Role | Effect) -> dict[str, Api]:
    """The functions and classes of any of these roles, or with any of these effects."""
    return {name: api for kind in kinds for name, api in _kinds().get(kind, {}).items() if not name.startswith(".")}


@cache
def methods(*kinds: Role | Effect) -> dict[str, Api]:
    """The methods."""
    return {name[1:]: api for kind in kinds for name, api in _kinds().get(kind, {}).items() if name.startswith(".")}


def all_of(name: str, *kinds: Role | Effect) -> list[Api]:
    """The records that a full name falls under, the narrowest first."""
    table = functions(*kinds)
    found = [one for one in table if name == one or (one[-1] in "._" and name.startswith(one))]
    return [table[one] for one in sorted(found, key=len, reverse=True)]


@cache
def find(name: str, *kinds: Role | Effect) -> Api | None:
    return next(iter(all_of(name, *kinds)), None)


def tracker(name: str) -> Api | None:
    """What is known of a function or class of an experiment tracker; None of all others."""
    return find(name, *TRACKERS, Role.FOR_ALL)


def is_tracker(name: str) -> bool:
    """Whether figures are kept that a function is given, or that methods are given of what it makes."""
    return find(name, Effect.LOGS) is not None
