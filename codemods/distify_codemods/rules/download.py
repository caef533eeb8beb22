"""DATA03: one process downloads, the others wait."""

from __future__ import annotations

import re

import libcst as cst

from distify_codemods import file_events, refusals
from distify_codemods.allocation import Const, Ref
from distify_codemods.decisions.base import Sharding
from distify_codemods.decisions.outside import is_used
from distify_codemods.events import Event, Kind
from distify_codemods.inside import core, root
from distify_codemods.interpreter.files import words_of
from distify_codemods.libraries import computing, datasets, effects, outside, paths, standard, torch_nn
from distify_codemods.libraries.downloads import (
    BY_DEFAULT,
    HUB,
    ON_A_HUB,
    PREPARE,
    PREPARING,
    PRETRAINED,
    ZOOS,
    fetches,
    makes_a_model,
    says_so,
)
from distify_codemods.libraries.quiet import is_quiet
from distify_codemods.libraries.registry import Role, tracker
from distify_codemods.objects import External, Instance, Setting
from distify_codemods.program import Module
from distify_codemods.rules import data_caches, turns
from distify_codemods.rules.base import MAIN_FIRST, Context, Rule
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.tree import walk
from distify_codemods.values import Value

CODE = "DATA03"


def run(context: Context) -> None:
    found = [event for event in context.facts.of_kind(Kind.CALL, Kind.METHOD) if downloads(event)]
    for event in sorted(found, key=_is_by_a_base):
        if _is_by_a_base(event) and context.takes_turns(event):
            continue  # whoever makes it has rank 0 first
        module, place = turns.place(context, event)
        if not context.editable(module, place, "files are downloaded"):
            continue
        within = event.node if place in module.enclosing(event.node) else None
        if turns.hands_on_in(place):
            context.needs_you(
                "what is downloaded here is handed on in the same statement, and ranks that come one after the other "
                "would be there while somebody trains with it", module, place,
                "make the dataset in a statement of its own, before the `yield`",
            )  # fmt: skip
            continue
        if _makes_a_sampler(context, module, place, event):
            context.needs_you(
                "the statement that downloads also makes the training loader, whose sampler waits for all "
                "ranks", module, place,
                "make the dataset in a statement of its own",
            )  # fmt: skip
            continue
        rt = context.rt(module)
        reason = "one process downloads, the others find the files there"
        context.plan(module).guard(place, MAIN_FIRST.format(rt=rt), CODE, reason, within)
        context.applied("rank 0 downloads first", module, place)
    found += _data_caches(context)
    unknown = {file_events.code_of(event): event for event in reversed(_unseen(context))}  # each by its first call
    for name, event in reversed(unknown.items()):
        context.advice(
            f"it is not known whether `{name}` downloads what it is given the name of: if it "
            "does, put it under `with rt.main_process_first():`", event.module, event.node,
        )  # fmt: skip
    if not found and not unknown:
        context.not_needed_if_known(f"nothing is downloaded{_but_perhaps(context)}")


def _but_perhaps(context: Context) -> str:
    """Which rules name what asks somebody, or runs a program, that may answer with a file."""
    asked = [
        event
        for event in context.facts.of_kind(Kind.CALL)
        if outside.may_fetch(event.name, words_of(event.arguments), is_used(event))
    ]
    told = ["OUT03"] * any(outside.is_command(one.name) and not is_used(one) for one in asked)
    told += ["NET01"] * any(not outside.is_command(one.name) or is_used(one) for one in asked)
    return f", but perhaps by what {' and '.join(told)} name{'s' * (len(told) == 1)}" if told else ""


def _data_caches(context: Context) -> list[Event]:
    """Has rank 0 make first what may keep a cache of its samples; says so where ranks cannot take turns."""
    for event in data_caches.built(context.facts):
        if downloads(event) or context.comes_on_main(event) or context.takes_turns(event):
            continue
        module, place = turns.place(context, event)
        if not _can_take_turns(context, module, place, event):
            context.advice(
                f"it is not known whether `{file_events.code_of(event)}` keeps files of its own where it is given a "
                "path: if so, all ranks build them at once; let rank 0 be first, in a statement of its own, under "
                "`with rt.main_process_first():` (`parts = list(...)`, of what a `for` goes through)",
                event.module, event.node,
            )  # fmt: skip
            continue
        within = event.node if place in module.enclosing(event.node) else None
        header = MAIN_FIRST.format(rt=context.rt(module))
        reason = "one process builds the cache, the others find it there"
        context.plan(module).guard(place, header, CODE, reason, within)
        context.applied("rank 0 is first to make what may keep a cache of its own", module, place)
    return data_caches.built(context.facts)


