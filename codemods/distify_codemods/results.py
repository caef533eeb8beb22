"""What goes in and what comes out: plain data, so that callers need no libcst."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class SourceFile:
    """One file as it lies on disk; `path` is only ever shown, never opened."""

    path: str
    data: bytes


#: (path of the importing file, dotted module name, level of a relative import) -> the local file, or None
Resolver = Callable[[str, str, int], "SourceFile | None"]


#: Behind a file's name, of the one that is written beside it.
SUFFIX = "_dist"


class SourceError(Exception):
    """A file that cannot be read as Python 3 source. `line` and `column` count from 1; 0 means unknown."""

    def __init__(self, path: str, message: str, line: int = 0, column: int = 0) -> None:
        self.path, self.message, self.line, self.column = path, message, line, column
        place = f"{path}:{line}:{column}" if line else path
        super().__init__(f"{place}: {message}")


class OptionError(Exception):
    """What the user has settled cannot be followed: one line that says what could be meant."""


@dataclass(frozen=True)
class Said:
    """A role that the user gives something: `name` as in the script, also `file.py:name` or `name@line`.

    `by`: where it was said, for messages: `--model`. `everywhere`: it was said of several scripts at once (in a
    configuration), so that one for another file is passed over.
    """

    name: str
    by: str
    everywhere: bool = False


@dataclass(frozen=True)
class Options:
    """`backend`: how a step is spelled. `partial`: write although something needs a person, with a comment there.

    `models`, `train_loaders`: what the user has settled. `why`: also return what was believed, and why.
    `twins`: the converted files go beside their originals, under other names, and import each other under those;
    `output` is the entry's, if it is not to be `<name>_dist.py`.
    `others`: the project's other files, where files are changed in their place: what these import must go on working.
    `compression` ("none", "fp16") and `op` ("average", "adasum"): how Horovod's gradients travel, and become one.
    `scale`: what stays as it is, the global batch ("global"), or each rank's, with the learning rate scaled by the
    optimizer's rule over the first `warmup_epochs` ("linear") or not ("none").
    `installed`: whether a library, or a module of one, of that name is there; None: nobody can tell.
    `beyond`: where a module lies that PYTHONPATH names outside of the project; None: nowhere.
    `strategy`: "sharded" or "shared" (see `Strategy`), or "auto", the first of the two that is seen to be right.
    `listed`: the modules that lie in a package, by what imports it, its name and its level; None: nobody can tell.
    `commands`: tells the functions of the script that commands of its project call.
    `beside`: the text of a file that is no Python, by what names it and its path from there; None: there is none.
    `budget`: statements of the program that may be followed, over all runs, to find out whether sharded data are right.
    """

    backend: str = "ddp"
    partial: bool = False
    models: tuple[Said, ...] = ()
    train_loaders: tuple[Said, ...] = ()
    why: bool = False
    twins: bool = True
    output: str = ""
    others: tuple[SourceFile, ...] = ()
    scale: str = "global"
    compression: str = "none"
    op: str = "average"
    warmup_epochs: int = 5
    strategy: str = "auto"
    installed: Callable[[str], bool] | None = None
    beyond: Callable[[str], str | None] | None = None
    budget: int = 400_000  # about a minute
    listed: Callable[[str, str, int], Sequence[str]] | None = None
    commands: Callable[[], tuple[str, ...]] | None = None
    beside: Callable[[str, str], str | None] | None = None

    @property
    def per_rank_batch(self) -> bool:
        """Whether each rank keeps the batch size of the script, so that the global batch grows."""
        return self.scale != "global"

    @property
    def only_sharded(self) -> str:
        """An option that shared forward passes have no part in; empty: none is given."""
        given = {"--compression": (self.compression, "none"), "--op": (self.op, "average")}
        return next((f"{name} {value}" for name, (value, default) in given.items() if value != default), "")


class Strategy(Enum):
    """What ranks share: all that depends on a batch, or the forward passes of trained models alone."""

    SHARDED = "sharded"
    SHARED = "shared"


class Outcome(Enum):
    CONVERTED = "converted"
    ALREADY_CONVERTED = "already converted"  # by distify: nothing to do
    REFUSED = "refused"  # at least one blocking finding; `files` is empty


class Level(Enum):
    APPLIED = "applied"
    NOT_NEEDED = "not needed"
    ADVICE = "advice"
    BLOCKING = "needs you"


@dataclass(frozen=True)
class Place:
    path: str
    line: int  # from 1; 0: the file as a whole
    column: int = 0
    cell: int = 0  # of a notebook, from 1; `line` is then one of the cell's

    def __str__(self) -> str:
        if self.cell:
            return f"{self.path}, cell {self.cell}, line {self.line}"
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True)
class Finding:
    """One line of the checklist."""

    level: Level
    code: str  # of the rule, e.g. "DATA01"; "REFUSE" codes for scripts that are none of our business
    title: str  # of the rule: what distribution needs
    message: str  # what was done or found here, and why
    place: Place | None = None
    fix: str = ""  # needs you: the code to write, or what to do next


@dataclass(frozen=True)
class Change:
    """One edit: where it took place in the original and why.

    `written`: the first line of what it inserts, without indentation, and `beside`: the line of the original that this
    stands above or below; "" and 0 where an edit changes what stands at its place.
    """

    code: str
    place: Place
    reason: str
    written: str = ""
    beside: int = 0


@dataclass(frozen=True)
class NewFile:
    path: str
    before: bytes
    after: bytes
    changes: tuple[Change, ...]  # in order of place
    target: str = ""  # where it goes, if not to `path`


@dataclass(frozen=True)
class Reason:
    """A link of the chain that leads to a belief. `text` names the place in the words of a sentence."""

    text: str
    place: Place


@dataclass(frozen=True)
class Belief:
    """What something of the script was taken for, and why."""

    role: str  # "model", "optimizer", "loader", "loop", "backward", "step" or "save"
    name: str  # the user's own expression
    what: str  # "a trained model"
    place: Place
    because: tuple[Reason, ...]

    def __str__(self) -> str:
        return f"`{self.name}` is {self.what}: {'; '.join(reason.text for reason in self.because)}"


@dataclass(frozen=True)
class Conversion:
    outcome: Outcome
    files: tuple[NewFile, ...]  # those that change
    findings: tuple[Finding, ...]  # in the order of the checklist: by rule, then by place
    beliefs: tuple[Belief, ...] = ()  # where they were asked for
    strategy: Strategy | None = None  # None where nothing was looked at so closely
    headline: str = ""  # the strategy, in a line

    def of(self, level: Level) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level is level)
