"""The decisions as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from typing import TypeVar

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.optimizer_rules import ScalingRule
from distify_codemods.events import Event
from distify_codemods.facts import BatchLoop, Facts, Loader
from distify_codemods.interpreter.frames import Frame
from distify_codemods.objects import External
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.results import Strategy
from distify_codemods.values import Value


@dataclass(frozen=True)
class Blocked:
    """Distribution needs something here that is not known to be right: a person must decide."""

    code: str
    module: Module
    node: cst.CSTNode
    message: str
    fix: str = ""


@dataclass(frozen=True)
class Link:
    """Something between the batch and the step that is not seen through."""

    module: Module
    node: cst.CSTNode
    message: str  # goes on from "sharded data would be faster, but"
    fix: str = ""


class Sharding(Enum):
    TRAINING = "training: each sample on one rank"
    SUMS = "evaluation: each sample on one rank, sums all-reduced"
    GATHERED = "evaluation: each batch split over the ranks, outputs gathered"
    REPLICATED = "every rank sees all of it"


class Dealing(Enum):
    """How the samples of a training loader are dealt out: by who chooses them."""

    DATASET = "nobody but the loader"
    OWN_SAMPLER = "a sampler of the script"
    OWN_SHARDS = "a DistributedSampler of the script"
    OWN_BATCHES = "a batch sampler of the script"
    STREAM = "the data set, an IterableDataset"
    AT_RUN_TIME = "told from the loader's arguments when it is made"
    EXAMPLES = "an iterator of torchtext: lists of examples"


@dataclass(frozen=True)
class LoaderDecision:
    node: cst.Call
    module: Module
    sharding: Sharding
    loaders: tuple[Loader, ...]  # those that this call makes, in its contexts
    why: str
    dealing: Dealing = Dealing.DATASET  # in training
    when: str = ""  # a condition of the script's own under which it makes these; empty: always
    others: tuple[Loader, ...] = ()  # that it makes when that does not hold
    otherwise: Sharding = Sharding.REPLICATED
    returned: bool = False  # `node` returns them: not all of the arguments that they are made with are seen in it

    @property
    def batch_sizes(self) -> list[Value]:
        """As far as they are given."""
        given = (loader.arguments.get("batch_size", 1) for loader in self.loaders)
        return [value for value in given if value is not None]

    @property
    def told_when_it_runs(self) -> bool:
        return self.returned or self.dealing in (Dealing.AT_RUN_TIME, Dealing.EXAMPLES)


@dataclass(frozen=True)
class BuildingLine:
    """What is done to models when they are there, after a statement or before one."""

    target: str
    module: Module
    statement: cst.CSTNode
    after: bool
    models: tuple[Obj, ...]
    sync_batchnorm: bool


@dataclass(frozen=True)
class Wrap(BuildingLine):
    """`target = DistributedDataParallel(target)`."""

    why: str
    attribute: cst.Attribute | None = None  # the target, where it is an attribute
    unused: str = ""  # why some of its parameters may be without gradients in a step; empty: none are


@dataclass(frozen=True)
class Unwrapped:
    """A trained model that is left as it is: its gradients are averaged by a line."""

    model: Obj
    module: Module
    node: cst.CSTNode  # where it shows that a wrap would be wrong; else where what trains the model is made
    why: str = ""  # a wrap would be wrong; empty: the backend wraps none


@dataclass(frozen=True)
class GradientAveraging:
    """`rt.all_reduce_gradients(...)` before a statement, or after one.

    waits: the targets average by themselves, and are waited for.
    """

    targets: tuple[str, ...]
    module: Module
    statement: cst.CSTNode
    after: bool = False
    waits: bool = False


@dataclass(frozen=True)
class AveragingOptimizer:
    """An optimizer that averages its gradients by itself, from the line on that makes it, or that it is there by."""

    objs: tuple[Obj, ...]
    target: str  # what it is called after the statement; empty: something else becomes of the call that makes it
    named: str  # the one model whose parameters it was given; empty: there are several, or none can be named here
    passes: str  # how many backward passes a step follows; empty: one, or it is not known here
    module: Module
    statement: cst.CSTNode
    node: cst.CSTNode


@dataclass(frozen=True)
class GradientCall:
    """`torch.autograd.grad(...)` of a rank's share, whose mean over the ranks is what one process would see."""

    module: Module
    node: cst.BaseExpression


