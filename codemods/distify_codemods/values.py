"""What a value may be. Roles belong to abstract objects (allocation site and calling context), never to names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.ordered import EMPTY, InOrder, Ordered
from distify_codemods.reads import NUMBERS, Table, changing
from distify_codemods.records import dataclass

if TYPE_CHECKING:
    from distify_codemods.interpreter.frames import Frame
    from distify_codemods.module import Module


class Scale(Enum):
    """How a number depends on how many samples it was computed from: what sharding a batch does to it."""

    __hash__ = object.__hash__  # members are compared by identity, and Enum hashes their names anew each time

    CONST = "does not depend on the batch"
    SAMPLES = "one entry per sample"
    TURNED = "one entry per sample, not along the first dimension"
    RAGGED = "some of the samples"
    COUNT = "the number of samples"
    INVERSE = "a number divided by the number of samples"
    MEAN = "a mean over samples"
    SUM = "a sum over samples"
    WEIGHTED = "a mean whose weights depend on the samples"
    SLOPES = "one entry per sample, divided by the number of samples or not: a gradient, of which the sign is known"
    REDUCED = "computed over the batches of all ranks: the same on each, with its gradient"
    COUPLED = "relates the samples of a batch to each other"
    UNKNOWN = "unknown"


PER_SAMPLE = frozenset({Scale.SAMPLES, Scale.TURNED, Scale.RAGGED})
#: What sharding a batch makes something else of.
LOST = frozenset({Scale.WEIGHTED, Scale.COUPLED, Scale.UNKNOWN})


@dataclass(frozen=True)
class Turn:
    """One turn of a loop or comprehension over a few known items."""

    loop: cst.CSTNode
    number: int


class CallChain(tuple["cst.CSTNode | Turn", ...]):
    """How execution got to a function's body or a turn of a loop: calls and turns, outermost first.

    A part of the key of all objects and events: its hash is kept.
    """

    _hash: int

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = super().__hash__()
            return self._hash

    def then(self, step: cst.CSTNode | Turn) -> CallChain:
        return CallChain((*self, step))


AT_THE_TOP = CallChain()


@dataclass(eq=False, repr=False)
class Obj:
    """An abstract object: where it was made (`site`) and by which chain of calls (`context`)."""

    site: cst.CSTNode | None
    context: CallChain = AT_THE_TOP
    module: Module | None = None
    attributes: Table[str, Value] = field(default_factory=Table)
    number: int = field(default_factory=NUMBERS.__next__)  # in the order of making
    alone: Ordered[Obj] = field(init=False)  # the set of this object only: the same one for each value that is it

    def __post_init__(self) -> None:
        self.alone = Ordered([self])

    def __repr__(self) -> str:
        return f"{type(self).__name__} {getattr(self, 'name', '')}".strip()


@dataclass(eq=False, repr=False)
class Ref(Obj):
    """Something of a library, by its full name: `torch.nn.Linear`."""

    name: str = ""


@dataclass(eq=False, repr=False)
class Const(Obj):
    value: object = None


@dataclass(eq=False, repr=False)
class Local(Obj):
    """A local module."""

    target: Module | None = None


@dataclass(eq=False, repr=False)
class Function(Obj):
    node: cst.FunctionDef | cst.Lambda | None = None
    closure: Frame | None = None
    owner: Class | None = None


@dataclass(eq=False, repr=False)
class Class(Obj):
    node: cst.ClassDef | None = None
    bases: tuple[Value, ...] = ()
    fields: tuple[str, ...] = ()  # of a named tuple that is no class statement
    setters: Table[str, Function] = field(default_factory=Table)  # of properties

    def order(self) -> list[Class]:
        """The class and its local bases in Python's order of resolution."""
        bases = [base for value in self.bases for base in value.objs if isinstance(base, Class) and base is not self]
        queues = [one for one in (*(base.order() for base in bases), bases) if one]
        found = [self]
        while queues:
            heads = [queue[0] for queue in queues]
            first = next((head for head in heads if all(head not in queue[1:] for queue in queues)), heads[0])
            found.append(first)
            queues = [rest for queue in queues if (rest := [one for one in queue if one is not first])]
        return found

    def ancestors(self) -> Iterable[Class]:
        """The class and its local bases, nearest first."""
        seen: list[Class] = []
        queue = [self]
        while queue:
            current = queue.pop(0)
            if current not in seen:
                seen.append(current)
                yield current
                queue += [base for value in current.bases for base in value.objs if isinstance(base, Class)]

    def derives_from(self, *names: str) -> bool:
        return not self.libraries().isdisjoint(names)

    def libraries(self) -> Ordered[str]:
        """The classes of libraries that it is derived from."""
        bases = (base for one in self.ancestors() for value in one.bases for base in value.objs)
        return Ordered(base.name for base in bases if isinstance(base, Ref))


