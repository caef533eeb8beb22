"""What a number or tensor is known to be, or to have come of: objects that are mostly sources of values."""

from __future__ import annotations

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.reads import changing
from distify_codemods.records import dataclass
from distify_codemods.scale import Scale


@dataclass(eq=False, repr=False)
class Origin(Obj):
    """A call whose value each process has for itself, as a source of what was made of it."""

    name: str = ""


class Answer(Obj):
    """As a source: what a process found out about itself, its machine or the time, at `site`."""


class Verdict(Obj):
    """The outcome of a comparison of figures, wherever it is handed on to before something is decided by it."""


@dataclass(eq=False, repr=False)
class Choice(Obj):
    """As a source: which of two values this is was decided by a figure of a rank's samples, at `site`."""

    by: Scale = Scale.UNKNOWN  # what the figure says of them; a mean can be averaged


@dataclass(eq=False, repr=False)
class Counter(Obj):
    """The variable of a loop over a range: an epoch or a step."""

    loop: cst.For | None = None
    first: int | None = None  # of the numbers of a list: `list(range(1, x.dim()))` are all dimensions but the first


@dataclass(eq=False, repr=False)
class Row(Obj):
    """As a source: one sample of a batch, found by the number of a loop's turn; without `by`, by any other number."""

    by: Counter | None = None


@dataclass(eq=False, repr=False)
class Cut(Obj):
    """A batch that the program cuts, draws or folds out of its data by itself: every rank would get all of it."""

    sizes: Ordered[Obj] = EMPTY  # literals and settings that the number of its samples may be
    piece: bool = False  # consecutive rows from some place on: `data[i : i + n]`
    foreign: bool = False  # of a library that is not known: perhaps another one on each rank
    uneven: bool = False  # one of parts that may differ by one sample
    fitted: bool = False  # made with as many rows as another has samples: a first state, noise


@dataclass(eq=False, repr=False)
class Share(Obj):
    """A rank's part of a cut batch."""

    of: Cut | None = None


@dataclass(eq=False, repr=False)
class Through(Obj):
    """As a source: gradients flow back through one call of a module, or straight to its parameters."""

    of: Obj | None = None
    straight: bool = False


@dataclass(eq=False, repr=False)
class Whole(Obj):
    """All ranks' samples, put together again: of a loader's batches, or of shares of a cut one."""

    of: Obj | None = None


@dataclass(eq=False, repr=False)
class Views(Obj):
    """Along the samples lie several blocks, each with all of them: `torch.cat([one, other])`."""

    count: int | None = None  # of blocks, where it is known


class Regrouped(Obj):
    """What was done here may have changed which rows there are for each sample, and their order."""


@dataclass(eq=False, repr=False)
class Flattened(Obj):
    """Each sample may have become several rows: one behind the other, or all those of each step."""

    by_step: bool = False


class Numbered(Obj):
    """Numbers from 0 to that of the samples, or a square of that size: nothing of the samples themselves."""


@dataclass(eq=False, repr=False)
class Kept(Obj):
    """Something of a rank's share was written into a tensor that stays: state, once another batch is taken.

    of: what dealt out that share.
    """

    settled: bool = False
    of: tuple[Obj, ...] = ()


@dataclass(eq=False, repr=False)
class Lost(Obj):
    """Where a number stops being a mean or a sum over samples, as a source of what was made of it."""

    scale: Scale = Scale.UNKNOWN  # what it is instead


@dataclass(eq=False, repr=False)
class Foreign(Obj):
    """As a source: something that is not known, or what came of it, had a part in this."""

    name: str = ""


@dataclass(eq=False, repr=False)
class Played(Obj):
    """As a source: what may be a game said here, of which each process plays one of its own."""

    of: Obj | None = None  # what was reset, or given a move; None: it is known to be played


class Draw(Obj):
    """As a source: random numbers that are drawn at `site`."""


class Dropped(Obj):
    """As a source: something that is dropped at random at `site`, unless the model evaluates."""


