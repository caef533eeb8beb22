"""Who chooses the samples of a loader, and how they are dealt out over the ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from distify_codemods.allocation import Obj, Ref
from distify_codemods.decisions.base import Dealing
from distify_codemods.facts import Loader
from distify_codemods.half_done import samplers
from distify_codemods.libraries import datasets, torch_data
from distify_codemods.objects import Class, External, Instance, Method, Setting
from distify_codemods.values import Value


class Given(Enum):
    NO = "the argument is not given, or None"
    YES = "it is given"
    PERHAPS = "it may be given"


class Impossible(Exception):
    """Nothing deals out such a loader; the message says why, and what to do."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.why, self.fix = why, fix


def dealing(loaders: Sequence[Loader]) -> Dealing:
    """How the loaders that one call makes, in its contexts, are dealt out in training. Raises Impossible."""
    if any(loader.obj.name in torch_data.ITERATORS for loader in loaders):
        return Dealing.EXAMPLES
    if any(batch_size_is_none(loader) for loader in loaders):
        raise Impossible(
            "its data set yields whole batches (batch_size=None)",
            "yield single samples and give the loader a batch size, so that each rank can take its share of a batch",
        )
    streams = _all(loaders, _is_stream)
    own_batches = _all(loaders, lambda loader: given(loader, "batch_sampler"))
    own_order = _all(loaders, lambda loader: given(loader, "sampler"))
    if any(map(samplers, loaders)):
        return _own_shards(loaders)
    if streams is Given.YES:
        return Dealing.STREAM
    if any(map(_is_starred, loaders)):
        return Dealing.AT_RUN_TIME
    if Given.PERHAPS in (streams, own_batches, own_order):
        return Dealing.AT_RUN_TIME
    if own_batches is Given.YES:
        return Dealing.OWN_BATCHES
    return Dealing.OWN_SAMPLER if own_order is Given.YES else Dealing.DATASET


def _own_shards(loaders: Sequence[Loader]) -> Dealing:
    """What is dealt out by the script's own DistributedSampler, in each case."""
    for loader in loaders:
        sampler = loader.arguments.get("sampler", 3) or Value()
        if sampler.open or len(samplers(loader)) < len(sampler.objs):
            raise Impossible(
                "its samples are dealt out by a DistributedSampler of the script's own, at times",
                "give it one in any case, or none at all: the conversion deals the samples out",
            )
    return Dealing.OWN_SHARDS


def given(loader: Loader, name: str) -> Given:
    """Whether an argument of a loader is given, and not None."""
    position = torch_data.PARAMETERS.index(name)
    value = loader.arguments.get(name, position)
    if value is None:
        unknown = loader.arguments.star is not None or loader.arguments.unseen is not None
        return Given.PERHAPS if unknown else Given.NO
    if value.is_none:
        return Given.NO
    uncertain = any(isinstance(obj, Setting) or getattr(obj, "value", 0) is None for obj in value.objs)
    certain = bool(value.objs) and not value.open and not uncertain
    return Given.YES if certain else Given.PERHAPS


def partial(loader: Loader) -> bool:
    """Whether some of its arguments stand in a `functools.partial`, and not in the call."""
    if not loader.arguments.keywords.keys() <= {arg.keyword.value for arg in loader.call.args if arg.keyword}:
        return True
    if any(arg.star == "*" for arg in loader.call.args):
        return False  # as many as there may be
    places = [arg for arg in loader.call.args if arg.keyword is None and not arg.star]
    return len(loader.arguments.positional) > len(places) or loader.arguments.star is not None


def _is_starred(loader: Loader) -> bool:
    return loader.arguments.star is not None or any(arg.star == "*" for arg in loader.call.args)


def may_be_on(loader: Loader, name: str) -> bool:
    """Whether a switch of a loader, off by itself, is given as anything but None or False."""
    value = loader.arguments.get(name, torch_data.PARAMETERS.index(name))
    return value is not None and not value.is_none and value.constant() is not False


