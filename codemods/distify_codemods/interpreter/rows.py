"""Tensors that are seen to have one row: the size of their first dimension is one.

A loader of single samples deals out such, `unsqueeze(0)` makes one, and what takes each row by itself gives one for
one. That is told of each operation that is known to do so; what anything else makes may have any number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Const, Obj
from distify_codemods.inside import contained, core
from distify_codemods.interpreter import holding, reshaping, sizes
from distify_codemods.libraries import torch_data, torch_nn
from distify_codemods.module import Module
from distify_codemods.objects import Arguments, External, Instance, Sequence
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_WORDS = str.split
#: Of one tensor, whatever else they are given: the same entries in another form, and copies.
_SAME = frozenset(
    _WORDS(
        """to cuda cpu float double half bfloat16 long int short byte bool type type_as astype detach detach_ clone copy
        contiguous requires_grad_ pin_memory numpy from_numpy as_tensor asarray zeros_like ones_like empty_like
        full_like rand_like randn_like randint_like"""
    )
)
#: Of each entry by itself, or along dimensions that stay: all tensors that they are given have to have one row.
_ENTRYWISE = frozenset(
    _WORDS(
        """exp expm1 log log1p log2 sqrt rsqrt square abs neg sin cos tanh sigmoid logsigmoid relu relu_ leaky_relu
        leaky_relu_ elu selu celu gelu silu mish softplus softsign hardtanh hardswish hardsigmoid relu6 clamp clamp_
        clip pow round floor ceil sign nan_to_num dropout dropout2d dropout3d alpha_dropout softmax log_softmax
        normalize add add_ sub sub_ mul mul_ div div_ lerp maximum minimum"""
    )
)
#: Along dimensions of which each keeps its size, unless others are given.
_TRANSFORMED = frozenset(_WORDS("""fft fft2 fftn ifft ifft2 ifftn rfft rfft2 rfftn fftshift ifftshift"""))
_JOINS = frozenset(_WORDS("cat concat concatenate"))


def dealt(loader: External) -> bool:
    """Whether each tensor in its batches has one row: torch puts single samples together by itself."""
    given = loader.arguments
    if loader.name != torch_data.LOADER or given is None or given.star is not None or given.double_star is not None:
        return False
    others = (given.get(name, torch_data.PARAMETERS.index(name)) for name in ("batch_sampler", "collate_fn"))
    size = given.get("batch_size", torch_data.PARAMETERS.index("batch_size"))
    plain = all(one is None or one.is_none for one in others) and "collate_fn" not in loader.attributes
    return plain and (size is None or _is_one(size))


def after(name: str, tensor: Value, arguments: Arguments) -> bool:
    """What a method of a tensor returns, or a function that is given it first."""
    if name in ("unsqueeze", "expand_dims"):
        first = reshaping.dimension(arguments, 0)[1]
        return first == 0 or (tensor.one_row and first is not None)
    if name in ("view", "reshape"):
        leading = [value.constant() for value in holding.flat(arguments.positional)]
        return len(leading) > 1 and leading[0] == 1
    if not tensor.one_row:
        return False
    if name in _SAME:
        return True
    if name in ("squeeze", "flatten"):  # of other dimensions than the first
        return (reshaping.dimension(arguments, 0)[1] or _start(arguments)) > 0
    if name == "pad":
        return _pads_behind(tensor, arguments)
    if name in _TRANSFORMED:
        return not arguments.positional and arguments.keywords.keys() <= {"dim", "norm"} and not arguments.double_star
    layer = name.startswith(reshaping.LAYERS) and not name.startswith(("fold", "scaled_dot_product"))
    return layer or (name in _ENTRYWISE and _all_have_one(arguments.all()))


def item(receiver: Value, node: cst.Subscript, keys: list[Value]) -> bool:
    """`x[None]`, `batch["image"]`, `x[:, 0]`"""
    first, *rest = (one.slice for one in node.slice)
    if isinstance(first, cst.Index):
        return keys[0].is_none or (receiver.one_row and isinstance(keys[0].constant(), str))
    whole = isinstance(first, cst.Slice) and first.lower is None and first.upper is None and first.step is None
    plain = all(isinstance(one, cst.Slice) or key.are_literals for one, key in zip(rest, keys[1:], strict=True))
    return receiver.one_row and whole and plain


def _pads_behind(tensor: Value, arguments: Arguments) -> bool:
    """`F.pad(x, (1, 1, 0, 2))`, which has two numbers for each dimension, from the last on."""
    only = (arguments.get("pad", 0) or NOTHING).single()
    numbers = len(only.items) if isinstance(only, Sequence) and only.items is not None else 0
    return 0 < numbers < 2 * tensor.dims


def _start(arguments: Arguments) -> int:
    start = arguments.keywords.get("start_dim", NOTHING).constant()
    return start if isinstance(start, int) else 0


def _all_have_one(given: Iterable[Value]) -> bool:
    """Of those that may be tensors."""
    return all(one.one_row or one.are_literals for one in given)


def of_both(left: Value, right: Value) -> bool:
    """What an operation of each entry makes: a number has no rows."""
    return (left.one_row or right.one_row) and _all_have_one((left, right))


def made(name: str, arguments: Arguments) -> bool:
    """`torch.randn(1, 3, 64, 64)`, `torch.zeros((1, 8))`"""
    given = sizes.given(name, arguments)
    return given is not None and len(given) > 1 and _is_one(given[0])


def _is_one(value: Value) -> bool:
    return type(value.constant()) is int and value.constant() == 1


# ---- layers


def through(layer: External, arguments: Arguments) -> bool:
    """Whether what a layer returns has one row, as what it is given."""
    given = arguments.all()
    return bool(given) and all(one.one_row for one in given) and keeps_rows(layer)


def keeps_rows(layer: Obj, around: tuple[Obj, ...] = ()) -> bool:
    """Whether a layer makes one row of each; the script's own are followed."""
    layer = core(layer)
    if isinstance(layer, Instance):
        return True
    if not isinstance(layer, External) or layer in around:
        return False
    if not torch_nn.treats_samples_apart(layer.name):
        return torch_nn.keeps_leading(layer.name)
    given = layer.arguments or Arguments()
    if layer.name == torch_nn.FLATTENS:
        return not given.all() or given.first.constant() == 1
    if layer.name not in torch_nn.CONTAINERS:
        return True
    held = [one for value in (*given.all(), *layer.attributes.values()) for one in contained(value)]
    listed = (Sequence, Const)
    plain = not any(value.open for value in given.all())
    return plain and all(isinstance(one, listed) or keeps_rows(one, (*around, layer)) for one in held)


