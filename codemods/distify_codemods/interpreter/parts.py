"""Whether `thing[0]` is a part of a batch or one sample of it, as a run for evidence sees it.

A batch as its loader gives it may be a tuple, and so is what some of the libraries' functions and modules return. Of
what was computed otherwise, a tensor, the first is one sample: of a rank's share another than of the batch. Both are
told by sources, which flow on: `COMPUTED`, and `SEVERAL` of a tuple that is not unpacked yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj, Ref
from distify_codemods.inside import core
from distify_codemods.libraries import computing
from distify_codemods.objects import Bound, Class, External, Function, Instance, Method, Partial
from distify_codemods.origins import COMPUTED, PART, SEVERAL, Labelled, Share, Single
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

OPERATIONS = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison)


def followed(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    """The value of an expression, which says so if it was computed."""
    if value.scale not in PER_SAMPLE:
        return value
    if isinstance(node, cst.Attribute):
        return computed(value) if SEVERAL in value.sources else value
    if isinstance(node, OPERATIONS):
        return computed(value)
    return _called(machine, value, node) if isinstance(node, cst.Call) else value


def _called(machine: Machine, value: Value, node: cst.Call) -> Value:
    callees = [core(obj) for obj in machine.values.get(node.func, NOTHING).objs]
    if any(isinstance(obj, (Function, Bound, Class, Partial)) or _is_of_python(obj) for obj in callees):
        return value  # what it returns says itself what it is
    if any(isinstance(obj, Instance) for obj in callees):
        return value if SEVERAL in value.sources else computed(value)
    if callees and all(map(_returns_several, callees)):
        return value.with_sources((value.sources - {COMPUTED}) | [SEVERAL])
    return computed(value)


def _is_of_python(obj: Obj) -> bool:
    """`next(batches)`, `batch.get(key)`, `queue.pop()` give what was there."""
    if isinstance(obj, Method):
        return obj.name in (*computing.PLAIN, "__next__", "next")
    return isinstance(obj, Ref) and obj.name.startswith(("builtins.", "copy.", "itertools.", "collections.", "tqdm."))


def _returns_several(obj: Obj) -> bool:
    if isinstance(obj, External):
        return obj.name in computing.OF_SEVERAL or obj.name.startswith("transformers.")
    name = obj.name if isinstance(obj, (Ref, Method)) else ""
    return name.rsplit(".", 1)[-1] in computing.SEVERAL


def of_labels(outputs: Value, part: object) -> Value | None:
    """`outputs.loss`, `outputs["loss"]`, `outputs[0]` of a model that was given labels; None of anything else."""
    labelled = [one for one in outputs.sources if isinstance(one, Labelled)]
    if not labelled:
        return None
    sources = outputs.sources - {*labelled, SEVERAL}
    if part == "loss" or (part == 0 and all(one.first for one in labelled)):
        return Value(scale=Scale.MEAN, sources=sources)
    return None if not isinstance(part, (str, int)) else computed(Value(scale=outputs.scale, sources=sources))


def computed(value: Value) -> Value:
    """The same, which is one tensor."""
    if COMPUTED in value.sources and SEVERAL not in value.sources:
        return value
    return value.with_sources((value.sources - {SEVERAL}) | [COMPUTED])


def item(machine: Machine, of: Value, value: Value, node: cst.CSTNode) -> Value:
    """`value` is what has been taken at a known place."""
    if isinstance(node, cst.Subscript) and isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape":
        return value  # a size, and no sample
    if SEVERAL in of.sources:
        return computed(value)
    told = COMPUTED in of.sources or PART in of.sources or any(isinstance(one, Share) for one in of.sources)
    one = COMPUTED in of.sources or (machine.evidence and told)
    return value.adding([machine.mark(Single, node)]) if one else value