def _can_take_turns(context: Context, module: Module, place: cst.CSTNode, event: Event) -> bool:
    return not (
        data_caches.is_gone_through_later(context.facts, event)
        or refusals.was_converted(module)
        or turns.ranks_meet_in(context, place)
        or turns.hands_on_in(place)
        or _makes_a_sampler(context, module, place, event)
    )


def downloading(context: Context) -> list[Event]:
    """What rank 0 does first, and the others behind it."""
    built = set(data_caches.built(context.facts))
    return [one for one in context.facts.of_kind(Kind.CALL, Kind.METHOD) if downloads(one) or one in built]


def _unseen(context: Context) -> list[Event]:
    """Calls of libraries that are not known, which are given a name: of a model, a data set, a language."""
    return [
        event
        for event in context.facts.of_kind(Kind.CALL)
        if not event.name.startswith(("local.", "?", *effects.KNOWN, *computing.LIBRARIES))
        and not is_quiet(event.name)
        and not (effects.is_named(event.name) or outside.is_named(event.name) or fetches(event.name))
        and not standard.stays_inside(event.name)
        and not downloads(event)
        and not context.takes_turns(event)
        and any(_is_a_name(value) for value in event.arguments.all())
        and not context.is_on_main(event.module, event.node)
    ]


def _is_a_name(value: Value) -> bool:
    """One word, and no path of a file."""
    known = value.constant()
    if not isinstance(known, str) or not known.strip() or any(one.isspace() for one in known):
        return False
    return "://" in known or not (_FILE.search(known) or paths.ends_like_a_file(known))


_FILE = re.compile(r"^[./~]|/$|\\")


def downloads(event: Event) -> bool:
    """Whether a call of a library may fetch files."""
    if _is_by_a_base(event):
        return _lets_a_base_download(event)
    if event.kind is Kind.METHOD:
        return says_so(event.name) and _is_of_all_ranks(event)
    if event.name.startswith(("builtins.", "argparse.")):
        return False
    if outside.is_command(event.name):
        return outside.INSTALLS in words_of(event.arguments)  # what the next line may import
    if event.name.startswith("local."):
        return _makes_what_downloads(event)
    value = event.arguments.get("download", datasets.DOWNLOAD if event.name.startswith(datasets.OF_PICTURES) else None)
    if value is not None and "download" not in event.arguments.keywords and value.constant() is not True:
        value = None
    if value is not None:
        return value.constant() is not False
    only_local = event.arguments.get("local_files_only")
    if only_local is not None and only_local.constant() is True:
        return False
    if event.name == HUB:
        source = event.arguments.get("source")
        return source is None or source.constant() != "local" or _asks_for_weights(event) is True
    asked = _asks_for_weights(event)
    return fetches(event.name) if asked is None else asked


def _is_of_all_ranks(event: Event) -> bool:
    """Whether these are objects of a library that all ranks have, and not rank 0 alone: a connection, a run."""
    owners = [root(obj) for obj in event.receiver.objs]
    names = [obj.name for obj in owners if isinstance(obj, External) and obj.name != "?"]
    return bool(names) and len(names) == len(owners) and not any(map(_is_rank_zeros, names))


def _is_rank_zeros(name: str) -> bool:
    known = tracker(name)
    return outside.connects(name) or (known is not None and known.role is not Role.FOR_ALL)


def is_every_ranks(context: Context, event: Event) -> bool:
    """Whether what is not known is called by every rank, and in no order."""
    fetched = event.kind is Kind.METHOD and not _is_of_all_ranks(event) and outside.connects(_owner(event))
    return not fetched and not downloads(event) and not context.comes_on_main(event)


def _owner(event: Event) -> str:
    return next((obj.name for obj in map(root, event.receiver.objs) if isinstance(obj, External)), "")


