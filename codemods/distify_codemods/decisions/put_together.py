"""How samples are put together: a rank's share of a batch must be what its part of the whole batch would be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.base import Link, made_at
from distify_codemods.decisions.places import Place, places_of
from distify_codemods.facts import Facts, Loader
from distify_codemods.inside import core
from distify_codemods.interpreter import collated
from distify_codemods.libraries import forms, torch_losses
from distify_codemods.libraries.torch_data import ITERATORS, LOADERS
from distify_codemods.naming import brief
from distify_codemods.objects import External
from distify_codemods.origins import Beside, Listed, Padded, Reduction
from distify_codemods.program import Module

#: Losses that make one number of each sample, whatever its length, and take their mean.
_BY_SAMPLE = ("CrossEntropyLoss", "NLLLoss", "CTCLoss", "cross_entropy", "nll_loss", "ctc_loss")
#: Of these, those whose targets may have a length of their own.
_OF_LENGTHS = ("CTCLoss", "ctc_loss")
_FLATTENING = frozenset("view reshape flatten permute transpose swapaxes movedim".split())


Marks = Callable[[Facts, type[Obj]], Sequence[Obj]]


def links(facts: Facts, marks: Marks, as_it_stands: Callable[[], Facts]) -> Iterator[Link]:
    """`marks`: those of a kind that arrive at backward passes of training. `as_it_stands`: without what is gathered."""
    for mark in marks(facts, Beside):
        module, site = made_at(mark)
        yield Link(
            module, site,
            f"`{brief(site)}` puts rows beside those of a batch that are not dealt out with them: each rank would have "
            "all of these, and only its share of the others",
            "rows that are made for the samples, as many as there are (`len(x)`, `torch.randn_like(x)`), could be "
            "followed",
        )  # fmt: skip
    for loader in facts.loaders:
        if loader.obj in facts.training_loaders and loader.obj.name not in ITERATORS:
            yield from _of(facts, loader, marks, as_it_stands)


def _of(facts: Facts, loader: Loader, marks: Marks, as_it_stands: Callable[[], Facts]) -> Iterator[Link]:
    place = loader.made.module, loader.made.node
    form = collated.layout(facts.run.machine, loader.obj)
    if form.sort is not None:
        yield Link(
            *place,
            f"`{brief(form.sort)}` of its `collate_fn` puts the samples in an order by all of the batch, and each rank "
            "would have the order of its share",
            "where samples are packed, `enforce_sorted=False` needs no such order",
        )  # fmt: skip
        return
    if not collated.is_seen(form):
        yield Link(
            *place,
            "it is not seen that the samples of a batch lie along its first dimension, one row each",
            "it could be seen of a `collate_fn` that only stacks them, as `torch.stack(xs)` does, or pads them with "
            "`pad_sequence(xs, batch_first=True)`",
        )  # fmt: skip
        return
    if any(mark.site is loader.obj.site for mark in marks(facts, Listed)):
        yield Link(
            *place,
            "the loss depends on a list that it makes of the samples, and how many rows each has is not known",
            "tensors with one row for each sample could be followed",
        )  # fmt: skip
    if not any(leaf.padded for leaf in form.leaves()):
        return
    for mark in marks(facts, Reduction):
        assert mark.site is not None
        if not _is_by_sample(facts, mark.site):
            yield Link(
                *place,
                "its `collate_fn` may pad each rank's share to another length, and a mean over all entries "
                f"(`{brief(mark.site)}`) is then another one",
                "a mean over the entries of each sample, and then over samples, would not depend on that",
            )  # fmt: skip
            return
    if any(isinstance(mark, Padded) and not mark.packed for mark in marks(facts, Padded)):
        yield Link(
            *place,
            "its `collate_fn` may pad each rank's share to another length, and the loss may depend on how far a sample "
            "is padded",
            "`pack_padded_sequence` would leave the padding out, if no layer mixes the entries of a sample before it",
        )  # fmt: skip
        return
    stands = as_it_stands()
    for module, node, does in (*_asked_for_their_length(stands), *_counted_with_padding(stands)):
        yield Link(
            module, node,
            f"`{brief(node)}` {does}, and its `collate_fn` may pad each rank's share to another length",
            "the samples' own lengths do not depend on that",
        )  # fmt: skip


def _asked_for_their_length(facts: Facts) -> Iterator[tuple[Module, cst.CSTNode, str]]:
    """`batch.shape[1]`, `batch.numel()`, in a turn of training and outside of models."""
    for module in facts.run.frames:
        for node in module.nodes:
            if not isinstance(node, cst.Attribute) or node.attr.value not in forms.SIZES:
                continue
            if any(isinstance(one, Padded) for one in facts.value(node.value).sources):
                whole = _with_its_place(module, node)
                if whole is not None and places_of(facts).of(module, node) is Place.INSIDE:
                    yield module, whole, "says how far the samples of a batch are padded"
                    return


def _counted_with_padding(facts: Facts) -> Iterator[tuple[Module, cst.CSTNode, str]]:
    """`(batch == 0).sum()`, `batch.mean()`, likewise: figures of all entries, of those that were filled in as well."""
    for module in facts.run.frames:
        for node in module.nodes:
            if not isinstance(node, cst.Call):
                continue
            sources = facts.value(node).sources
            if any(isinstance(one, Reduction) and one.site is node for one in sources):
                padded = any(isinstance(one, Padded) and not one.packed for one in sources)
                if padded and not _is_by_sample(facts, node) and places_of(facts).of(module, node) is Place.INSIDE:
                    yield module, node, "is of all entries of a batch"
                    return


def _with_its_place(module: Module, node: cst.Attribute) -> cst.CSTNode | None:
    """`x.size(1)` of `x.size`; None where the number of samples is asked for: `x.shape[0]`."""
    around = module.parents.get(node)
    if isinstance(around, cst.Call) and around.func is node:
        place = around.args[0].value if around.args else None
    elif isinstance(around, cst.Subscript) and around.value is node and isinstance(around.slice[0].slice, cst.Index):
        place = around.slice[0].slice.value
    else:
        return node
    return None if isinstance(place, cst.Integer) and place.evaluated_value == 0 else around


def _is_by_sample(facts: Facts, node: cst.CSTNode) -> bool:
    """`cross_entropy(outputs, labels)`, with what the model returns as it is, and one label for each sample.

    Or `mse_loss(outputs, values)`: each value is compared with one entry, and a sample has as many values as another.
    """
    if not isinstance(node, cst.Call):
        return False
    names = {obj.name for obj in facts.value(node.func).objs if isinstance(obj, External)}
    names |= {getattr(obj, "name", "") for obj in facts.value(node.func).objs}
    of_samples = bool(names) and all(name.rsplit(".", 1)[-1] in _BY_SAMPLE for name in names)
    formed = any(isinstance(one, cst.Attribute) and one.attr.value in _FLATTENING for one in tree.walk(node))
    known = (of_samples and not formed) or (bool(names) and all(map(torch_losses.compares_entries, names)))
    return known and (_padded_targets(facts, node) == [] or _is_of_lengths(names))


def _is_of_lengths(names: set[str]) -> bool:
    return all(name.rsplit(".", 1)[-1] in _OF_LENGTHS for name in names)


def _padded_targets(facts: Facts, call: cst.Call) -> list[Obj | str]:
    targets = [one.value for place, one in enumerate(call.args) if place == 1 or _named(one) == "target"]
    if not targets:
        return [*facts.value(call).sources]  # `criterion(*both)`
    return [one for target in targets for one in facts.value(target).sources if isinstance(one, Padded)]


def _named(argument: cst.Arg) -> str:
    return argument.keyword.value if argument.keyword is not None else ""


def lie_along_the_first(facts: Facts) -> bool:
    """Whether the first dimension of all batches of training is seen to be that of the samples."""
    trained = (core(obj) for obj in facts.training_loaders)
    loaders = [obj for obj in trained if isinstance(obj, External) and obj.name in LOADERS]
    return all(collated.is_stacked(collated.layout(facts.run.machine, obj)) for obj in loaders)
