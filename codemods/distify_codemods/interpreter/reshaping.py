"""How the samples of a batch lie after it has been reshaped, turned, repeated, picked from."""

from __future__ import annotations

from collections.abc import Callable

from distify_codemods.allocation import Const
from distify_codemods.interpreter import holding, scales, sizes
from distify_codemods.libraries import in_place
from distify_codemods.objects import Arguments, Sequence
from distify_codemods.origins import Alone, Counter
from distify_codemods.scale import LOST, PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, SIZE, Value

_WORDS = str.split
_FROM_TO = ("start_dim", "end_dim")  # of `flatten`
_ANY = 99  # as many dimensions as there could be
_WITH_CORRECTION = ("std", "var", "nanstd", "nanvar")  # which comes before `keepdim`
S = Scale
_SHAPE_KEEPING = frozenset(
    _WORDS(
        """exp log sqrt abs sin cos tanh relu sigmoid gelu dropout clamp masked_fill softplus pow neg flip roll
        zero_ fill_ expand repeat where"""
    )
)
_TURNING = ("t", "transpose", "swapaxes", "swapdims", "permute", "movedim", "moveaxis")
_OF_NUMBERS = frozenset(
    _WORDS(
        """add sub subtract mul multiply div divide true_divide floor_divide maximum minimum max min round ceil floor
        float16 float32 float64 int32 int64 scalar_tensor new_tensor sum prod mean"""
    )
)
#: Functions along a dimension, and its position behind the tensor; those that take all there are, if none is given.
_ALONG = {
    **dict.fromkeys(_WORDS("cummax cummin logcumsumexp unfold"), 0),
    **dict.fromkeys(_WORDS("argpartition partition diff trapz trapezoid fft ifft rfft irfft hfft ihfft"), 1),
}
_TRANSFORMS = frozenset(_WORDS("fft ifft rfft irfft hfft ihfft trapz trapezoid"))
_ALONG_ALL = {
    **dict.fromkeys(_WORDS("nanmedian std_mean var_mean aminmax"), 0),
    **dict.fromkeys(
        _WORDS(
            """quantile nanquantile percentile nanpercentile vector_norm fftn ifftn rfftn irfftn hfftn ihfftn fftshift
            ifftshift"""
        ),
        1,
    ),
    "gradient": 9,  # by its name alone
}
#: How many dimensions the result of a function has at least, if the samples lie along the first.
DIMS = {
    "linear": 2, "layer_norm": 2, "bmm": 3, "baddbmm": 3, "conv1d": 3, "conv2d": 4, "conv3d": 5,
}  # fmt: skip


#: How the names of functions begin that treat apart what lies along the first dimension, and nothing else.
LAYERS = (
    "conv", "max_pool", "avg_pool", "adaptive_", "fractional_", "lp_pool", "max_unpool", "fold", "interpolate",
    "upsample", "instance_norm", "group_norm", "local_response_norm", "pixel_", "channel_shuffle", "grid_sample",
    "scaled_dot_product",
)  # fmt: skip


#: Functions of the last two dimensions: of two, the samples lie along the first.
_MATRICES = frozenset(
    _WORDS(
        """tril triu diagonal trace det logdet slogdet inverse inv pinverse matrix_norm matrix_exp matrix_power
        matrix_rank cholesky cond eig eigh eigvals eigvalsh solve fft2 ifft2 rfft2 irfft2 hfft2 ihfft2
        scaled_dot_product_attention"""
    )
)


