"""Methods of tensors and arrays, and functions of the same name: what they do to a batch. See `Scale`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj, Ref
from distify_codemods.interpreter import cuts, dimensions, forms, pairing, reshaping, rows, scales, sizes, whole
from distify_codemods.libraries import in_place, torch_losses, torch_nn, torch_tensors
from distify_codemods.objects import Arguments, Sequence
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import IGNORED, Places, Shape, Verdict, Zero
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, SIZE, Value, sources_of

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

S = Scale
_WORDS = str.split
_IDENTITY = frozenset(
    _WORDS(
        """item detach detach_ cpu cuda to float double half bfloat16 long int short byte bool clone contiguous numpy
        tolist requires_grad_ type type_as squeeze from_numpy as_tensor asarray array tensor squeeze_ astype copy
        flatten ravel expand_as view_as reshape_as chunk split unbind pin_memory nan_to_num real"""
    )
)
_SPLITTING = ("chunk", "split", "tensor_split", "vsplit", "array_split", "unbind", "narrow", "select", "index_fill")
_OF_ONE_NUMBER = frozenset(_WORDS("item squeeze"))
#: What gives one tensor, or list, with as many dimensions as it is asked for; and what only a tensor has.
_FLATTENING = frozenset(_WORDS("flatten ravel tolist"))
_AS_ANOTHER = frozenset(_WORDS("view_as reshape_as expand_as"))
_OF_TENSORS = frozenset(_WORDS("detach numpy clone contiguous long int short float double half byte bool astype"))
_COMPARE = frozenset(
    _WORDS("eq ne gt lt ge le equal isclose logical_and logical_or logical_not isnan isfinite isinf isin")
)
_ORDERS = frozenset(_WORDS("eq ne gt lt ge le"))
_SUMS = frozenset(_WORDS("sum nansum count_nonzero"))
_MEANS = frozenset(_WORDS("mean average"))
#: position of `dim` behind the tensor; whether it returns (values, indices); whether `dim` is -1 by default
_ALONG = {
    "max": (0, True, False), "min": (0, True, False), "amax": (0, False, False), "amin": (0, False, False),
    "argmax": (0, False, False), "argmin": (0, False, False), "median": (0, True, False), "mode": (0, True, False),
    "prod": (0, False, False), "std": (0, False, False), "var": (0, False, False), "norm": (1, False, False),
    "logsumexp": (0, False, False), "all": (0, False, False), "any": (0, False, False), "nanmean": (0, False, False),
    "softmax": (0, False, True), "log_softmax": (0, False, True), "softmin": (0, False, True),
    "gumbel_softmax": (3, False, True), "normalize": (1, False, True), "glu": (0, False, True),
    "sort": (0, True, True), "argsort": (0, False, True), "topk": (1, True, True), "kthvalue": (1, True, True),
    **dict.fromkeys(_WORDS("nanmax nanmin nanargmax nanargmin nanprod nanstd nanvar ptp"), (0, False, False)),
    **dict.fromkeys(("frobenius_norm", "nuclear_norm"), (0, False, False)),
    "cumsum": (0, False, True), "cumprod": (0, False, True), "cosine_similarity": (1, False, True),
}  # fmt: skip
#: What compares two tensors entry by entry under the name of a reduction, and what it is called else.
_OF_TWO = {"max": "maximum", "min": "minimum"}
_PICKING = frozenset(_WORDS("sort argsort topk kthvalue cumsum cumprod"))
_SAME_SHAPE = frozenset(_WORDS("softmax log_softmax softmin gumbel_softmax normalize sort argsort topk cumsum cumprod"))
_COUPLING = frozenset(
    _WORDS(
        """cdist pdist cov corrcoef unique unique_consecutive histc histogram bincount svd svdvals svd_lowrank
        pca_lowrank qr geqrf lu lu_factor lu_factor_ex lstsq pinv msort addbmm block_diag cartesian_prod combinations
        meshgrid polyval lexsort vdot hash_tensor sum_to_size as_strided adjoint compress diag diagflat diag_embed dist
        index to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc unsafe_chunk unsafe_split
        unsafe_split_with_sizes triangular_solve fill_diagonal put
        masked_scatter diagonal_scatter select_scatter slice_scatter renorm __getitem __setitem"""
    )
)
#: Products of the rows of one with the rows of the other, and those that are added to something.
_BY_ROWS = frozenset(_WORDS("linear inner outer ger kron tensordot addr"))
_PRODUCTS = _BY_ROWS.union(_WORDS("matmul mm mv dot __matmul__ addmm"))
_PLACES = frozenset(_WORDS("nonzero argwhere flatnonzero"))
_ARITHMETIC = {"mul": "Multiply", "div": "Divide", "add": "Add", "sub": "Subtract", "true_divide": "Divide"}


def method(machine: Machine, tensor: Value, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    name = _OF_TWO[name] if name in _OF_TWO and _is_given_another(arguments) else name
    value = with_ignored(_method(machine, tensor, name, arguments, node), arguments.all())
    value = pairing.picked(machine, name, tensor, arguments, node, value)
    value = value.in_one_row(rows.after(name, tensor, arguments))
    return whole.regrouped(machine, name.rstrip("_"), tensor, arguments, value, node)


def set_by(value: Value, arguments: Arguments) -> Value:
    """What a function of tensors makes, by numbers that it is told: `torch.add(a, b, alpha=-weight)`."""
    return scales.set_by(value, [one for word, one in arguments.keywords.items() if word in torch_tensors.SETTINGS])


def _is_given_another(arguments: Arguments) -> bool:
    """Whether `torch.max(a, b)` has two tensors: of what may be a number, that is the dimension to go along."""
    if "other" in arguments.keywords:
        return True
    if not arguments.positional:
        return False
    other = arguments.positional[0]
    made = any(isinstance(obj, Zero) for obj in other.objs)
    return other.scale not in (S.CONST, S.COUNT) or other.dims > 0 or made


def _method(machine: Machine, tensor: Value, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    given = [tensor, *arguments.all()]
    plain = name.rstrip("_") or name
    asked = _OF_ANYTHING.get(plain)
    if asked is not None:
        return asked(machine, tensor, arguments, node)
    sources = sources_of(given)
    if all(value.scale is S.CONST for value in given):
        return cuts.folded(machine, plain, tensor, arguments, node) or _constant(machine, plain, tensor, sources, node)
    if (folded := cuts.refolded(machine, plain, tensor, arguments, node)) is not None:
        return folded
    if plain in _SPLITTING and reshaping.is_split_by_place(plain, tensor, arguments):
        return Value(scale=S.COUPLED, sources=sources)
    if tensor.scale is S.TURNED and plain in ("squeeze", *_SPLITTING):
        return _of_turned(machine, plain, tensor, arguments, node)
    place = reshaping.dimension(arguments, in_place.PIECES.get(plain, 0), tensor)[1]
    if plain in in_place.PIECES and tensor.scale is S.SAMPLES and place:
        dims = max(tensor.dims - (plain == "unbind"), 1)
        part = Value(scale=tensor.scale, sources=sources, mask=tensor.mask, dims=dims)
        pieces = machine.made(Sequence, node, plain, element=part, lengths=((node, Value()),))
        return Value(pieces.alone, tensor.scale, sources)
    if plain in _AS_ANOTHER and tensor.scale in PER_SAMPLE and arguments.first.scale is not tensor.scale:
        return Value(scale=S.UNKNOWN, sources=sources)
    mask = tensor.mask or plain in torch_tensors.MASKS
    if plain in _IDENTITY:
        mask = mask or any(_is_bool(value) for value in arguments.all())
        return Value(_held(tensor), tensor.scale, sources, mask, dims=_dims_left(plain, tensor, arguments))
    if tensor.scale is S.SLOPES:
        return Value(scale=S.SAMPLES if plain in ("sign", "sgn") else S.COUPLED, sources=sources)
    known = _OF_BATCHES[plain](machine, plain, tensor, arguments, node) if plain in _OF_BATCHES else None
    if known is not None:
        return known
    scale = reshaping.scale_of(plain, tensor, arguments)
    return Value(scale=scale, sources=sources, mask=mask, dims=reshaping.dims_of(plain, tensor, arguments))


def _dims_left(name: str, tensor: Value, arguments: Arguments) -> int:
    """Of what has an entry for each sample, there is one dimension at least."""
    several = name in _SPLITTING or name in _OF_ONE_NUMBER
    one = tensor.scale in PER_SAMPLE and (name in _FLATTENING or name in _OF_TENSORS)
    known = 0 if several or name in _FLATTENING else tensor.dims
    if name == "squeeze" and reshaping.dimension(arguments, 0)[0]:
        known = max(tensor.dims - 1, 0)
    if name == "flatten":
        known = reshaping.dims_flattened(tensor, arguments)
    elif name in _AS_ANOTHER:
        known = arguments.first.dims
    return max(known, int(one))


def _constant(machine: Machine, name: str, tensor: Value, sources: Ordered[Obj | str], node: cst.CSTNode) -> Value:
    if tensor.is_zero and name in ("tensor", "as_tensor"):
        return Value(machine.made(Zero, node).alone, sources=sources)
    return Value(_held(tensor) if name in _IDENTITY else EMPTY, sources=sources)


def with_ignored(value: Value, given: list[Value]) -> Value:
    """`labels.masked_fill(mask, -100)`: what torch's losses by class leave out."""
    put = value.scale in PER_SAMPLE and any(one.constant() == torch_losses.IGNORED for one in given)
    return value.adding([IGNORED]) if put else value


