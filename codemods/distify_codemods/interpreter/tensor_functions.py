"""Functions of torch, numpy and math."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Const, Obj
from distify_codemods.events import Kind
from distify_codemods.interpreter import (
    cuts,
    dropping,
    holding,
    iterators,
    losses,
    pairing,
    patterns,
    rearranged,
    recurrent,
    reshaping,
    rows,
    scales,
    sizes,
    tensors,
    whole,
)
from distify_codemods.libraries import torch_nn, torch_optim
from distify_codemods.libraries.apart import treats_samples_apart
from distify_codemods.objects import Arguments, Sequence
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import CHANCE, Counter, Placed, Places, Shape, Verdict, Zero
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import ENTRY, NOTHING, Value, sources_of

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

S = Scale
_WORDS = str.split
_FIGURES = frozenset({S.MEAN, S.SUM, S.WEIGHTED, S.COUPLED})
#: What makes entries of which each is another one: by its place, or drawn without putting back.
_BY_PLACE = frozenset(_WORDS("arange randperm eye linspace logspace geomspace"))
_RANDOM = frozenset(
    _WORDS(
        "rand randn randint randperm normal bernoulli multinomial poisson binomial rand_like randn_like randint_like"
    )
)


def function(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    """A function of torch, numpy or math. The first argument is taken for the tensor."""
    last = name.rsplit(".", 1)[-1]
    loss = losses.of_function(last, arguments)
    if loss is not None:
        entries = name == f"torch.{last}" and "reduction" not in arguments.keywords  # it may return them all
        return Value(scale=S.UNKNOWN, sources=loss.sources) if entries and loss.scale is not S.CONST else loss
    if last == "prod" and tensors.is_a_shape(arguments.first):
        return tensors.method(machine, arguments.first, "numel", Arguments(), node)
    cut = cuts.made(machine, name, arguments, node)
    if name == torch_optim.GRADIENT:
        return _gradients(machine, arguments, node)
    if cut is not None:
        value = cut
    elif name.startswith(torch_optim.FUNCTIONAL):
        given = arguments.all()
        value = Value(scale=S.UNKNOWN if sources_of(given) else S.CONST, sources=sources_of(given))
    elif sizes.makes(name, arguments):
        value = _made(machine, name, arguments, node)
    elif last in _FUNCTIONS:
        value = _FUNCTIONS[last](machine, last, arguments, node)
    elif name.startswith(torch_nn.FILLS):
        value = NOTHING
    elif name.startswith("math."):
        given = arguments.all()
        value = Value(scale=scales.elementwise(*(one.scale for one in given)), sources=sources_of(given))
    else:
        value = _of_the_first(machine, name, arguments, node).adding(sizes.listed(machine, name, arguments))
    value = tensors.set_by(value, arguments)
    value = tensors.with_ignored(cuts.of_pieces(machine, last, value, arguments, node), arguments.all())
    told = "training" in arguments.keywords or len(arguments.positional) > 2
    value = dropping.called(machine, name, told, value, node)
    return value.adding([CHANCE]) if last in _RANDOM and name.startswith("torch.") else value


def _of_the_first(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`torch.sum(x)` is `x.sum()`."""
    tensor = arguments.positional[0] if arguments.positional else (arguments.get("input") or NOTHING)
    value = tensors.method(machine, _figures(tensor), name.rsplit(".", 1)[-1], arguments.rest, node)
    if value.scale not in PER_SAMPLE or treats_samples_apart(name):
        return value
    return Value(scale=S.UNKNOWN, sources=value.sources)