def _asks_for_weights(event: Event) -> bool | None:
    """Whether a call may fetch the weights of the model that it makes; None where it says nothing about them."""
    name, given = event.name, event.arguments
    default = next((one for prefix, one in BY_DEFAULT.items() if name.startswith(prefix)), None)
    if default is not None and makes_a_model(name):
        told = [value for one in default[0] if (value := given.get(one, default[1])) is not None]
        if not any(map(_is_no, told)):
            return True
    first = given.get("model_name", 0)
    if name in PRETRAINED and first is not None and str(first.constant()).startswith(ON_A_HUB):
        return True
    pretrained = given.get("pretrained", PRETRAINED.get(name))
    if pretrained is not None:
        return not _is_no(pretrained)
    weights = given.get("weights") if name.startswith("torchvision.") else None
    if weights is not None:
        return any(not isinstance(obj, Const) or obj.value is not None for obj in weights.objs)
    if makes_a_model(name) and given.positional and name.startswith(ZOOS):
        return _may_name_weights(given.positional[0])
    return None


def _is_no(value: Value) -> bool:
    return value.constant() is False or value.is_none


def _may_name_weights(value: Value) -> bool:
    """`vgg16(True)`, `vgg16(VGG16_Weights.DEFAULT)`; what is a model is given to something else."""
    if not value.objs or value.open:
        return True
    return not _is_no(value) and any(
        isinstance(obj, (Const, Setting)) or (isinstance(obj, (Ref, External)) and "weight" in obj.name.lower())
        for obj in value.objs
    )


def _makes_what_downloads(event: Event) -> bool:
    """`class Data(datasets.CIFAR10)` with `download=True`: what its base does is not followed."""
    given = event.arguments.keywords.get("download")
    made = [obj for obj in map(core, event.value.objs) if isinstance(obj, Instance)]
    bases = [name for one in made if one.of is not None for name in one.of.libraries]
    if any(name in PREPARE for name in bases):
        own = [one.of for one in made if one.of is not None]
        return bool(event.arguments.all()) and any(cls.member(name) is not None for cls in own for name in PREPARING)
    return given is not None and given.constant() is not False and any(not _is_plain(name) for name in bases)


def _is_by_a_base(event: Event) -> bool:
    """`super().__init__(root)`"""
    return event.kind is Kind.METHOD and event.name == "__init__"


def _lets_a_base_download(event: Event) -> bool:
    """`super().__init__(root, download=True)`, of a data set of a library, whoever has asked for it."""
    made = [obj.of for obj in map(core, event.receiver.objs) if isinstance(obj, Instance) and obj.of is not None]
    bases = [name for one in made for name in one.libraries if not _is_plain(name)]
    place = datasets.DOWNLOAD if any(name.startswith(datasets.OF_PICTURES) for name in bases) else None
    value = event.arguments.get("download", place) if bases else None
    said = value is not None and ("download" in event.arguments.keywords or value.constant() is True)
    return said and value is not None and value.constant() is not False


def _is_plain(name: str) -> bool:
    """A class that fetches nothing by itself."""
    return name.startswith((*datasets.PLAIN_BASES, torch_nn.OWN))


def _makes_a_sampler(context: Context, module: Module, place: cst.CSTNode, event: Event) -> bool:
    """A collective under the guard would wait for ranks that wait for the guard."""
    loaders = {decision.node for decision in context.decisions.loaders if decision.sharding is Sharding.TRAINING}
    for other in context.facts.of_kind(Kind.CALL):
        if other.node in loaders and any(here.node is place for here in other.here.up()):
            in_place = other.module is module and module.statement(other.node) is place
            if not in_place or event.node not in set(walk(other.node)):
                return True
    return False


_PICTURES = {
    "torch": """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms
    """,
    "loader": """
    - loader = DataLoader(data, batch_size=100, shuffle=True)
    + loader = DataLoader(data, batch_size=rt.per_rank_batch_size(100),
    +                     sampler=rt.TrainingSampler(data))
    """,
    "model": "model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))",
    "loss": "loss = nn.functional.cross_entropy(model(x), y)",
}
RULE = Rule(
    code=CODE,
    name="downloads",
    why="Processes that download the same file at once corrupt it or fail.",
    safety="A statement that may download runs on rank 0 first, then on the first rank of every other node, "
    "then on the rest; and so does what makes a loader's data set, or splits it, with a path, in a library that is not "
    "known.",
    run=run,
    pitfalls=(14, 47),
    examples=(
        Example(
            **_PICTURES,
            data="""
            - data = datasets.MNIST(".", download=True, transform=transforms.ToTensor())
            + with rt.main_process_first():
            +     data = datasets.MNIST(".", download=True, transform=transforms.ToTensor())
            """,
        ),
        LeftAlone(**_PICTURES, data='data = datasets.MNIST(".", transform=transforms.ToTensor())'),
    ),
)