@dataclass(eq=False, repr=False)
class Bound(Obj):
    receiver: Obj | None = None
    function: Function | None = None


@dataclass(eq=False, repr=False)
class Instance(Obj):
    """An object of a local class."""

    of: Class | None = None
    base: External | None = None  # what it is to a library: the DataLoader of a class derived from it
    read: bool = False  # from a file, in place of what was saved


@dataclass(eq=False, repr=False)
class Parent(Obj):
    """`super()`: an object as the bases of one of its classes see it."""

    receiver: Obj | None = None
    owner: Class | None = None


@dataclass(eq=False, repr=False)
class External(Obj):
    """What a call of a library returned."""

    name: str = ""  # of the function or class that was called
    whole: Obj | None = None  # what it is a part of: `model` of `model[0]`
    arguments: Arguments | None = None
    read: bool = False  # from a file, in place of what was saved


@dataclass(eq=False, repr=False)
class Partial(Obj):
    """functools.partial: a function with some of its arguments."""

    function: Value | None = None
    arguments: Arguments | None = None


@dataclass(eq=False, repr=False)
class Suspended(Obj):
    """A call of a generator function that is a context manager: it runs when it is entered."""

    function: Function | None = None
    arguments: Arguments | None = None
    receiver: Obj | None = None


@dataclass(eq=False, repr=False)
class Method(Obj):
    """A method of something that is not local code."""

    receiver: Value | None = None
    name: str = ""
    receiver_node: cst.BaseExpression | None = None


@dataclass(eq=False, repr=False)
class Wrapped(Obj):
    """A model in DistributedDataParallel (`ours`) or in nn.DataParallel."""

    inner: Obj | None = None
    ours: bool = False


@dataclass(eq=False, repr=False)
class Parameters(Obj):
    """The parameters of a model, or some of them."""

    of: Obj | None = None


@dataclass(eq=False, repr=False)
class Sequence(Obj):
    """A list, tuple or set: its items where they are known one by one, else what any of them may be."""

    items: tuple[Value, ...] | None = None
    element: Value | None = None
    per_sample: bool = False  # one item for each sample of a batch
    deals: Ordered[External] = EMPTY  # the loaders that each item is a batch of: a generator, list(loader)


@dataclass(eq=False, repr=False)
class Mapping(Obj):
    items: Table[object, Value] = field(default_factory=Table)
    rest: Value | None = None  # under keys that are not known
    factory: Value | None = None  # of a defaultdict
    named: bool = False  # the names of a module: of those, only functions and classes are reached by unknown keys

    def any(self) -> Value:
        values = self.items.values()
        if self.named:
            values = [one for one in values if any(isinstance(obj, (Function, Class)) for obj in one.objs)]  # type: ignore[assignment]
        return join(*values, self.rest or NOTHING)


@dataclass(eq=False, repr=False)
class Setting(Obj):
    """An attribute of what parse_args returned."""

    name: str = ""


@dataclass(eq=False, repr=False)
class Origin(Obj):
    """A call whose value each process has for itself, as a source of what was made of it."""

    name: str = ""


@dataclass(eq=False, repr=False)
class Answer(Obj):
    """As a source: what a process found out about itself, its machine or the time, at `site`."""


@dataclass(eq=False, repr=False)
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


@dataclass(eq=False, repr=False)
class Passing(Obj):
    """An iteration over a loader: what enumerate, tqdm, iter … return."""

    over: Value | None = None
    numbered: bool = False  # yields (index, item)
    zipped: tuple[Value, ...] = ()
    begun: bool = False  # an iterator; else iterating over it begins a pass
    repeats: bool = False  # itertools.cycle: the first pass's items again and again
    partial: bool = False  # not all items, or not each of them once