def _is_bool(kind: Value) -> bool:
    """`torch.bool`, of `k.to(torch.bool)`"""
    only = kind.single()
    return isinstance(only, Ref) and only.name in torch_tensors.BOOL


def _of_turned(machine: Machine, name: str, tensor: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`qkv.unbind(0)`, `state.squeeze(0)`, `steps.chunk(2)`, of which samples lie along the second dimension."""
    counts = in_place.PIECES.get(name) == 1
    given, place = reshaping.dimension(arguments, int(counts))
    gone = not counts and name in ("unbind", "select", "squeeze") and (place == 0 or not given)
    scale = S.SAMPLES if gone else S.COUPLED if place == 1 and name != "squeeze" else S.TURNED
    part = Value(scale=scale, sources=tensor.sources, dims=tensor.dims if counts else max(tensor.dims - 1, 0))
    if not counts and name != "unbind":
        return part
    return Value(machine.made(Sequence, node, name, element=part).alone, scale, tensor.sources)


def _numbers(machine: Machine, tensor: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`x.numel()`"""
    if is_a_shape(tensor):
        return Value(scale=S.COUNT, sources=forms.counting(tensor))
    counted = {S.RAGGED: S.SUM, S.SAMPLES: S.COUNT, S.TURNED: S.COUNT}
    if tensor.scale is S.COUPLED:  # `x.unique()`: how many there are, the whole batch says
        return Value(scale=S.UNKNOWN, sources=tensor.sources)
    if tensor.scale not in counted:
        return Value(sources=forms.sources_of(tensor))
    return Value(scale=counted[tensor.scale], sources=forms.counting(tensor))


def is_a_shape(value: Value) -> bool:
    """Of a tensor of samples, as a whole: its sizes multiplied, so many entries that has."""
    return bool(value.objs) and all(isinstance(obj, Shape) for obj in value.objs) and not value.open


def _dimensions(machine: Machine, tensor: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`x.dim()`: as many, however many samples there are."""
    return Value(sources=forms.of_its_kind(tensor))


def _compared(machine: Machine, name: str, tensor: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    value = scales.compared(tensor, arguments.first)
    if value.mask or name not in _ORDERS:
        return value
    return value.of(machine.made(Verdict, node).alone)


def _new(machine: Machine, name: str, tensor: Value, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    if name == "new" and not any(value.scale is S.COUNT for value in arguments.positional):
        return None
    value = sizes.made(machine, f"torch.{name.removeprefix('new_')}", arguments, node)
    return Value(value.objs, value.scale, value.sources | sources_of([tensor, *arguments.all()]))


def _computed(machine: Machine, name: str, tensor: Value, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """`a.add(b)`, `a.matmul(b)`, `c.addmm(a, b)`"""
    if not arguments.positional:
        return None
    if name in _ARITHMETIC:
        return scales.binary(_ARITHMETIC[name], tensor, arguments.positional[0])
    added = name in ("addmm", "addr")
    left, right = [tensor, *arguments.positional, NOTHING][1 if added else 0 :][:2]
    turned = {S.SAMPLES: S.TURNED, S.TURNED: S.SAMPLES} if name in _BY_ROWS else {}
    dims = max(left.dims, right.dims)
    scale = scales.matrix_product(left.scale, turned.get(right.scale, right.scale), dims)
    scale = scales.elementwise(tensor.scale, scale) if added else scale
    sources = sources_of([tensor, *arguments.all()])
    return Value(scale=scale, sources=sources, dims=max(dims, reshaping.DIMS.get(name, 0)))


def _coupled(machine: Machine, name: str, tensor: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    scale = S.COUPLED if tensor.scale in PER_SAMPLE else scales.elementwise(tensor.scale)  # distances of means, say
    return Value(scale=scale, sources=sources_of([tensor, *arguments.all()]))


def _places(machine: Machine, name: str, mask: Value, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """`mask.nonzero()`: where the samples are that it holds for; indexing with it takes these."""
    if name == "where" and arguments.all():
        return None
    scale = S.RAGGED if mask.scale in (S.SAMPLES, S.RAGGED) else S.UNKNOWN
    item = Value(scale=scale if mask.scale is not S.CONST else S.CONST, sources=mask.sources)
    as_tuple = arguments.get("as_tuple")
    if name != "where" and (as_tuple is None or as_tuple.constant() is False):
        return item
    return item.of(machine.made(Sequence, node, "places", element=item).alone)


def _held(tensor: Value) -> Ordered[Obj]:
    return Ordered(obj for obj in tensor.objs if isinstance(obj, (Places, Shape, Verdict, Zero)))


def _size(machine: Machine, tensor: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    if tensor.scale not in PER_SAMPLE:
        return forms.of_related(tensor)
    dimension = arguments.get("dim", 0)
    along = 0 if tensor.scale is not S.TURNED else 1
    if dimension is None:
        return Value(machine.made(Shape, node, along, along=along).alone, S.COUNT, forms.counting(tensor))
    dimensions.asked_by_call(machine, node, dimension.constant())
    counted = S.SUM if tensor.scale is S.RAGGED else S.COUNT
    if dimension.constant() != along:
        return Value(sources=forms.sources_of(tensor))
    return Value(SIZE if counted is S.COUNT else EMPTY, counted, forms.counting(tensor))


def _reduced(machine: Machine, name: str, tensor: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    if name == "count_nonzero" and len(arguments.positional) > 1:
        return Value(scale=S.UNKNOWN, sources=sources_of([tensor, *arguments.all()]))  # along several dimensions
    given, dimension = reshaping.dimension(arguments, 0, tensor)
    whole = scales.total(tensor.scale) if name in _SUMS else scales.average(tensor.scale)
    scale = scales.along(tensor.scale, dimension, whole) if given else whole
    dims = reshaping.dims_reduced(name, tensor, arguments, 0)
    return Value(scale=scale, sources=sources_of([tensor, *arguments.all()]), dims=dims)


def _along(machine: Machine, name: str, tensor: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    position, pair, defaults_to_last = _ALONG[name]
    sources = sources_of([tensor, *arguments.all()])
    if name == "cosine_similarity" and arguments.positional:
        tensor = Value(scale=scales.elementwise(tensor.scale, arguments.positional[0].scale), sources=sources)
    if tensor.scale not in PER_SAMPLE:
        return Value(scale=scales.elementwise(*(value.scale for value in (tensor, *arguments.all()))), sources=sources)
    if name in _PICKING and tensor.dims < 2 and not reshaping.dimension(arguments, position, tensor)[0]:
        return Value(scale=S.COUPLED, sources=sources)  # the last dimension may be the samples': the hardest of them
    given, dimension = reshaping.dimension(arguments, position, tensor)
    if torch_nn.chooses_the_first(name, given, tensor.dims):
        return Value(scale=S.COUPLED, sources=sources)
    has_one = given or defaults_to_last
    scale = _scale_along(name, tensor, dimension if given else -1) if has_one else scales.of_extremes(tensor.scale)
    along_features = given and dimension is not None and dimension >= 1
    dims = max(tensor.dims, dimension + 1 if along_features and dimension else 0)
    dims = dims if name in _SAME_SHAPE else reshaping.dims_reduced(name, tensor, arguments, position)
    value = Value(scale=scale, sources=sources, dims=max(dims, int(scale in PER_SAMPLE)))
    if pair and has_one:
        both = machine.made(Sequence, node, name)
        both.items = (value, value)
        return Value(both.alone, scale, sources)
    return value


def _scale_along(name: str, tensor: Value, dimension: int | None) -> Scale:
    if tensor.scale is S.TURNED and name in _SAME_SHAPE and dimension == 0:
        return S.TURNED
    return scales.along(tensor.scale, dimension, scales.of_extremes(tensor.scale))


_OF_ANYTHING: dict[str, Callable[[Machine, Value, Arguments, cst.CSTNode], Value]] = {
    "backward": lambda machine, tensor, arguments, node: NOTHING,
    "size": _size,
    "shape": _size,
    "numel": _numbers,
    "nelement": _numbers,
    "dim": _dimensions,
    "ndimension": _dimensions,
}
#: Where any of what they are given has to do with a batch; None: as it is with methods that are not known.
_OF_BATCHES: dict[str, Callable[[Machine, str, Value, Arguments, cst.CSTNode], Value | None]] = {
    **dict.fromkeys(_COUPLING, _coupled),
    **dict.fromkeys((*_ARITHMETIC, *_PRODUCTS), _computed),
    **dict.fromkeys(_ALONG, _along),
    **dict.fromkeys(_SUMS | _MEANS, _reduced),
    **dict.fromkeys(("new", "new_zeros", "new_ones", "new_full", "new_empty"), _new),
    **dict.fromkeys((*_PLACES, "where"), _places),
    **dict.fromkeys(_COMPARE, _compared),
}
