"""Training data that training changes or chooses: pseudo labels, weights of a sampler, the hardest samples.

Each rank would write what it made of its own samples into its own copy, and deal out other data than the others.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.decisions import aliases
from distify_codemods.decisions.base import Link
from distify_codemods.decisions.places import Place, places_of
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, Loader
from distify_codemods.inside import core, made_of
from distify_codemods.libraries import in_place, python, torch_data
from distify_codemods.naming import brief
from distify_codemods.objects import External, Instance, Mapping, Sequence
from distify_codemods.origins import Kept, Share
from distify_codemods.program import Module
from distify_codemods.values import Value

_FILLING = python.ADDING | {"update", "setdefault"}
_SERVING = ("__getitem__", "__iter__")


def links(facts: Facts) -> Iterator[Link]:
    data = _Data(facts)
    for event in facts.of_kind(Kind.STORE, Kind.METHOD, Kind.CALL):
        own = _fills(event) and any(_is_own(facts, value) for value in _given(facts, event))
        if own and (data.takes(event) or _is_of_the_process(event)):
            yield Link(
                event.module, event.node,
                f"`{brief(event.node)}` changes the training data by what was computed of a batch: each rank would "
                "change its own by its own samples",
            )  # fmt: skip
    for loader in _of_training(facts):
        if any(_is_own(facts, value) for value in made_of(loader.arguments.all())):
            yield Link(
                loader.made.module, loader.made.node,
                f"the data of `{brief(loader.made.node)}` follow from what was computed of earlier batches: each rank "
                "would choose by its own samples",
            )  # fmt: skip


def _fills(event: Event) -> bool:
    if event.kind is Kind.CALL:
        return in_place.is_of_arrays(event.name) or event.name in (*in_place.OF_LISTS, python.SETS_ATTRIBUTE)
    return event.kind is Kind.STORE or event.name in _FILLING or event.name.endswith("_")


def _is_of_the_process(event: Event) -> bool:
    """`os.environ["NOISE"] = str(loss)`: whoever reads it."""
    return any(isinstance(obj, Ref) and obj.name == python.ENVIRONMENT for obj in event.receiver.objs)


def _of_training(facts: Facts) -> list[Loader]:
    return [one for one in facts.loaders if one.obj in facts.training_loaders]


class _Data:
    """What training loaders are made with: data sets, samplers, and what these hold."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        objs = [
            core(obj) for one in _of_training(facts) for value in made_of(one.arguments.all()) for obj in value.objs
        ]
        self._objs = {obj for obj in objs if _serves(obj)}
        self._names: dict[Module, set[str]] = {}  # of tensors that data sets of libraries and batches are made of
        for obj in self._objs:
            if isinstance(obj, External) and isinstance(obj.site, cst.Call) and obj.module is not None:
                given = [tree.dotted(one.value) for one in obj.site.args]
                self._names.setdefault(obj.module, set()).update(name for name in given if name)
        for module in facts.run.frames if _are_cut(facts) else ():
            self._names.setdefault(module, set()).update(_cut_in(facts, module))

    def takes(self, event: Event) -> bool:
        """Whether something is put into them."""
        place = event.receiver_node
        if event.kind is Kind.CALL and isinstance(event.node, cst.Call):
            place = event.node.args[0].value
        elif place is None and isinstance(event.node, (cst.Attribute, cst.Subscript)):
            place = event.node.value
        held = list(aliases.origins(self._facts, event.module, place))
        objs = {core(obj) for _, node in held for obj in self._facts.value(node).objs}
        if not (objs | set(map(core, event.receiver.objs))).isdisjoint(self._objs):
            return True
        return any(tree.dotted(node) in self._names.get(module, ()) for module, node in held)


def _are_cut(facts: Facts) -> bool:
    return any(isinstance(one, Share) for event in facts.backwards for one in event.receiver.sources)


def _cut_in(facts: Facts, module: Module) -> Iterator[str]:
    """`labels` of `labels[index]`, which is a rank's share of a batch that is cut by hand."""
    for node in module.parents:
        if isinstance(node, cst.Subscript) and any(isinstance(one, Share) for one in facts.value(node).sources):
            name = tree.dotted(node.value)
            if (
                name
                and not facts.shares_of_training(facts.value(node.value))
                and _is_lasting(facts, module, node.value)
            ):
                yield name


def _is_lasting(facts: Facts, module: Module, node: cst.BaseExpression) -> bool:
    """Whether it is there before the turns of training: an attribute, or a name that is bound around them."""
    if not isinstance(node, cst.Name):
        return True
    places = places_of(facts)
    found = module.flow(node).reaching(node)
    return all(places.of(module, one) in (Place.AROUND, Place.ELSEWHERE) for one in found)


def _serves(obj: Obj) -> bool:
    if isinstance(obj, Instance):
        return obj.of is not None and any(obj.of.member(name) is not None for name in _SERVING)
    return isinstance(obj, (Sequence, Mapping)) or (isinstance(obj, External) and obj.name.startswith(torch_data.OWN))


def _given(facts: Facts, event: Event) -> Iterator[Value]:
    yield from (event.value, *event.arguments.all())
    if isinstance(event.node, cst.Subscript):
        for element in event.node.slice:
            yield from (facts.value(node) for node in tree.walk(element) if isinstance(node, cst.BaseExpression))


def _is_own(facts: Facts, value: Value) -> bool:
    """Also what is read once the loop is over."""
    return bool(facts.shares_of_training(value) or any(isinstance(one, Kept) for one in value.sources))