# ---- several tensors that are put together


def joined(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> bool:
    """`torch.cat([image, mask], dim=1)`, `torch.stack([image])`; `torch.cat(images)` of a list of one, or of none."""
    listed = arguments.first
    given, place = reshaping.dimension(arguments, 1)
    plain = bool(listed.objs) and not listed.open and all(isinstance(obj, Sequence) for obj in listed.objs)
    if not plain or (name != "stack" and name not in _JOINS):
        return False
    each = all(obj.any().one_row for obj in listed.objs if isinstance(obj, Sequence))
    if given and place != 0:
        return place is not None and each
    return (each or name == "stack") and _has_one_item(machine, listed, node)


def _has_one_item(machine: Machine, listed: Value, node: cst.CSTNode) -> bool:
    only = listed.single()
    if isinstance(only, Sequence) and only.items is not None:
        return len(only.items) == 1 and only.element is None and not only.per_sample
    argument = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    return isinstance(argument, cst.Name) and _is_filled_once(machine, machine.frame.module, argument)


def _is_filled_once(machine: Machine, module: Module, read: cst.Name) -> bool:
    """Whether a list begins empty, and no way through the lines up to here puts more than one thing into it.

    In a loop over the rows of what has one, there is one turn.
    """
    flow = module.flow(read)
    bound = flow.reaching(read)
    if len(bound) != 1 or not _begins_empty(module, bound[0]):
        return False
    uses = [use for use in flow.uses(bound[0]) if use is not read]
    puts = [one for one in (_put(module, bound[0], use) for use in uses) if one is not None]
    around = _loops(module, bound[0])
    once = all(_comes_once(machine, module, one, around) for one in puts)
    apart = all(_exclude_each_other(module, one, other) for one, other in combinations(puts, 2))
    return len(puts) == len(uses) and once and apart


def _begins_empty(module: Module, bound: cst.CSTNode) -> bool:
    holder = module.parents.get(module.parents.get(bound, bound))
    made = holder.value if isinstance(holder, cst.Assign) and len(holder.targets) == 1 else None
    return isinstance(made, cst.List) and not made.elements


def _put(module: Module, bound: cst.CSTNode, use: cst.CSTNode) -> cst.CSTNode | None:
    """The statement `images.append(image)`; None where the list is used in another way."""
    method = module.parents.get(use)
    call = module.parents.get(method) if isinstance(method, cst.Attribute) and method.attr.value == "append" else None
    statement = module.parents.get(call) if isinstance(call, cst.Call) and call.func is method else None
    own = module.function(use) is module.function(bound)  # a function inside may be called many times
    return statement if isinstance(statement, cst.Expr) and own else None


def _loops(module: Module, node: cst.CSTNode) -> list[cst.CSTNode]:
    function = module.function(node)
    inside = (one for one in module.enclosing(node) if isinstance(one, (cst.For, cst.While)))
    return [one for one in inside if module.function(one) is function]


def _comes_once(machine: Machine, module: Module, put: cst.CSTNode, around: list[cst.CSTNode]) -> bool:
    loops = [one for one in _loops(module, put) if one not in around]
    return all(isinstance(one, cst.For) and machine.values.get(one.iter, NOTHING).one_row for one in loops)


def _exclude_each_other(module: Module, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether they stand in the two branches of a test."""
    above = {node: below for below, node in _upwards(module, one)}
    for below, node in _upwards(module, other):
        if node in above:
            return isinstance(node, cst.If) and {below, above[node]} == {node.body, node.orelse}
    return False


def _upwards(module: Module, node: cst.CSTNode) -> Iterable[tuple[cst.CSTNode, cst.CSTNode]]:
    """What is around it, from the inside out, and what of that holds it."""
    while (above := module.parents.get(node)) is not None:
        yield node, above
        node = above
