"""What a TensorFlow script does that matters to Horovod: sessions, optimizers, `fit`, data sets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.objects import External
from distify_codemods.records import dataclass
from distify_codemods.values import Value

#: `tf`, `tf.compat.v1`, `tf.keras`, and Keras by itself.
_TF = r"tensorflow(?:\.compat\.v[12])?"
_KERAS = rf"(?:{_TF}\.keras|tensorflow\.python\.keras|keras)"
_OPTIMIZER = re.compile(rf"(?:{_TF}\.train\.\w+Optimizer|{_KERAS}\.optimizers\.(?:legacy\.|experimental\.)?[A-Z]\w+)")
_SCHEDULE = re.compile(rf"{_KERAS}\.optimizers\.schedules\.\w+")
_MONITORED = re.compile(rf"{_TF}\.train\.(?:MonitoredTrainingSession|MonitoredSession|SingularMonitoredSession)")
_SESSION = re.compile(rf"{_TF}\.(?:Interactive)?Session")
_DATASET = re.compile(rf"{_TF}\.data\.(?:Dataset|TFRecordDataset|TextLineDataset|FixedLengthRecordDataset)(?:\.\w+)?")
_FIT = re.compile(rf"{_KERAS}\.(?:Sequential|Model|models\.\w+|engine\.\w+)\.fit|{_KERAS}\.applications\.[\w.]+\.fit")
_BY_OTHER_MEANS = {
    rf"{_TF}\.estimator\.Estimator": "an Estimator",
    rf"{_TF}\.GradientTape": "a training loop with a GradientTape",
    rf"{_TF}\.distribute\.\w+": "tf.distribute, which distributes it already",
    rf"{_TF}\.train\.(?:Supervisor|SyncReplicasOptimizer|ClusterSpec|Server)": "TensorFlow's own distribution",
}


@dataclass(eq=False)
class Found:
    facts: Facts

    @cached_property
    def optimizers(self) -> list[Event]:
        return self._calls(_OPTIMIZER)

    @cached_property
    def monitored(self) -> list[Event]:
        return self._calls(_MONITORED)

    @cached_property
    def sessions(self) -> list[Event]:
        return self._calls(_SESSION)

    @cached_property
    def fits(self) -> list[Event]:
        """`model.fit(…)` of Keras, also of own classes that derive from its models."""
        return [one for one in self._methods("fit") if self._is_keras(one.receiver)]

    @cached_property
    def compiled(self) -> list[Event]:
        return self._methods("compile")

    @cached_property
    def datasets(self) -> list[Event]:
        """Where data sets begin: `from_tensor_slices`, `TFRecordDataset`, …"""
        return [one for one in self._calls(_DATASET) if not one.name.endswith((".zip", ".choose_from_datasets"))]

    @property
    def by_keras(self) -> bool:
        return bool(self.fits)

    @property
    def trains(self) -> bool:
        return bool(self.fits or ((self.monitored or self.sessions) and self.optimizers) or self.by_other_means)

    @cached_property
    def by_other_means(self) -> list[tuple[Event, str]]:
        calls = self.facts.of_kind(Kind.CALL)
        return [(one, what) for pattern, what in _BY_OTHER_MEANS.items() for one in calls
                if re.fullmatch(pattern, one.name)]  # fmt: skip

    def origins(self, value: Value) -> set[cst.CSTNode]:
        """The calls of libraries that a value began with: of `Dataset.range(9).shuffle(3)`, `Dataset.range(9)`."""
        waiting, found = list(value.objs), set()
        while waiting:
            made = self._makers.get(waiting.pop())
            if made is not None and made.kind is Kind.METHOD:
                waiting += made.receiver.objs
            elif made is not None:
                found.add(made.node)
        return found

    def made_of(self, event: Event) -> set[str]:
        """The names of all methods that what a call returns goes through."""
        return {one.name for one in self.facts.of_kind(Kind.METHOD) if event.node in self.origins(one.receiver)}

    @cached_property
    def _makers(self) -> dict[Obj, Event]:
        return {obj: one for one in self.facts.of_kind(Kind.CALL, Kind.METHOD) for obj in one.value.objs}

    def _calls(self, pattern: re.Pattern[str]) -> list[Event]:
        return _each_once(one for one in self.facts.of_kind(Kind.CALL) if pattern.fullmatch(one.name))

    def _methods(self, *names: str) -> list[Event]:
        return _each_once(one for one in self.facts.of_kind(Kind.METHOD) if one.name in names)

    def methods(self, pattern: str, *names: str) -> list[Event]:
        """Calls of methods of what a library's function of such a name returned."""
        return [one for one in self._methods(*names) if is_of(one.receiver, pattern)]

    def _is_keras(self, receiver: Value) -> bool:
        return any(_FIT.fullmatch(f"{name}.fit") for obj in receiver.objs for name in _names(obj))

    def schedules(self, value: Value) -> bool:
        return any(isinstance(obj, External) and _SCHEDULE.fullmatch(obj.name) for obj in value.objs)


def is_of(value: Value, pattern: str) -> bool:
    return any(re.match(pattern, name) for obj in value.objs for name in _names(obj))


def _names(obj: Obj) -> Iterable[str]:
    """What a library calls it; of an object of an own class, what it derives from."""
    of = getattr(obj, "of", None)
    return of.libraries if of is not None else [obj.name] if isinstance(obj, External) else []


def _each_once(events: Iterable[Event]) -> list[Event]:
    found: dict[cst.CSTNode, Event] = {}
    for event in events:
        if isinstance(event.node, cst.Call):
            found.setdefault(event.node, event)
    return list(found.values())


def argument(call: cst.CSTNode, name: str, position: int | None = None) -> cst.Arg | None:
    """The argument that a call gives, by its name or its place."""
    assert isinstance(call, cst.Call)
    places = [one for one in call.args if one.keyword is None and not one.star]
    if position is not None and position < len(places) and places[position] is call.args[position]:
        return places[position]
    return next((one for one in call.args if one.keyword is not None and one.keyword.value == name), None)


def is_starred(call: cst.CSTNode) -> bool:
    assert isinstance(call, cst.Call)
    return any(one.star for one in call.args)


def code_in_brackets(node: cst.BaseExpression) -> str:
    """As an operand of `*` or `//`."""
    simple = isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber)) or node.lpar
    return tree.code_of(node) if simple else f"({tree.code_of(node)})"