@dataclass(eq=False, repr=False)
class Cut(Obj):
    """A batch that the program cuts, draws or folds out of its data by itself: every rank would get all of it."""

    sizes: Ordered[Obj] = EMPTY  # literals and settings that the number of its samples may be
    foreign: bool = False  # of a library that is not known: perhaps another one on each rank


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


@dataclass(eq=False, repr=False)
class Regrouped(Obj):
    """What was done here may have changed which rows there are for each sample, and their order."""


@dataclass(eq=False, repr=False)
class Flattened(Obj):
    """Each sample may have become several rows: one behind the other, or all those of each step."""

    by_step: bool = False


@dataclass(eq=False, repr=False)
class Numbered(Obj):
    """Numbers from 0 to that of the samples, or a square of that size: nothing of the samples themselves."""


@dataclass(eq=False, repr=False)
class Kept(Obj):
    """Something of a rank's share was written into a tensor that stays: state, once another batch is taken."""

    settled: bool = False


@dataclass(eq=False, repr=False)
class Lost(Obj):
    """Where a number stops being a mean or a sum over samples, as a source of what was made of it."""

    scale: Scale = Scale.UNKNOWN  # what it is instead


@dataclass(eq=False, repr=False)
class Foreign(Obj):
    """As a source: something that is not known, or what came of it, had a part in this."""

    name: str = ""


@dataclass(eq=False, repr=False)
class Draw(Obj):
    """As a source: random numbers that are drawn at `site`."""


@dataclass(eq=False, repr=False)
class Reduction(Obj):
    """As a source: here entries of samples became one number."""


@dataclass(eq=False, repr=False)
class Padded(Obj):
    """As a source: samples were made as long as the longest of their batch; `packed`: how long each was, goes along."""

    packed: bool = False


@dataclass(eq=False, repr=False)
class Listed(Obj):
    """As a source: a list with something of each sample, of which is not known how many rows it has."""


@dataclass(eq=False, repr=False)
class Pooled(Obj):
    """As a source: samples of an earlier batch, which the statement at `site` has kept."""


@dataclass(eq=False, repr=False)
class Single(Obj):
    """As a source: of what was computed from a batch, one sample was taken here, unless it is a tuple."""


@dataclass(eq=False, repr=False)
class Size(Obj):
    """The number of samples in a batch, not a part or a multiple of it."""


@dataclass(eq=False, repr=False)
class Zero(Obj):
    """A tensor of zeros, to which something is added."""


@dataclass(eq=False, repr=False)
class Shape(Obj):
    """The size of a tensor with one entry per sample."""


changing(Instance, "base")
changing(External, "arguments")
changing(Partial, "arguments")
changing(Suspended, "arguments")
changing(Method, "receiver")
changing(Sequence, "items", "element", "per_sample", "deals")
changing(Mapping, "items", "rest", "factory")
changing(Passing, "over", "zipped")
changing(Cut, "sizes")
changing(Kept, "settled")