def batch_size_is_none(loader: Loader) -> bool:
    value = loader.arguments.get("batch_size", 1)
    return given(loader, "batch_sampler") is Given.NO and value is not None and value.is_none


def unfit_for_evaluation(loader: Loader) -> str:
    """Why the samples of an evaluation cannot be shared out."""
    if loader.obj.name in torch_data.ITERATORS:
        return "its iterator makes batches of examples"
    if partial(loader):
        return "some of its loader's arguments are given elsewhere"
    if _is_starred(loader):
        return "its loader's arguments are given as `*args`"
    if makes_own_batches(loader):
        return "its loader has a batch sampler of its own"
    if batch_size_is_none(loader):
        return "its data set yields whole batches"
    stream = _is_stream(loader)
    return "" if stream is Given.NO else f"its dataset {'is' if stream is Given.YES else 'may be'} an IterableDataset"


def makes_own_batches(loader: Loader) -> bool:
    """Whether a batch sampler of the script's own is seen to make its batches, or may be what is given."""
    return loader.arguments.get("batch_sampler", 4) is not None and given(loader, "batch_sampler") is not Given.NO


def in_order(loader: Loader) -> bool:
    """Whether the loader passes over its data set from the first sample to the last."""
    sampler = loader.arguments.get("sampler", 3)
    return given(loader, "sampler") is Given.NO or (
        sampler is not None
        and all(isinstance(obj, External) and obj.name == torch_data.IN_ORDER for obj in sampler.objs)
        and _same_dataset(loader, sampler)
    )


def loader_draws(loader: Loader) -> bool:
    """Whether the order of a loader, or of its batches, is drawn at random, for all that is seen of it."""
    if loader.obj.name in torch_data.ITERATORS:
        return False
    own = given(loader, "batch_sampler") is not Given.NO or not in_order(loader)
    return own or may_be_on(loader, "shuffle")


def _same_dataset(loader: Loader, sampler: Value) -> bool:
    dataset = loader.arguments.get("dataset", 0)
    made = [obj.arguments for obj in sampler.objs if isinstance(obj, External) and obj.arguments]
    over = [options.get("data_source", 0) for options in made]
    if dataset is None or not dataset.objs:
        return False
    return all(one is not None and one.objs == dataset.objs for one in over)


def _is_stream(loader: Loader) -> Given:
    """Whether its data set is an IterableDataset, which has no length, and which torch neither shuffles nor samples."""
    shuffled = loader.arguments.get("shuffle", 2)
    chosen = (shuffled is not None and shuffled.constant() is True) or Given.YES in (
        given(loader, "sampler"), given(loader, "batch_sampler")
    )  # fmt: skip
    dataset = loader.arguments.get("dataset", 0) or Value()
    kinds = {Given.NO if chosen and kind is Given.PERHAPS else kind for kind in map(_iterable, dataset.objs)}
    return Given.NO if not kinds else kinds.pop() if len(kinds) == 1 else Given.PERHAPS


def _iterable(obj: Obj) -> Given:
    if isinstance(obj, (External, Ref)):
        return Given.PERHAPS if datasets.may_be_stream(obj.name) else Given.NO
    if isinstance(obj, Method) and obj.receiver is not None:  # an attribute of something of a library
        return Given.PERHAPS if Given.PERHAPS in map(_iterable, obj.receiver.objs) else Given.NO
    cls = obj.of if isinstance(obj, Instance) else None
    if not isinstance(cls, Class):
        return Given.NO
    if cls.derives_from(torch_data.STREAM):
        return Given.YES
    indexed = any("__getitem__" in one.attributes for one in cls.order)
    foreign = any(datasets.may_be_stream(name) for name in cls.libraries)
    return Given.PERHAPS if foreign and not indexed else Given.NO


def _all(loaders: Sequence[Loader], ask: Callable[[Loader], Given]) -> Given:
    answers = {ask(loader) for loader in loaders}
    return answers.pop() if len(answers) == 1 else Given.PERHAPS