def scale_of(name: str, tensor: Value, arguments: Arguments) -> Scale:
    """What a tensor's entries are after a method, as far as it is one of these; else of an operation entry by entry."""
    special = _SPECIAL.get(name)
    scale = special(name, tensor, arguments) if special is not None else None
    if scale is not None:
        return scale
    kinds = {value.scale for value in (tensor, *arguments.all())} - {S.CONST, S.COUNT}
    if kinds == {S.SAMPLES, S.TURNED}:
        return S.UNKNOWN
    if kinds & PER_SAMPLE == {S.TURNED} and name.startswith(LAYERS):
        return S.COUPLED
    if kinds & PER_SAMPLE and name in _MATRICES and max(value.dims for value in (tensor, *arguments.all())) < 3:
        return S.UNKNOWN
    if not kinds and name in _SHAPE_KEEPING:
        return S.UNKNOWN  # the root of a number of samples is no number of samples
    if not kinds:  # what else takes a number of samples may take it for a shape
        return S.COUNT if name in _OF_NUMBERS else S.UNKNOWN
    return scales.elementwise(*kinds)


def _turned(name: str, tensor: Value, arguments: Arguments) -> Scale:
    named = [arguments.keywords[one] for one in ("dims", "dim0", "dim1") if one in arguments.keywords]
    scale, places = tensor.scale, [value.constant() for value in holding.flat([*arguments.positional, *named])]
    if arguments.star is not None and scale in (S.SAMPLES, S.TURNED):
        return S.UNKNOWN
    if scale not in (S.SAMPLES, S.TURNED):
        return scale
    if name == "transpose" and not places and tensor.dims < 2:
        return S.UNKNOWN  # of one dimension it leaves it as it is
    behind = [one for one in places if isinstance(one, int) and one < 0 and -one > tensor.dims - _BEHIND[scale] - 1]
    if behind:
        return S.UNKNOWN  # of so few dimensions it may be that of the samples
    moves = 0 in places or not places if name != "permute" else bool(places) and places[0] != 0
    other = S.TURNED if scale is S.SAMPLES else S.SAMPLES
    return other if name == "t" or moves else scale


def _unsqueezed(name: str, tensor: Value, arguments: Arguments) -> Scale | None:
    if dimension(arguments, 0)[1] != 0:
        return None
    if any(isinstance(obj, Alone) for obj in tensor.objs):
        return S.SAMPLES
    return S.TURNED if tensor.scale is S.SAMPLES else tensor.scale


def _viewed(name: str, tensor: Value, arguments: Arguments) -> Scale:
    leading = arguments.first.constant()
    if tensor.scale in PER_SAMPLE and isinstance(leading, int) and leading > 1:
        return S.UNKNOWN  # where the samples are now is not seen
    several = len(holding.flat(arguments.positional)) > 1
    counted = arguments.first.scale is S.COUNT and arguments.first.objs
    if tensor.scale is S.TURNED and (counted or (several and tensor.dims < 3)):
        return S.UNKNOWN  # `x.t().view(len(x), -1)`, and of two dimensions any: rows of several samples
    if tensor.scale in (S.SAMPLES, S.TURNED):
        return S.TURNED if leading == 1 and len(arguments.positional) > 1 else S.SAMPLES
    return tensor.scale


def _repeated(name: str, tensor: Value, arguments: Arguments) -> Scale:
    return sizes.sized(holding.flat(arguments.positional)) if tensor.scale is S.CONST else tensor.scale


def _picked(name: str, tensor: Value, arguments: Arguments) -> Scale | None:
    if any(value.scale is S.RAGGED for value in arguments.all()):
        along = tensor.scale in (S.SAMPLES, S.CONST) and arguments.first.constant() in (0, None)
        return S.RAGGED if along else S.UNKNOWN
    if name != "index_select":
        return None
    index, place = _of(arguments), dimension(arguments, 0)[1]
    if index in LOST:
        return index
    if tensor.scale is S.CONST:
        return index if place == 0 else S.UNKNOWN  # `weights.index_select(0, classes)`
    return S.COUPLED if tensor.scale is S.SAMPLES and place == 0 and index is S.CONST else tensor.scale


def _resized(name: str, tensor: Value, arguments: Arguments) -> Scale | None:
    """`noise.resize_(len(x), 4)`, `noise.resize_as_(x)`: as many as there are samples."""
    told = arguments.first.scale if name == "resize_as" else sizes.sized(holding.flat(arguments.positional))
    return told if told is not S.CONST else None