def _made(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    value, last = sizes.made(machine, name, arguments, node), name.rpartition(".")[2]
    value = value.in_one_row(rows.made(name, arguments))
    if last in ("arange", "randperm") and value.scale is S.SAMPLES:
        value = value.of(machine.mark(Places, node).alone)
    told = sizes.given(name, arguments) or []
    counts = value.scale in PER_SAMPLE or any(pairing.is_batch_size(machine, size) for size in told)
    if last in _BY_PLACE and counts and machine.evidence:
        value = value.adding([machine.mark(Placed, node)])
    return whole.numbered(machine, value, node) if last in ("arange", "randperm", "eye") else value


def _batch_norm(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    """Of torch.nn.functional: in training, each sample is normalised by what all of them are."""
    tensor = arguments.get("input", 0) or NOTHING
    training = arguments.get("training", 5)
    fixed = training is None or training.constant() is False
    return _normalised(tensor, tensor.scale in PER_SAMPLE and not fixed)


def _layer_norm(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`layer_norm(x, x.shape)`, `layer_norm(x, [len(x), 8])`: over all dimensions, that of the samples too."""
    tensor, over = arguments.get("input", 0) or NOTHING, arguments.get("normalized_shape", 1) or NOTHING
    held = [one for obj in over.objs if isinstance(obj, Sequence) for one in obj.parts()]
    whole = any(one.scale is S.COUNT for one in held) or any(isinstance(obj, Shape) for obj in over.objs)
    turned = tensor.scale is S.TURNED
    return _normalised(tensor, tensor.scale in PER_SAMPLE and (whole or turned or over.scale is S.COUNT))


def _normalised(tensor: Value, coupled: bool) -> Value:
    scale = S.COUPLED if coupled else tensor.scale
    return Value(scale=scale, sources=tensor.sources, dims=tensor.dims, one_row=tensor.one_row)


def _gradients(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`torch.autograd.grad`: a tuple. A mean's gradient by what all samples share is averaged: alike on all ranks."""
    outputs, inputs = (
        holding.any_item(value) if any(isinstance(obj, Sequence) for obj in value.objs) else value
        for value in (arguments.get("outputs", 0) or NOTHING, arguments.get("inputs", 1) or NOTHING)
    )
    scale = scales.gradient(outputs.scale, inputs.scale)
    averaged = scale is S.MEAN
    sources = EMPTY if averaged else arguments.sources
    item = Value(scale=S.CONST if averaged else scale, sources=sources, dims=inputs.dims)
    said = Value(scale=scale, sources=outputs.sources)
    machine.event(Kind.GRADIENT, node, name=outputs.scale.name, value=said, arguments=arguments)
    return Value(machine.made(Sequence, node, "gradients", element=item).alone)


def _figures(given: Value) -> Value:
    """A list of figures is taken for a tensor of them: what they stand for, it stands for."""
    listed = [obj for obj in given.objs if isinstance(obj, Sequence) and not obj.per_sample]
    if not listed or given.scale is not S.CONST:
        return given
    item = holding.any_item(given)
    if item.scale is S.CONST:
        return given
    return Value(scale=item.scale if item.scale in _FIGURES else S.UNKNOWN, sources=given.sources | item.sources)


def _joined(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    parts = arguments.get("tensors", 0) or NOTHING
    item = holding.any_item(parts)
    scale, sources = item.scale, item.sources | parts.sources
    given, dimension = reshaping.dimension(arguments, 1)
    each = any(isinstance(obj, Sequence) and obj.is_of_samples for obj in parts.objs)
    per_sample = each or item.objs == ENTRY
    if name == "pad_sequence":
        first = arguments.get("batch_first", 1)
        scale = S.TURNED if first is None or first.constant() is not True else scale
    elif name in ("stack", "vstack") and scale is S.SAMPLES and not per_sample and (not given or dimension == 0):
        scale = S.TURNED
    dims = max(_most_dims(parts, item) + (name == "stack"), 2 * per_sample)
    one = rows.joined(machine, name, arguments, node)
    value = Value(scale=scale, sources=sources, dims=dims, one_row=one)
    if name in ("stack", "pad_sequence") or dimension not in (0, None):
        return value
    value = whole.beside(machine, value, parts, node)
    return value if name == "hstack" else whole.joined(machine, value, parts, node)


def _most_dims(parts: Value, item: Value) -> int:
    """What is joined has as many dimensions, each, as any of them is seen to have."""
    only = parts.single()
    items = only.items if isinstance(only, Sequence) and not parts.open else None
    return max((one.dims for one in items or ()), default=item.dims)


def extreme_of_numbers(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """Python's max and min: of numbers that stand for batches, the sense is lost, what they depend on is not."""
    given = arguments.positional
    held: Ordered[Obj] = EMPTY
    if len(given) == 1:
        item = holding.any_item(given[0])
        held |= (obj for obj in item.objs if not isinstance(obj, _NUMBERS))  # `min(runs, key=...)` is one of these
        given = [*given, item, iterators.sorted_by(machine, arguments, item, node)]
    kinds = {value.scale for value in given} - {S.CONST}
    if len(arguments.positional) > 1:
        held = held.union(*(value.objs for value in arguments.positional))
    if kinds:
        held |= [machine.made(Verdict, node)]
    listed = not arguments.first.objs or rearranged.are_of_samples(arguments.first)
    if len(arguments.positional) == 1 and given[0].scale in PER_SAMPLE and listed:
        return Value(held, S.COUPLED, sources_of(given))  # of all samples
    kind = S.UNKNOWN if kinds - {S.REDUCED} else S.REDUCED if kinds else S.CONST
    others = len(arguments.positional) > 1 and not all(value.are_literals for value in arguments.positional)
    return Value(held, kind, sources_of(given), open=others)  # `max(2, size // 2)` is no literal


#: What stands for a number, which is another one where it is the largest of several.
_NUMBERS = (Const, Counter, Placed, Places, Shape, Verdict, Zero)
_FUNCTIONS: dict[str, Callable[[Machine, str, Arguments, cst.CSTNode], Value]] = {
    **dict.fromkeys(_WORDS("cat stack concat concatenate hstack vstack pad_sequence"), _joined),
    **dict.fromkeys(("set_grad_enabled", "manual_seed"), lambda machine, name, arguments, node: NOTHING),
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "pack_padded_sequence": recurrent.pack,
    "pad_packed_sequence": recurrent.unpack,
    "einsum": lambda machine, name, arguments, node: patterns.einsum(arguments),
}