@dataclass(eq=False, repr=False)
class Unseen(Obj):
    """As a source: where the samples of a batch are in this is not seen; `told`: tables say that all is well."""

    told: bool = False


class Places(Obj):
    """The places of samples in a batch, each once, in order or at random."""


class Placed(Obj):
    """As a source: the samples of a batch were counted here, or told apart by their places in it."""


@dataclass(eq=False, repr=False)
class Paired(Obj):
    """As a source: rows of what is not of the batch were taken by numbers that are counted from the batch's size, or
    that count turns (`by`).
    """

    by: Counter | None = None


class Reduction(Obj):
    """As a source: here entries of samples became one number."""


@dataclass(eq=False, repr=False)
class Padded(Obj):
    """As a source: samples were made as long as the longest of their batch; `packed`: how long each was, goes along."""

    packed: bool = False
    mixed: bool = False  # what was filled in is in other entries by now, also once these are packed


@dataclass(eq=False, repr=False)
class Labelled(Obj):
    """As a source: what a model has returned that was given a label for each sample; `loss` of it is their mean.

    first: whether it is seen to be given some, so that its loss comes first.
    """

    first: bool = False


class Listed(Obj):
    """As a source: a list with something of each sample, of which is not known how many rows it has."""


class Pooled(Obj):
    """As a source: samples of an earlier batch, which the statement at `site` has kept."""


@dataclass(eq=False, repr=False)
class Outlived(Obj):
    """As a source: random numbers of an earlier turn, which the statement at `site` has kept."""

    draw: Draw | None = None


class Beside(Obj):
    """As a source: rows of what is no share of the batch were put behind those of a rank's samples here."""


class Storage(Obj):
    """As a source: the memory that a tensor lies in, or may: so do its views, whatever they are called."""


class Single(Obj):
    """As a source: of what was computed from a batch, one sample was taken here, unless it is a tuple."""


class Cropped(Obj):
    """As a source: it ends, or begins, where a figure of a batch says, such as the least size of its samples."""


class Size(Obj):
    """The number of samples in a batch, not a part or a multiple of it."""


class Entry(Obj):
    """What a batch has of one sample, as iterating over a part of it gives: its length is no number of samples."""


class Alone(Obj):
    """A tensor without dimensions, as `squeeze` makes it of a batch of one sample."""


class Zero(Obj):
    """A tensor of zeros, to which something is added."""


@dataclass(eq=False, repr=False)
class Shape(Obj):
    """The size of a tensor with one entry per sample. along: the dimension that these entries lie along."""

    along: int = 0


changing(Cut, "sizes")
changing(Kept, "settled")

LENGTH = "the length of a loader"  # what follows from it counts the steps of an epoch
SAMPLE = "a sample that a loader asks for"
#: A source of what was unpacked from a batch: iterated, it gives samples, where a batch gives its parts.
PART = "a part of a batch"
#: A source of what lies in the memory of a batch: it is one of its samples, or some, by their order.
PIECE = "some samples of a batch"
#: It is no batch as its loader gives it, but was computed from one; several tensors were, and are not told apart yet.
COMPUTED = "computed from a batch"
SEVERAL = "several tensors that were computed from a batch"
#: All its rows are the same.
FILLED = "the same in all rows"
#: It has none, until others are put behind them.
NO_ROWS = "no rows"
#: Random numbers went into it; they also say how many entries it has, or where it ends, if that is before its end; they
#: became truths, which pick some out.
#: A class of samples that losses leave out was put into it.
IGNORED = "left out by losses"
#: A text, with a figure of a batch in it.
WORDED = "put into words"
CHANCE = "random"
BY_CHANCE = "as many as random numbers say"
CUT_OFF = "cut off at the end, if random numbers say so"
OUTCOME = "true or false, by random numbers"
#: It was set by what a library calls at a time of its own: see `interrupts`.
SIGNAL = "signal"
#: It was made where ranks may come or not: see `ways`.
ON_A_WAY = "made on one of several ways"
