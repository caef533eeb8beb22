"""Whether a model takes a sample apart, into patches or words, of which ranks could then compute some each.

Convolutions, and what goes with them, treat apart what lies along the first dimension, and nothing else: their
channels are mixed. A linear layer treats the words of a sentence apart, too; behind convolutions it is given flat rows,
unless the model turns or cuts what it computes. So it is of convolutions that it can be seen to take nothing apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from distify_codemods import objects, tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.touching import parts_of
from distify_codemods.events import Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core
from distify_codemods.libraries import torch_nn
from distify_codemods.objects import External, Instance
from distify_codemods.program import Module
from distify_codemods.settled import is_module


def takes_none_apart(facts: Facts, model: Obj) -> bool:
    """Whether it is seen that all of its layers are given a sample as a whole, or what was made of that."""
    parts = parts_of(model)
    layers = [one.name for one in parts if isinstance(one, External)]
    convolves = any(map(torch_nn.convolves, layers))
    if not convolves or not all(map(_is_plain, parts)):
        return False
    by_rows = any(torch_nn.treats_rows_apart(name) for name in layers)
    return not any(
        _may_take_a_sample(facts, node) if isinstance(node, cst.Subscript) else _may_take_apart(module, node, by_rows)
        for module, body in _code(facts, model, parts)
        for node in tree.walk(body)
    )


def _is_plain(part: Obj) -> bool:
    """A class whose code is seen, a layer that treats samples apart and nothing else, or no layer."""
    if isinstance(part, Instance):
        return part.of is not None and part.of.libraries <= {*torch_nn.PLAIN_BASES, *torch_nn.CONTAINERS}
    if not isinstance(part, External):
        return False
    if part.name == torch_nn.FLATTENS:
        return part.arguments is None or not part.arguments.all() or part.arguments.first.constant() == 1
    return torch_nn.treats_samples_apart(part.name) or torch_nn.is_no_layer(part.name)


def _code(facts: Facts, model: Obj, parts: list[Obj]) -> Iterator[tuple[Module, cst.CSTNode]]:
    """The methods of its classes, and what is called in its forward passes."""
    found: dict[cst.CSTNode, Module] = {}
    for part in parts:
        for cls in part.of.order if isinstance(part, Instance) and part.of is not None else ():
            for statement in cls.node.body.body if cls.node is not None else ():
                if isinstance(statement, cst.FunctionDef) and statement.name.value != "__init__" and cls.module:
                    found[statement.body] = cls.module
    forwards = facts.of_kind(Kind.FORWARD)
    calls = {event.node for event in forwards if any(core(obj) is model for obj in event.receiver.objs)}
    for event in facts.run.events:
        if calls.isdisjoint(event.here.frame.context):
            continue
        function = event.here.frame.node
        if isinstance(function, cst.FunctionDef) and function.name.value != "__init__":
            found[function.body] = event.module
    yield from ((module, body) for body, module in found.items())


def _may_take_apart(module: Module, node: cst.CSTNode, by_rows: bool) -> bool:
    """Whether it may make several rows of what lies along other dimensions, or put samples behind each other.

    `by_rows`: there are linear layers as well, which treat apart what lies along any dimension but the last.
    """
    if isinstance(node, cst.Attribute) and node.attr.value in _TURNED:
        return True
    if not isinstance(node, cst.Call):
        return False
    name = node.func.attr.value if isinstance(node.func, cst.Attribute) else tree.dotted(node.func) or ""
    method = isinstance(node.func, cst.Attribute) and not _is_a_library(node.func.value)
    given = node.args if method else node.args[1:]
    if name in _APART:
        return True
    if name in _TURNING:
        return by_rows or not _leaves_the_first(name, given)
    if name in _JOINING:
        return not _along_another(node.args[1:])
    if name in _CUTTING:
        return not _along_another(given[1:])
    if name == "squeeze":
        return not _along_another(given)
    if name == "flatten":
        return bool(given) and tree.integer(given[0].value) != 1
    return name in _SHAPING and not _keeps_samples(module, given)


def _may_take_a_sample(facts: Facts, node: cst.Subscript) -> bool:
    """`x[0]`, and not `x[:, 0]`, `x.shape[0]`, `self.layers[0]`."""
    first, of = node.slice[0].slice, node.value
    whole = isinstance(first, cst.Slice) and first.lower is None and first.upper is None
    none = isinstance(first, cst.Index) and tree.dotted(first.value) == "None"
    asked = of.func if isinstance(of, cst.Call) else of
    sizes = isinstance(asked, cst.Attribute) and asked.attr.value in ("shape", "size")
    held = facts.value(of).objs
    listed = bool(held) and all(isinstance(obj, objects.Sequence) or is_module(obj) for obj in held)
    return not (whole or none or sizes or listed)


_TURNED = frozenset({"T", "mT"})
_TURNING = frozenset("permute transpose swapaxes movedim".split())
#: What puts several tensors together along a dimension.
_JOINING = frozenset("cat concat concatenate stack".split())
#: What cuts a tensor along a dimension into several.
_CUTTING = frozenset("chunk split tensor_split".split())
_SHAPING = frozenset("view reshape expand broadcast_to".split())
#: What else may change how many rows there are.
_APART = frozenset(
    "t unfold fold unflatten unbind repeat tile repeat_interleave rearrange reduce as_strided swapdims moveaxis vmap "
    "index_select".split()
)


def _is_a_library(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value in ("torch", "F", "np", "numpy", "einops")


def _leaves_the_first(name: str, given: Sequence[cst.Arg]) -> bool:
    places = [tree.integer(one.value) for one in given]
    return places[:1] == [0] if name == "permute" else len(places) == 2 and None not in places and 0 not in places


def _along_another(given: Sequence[cst.Arg]) -> bool:
    told = [one.value for one in given if one.keyword is None or one.keyword.value in ("dim", "axis")]
    return len(told) == 1 and tree.integer(told[0]) not in (None, 0)


def _keeps_samples(module: Module, given: Sequence[cst.Arg]) -> bool:
    """`x.view(x.size(0), -1)`, `x.view(-1, 400)`, `x.expand(-1, 3, 8, 8)`"""
    if not given or given[0].star or given[0].keyword is not None:
        return False
    first = given[0].value
    flat = tree.integer(first) == -1 and len(given) == 2
    return flat or _counts_samples(module, first, 4)


def _counts_samples(module: Module, node: cst.BaseExpression, depth: int) -> bool:
    """Whether it is the size of a first dimension, or one."""
    if tree.integer(node) == 1:
        return True
    if isinstance(node, cst.Call):
        size = isinstance(node.func, cst.Attribute) and node.func.attr.value == "size" and len(node.args) == 1
        return (size and tree.integer(node.args[0].value) == 0) or tree.dotted(node.func) == "len"
    if isinstance(node, cst.Subscript):
        index = node.slice[0].slice
        shape = isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape"
        return shape and isinstance(index, cst.Index) and tree.integer(index.value) == 0
    if not isinstance(node, cst.Name) or depth == 0:
        return False
    bound = module.flow(node).reaching(node)
    return bool(bound) and all(_is_bound_to_a_count(module, one, depth - 1) for one in bound)


def _is_bound_to_a_count(module: Module, bound: cst.CSTNode, depth: int) -> bool:
    holder = next((one for one in module.enclosing(bound) if isinstance(one, cst.BaseSmallStatement)), None)
    if not isinstance(holder, cst.Assign) or len(holder.targets) != 1:
        return False
    target, value = holder.targets[0].target, holder.value
    if target is bound:
        return _counts_samples(module, value, depth)
    first = isinstance(target, cst.Tuple) and target.elements[0].value is bound
    if isinstance(value, cst.Tuple) and isinstance(target, cst.Tuple):
        place = next((index for index, one in enumerate(target.elements) if one.value is bound), None)
        whole = place is not None and len(value.elements) == len(target.elements)
        return whole and place is not None and _counts_samples(module, value.elements[place].value, depth)
    called = value.func if isinstance(value, cst.Call) and not value.args else value
    sizes = isinstance(called, cst.Attribute) and called.attr.value in ("shape", "size")
    return first and sizes