@dataclass(frozen=True, init=False)
class Value:
    """What an expression may evaluate to.

    `sources`: what its number depends on: loaders whose batches went into it, and words such as "random" or "time".
    """

    objs: Ordered[Obj] = EMPTY
    scale: Scale = Scale.CONST
    sources: Ordered[Obj | str] = EMPTY
    mask: bool = False  # the outcome of a comparison: indexing with it takes some of the samples
    open: bool = False  # or something else, of which nothing is known
    deep: bool = False  # known to have more than one dimension: the last one is not that of the samples

    def __init__(
        self,
        objs: Ordered[Obj] = EMPTY,
        scale: Scale = Scale.CONST,
        sources: Ordered[Obj | str] = EMPTY,
        mask: bool = False,
        open: bool = False,
        deep: bool = False,
    ) -> None:
        # A frozen class's own initialiser sets fields one by one; a run makes hundreds of thousands of values.
        self.__dict__.update(objs=objs, scale=scale, sources=sources, mask=mask, open=open, deep=deep)

    def single(self) -> Obj | None:
        return next(iter(self.objs)) if len(self.objs) == 1 else None

    def of(self, objs: InOrder[Obj]) -> Value:
        return Value(Ordered(objs), self.scale, self.sources)

    def adding(self, sources: InOrder[Obj | str]) -> Value:
        """The same, which depends on these as well."""
        return self.with_sources(self.sources | sources)

    def with_sources(self, sources: Ordered[Obj | str]) -> Value:
        """The same, which depends on these and nothing else."""
        if sources is self.sources:
            return self
        return Value(self.objs, self.scale, sources, self.mask, self.open, self.deep)

    def constant(self) -> object:
        """The literal that this always is; None for anything else, and for the literal None."""
        known = {(type(obj.value), obj.value) if isinstance(obj, Const) else None for obj in self.objs}
        return (next(iter(known)) or (None, None))[1] if len(known) == 1 and not self.open else None

    @property
    def is_none(self) -> bool:
        nothing = all(isinstance(obj, Const) and obj.value is None for obj in self.objs)
        return bool(self.objs) and not self.open and nothing

    @property
    def is_zero(self) -> bool:
        """Whether it is always zero: what a sum begins with."""
        zeros = all(isinstance(obj, Zero) or _is_the_number_zero(obj) for obj in self.objs)
        return bool(self.objs) and zeros and not self.open and self.scale is Scale.CONST


NOTHING = Value()
#: What a value holds that is the number of samples.
SIZE = Size(None).alone
#: A source of what was unpacked from a batch: iterated, it gives samples, where a batch gives its parts.
LENGTH = "the length of a loader"  # what follows from it counts the steps of an epoch
PART = "a part of a batch"
#: It is no batch as its loader gives it, but was computed from one; several tensors were, and are not told apart yet.
COMPUTED = "computed from a batch"
SEVERAL = "several tensors that were computed from a batch"
#: Random numbers went into it; they also say how many entries it has, or where it ends, if that is before its end; they
#: became truths, which pick some out.
CHANCE = "random"
BY_CHANCE = "as many as random numbers say"
CUT_OFF = "cut off at the end, if random numbers say so"
OUTCOME = "true or false, by random numbers"
#: It was set by what a library calls at a time of its own: see `interrupts`.
SIGNAL = "signal"
#: It was made where ranks may come or not: see `ways`.
ON_A_WAY = "made on one of several ways"


def _is_the_number_zero(obj: Obj) -> bool:
    return isinstance(obj, Const) and obj.value == 0 and obj.value is not False


def join(*values: Value) -> Value:
    """What may be any of the values, as after a branch."""
    if len(values) > _MANY and (alike := _alike(values)) is not None:
        return alike
    result = NOTHING
    for value in values:
        if result is NOTHING or value is result:
            result = value
        elif value is not NOTHING:
            result = _join(result, value)
    return result


_MANY = 8


def _alike(values: tuple[Value, ...]) -> Value | None:
    """Many values that differ in nothing but their objects and sources; None where something else is different."""
    first = values[0]
    for one in values:
        told = one.scale is first.scale and one.mask is first.mask and one.open is first.open
        if not told or one.deep is not first.deep or not one.objs:
            return None
    objs = Ordered.of_all([one.objs for one in values])
    sources = Ordered.of_all([one.sources for one in values])
    known = next((one for one in values if one.objs is objs and one.sources is sources), None)
    return known or Value(objs, first.scale, sources, first.mask, first.open, first.deep)


def _join(one: Value, other: Value) -> Value:
    """One of the two where it says all that the other does: most joins add nothing, and new values are dear."""
    scale = one.scale if one.scale is other.scale else _either(one.scale, other.scale)
    if scale is Scale.SUM and any(value.scale is Scale.CONST and _may_be_added(value) for value in (one, other)):
        scale = Scale.UNKNOWN  # what must be added up over ranks, or what must not
    mask, deep = one.mask or other.mask, one.deep and other.deep
    objs, sources, either = one.objs, one.sources, one.open or other.open
    if objs is not other.objs:
        objs = objs | other.objs
        either = either or bool(one.objs) is not bool(other.objs)
    if sources is not other.sources:
        sources = sources | other.sources
    for known in (one, other):
        if (
            known.scale is scale
            and known.mask is mask
            and known.open is either
            and known.deep is deep
            and known.objs is objs
            and known.sources is sources
        ):
            return known
    return Value(objs, scale, sources, mask, either, deep)


