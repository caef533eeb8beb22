"""DATA03: one process downloads, the others wait."""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions.base import Sharding
from distify_codemods.events import Event, Kind
from distify_codemods.rules.base import MAIN_FIRST, Context, Rule
from distify_codemods.tree import walk
from distify_codemods.values import Const

CODE = "DATA03"
_DOWNLOADS = (
    ".urlretrieve",
    "wget.download",
    "gdown.download",
    ".download_url",
    ".download_and_extract_archive",
    ".from_pretrained",
    "datasets.load_dataset",
    "torch.hub.load",
    "torch.hub.load_state_dict_from_url",
    "torch.utils.model_zoo.load_url",
)


def run(context: Context) -> None:
    found = [event for event in context.facts.of_kind(Kind.CALL) if _downloads(event)]
    for event in found:
        place = context.above_file_tests(event)
        if place is None:
            context.needs_you(
                "a download, in a file that is not converted", event.module, event.node, "move it into the script"
            )
            continue
        within = event.node if event.module is context.entry else None
        if _makes_a_sampler(context, place, event):
            context.needs_you(
                "the statement that downloads also makes the training loader, whose sampler waits for all "
                "ranks", context.entry, place,
                "make the dataset in a statement of its own",
            )  # fmt: skip
            continue
        rt = context.rt(context.entry)
        reason = "one process downloads, the others find the files there"
        context.plan(context.entry).guard(place, MAIN_FIRST.format(rt=rt), CODE, reason, within)
        context.applied("rank 0 downloads first", context.entry, place)
    if not found:
        context.not_needed("nothing is downloaded")


def _downloads(event: Event) -> bool:
    if event.name.startswith(("local.", "builtins.", "argparse.")):
        return False
    value = event.arguments.get("download", 4 if event.name.startswith("torchvision.datasets.") else None)
    if value is not None and "download" not in event.arguments.keywords and value.constant() is not True:
        value = None
    if value is not None:
        return value.constant() is not False
    pretrained, weights = event.arguments.get("pretrained"), event.arguments.get("weights")
    if pretrained is not None and event.name.startswith("torchvision."):
        return pretrained.constant() is not False
    if weights is not None and event.name.startswith("torchvision."):
        return any(not isinstance(obj, Const) or obj.value is not None for obj in weights.objs)
    return event.name.endswith(_DOWNLOADS)


def _makes_a_sampler(context: Context, place: cst.CSTNode, event: Event) -> bool:
    """A collective under the guard would wait for ranks that wait for the guard."""
    loaders = {decision.node for decision in context.decisions.loaders if decision.sharding is Sharding.TRAINING}
    for other in context.facts.of_kind(Kind.CALL):
        if other.node in loaders and any(here.node is place for here in other.here.up()):
            in_place = other.module is context.entry and other.module.statement(other.node) is place
            if not in_place or event.node not in set(walk(other.node)):
                return True
    return False


RULE = Rule(
    code=CODE,
    name="downloads",
    why="Processes that download the same file at once corrupt it or fail.",
    safety="A statement that may download runs on rank 0 first, then on the first rank of every other node, "
    "then on the rest.",
    run=run,
    pitfalls=(14,),
)