def _of(arguments: Arguments) -> Scale:
    return scales.elementwise(*(value.scale for value in arguments.all()))


def _taken(name: str, tensor: Value, arguments: Arguments) -> Scale | None:
    """`numpy.take(x, [0, 2])` goes by the numbers of entries, unless it is told a dimension."""
    known = _picked(name, tensor, arguments)
    by_entries = tensor.scale in PER_SAMPLE and (dimension(arguments, 1)[1] or 0) < 1
    return S.COUPLED if known is None and by_entries else known


def _put_between(name: str, tensor: Value, arguments: Arguments) -> Scale | None:
    """Between which bounds a number lies: `torch.searchsorted(bounds, x)`, `torch.bucketize(x, bounds)`."""
    bounds = tensor.scale if name == "searchsorted" else _of(arguments)
    return S.COUPLED if bounds in PER_SAMPLE else None


def _gathered(name: str, tensor: Value, arguments: Arguments) -> Scale:
    """`table.gather(0, classes)` has the form of the index; along the samples, each is given what is of others."""
    index, place = _of(arguments), dimension(arguments, 0)[1]
    if tensor.scale is S.CONST or index in LOST:
        return index
    return S.COUPLED if tensor.scale is S.SAMPLES and place == 0 and index in PER_SAMPLE else tensor.scale


def _scattered(name: str, tensor: Value, arguments: Arguments) -> Scale:
    """`sums.index_add(0, classes, features)`: along the first dimension, several samples go to one place, or none."""
    what, place = _of(arguments), dimension(arguments, 0, tensor)[1]
    if place == 0 and (what in PER_SAMPLE or tensor.scale in PER_SAMPLE) and tensor.scale is not S.TURNED:
        return S.COUPLED
    return what if tensor.scale is S.CONST else tensor.scale


def _unflattened(name: str, tensor: Value, arguments: Arguments) -> Scale | None:
    return S.UNKNOWN if dimension(arguments, 0)[1] == 0 and tensor.scale in PER_SAMPLE else None


def _along(name: str, tensor: Value, arguments: Arguments) -> Scale | None:
    position = {**_ALONG, **_ALONG_ALL}[name]
    given, place = dimension(arguments, position)
    if not given and name in _TRANSFORMS and tensor.scale is S.SAMPLES and tensor.dims < 2:
        return S.UNKNOWN  # the last dimension may be the samples'
    along = place == 0 or _names_the_first(_named(arguments, position)) if given else name in _ALONG_ALL
    return S.COUPLED if along and tensor.scale is S.SAMPLES else None


def _names_the_first(places: Value | None) -> bool:
    """`(0, 1)`, of several dimensions."""
    only = places.single() if places is not None else None
    return isinstance(only, Sequence) and any(one.constant() == 0 for one in only.items or ())


def _moved(name: str, tensor: Value, arguments: Arguments) -> Scale:
    each = [Arguments([one]) for one in arguments.positional] if name == "flip" else []
    found = [dimension(one, 0, tensor) for one in each] or [dimension(arguments, 0 if name == "flip" else 1, tensor)]
    moved = name == "flipud" or any(not given or along in (0, None) for given, along in found)
    return S.COUPLED if moved and tensor.scale is S.SAMPLES else tensor.scale


def _put_by_numbers(name: str, tensor: Value, arguments: Arguments) -> Scale | None:
    """`sums.index_put((classes,), features, accumulate=True)`"""
    given = {one.scale for one in (tensor, *holding.flat(arguments.positional))}
    return S.COUPLED if given & PER_SAMPLE else None


def _in_classes(name: str, tensor: Value, arguments: Arguments) -> Scale | None:
    """`one_hot(labels)`: as many as the largest of the batch says, if that is not told."""
    told = arguments.get("num_classes", 0)
    return S.COUPLED if tensor.scale in PER_SAMPLE and (told is None or told.constant() == -1) else None


