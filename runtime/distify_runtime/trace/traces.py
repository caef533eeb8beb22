"""What one process did, as `program.py` wrote it down."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

#: `acc_va`, `va_loss`, `acc_tr`: by themselves these are words of some languages.
_SHORT_VALID, _SHORT_TRAIN = (rf"(?<=_){word}(?![a-z])|(?<![a-z]){word}(?=_)" for word in ("va", "tr"))
EVALUATION = re.compile(rf"test|val|accuracy|best|{_SHORT_VALID}", re.IGNORECASE)
TRAINING = re.compile(rf"train|{_SHORT_TRAIN}", re.IGNORECASE)
#: Which of both is meant from there on, in a line that speaks of the training, too; an accuracy may be of either.
_OF = re.compile(
    rf"(?=train|{_SHORT_TRAIN}|{_SHORT_VALID}|(?<![a-z])(?:test|val|valid|validation|eval|evaluation|dev)(?![a-z]))",
    re.IGNORECASE,
)

#: What terminals take for colours and movements.
_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")

PROGRAM = Path(__file__).with_name("program.py")


@dataclass(frozen=True)
class Pass:
    """A training pass over a DistributedSampler; `first_step`: optimizer steps taken before it began.

    `seed`: of its order, which a compared run draws otherwise.
    """

    sampler: int
    epoch: int
    samples: int
    first_step: int
    seed: int = 0
    shuffles: bool = True


@dataclass(frozen=True)
class Save:
    """One torch.save. `path` is relative to the working folder; `contents` has every tensor, number and text
    inside by its dotted key, and the type's name of anything else."""

    path: str
    contents: dict[str, Any]


@dataclass(frozen=True)
class Trace:
    """What one process did."""

    steps: list[tuple[int, Tensor]]  # after each one: the optimizer's number and its parameters, float64 [n]
    passes: list[Pass]
    saves: list[Save]
    lines: list[str]  # of stdout; a carriage return ends a line too
    files: list[str]  # in the working folder when all processes had ended
    world_size: int
    training_inputs: int  # numbers fed to innermost modules in training
    group_left_open: bool
    cut: bool = False  # after the steps that were asked for, and not at its own end
    later: list[str] = field(default_factory=list)  # then: the script's loops that train, and had not begun
    losses: list[float] = field(default_factory=list)  # at each step, all that gradients were taken of since the last
    beginnings: list[Tensor] = field(default_factory=list)  # of each optimizer: its parameters before its first step
    names: list[list[tuple[str, int]]] = field(default_factory=list)  # of each optimizer: parameters, entries
    saves_in_memory: list[Save] = field(default_factory=list)
    written: list[str] = field(default_factory=list)  # opened for writing, relative to the working folder
    filled: list[int] = field(default_factory=list)  # sizes of last batches that were filled up
    #: Of each pass over a loader: whether it trains, the data set's size, the numbers of the samples that were read,
    #: and whether a library cuts off what it has filled up.
    readings: list[tuple[bool, int, Tensor, bool]] = field(default_factory=list)
    shares_forwards: bool = False  # every rank was given whole batches, and computed a part of them where that could be
    #: Then: numbers that this process has computed with, of those that models were called with, by position.
    share: tuple[int, int] = (0, 0)
    own_draws: list[str] = field(default_factory=list)  # libraries in it that draw from random numbers of their own

    drawn: bool = False  # in training, something that may be noise for samples
    #: Lines that draw a single number: the step, the place, what stands there, and how often in that step.
    singles: list[tuple[int, str, str, int]] = field(default_factory=list)
    workers: bool = False  # a loader has asked for some
    mixed: bool = False  # the script has asked for mixed precision
    rounded: tuple[int, int] = (0, 0)  # calls of innermost modules in training: under autocast, and all
    #: Lines that draw an order: the step, the place, what stands there, and of how many numbers in that step.
    orders: list[tuple[int, str, str, int]] = field(default_factory=list)
    #: The step, where chance was, and of how many numbers some would go; of wrapped models, if any has some.
    dropouts: list[tuple[int, int, int]] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)  # lines of stderr, without times
    whole: list[str] = field(default_factory=list)  # what the run says of models that every rank computes whole
    hooks: str = ""  # of it, what is about a wrapped model that has lost its hooks
    watched: list[str] = field(default_factory=list)  # what the run's own watch has said
    missed: list[str] = field(default_factory=list)  # whole paths beside the project that its copy does not lead to

    @property
    def evaluation_lines(self) -> list[str]:
        return list(filter(None, map(_of_an_evaluation, (*self.lines, *self.logged))))

    def name_of(self, optimizer: int, entry: int) -> str:
        """The parameter that entry number `entry` of a step's parameters belongs to."""
        for name, entries in self.names[optimizer] if optimizer < len(self.names) else ():
            if entry < entries:
                return name
            entry -= entries
        return f"entry {entry}"


def load(path: Path, output: str, files: list[str]) -> Trace:
    fields = torch.load(path, weights_only=True)
    passes = [Pass(**one) for one in fields.pop("passes")]
    saves, in_memory = ([Save(**one) for one in fields.pop(kind)] for kind in ("saves", "saves_in_memory"))
    return Trace(
        passes=passes,
        saves=saves,
        saves_in_memory=in_memory,
        lines=lines_of(output),
        files=files,
        missed=missed_of(path),
        **fields,
    )


def lines_of(output: str) -> list[str]:
    return re.split(r"[\r\n]+", _COLOURS.sub("", output))


def missed_of(path: Path) -> list[str]:
    """What the process that writes its trace to `path` looked for beside its working copy, in vain."""
    file = path.with_suffix(".missed")
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def watched_of(path: Path) -> str:
    """What the watch of the process that writes its trace to `path` said first, also where it came to no end."""
    file = path.with_suffix(".watched")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return lines[0] if lines else ""


def files_in(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(str(path.relative_to(folder)) for path in found)


def is_of_an_evaluation(line: str) -> bool:
    return bool(_of_an_evaluation(line))


def _of_an_evaluation(line: str) -> str:
    """What a line says of an evaluation: all of it, or from where it names one to where it names the training again."""
    if not TRAINING.search(line):
        return line if EVALUATION.search(line) else ""
    begins = [one.start() for one in _OF.finditer(line)]
    pieces = zip(begins, [*begins[1:], len(line)], strict=True)
    return "".join(line[begin:end] for begin, end in pieces if not TRAINING.match(line, begin))