@dataclass(frozen=True)
class Accumulation:
    """Before the first forward pass of a turn: whether its backward pass averages what the turns have added up."""

    target: str
    module: Module
    statement: cst.CSTNode
    when: str  # a condition


@dataclass(frozen=True)
class Broadcast(BuildingLine):
    """`rt.broadcast_parameters(...)`."""

    by_optimizer: bool = False  # the target is what trains them, and no model


_Line = TypeVar("_Line", bound=BuildingLine)


def merged(lines: Iterable[_Line]) -> tuple[_Line, ...]:
    """Models that share a variable have one line, behind the last thing that is done to any of them; those that are
    made in two arms, of which a run takes one, have a line in each."""
    found: list[_Line] = []
    for one in lines:
        for place, known in enumerate(found):
            if (both := _behind_both(known, one)) is not None:
                models, sync = (*known.models, *one.models), known.sync_batchnorm or one.sync_batchnorm
                found[place] = replace(both, models=models, sync_batchnorm=sync)
                break
        else:
            found.append(one)
    return tuple(found)


def _behind_both(one: _Line, other: _Line) -> _Line | None:
    """The one of two lines for a name that is come to behind the other, in the block that both are in."""
    if one.target != other.target or one.module is not other.module:
        return None
    for outer, inner in ((one, other), (other, one)):
        within = dict(lines_to(inner.module, inner.statement)).get(one.module.parents[outer.statement])
        if within is not None:
            inner = replace(inner, statement=within, after=inner.after or within is not inner.statement)
            behind = one.module.flow(outer.statement).follows(outer.statement, within, turns=False)
            return inner if behind else outer
    return None