def _padded(name: str, tensor: Value, arguments: Arguments) -> Scale | None:
    """`pad(x, (0, 0, 0, 4))`: from the last dimension on, and of two dimensions that of the samples, too."""
    widths = (arguments.get("pad", 0) or NOTHING).single()
    count = len(widths.items) // 2 if isinstance(widths, Sequence) and widths.items is not None else 0
    if tensor.scale is S.TURNED and count:
        return S.UNKNOWN
    return S.COUPLED if tensor.scale in PER_SAMPLE and 1 < tensor.dims <= count else None


_SCATTERING = _WORDS("scatter scatter_add scatter_reduce index_add index_reduce index_copy")
_SPECIAL: dict[str, Callable[[str, Value, Arguments], Scale | None]] = {
    **dict.fromkeys(_TURNING, _turned),
    **dict.fromkeys(("view", "reshape"), _viewed),
    **dict.fromkeys(("expand", "repeat", "tile"), _repeated),
    "index_select": _picked,
    "take": _taken,
    **dict.fromkeys(("searchsorted", "bucketize", "digitize"), _put_between),
    **dict.fromkeys(("flip", "roll", "rot90", "flipud"), _moved),
    "repeat_interleave": lambda name, tensor, arguments: tensor.scale,
    "masked_fill": lambda name, tensor, arguments: S.COUPLED if _of(arguments) is S.COUPLED else tensor.scale,
    **dict.fromkeys(_SCATTERING, _scattered),
    **dict.fromkeys((*_ALONG, *_ALONG_ALL), _along),
    **dict.fromkeys(("resize", "resize_as"), _resized),
    "gather": _gathered,
    "one_hot": _in_classes,
    "index_put": _put_by_numbers,
    "pad": _padded,
    "unflatten": _unflattened,
    **dict.fromkeys(("unsqueeze", "expand_dims"), _unsqueezed),
    "clamp": lambda name, tensor, arguments: S.COUNT if tensor.scale is S.COUNT else None,  # at least one sample
    "masked_select": lambda name, tensor, arguments: S.RAGGED if tensor.scale in PER_SAMPLE else tensor.scale,
}


#: Those of them, and of what goes along a dimension, whose results have as many dimensions as they were given.
_AS_MANY = frozenset(
    _WORDS(
        """tril triu inverse inv pinverse matrix_exp matrix_power cholesky fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fft ifft
        rfft irfft hfft ihfft fftn ifftn rfftn irfftn hfftn ihfftn fftshift ifftshift logcumsumexp diff gather
        index_select rot90 unflatten"""
    )
)


def dims_of(name: str, tensor: Value, arguments: Arguments) -> int:
    """How many dimensions the result has at least, as far as that is seen."""
    given = len(holding.flat(arguments.positional))
    if name in ("view", "reshape", "permute"):
        return given if given > 1 else 0
    if name in ("expand", "repeat", "tile"):
        return max(tensor.dims, given)
    if name in _TURNING:
        places = [value.constant() for value in arguments.positional]
        return max(tensor.dims, 2, *(one + 1 if one >= 0 else -one for one in places if isinstance(one, int)))
    if name in ("unsqueeze", "embedding"):
        return max(tensor.dims, 1) + 1
    if name in (*_AS_MANY, *_SCATTERING) or (name == "repeat_interleave" and dimension(arguments, 1)[0]):
        return tensor.dims
    if name in DIMS or name in _SHAPE_KEEPING or name.startswith(LAYERS) or name.endswith("_like"):
        return max(tensor.dims, DIMS.get(name, 0))
    return 0


