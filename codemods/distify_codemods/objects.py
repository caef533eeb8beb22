"""What programs have to do with: functions, classes and their objects, what libraries give, lists and dictionaries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj, Ref
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import NO_ROWS
from distify_codemods.reads import Table, changing
from distify_codemods.records import dataclass
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value, join, sources_of

if TYPE_CHECKING:
    from distify_codemods.interpreter.frames import Frame
    from distify_codemods.module import Module


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

    @cached_property
    def order(self) -> list[Class]:
        """The class and its local bases in Python's order of resolution."""
        bases = [base for value in self.bases for base in value.objs if isinstance(base, Class) and base is not self]
        queues = [one for one in (*(base.order for base in bases), bases) if one]
        found = [self]
        while queues:
            heads = [queue[0] for queue in queues]
            first = next((head for head in heads if all(head not in queue[1:] for queue in queues)), heads[0])
            found.append(first)
            queues = [rest for queue in queues if (rest := [one for one in queue if one is not first])]
        return found

    def member(self, name: str) -> Value | None:
        """What the class, or the first of its local bases that has it, has under a name."""
        return next((one.attributes[name] for one in self.order if name in one.attributes), None)

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
        return not self.libraries.isdisjoint(names)

    @cached_property
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
    holds: Sequence | Mapping | None = None  # the list or dictionary that it is, of a class derived from one
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
    receiver: Value | None = None  # whose method returned it
    read: bool = False  # from a file, in place of what was saved


@dataclass(eq=False, repr=False)
class Partial(Obj):
    """functools.partial: a function with some of its arguments. method: as `partialmethod`, of what it is asked of."""

    function: Value | None = None
    arguments: Arguments | None = None
    method: bool = False


@dataclass(eq=False, repr=False)
class Suspended(Obj):
    """A call of a generator function: of a context manager, it runs when it is entered, else item by item."""

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
    names: tuple[str, ...] = ()  # of its items: a named tuple
    per_sample: bool = False  # one item for each sample of a batch
    of_each: bool = False  # made in turns that go through the samples of a batch: of each, or of some
    drawn: bool = False  # random numbers say how many items it has
    mixed: bool = False  # items that are no longer told apart have entries for samples, or have none
    deals: Ordered[External] = EMPTY  # the loaders that each item is a batch of: a generator, list(loader)
    lengths: tuple[tuple[cst.CSTNode, Value], ...] = ()  # how many items it was given by each place; see `lengths`
    code: Suspended | None = None  # of a generator of the script's: the call that made it, which goes on in each item

    def parts(self) -> tuple[Value, ...]:
        """What is known of items one by one, and of any of them."""
        return (*(self.items or ()), *([self.element] if self.element is not None else []))

    def any(self) -> Value:
        return join(*self.parts())

    @property
    def is_of_samples(self) -> bool:
        """Whether it has an item for each sample of a batch, or for some of them."""
        return self.per_sample or self.of_each

    def named(self, name: str) -> Value:
        """The item of a named tuple."""
        return self.items[self.names.index(name)] if self.items is not None else self.any()

    def grow(self, *values: Value) -> None:
        """Any item may be one of these, too."""
        self.blend(*([self.element] if self.element is not None else []), *values)
        self.element = join(self.element or NOTHING, *values)

    def blend(self, *values: Value) -> None:
        """Which of the items these are is no longer known."""
        rows = [one for one in values if NO_ROWS not in one.sources]
        self.mixed |= len({one.scale in PER_SAMPLE for one in rows if one.scale in (Scale.CONST, *PER_SAMPLE)}) > 1


@dataclass(eq=False, repr=False)
class Mapping(Obj):
    items: Table[object, Value] = field(default_factory=Table)
    rest: Value | None = None  # under keys that are not known
    keys: Value | None = None  # of those, all that depend on anything
    factory: Value | None = None  # of a defaultdict
    counts: bool = False  # a collections.Counter
    whose: Obj | None = None  # its attributes are the items
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
class Passing(Obj):
    """An iteration over a loader: what enumerate, tqdm, iter … return."""

    over: Value | None = None
    numbered: bool = False  # yields (index, item)
    zipped: tuple[Value, ...] = ()
    begun: bool = False  # an iterator; else iterating over it begins a pass
    repeats: bool = False  # itertools.cycle: the first pass's items again and again
    partial: bool = False  # not all items, or not each of them once
    drawn: bool = False  # a progress bar: what it has counted, it has where it is drawn


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

    @property
    def unseen(self) -> Value | None:
        """What `**kwargs` holds under keys that are not known; None where all that it holds is seen."""
        more = self.double_star
        if more is None:
            return None
        tables = [obj for obj in more.objs if isinstance(obj, Mapping)]
        rest = [obj.rest for obj in tables if obj.rest is not None]
        is_seen = bool(more.objs) and not more.open and len(tables) == len(more.objs) and not rest
        return None if is_seen else join(*rest)

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

    @property
    def first(self) -> Value:
        """What it is given first, by position."""
        return self.positional[0] if self.positional else NOTHING

    @property
    def rest(self) -> Arguments:
        """All but that."""
        return Arguments(self.positional[1:], self.keywords, self.star, self.double_star)

    @property
    def sources(self) -> Ordered[Obj | str]:
        """What any of it depends on."""
        return sources_of(self.all())


changing(Instance, "base")
changing(External, "arguments")
changing(Partial, "arguments")
changing(Suspended, "arguments")
changing(Method, "receiver")
changing(Sequence, "items", "element", "per_sample", "of_each", "drawn", "mixed", "deals", "lengths")
changing(Mapping, "items", "rest", "keys", "factory")
changing(Passing, "over", "zipped")