def lines_to(module: Module, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """The blocks around a node in its function, innermost first, each with the statement in it."""
    part = node
    for around in module.enclosing(node):
        if isinstance(around, (cst.IndentedBlock, cst.Module)):
            yield around, part
        if isinstance(around, (cst.FunctionDef, cst.Lambda)):
            return
        part = around


def made_at(obj: Obj) -> tuple[Module, cst.CSTNode]:
    """Where something is made, of what the program itself makes."""
    assert obj.module is not None
    assert obj.site is not None
    return obj.module, obj.site


@dataclass(frozen=True)
class SharedPass:
    """`rt.data_parallel(...)` after a statement, or before one: from there on forward passes are shared."""

    target: str
    module: Module
    statement: cst.CSTNode
    after: bool
    held: Obj  # the model, or a part of it that training calls by itself
    model: Obj
    methods: tuple[str, ...] = ()  # its own, beside `forward`, that training calls
    forward: bool = True


@dataclass(frozen=True)
class SharedLoading:
    """`rt.shard_loading(DataLoader(...))`: its batches, which all ranks see whole, may be loaded in shares."""

    module: Module
    node: cst.Call


@dataclass(frozen=True)
class Reduction:
    """After an evaluation loop, these sums are all-reduced."""

    loop: BatchLoop
    names: tuple[str, ...]
    when: str = ""  # a condition of the script's own; empty: always
    loader: str = ""  # only where this one is sharded; empty: always
    means: tuple[str, ...] = ()  # sums of means, which are averaged


@dataclass(frozen=True)
class View:
    """Here a sharded loader is read for something else: without padding, or all of it."""

    module: Module
    node: cst.BaseExpression
    sharding: Sharding  # SUMS or REPLICATED
    unless: str = ""  # a condition of the script's own; empty: never


@dataclass(frozen=True)
class Gathering:
    """After the forward pass of an evaluation loop, these per-sample values are gathered."""

    loop: BatchLoop
    statement: cst.CSTNode
    names: tuple[str, ...]
    loader: str  # the loader's expression
    several_rows: bool = False  # some may have several rows for each sample, those of a sample together


@dataclass(frozen=True)
class Division:
    """The batch size is divided where it is defined: a literal, or a setting of the command line."""

    module: Module
    node: cst.CSTNode  # the literal; or the statement that reads the command line
    setting: str  # "args.batch_size"; empty for a literal
    obj: Obj
    used: int  # a line where it shapes a tensor


@dataclass(frozen=True)
class Slicing:
    """Each rank keeps its part of the batches that an expression gives, or each turn of a loop, along one dimension."""

    module: Module
    node: cst.BaseExpression | cst.For
    dimension: int
    why: str
    names: tuple[str, ...] = ()  # of the loop: those of its variables that hold batches


class Putting(Enum):
    """How the figures of all ranks become one."""

    MEAN = "all_reduce_mean"
    SUM = "all_reduce_sum"
    COUNT = "times the number of ranks, since their shares are equal"
    GATHERED = "gather_entries"
    ANY = "any_rank"
    ALL = "all_ranks"


@dataclass(frozen=True)
class Rate:
    """The learning rate of the optimizer that a call makes is scaled."""

    module: Module
    node: cst.Call
    name: str  # of its class
    rule: ScalingRule
    told: bool  # by the user


@dataclass(frozen=True)
class WarmUp:
    """A loop over what an expression gives, in whose first epochs scaled rates grow to their full size."""

    module: Module
    node: cst.BaseExpression
    epochs: int
    by_step: bool  # the loop is a single epoch


DECIDES = "DECIDE01"


@dataclass(frozen=True)
class Averaging:
    """A figure of one rank's share that is put together with those of the others where it is used."""

    module: Module
    node: cst.BaseExpression
    why: str
    told: bool = False  # not averaged: rank 0 tells the others what it has
    how: Putting = Putting.MEAN
    code: str = DECIDES  # of the rule that spells it
    parts: bool = False  # of what is gathered: shares are pieces of the batch


@dataclass(frozen=True)
class Deferral:
    """Figures that a loop hands over as each rank has them; what they are kept in is averaged where it is looked at."""

    loop: BatchLoop
    averages: tuple[Averaging, ...]  # which are not put together where they are handed over
    holders: tuple[str, ...]  # expressions of what keeps them
    before: Mapping[cst.CSTNode, Sequence[str]]  # statements that look at some of these
    after: tuple[str, ...]  # those that something may look at when the loop has ended
    alike: tuple[Averaging, ...] = ()  # of what is looked at, which is alike on all ranks by then


@dataclass(frozen=True)
class Left:
    """A figure that stays one rank's, though it is kept.

    half: it could be that of all ranks, but what it is divided by, or divides, could not.
    stays: whether it is seen to outlive its batch: added to a list, carried to the next turn, logged.
    """

    module: Module
    node: cst.CSTNode
    half: bool = False
    stays: bool = False


class FigureForm(Enum):
    """How a figure of a rank's share becomes that of the batch."""

    COUNT = "{value} * {rt}.world_size()"
    MEAN = "{rt}.all_reduce_mean({value})"
    SUM = "{rt}.all_reduce_sum({value})"


@dataclass(frozen=True)
class Figure:
    """What is written into parameters or gradients by hand is computed for the batch of all ranks."""

    module: Module
    node: cst.BaseExpression
    form: FigureForm


class LossForm(Enum):
    """How a part of a loss is computed over the batches of all ranks."""

    SUM = "sum_over_ranks"
    MEAN = "mean_over_ranks"
    ENTRIES = "global_mean"  # of however many entries each rank has
    CRITERION = "weighted_mean"  # a criterion, with what it is called with


@dataclass(frozen=True)
class LossReduction:
    """A part of a training loss that all ranks compute together; of `a += b`, what `a` was before."""

    module: Module
    node: cst.CSTNode
    form: LossForm


@dataclass(frozen=True)
class Layout:
    """How a rank's samples lie in a value."""

    dimension: int = 0
    views: int | cst.Call = 1  # how many blocks of all samples lie behind each other, or where they are joined
    samples: str = ""  # how many samples a rank has, where each may have several rows; empty: each has one
    by_step: bool = False  # those of each step stand together, not those of each sample


@dataclass(frozen=True)
class Joining:
    """From a statement of the training step on, these values are those of the whole batch, on all ranks."""

    module: Module
    statement: cst.CSTNode
    before: tuple[tuple[str, Layout], ...]  # names that are gathered before the statement
    after: tuple[tuple[str, Layout], ...]  # and after it
    values: tuple[tuple[cst.BaseExpression, Layout], ...]  # gathered where they stand
    numbers: tuple[str, ...]  # of samples: times the world size
    counts: tuple[cst.BaseExpression, ...]  # times the world size
    parts: bool  # shares are pieces of the batch
    unseen: bool  # what the loss does with the samples cannot be seen
    dealt_at: frozenset[cst.CSTNode]  # where the loaders are made, or the shares are taken, that the batches come from


@dataclass
class Decisions:
    facts: Facts  # of the program as it will be
    strategy: Strategy = Strategy.SHARDED
    shared: tuple[SharedPass, ...] = ()  # where forward passes alone are shared
    shared_loading: tuple[SharedLoading, ...] = ()
    enlarged: tuple[LoaderDecision, ...] = ()  # of shared passes: whose batches grow with the number of ranks
    nothing_to_share: bool = False  # of shared passes: there is nothing in any of them that ranks could share
    unshared: tuple[Blocked, ...] = ()  # what every rank computes whole, though it is called in training
    wraps: tuple[Wrap, ...] = ()
    unwrapped: tuple[Unwrapped, ...] = ()
    broadcasts: tuple[Broadcast, ...] = ()  # of the unwrapped ones
    bystanders: tuple[Broadcast, ...] = ()  # models that are not trained: only their BatchNorm is synchronised
    gradients: tuple[GradientAveraging, ...] = ()  # of the unwrapped ones
    optimizers: tuple[AveragingOptimizer, ...] = ()  # of unwrapped ones, where the backend has such
    gradient_calls: tuple[GradientCall, ...] = ()
    accumulations: tuple[Accumulation, ...] = ()  # of the wrapped ones
    written: tuple[Figure, ...] = ()  # into parameters and gradients
    loaders: tuple[LoaderDecision, ...] = ()
    reductions: tuple[Reduction, ...] = ()
    gatherings: tuple[Gathering, ...] = ()
    training_sums: tuple[Reduction, ...] = ()  # figures of training that are used after its loop
    views: tuple[View, ...] = ()
    replicated: tuple[tuple[BatchLoop, str], ...] = ()  # and why they are not sharded
    divisions: tuple[Division, ...] = ()
    averages: tuple[Averaging, ...] = ()
    deferrals: tuple[Deferral, ...] = ()  # of averages to where something looks at them
    left: tuple[Left, ...] = ()  # figures that are kept and stay one rank's
    loss_reductions: tuple[LossReduction, ...] = ()
    slicings: tuple[Slicing, ...] = ()  # of batches that are cut by hand
    rates: tuple[Rate, ...] = ()  # that are scaled, since the global batch grows
    warm_ups: tuple[WarmUp, ...] = ()
    joinings: tuple[Joining, ...] = ()  # of batches that a loss looks at as a whole
    coupled: dict[cst.CSTNode, str] = field(default_factory=dict)  # backward passes, and why nothing is gathered
    parts: dict[cst.CSTNode, bool] = field(default_factory=dict)  # of modules, in nn.DataParallel: always, or sometimes
    prefixed: dict[cst.CSTNode, bool] = field(default_factory=dict)  # calls on nn.DataParallel: always, or sometimes
    reached_through: dict[cst.CSTNode, bool] = field(default_factory=dict)  # `.module` there: whether it gives way
    walked: frozenset[cst.CSTNode] = frozenset()  # `.children` there, and what else shows that it is one
    blocked: list[Blocked] = field(default_factory=list)

    @property
    def built(self) -> tuple[Wrap | Broadcast, ...]:
        """Where all is done to a trained model that is done before training."""
        return (*self.wraps, *self.broadcasts)

    def divided_at_definition(self, batch_size: Value) -> bool:
        return any(division.obj in batch_size.objs for division in self.divisions)

    def dealing_of(self, loader: External) -> Dealing:
        found = (one.dealing for one in self.loaders if any(made.obj is loader for made in one.loaders))
        return next(found, Dealing.DATASET)

    def sharding_of(self, loader: External) -> Sharding:
        for decision in self.loaders:
            if any(one.obj is loader for one in decision.loaders):
                return decision.sharding
            if any(one.obj is loader for one in decision.others):
                return decision.otherwise
        return Sharding.REPLICATED

    def dealt_in(self, loop: BatchLoop) -> set[Sharding]:
        """How the batches that a loop takes are dealt out: as their loaders' are, or as it is asked to there."""
        over = set(tree.walk(loop.node.iter)) if isinstance(loop.node, cst.For) else set()
        seen = {view.sharding for view in self.views if view.node in over}
        return seen or {self.sharding_of(loader) for loader in loop.loaders}


def path(event: Event, frame: object) -> list[cst.CSTNode]:
    """The statements of one frame that an event happens in, outermost first."""
    found = [here.node for here in event.here.up() if here.frame is frame and not here.arm]
    return [node for node in reversed(found) if _is_statement(node)]


def chain(event: Event) -> list[tuple[Frame, cst.CSTNode]]:
    """All statements that an event happens in, across calls, outermost first, each with its frame."""
    found = [(here.frame, here.node) for here in event.here.up() if not here.arm]
    return [(frame, node) for frame, node in reversed(found) if _is_statement(node)]


def _is_statement(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