def dims_flattened(tensor: Value, arguments: Arguments) -> int:
    """The same, of `x.flatten(2)`, `torch.flatten(x, start_dim=-2)`, `x.flatten(1, 2)`."""
    start, end = ((arguments.get(name, place) or NOTHING).constant() for place, name in enumerate(_FROM_TO))
    if not isinstance(start, int):
        return 0
    if end is None or end == -1:
        return start + 1 if start >= 0 else max(tensor.dims + start + 1, 0)
    alike = isinstance(end, int) and (start < 0) is (end < 0)
    return max(tensor.dims - (end - start), start + 1, 0) if alike and isinstance(end, int) else 0


def dims_reduced(name: str, tensor: Value, arguments: Arguments, position: int) -> int:
    """The same, of a mean or an extreme along some dimensions."""
    if not dimension(arguments, position)[0]:
        return 0
    keeps = arguments.keywords.get("keepdim") or arguments.keywords.get("keepdims")
    if keeps is None and name not in _WITH_CORRECTION:
        keeps = next(iter(arguments.positional[position + 1 :]), None)
    if keeps is not None and keeps.constant() is True:
        return tensor.dims
    return max(tensor.dims - _most_places(arguments, position), 0)


def _most_places(arguments: Arguments, position: int) -> int:
    """How many dimensions are named; all there could be, where it is not seen."""
    named = _named(arguments, position)
    only = named.single() if named is not None else None
    if isinstance(only, Sequence):
        return len(only.items) if only.items is not None else _ANY
    return 1 if isinstance(only, Const) else _ANY


def is_split_by_place(name: str, tensor: Value, arguments: Arguments) -> bool:
    """Whether samples are told apart by where they are in the batch, which is elsewhere in a rank's share.

    A batch that was put behind another, and is cut off at its own size, is no such part.
    """
    given, place = dimension(arguments, in_place.PIECES.get(name, 0))
    along = place == 0 if given else True
    sizes = holding.any_item(arguments.positional[0]) if arguments.positional else NOTHING
    return along and tensor.scale is S.SAMPLES and sizes.objs != SIZE


def dimension(arguments: Arguments, position: int, tensor: Value = NOTHING) -> tuple[bool, int | None]:
    """Whether a dimension is given, and which one, where it is a literal; the last one of several for -1."""
    value = _named(arguments, position)
    if value is None or (value.constant() is None and value.single() is not None and _is_none(value)):
        return False, None
    known = _place(value)
    if not isinstance(known, int) or isinstance(known, bool):
        return True, None
    if known < 0 and tensor.dims + known > _BEHIND.get(tensor.scale, tensor.dims):
        return True, tensor.dims + known
    return True, known if known >= 0 else None


def _named(arguments: Arguments, position: int) -> Value | None:
    value = arguments.keywords.get("dim") or arguments.keywords.get("axis")
    if value is None and position < len(arguments.positional):
        value = arguments.positional[position]
    return value or arguments.keywords.get("dims") or arguments.keywords.get("dimension")


#: The dimension that the samples lie along: what is behind it is seen to be another one, also if counted from the end.
_BEHIND = {S.SAMPLES: 0, S.RAGGED: 0, S.TURNED: 1}


def _place(value: Value) -> object:
    """The dimension that is named; of several, one that is not the first, if they are others."""
    only = value.single()
    if not isinstance(only, Sequence) or only.items is None:
        upwards = _upwards_from(only) if isinstance(only, Sequence) and not value.open else None
        return value.constant() if upwards is None else upwards
    places = [place for item in only.items if isinstance(place := item.constant(), int)]
    if 0 in places:
        return 0 if len(only.items) == 1 else None
    if not places or len(places) < len(only.items):
        return None
    return min(places) if min(places) < 0 else places[0]  # counted from the end, the first of them may be the samples'


def _upwards_from(numbers: Sequence) -> int | None:
    """`1` of `list(range(1, x.dim()))`: where the numbers begin, if none of them is the first dimension's."""
    counted = numbers.element if numbers.element is not None and not numbers.element.open else NOTHING
    only = counted.single()
    return only.first if isinstance(only, Counter) and only.first else None


def _is_none(value: Value) -> bool:
    return all(getattr(obj, "value", 0) is None for obj in value.objs)
