"""Which models share their forward passes, and what becomes of a call."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from distify_runtime.environment import is_alone, rank
from distify_runtime.gradients import broadcast_parameters
from distify_runtime.meeting import collective
from distify_runtime.members import called_in, held_by, modules_of, parts_of
from distify_runtime.noticing import notice, noticed_in
from distify_runtime.process_group import at_the_end
from distify_runtime.randomness import seed_ranks_alike
from distify_runtime.shared import (
    agreement,
    alike,
    backward,
    check,
    costs,
    finding,
    functions,
    hearing,
    operations,
    plans,
    region,
    related,
    steps,
    wholes,
)
from distify_runtime.shared.attributes import Watched, sizes_made_whole
from distify_runtime.shared.copies import Copies
from distify_runtime.shared.entries import filled
from distify_runtime.shared.forms import Forms, NotInParts, even_counts_of
from distify_runtime.shared.graph import Computed
from distify_runtime.shared.kinds import Kinds
from distify_runtime.shared.messages import RanksParted, Tag, What, numbered, report_failure
from distify_runtime.shared.plans import Plan
from distify_runtime.shared.readings import Readings, notice_readings
from distify_runtime.shared.shapes import Surprise
from distify_runtime.shared.state import Buffers
from distify_runtime.shared.streams import Sources, kept, own_stream
from distify_runtime.shared.structure import rebuilt, tensors_in, told
from distify_runtime.shared.subclasses import first_of_another_class, like, plain
from distify_runtime.sight import hide_group
from distify_runtime.watch import randomness as streams
from distify_runtime.watch import unshared

_DEEPEST = 3  # how far down the parts of a model are shared in its place


@collective
def data_parallel(*models: Any, methods: Iterable[str] = (), forward: bool = True) -> None:
    """Let the ranks share the forward passes of models, in place. A collective; nothing in a world of one.

    A call splits its batch over the ranks; each computes its part, the outputs are gathered, and every rank goes on
    with the whole batch, as in one process. What `nn.DataParallel` does with threads, over processes: losses, metrics,
    decisions stay what they are. Every rank has to hold the same model, and to be given the same batches.

    The models stay the objects that they are: nothing is wrapped, checkpoints keep their keys, and they can be moved,
    cast, loaded and compiled before and after.

    models: modules, None, and lists and dictionaries of modules; a ModuleList stands for its members, and objects that
        keep modules in their attributes for these. Raises TypeError for what holds none.
    methods: what else of theirs computes on a batch, as in `model.encode(x)`: methods, and modules that they hold.
        Raises TypeError for what is neither.
    forward: False for a `forward` that trains by itself, backward pass and step included: the methods alone are shared.
    """
    hide_group()
    if is_alone():
        return
    seed_ranks_alike()  # what rank 0 alone has done until now may have drawn something
    streams.are(streams.Streams.ALIKE)
    found = list(modules_of([held_by(one) for one in models]))
    if not any(is_lazy(one) for model in found for one in model.parameters()):
        broadcast_parameters(found)
    own_stream()
    functions.patch()
    notice_readings()
    backward.patch(_before_step)
    costs.watch_loaders()
    unshared.reasons_are(_why_none_is_shared)
    at_the_end(_forget)
    for model in found:
        for called in called_in(model) if forward else ():
            SharedModel.of(called).patch()
        for held, method in filter(None, (noticed_in(model, name) for name in methods)):
            SharedModel.of(held).patch([method])


class SharedModel:
    """A model whose calls are shared; with parts in its place where it cannot be shared itself."""

    def __init__(self, model: nn.Module, name: str, depth: int = 0) -> None:
        self._model = weakref.ref(model)
        self.name, self._number, self.depth = name, numbered(name), depth
        self.copies = Copies(model)
        self._buffers: Buffers | None = None
        self.calls = 0
        self.forms = Forms()
        self.given_up = ""  # why it is computed whole
        self.parts: list[SharedModel] = []
        self.draws = Sources()
        self._modes: set[bool] = set()  # `training`, of calls with gradients since the last step
        self._trains_in_eval = False
        self.sums_inside = False  # in the part that was computed last to be compared

    @classmethod
    def of(cls, model: nn.Module, name: str = "", depth: int = 0) -> SharedModel:
        found = _shared.get(id(model))
        if found is None or found._model() is not model:
            found = _shared[id(model)] = cls(model, name or type(model).__name__, depth)
            weakref.finalize(model, _shared.pop, id(model), None)
        return found

    @property
    def model(self) -> nn.Module:
        found = self._model()
        assert found is not None  # it is being called
        return found

    def patch(self, methods: Iterable[str] = ("forward",)) -> None:
        disable: Any = torch.compiler.disable  # untyped in torch
        for method in methods:
            notice(self.model, method, disable(_call), "_distify")

    # ---- one call

    def called(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with wholes.told_together():
            return self._called(function, args, kwargs)

    def _called(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.given_up:
            return function(*args, **kwargs)
        if not any(map(is_lazy, self.model.parameters())):
            special = first_of_another_class((args, kwargs))
            given = (args, kwargs) if special is None else plain((args, kwargs))
            trains = self._trains()
            call = plans.Call.of(self.model, trains, function, *given)
            if isinstance(call, str):
                if trains:
                    self._give_up(call)
            else:
                with related.arguments(call.tensors):
                    outputs = self._shared(call)
                if outputs is not None:
                    return outputs[0] if special is None else like(special, outputs[0])
        if not self.given_up:
            alike.computed_whole(self.model)
        return function(*args, **kwargs)

    def _trains(self) -> bool:
        if not torch.is_grad_enabled():
            return False
        self._modes.add(self.model.training)
        return self.model.training or self._trains_in_eval

    def steps_are_taken(self) -> None:
        """Where every call with gradients since the last step was in `eval()`, that is how it is trained."""
        self._trains_in_eval |= self._modes == {False}
        self._modes.clear()

    def _shared(self, call: plans.Call) -> tuple[Any] | None:
        """What the call returns, or None: it is to be computed whole."""
        self.calls += 1
        if agreement.is_compared(self.calls):
            agreement.check_arguments(self._tag(call), self.name, call.tensors)
        plan = self._plan(call)
        if plan is None:
            return None
        before, readings = self.forms.kept(self, call, plan), Readings()
        try:
            outputs, _ = self.shared_pass(call, plan, even_counts_of(call, plan), readings)
            stands = self.forms.stands(self, call, plan, readings, before)
        except NotInParts as error:
            self.forms.no_longer(self, call, error, before)
            if call.trains:
                self._give_up(str(error))
            return None
        except region.Parted as parted:
            left = before.state is None and self._buffers is not None and bool(self._buffers.written())
            why = self.forms.parted(self, call, plan, readings, before, parted, left)
            if why and call.trains:
                self._give_up(why)
            return None
        if not stands:
            return None
        unshared.a_pass_is_shared()
        return (outputs,)

    def shared_pass(
        self, call: plans.Call, plan: Plan, counts: tuple[int, ...], readings: Readings, probes: bool = False
    ) -> tuple[Any, list[Tensor]]:
        """The outputs of a pass that the ranks share; and all of its tensors, with those left in attributes."""
        inside = replace(self._region(call, plan, counts), readings=readings)
        arguments, inside.anchors = self._arguments(call, plan, inside)
        changed, buffers, hooks = (
            Watched(self.model, self.copies),
            self._buffers_as_they_are(probes),
            hearing.on_tensors(),
        )
        sizes = sizes_made_whole(self.model, plan.sizes, counts[rank()], sum(counts))
        try:
            with sizes, inside.entered(own_draws=not probes), costs.of_computing(not probes), readings.recorded():
                outputs = call.function(*arguments[0], **arguments[1])
        except Exception as error:
            if not probes:
                report_failure(error)
                inside.fail()
            raise
        outputs = filled(outputs, counts, rank()) if plan.lists else outputs
        readings.returned(outputs)
        given = tensors_in(outputs)
        mine = [*given, *changed.now()]
        computed = Computed(mine, buffers.written(), hooks=hearing.on_tensors() != hooks)
        self._look_at(call, plan, computed, readings, probes)
        whole = self._gathered(call, plan, inside, mine, probes)
        changed.replace(iter(whole[len(given) :]))
        return rebuilt(outputs, iter(whole)), whole

    def _gathered(
        self, call: plans.Call, plan: Plan, inside: region.Region, found: list[Tensor], probes: bool
    ) -> list[Tensor]:
        try:
            return plan.gathered(inside, found, call.sizes)
        except Surprise as surprise:
            if probes:
                raise
            found_now = finding.find_plan(self, call, [plan])
            with suppress(Surprise):
                if found_now.plan is not None:
                    whole = found_now.plan.gathered(inside, found, call.sizes)
                    plan.outputs, plan.agreed = found_now.plan.outputs, found_now.plan.agreed
                    return whole
            raise NotInParts(found_now, f"its outputs do not follow the batch: {surprise}") from None

    def _buffers_as_they_are(self, anew: bool) -> Buffers:
        if self._buffers is None or anew:  # a model may make some in its first pass
            self._buffers = Buffers(self.model)
        self._buffers.begin()
        return self._buffers

    def _look_at(
        self, call: plans.Call, plan: Plan, computed: Computed, readings: Readings, probes: bool
    ) -> None:  # fmt: skip
        """What a pass has computed: it is remembered of one that is compared, and held against that of the others."""
        if probes:
            plan.operations |= computed.operations
            return
        if torch.is_grad_enabled():
            self._check_nothing_is_past_its_copy(computed.past)
        readings.computes(self.forms.new_in(call, computed))

    def _check_nothing_is_past_its_copy(self, leaves: dict[int, Tensor]) -> None:
        past = [one for one in leaves.values() if isinstance(one, nn.Parameter) or self.copies.has(one)]
        if past:
            known = {id(one): name for name, one in self.model.named_parameters()}
            name = known.get(id(past[0]), "a parameter")
            raise RanksParted(
                f"distify: {self.name} (call {self.calls}) reaches `{name}` by another way than as a parameter of its "
                "own: its gradient would be one rank's. Let it be an attribute of the module that uses it"
            )

    def own_part(self, call: plans.Call, plan: Plan, counts: tuple[int, ...], readings: Readings) -> check.Given:
        """This rank's outputs, for its part of the batch alone, and what it left in attributes."""
        inside = replace(self._region(call, plan, counts), asks=True)
        arguments, _ = self._arguments(call, plan, inside)
        changed = Watched(self.model, self.copies)
        with inside.all_or_none(), inside.entered(own_draws=False), readings.recorded():
            outputs = call.function(*arguments[0], **arguments[1])
        self.sums_inside = inside.place > 0
        outputs = filled(outputs, counts, rank()) if plan.lists else outputs
        readings.returned(outputs)
        return [*tensors_in(outputs), *changed.now()], told(outputs)

    def _region(self, call: plans.Call, plan: Plan, counts: tuple[int, ...]) -> region.Region:
        tag = self._tag(call)
        if torch.is_grad_enabled():
            self.copies.refresh(tag)
        ending = plan.ending(call.sizes, counts)
        return region.Region(
            tag, counts, [self.copies], plan.exact_losses, self.draws, course=plan.course, ending=ending
        )

    def _tag(self, call: plans.Call) -> Tag:
        return Tag(What.OUTPUTS, self._number, self.calls, form=call.form_hash)

    def _arguments(self, call: plans.Call, plan: Plan, inside: region.Region) -> tuple[Any, list[Tensor | None]]:
        """What the model is given on this rank, and what its outputs hang on."""
        layouts = plan.batch.layouts(inside.counts, call.tensors)
        parts, anchor = operations.split(inside.tag, list(layouts.values()), [call.tensors[index] for index in layouts])
        tensors = dict(zip(layouts, parts, strict=True))
        anchors = [anchor, self.copies.anchor] if torch.is_grad_enabled() else []
        others = [index for index, one in enumerate(call.tensors) if index not in tensors and one.requires_grad]
        if others and torch.is_grad_enabled():
            copies, other = operations.copy(inside.tag, [call.tensors[index] for index in others])
            tensors |= dict(zip(others, copies, strict=True))
            anchors.append(other)
        given = [tensors.get(index, one) for index, one in enumerate(call.tensors)]
        related.stand_for(given)
        begin = sum(inside.counts[: rank()])
        end = begin + inside.counts[rank()]
        return plan.batch.part((call.args, call.kwargs), given, begin, end), anchors

    # ---- how it is shared

    def _plan(self, call: plans.Call) -> Plan | None:
        is_tried = self.depth > 0 and call.trains and call.form not in self.forms.plans
        if is_tried and (why := _kinds.whole(self.model, call)):
            self._give_up(why)
            return None
        plan, why = self.forms.plan(self, call)
        if plan is None and why and call.trains:
            if is_tried:
                _kinds.learn(self.model, call, why)
            self._give_up(why)
        elif plan is None and call.trains and call.is_of_one:
            self._share_parts()  # it may be taken apart, into patches or instances; others may have more samples
        return plan

    def _give_up(self, why: str) -> None:
        self.given_up = why
        self._share_parts()
        self._say_whole([part.name.removeprefix(f"{self.name}.") for part in self.parts])

    def _share_parts(self) -> None:
        """Of calls that are computed whole."""
        if self.parts or self.depth == _DEEPEST:
            return
        for name, part in parts_of(self.model):
            shared = SharedModel.of(part, f"{self.name}.{name}", self.depth + 1)
            shared.patch()
            self.parts.append(shared)

    def _say_whole(self, instead: Sequence[str] = ()) -> None:
        model, _, part = self.name.partition(".") if self.depth else (self.name, "", "")
        wholes.say(model, part, self.given_up, instead)

    def found_in_a_checkpoint(self) -> None:
        if not self.given_up:
            self.given_up = "it is called inside of a checkpoint, which a backward pass computes again"
            self._say_whole()

    @property
    def is_shared(self) -> bool:
        return self.forms.any_shared or any(part.is_shared for part in self.parts)