def _may_be_added(value: Value) -> bool:
    """Whether a number or tensor that does not depend on the batch may be another than zero."""
    numbers = [obj for obj in value.objs if not (isinstance(obj, Const) and obj.value is None)]
    if not value.objs or value.open:
        return True
    return any(isinstance(obj, Const) and type(obj.value) in (int, float) and obj.value != 0 for obj in numbers)


def _either(one: Scale, other: Scale) -> Scale:
    if Scale.CONST in (one, other):
        return other if one is Scale.CONST else one
    if {one, other} == {Scale.REDUCED, Scale.MEAN}:
        return Scale.MEAN
    if {one, other} == {Scale.SAMPLES, Scale.RAGGED}:
        return Scale.RAGGED
    numbers = {one, other} & {Scale.SUM, Scale.WEIGHTED}
    if numbers and PER_SAMPLE & {one, other}:
        return Scale.COUPLED  # a number of the whole batch, which must never be taken for an entry of each sample
    return Scale.COUPLED if Scale.COUPLED in (one, other) else Scale.UNKNOWN


@dataclass(repr=False)
class Arguments:
    """The arguments of one call, evaluated."""

    positional: list[Value] = field(default_factory=list)
    keywords: dict[str, Value] = field(default_factory=dict)
    star: Value | None = None
    double_star: Value | None = None

    def get(self, name: str, position: int | None = None) -> Value | None:
        if name in self.keywords:
            return self.keywords[name]
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return self.expanded().get(name)

    def expanded(self) -> dict[str, Value]:
        """What `**kwargs` is known to hold."""
        found: dict[str, Value] = {}
        for obj in self.double_star.objs if self.double_star else ():
            if isinstance(obj, Mapping):
                for key, value in obj.items.items():
                    if isinstance(key, str):
                        found[key] = join(found.get(key, NOTHING), value)
        return found

    def joined(self, other: Arguments) -> Arguments:
        """What either of two calls at one place is given."""
        if self == other:
            return self
        if len(self.positional) != len(other.positional) or self.keywords.keys() != other.keywords.keys():
            return other
        return Arguments(
            [join(one, two) for one, two in zip(self.positional, other.positional, strict=True)],
            {name: join(value, other.keywords[name]) for name, value in self.keywords.items()},
            other.star if self.star is None or other.star is None else join(self.star, other.star),
            other.double_star
            if self.double_star is None or other.double_star is None
            else join(self.double_star, other.double_star),
        )

    def all(self) -> list[Value]:
        extra = [value for value in (self.star, self.double_star) if value is not None]
        return [*self.positional, *self.keywords.values(), *extra]


def contained(value: Value) -> Iterable[Obj]:
    """The objects of a value and, in lists, tuples and dictionaries, those inside; each once."""
    return _contained(value, set())


def _contained(value: Value, seen: set[Obj]) -> Iterable[Obj]:
    for obj in value.objs:
        if obj in seen:
            continue
        seen.add(obj)
        yield obj
        if isinstance(obj, Sequence):
            for item in (*(obj.items or ()), obj.element or NOTHING):
                yield from _contained(item, seen)
        elif isinstance(obj, Mapping):
            yield from _contained(obj.any(), seen)
        elif isinstance(obj, Passing):
            for item in (obj.over or NOTHING, *obj.zipped):
                yield from _contained(item, seen)
        elif isinstance(obj, Instance) and obj.base is not None:
            yield obj.base


def to_library(obj: Obj) -> Obj:
    """What a library sees of an object: of a local class that is derived from one of its own, that one."""
    return obj.base if isinstance(obj, Instance) and obj.base is not None else obj


def core(obj: Obj) -> Obj:
    """The model itself, without what it is wrapped in."""
    while isinstance(obj, Wrapped) and obj.inner is not None:
        obj = obj.inner
    return obj


def root(obj: Obj) -> Obj:
    """What `client.chat.completions` is a part of; the part itself, where that is not one thing."""
    while isinstance(obj, Method) and obj.receiver is not None and (inner := obj.receiver.single()) is not None:
        obj = core(inner)
    return obj