_shared: dict[int, SharedModel] = {}
_kinds = Kinds()


def shared_model(model: nn.Module) -> SharedModel | None:
    found = _shared.get(id(model))
    return found if found is not None and found._model() is model else None


def _call(owner: nn.Module, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    model = shared_model(owner)
    if model is None:
        return function(*args, **kwargs)
    inside = region.current()
    if inside is None:
        if region.is_exported():
            with kept():  # the other ranks draw nothing for it
                return function(*args, **kwargs)
        if not region.computes_whole() and not region.is_transformed():
            return model.called(function, args, kwargs)
        if region.is_checkpointed():
            model.found_in_a_checkpoint()
        alike.computed_whole(owner)
        return function(*args, **kwargs)
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    if all(not one.requires_grad or not one.is_leaf for one in model.model.parameters()):
        return function(*args, **kwargs)  # a part of the model that is being computed
    with inside.with_copies(model.copies):
        return function(*args, **kwargs)


def _before_step(optimizer: Optimizer) -> None:
    models = list(_shared.values())
    for one in models:
        one.steps_are_taken()
    steps.before(optimizer, models)


def _why_none_is_shared() -> str:
    whole = [one for one in _shared.values() if one.depth == 0 and (one.calls or one.given_up) and not one.is_shared]
    nothing = "no call of it had a batch to split"
    told = [f"{one.name}: {one.given_up or one.forms.why_whole or nothing}" for one in whole]
    if told and all(one.forms.of_few for one in whole):
        told.append("of larger batches there may be something to share")
    return "; ".join(told)


def _forget() -> None:
    for one in _shared.values():
        one.copies.forget()
    _shared.clear()
    _kinds.forget()
