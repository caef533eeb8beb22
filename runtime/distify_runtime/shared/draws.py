"""Random numbers while parts and the whole are compared: what is drawn for a batch is one row for all of its samples.

So a rank that draws for its part gets what it would get of the whole. Seen below autograd, whatever function draws.
"""

from __future__ import annotations

import enum
import functools
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from distify_runtime import accelerators
from distify_runtime.shared import bounds
from distify_runtime.shared.readings import unnoticed
from distify_runtime.shared.region import is_transformed
from distify_runtime.shared.streams import are_drawn_alike

Dims = frozenset[int]

_FILLS = frozenset("bernoulli_ uniform_ normal_ exponential_ random_ log_normal_ geometric_ cauchy_".split())
_MAKES = frozenset(
    "bernoulli rand randn rand_like randn_like randint randint_like normal multinomial poisson binomial".split()
)
#: Kernels that draw by themselves, by the probability of a dropout that is among their arguments.
_DROPOUTS = frozenset(
    "_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu "
    "_scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention "
    "_scaled_dot_product_fused_attention_overrideable _flash_attention_forward _efficient_attention_forward "
    "_cudnn_attention_forward".split()
)
_RECURRENT = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu"))
#: Products, and what else multiplies something by a number under one of these names.
_PRODUCTS = frozenset(("mul", "__mul__", "__rmul__", "multiply", "lerp"))
_PRODUCTS_IN_PLACE = frozenset(("mul_", "__imul__", "multiply_"))
_WEIGHING = _PRODUCTS | frozenset("add __add__ sub __sub__ rsub subtract addcmul addcdiv addmm addmv baddbmm".split())
_FACTORS, _WEIGHTS = ("input", "other", "weight"), ("alpha", "value")
#: What keeps a number on one side of a limit.
_LIMITING = frozenset("clamp clip clamp_min clamp_max relu hardtanh minimum maximum min max".split())
_SOME_WEIGHT = 0.5


#: What sees functions above autograd now.
_seen: _Functions | None = None
#: More than any pass draws.
_DRAWS = 1_000_000


class Side(enum.Enum):
    """On which side of a limit that it is held against a single number is drawn."""

    LOW, HIGH, ANY = 0.001, 0.999, 0.5


class OneRow(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What the n-th draw gives follows from n and the turn, and is the same all along the dimensions `along[n]`; where
    it says what is left out, something stays, unless that is one number on the high side; so does what is multiplied by
    zero, as by a weight that grows later. Nothing that is computed under it indexes past an end, which GPUs do not
    survive.

    `turn`: of the checks of one model, which draw other numbers: what one of them does not see, the next one may.
    `side`: of a single number that is drawn evenly, or as true or false: a pass may take one of two ways by it.
    `shapes`: what has been drawn. From those of a part and of the whole follows where the batch is in each draw.
    `alike`: what is drawn in `draw_alike`.
    `drops`: whether a kernel that draws by itself was to leave something out. `has_sides`: whether `side` was heeded.
    """

    def __init__(self, along: Sequence[Dims] = (), turn: int = 0, side: Side = Side.ANY) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.shapes: list[tuple[int, ...]] = []
        self.alike: list[tuple[int, ...]] = []
        self.drops = self.has_sides = False
        self._along, self._turn, self._side = along, turn, side
        self._functions = _Functions(self)
        self._outer: _Functions | None = None

    def __enter__(self) -> OneRow:
        global _seen
        self._outer, _seen = _seen, self._functions
        self._functions.__enter__()  # type: ignore[no-untyped-call]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        global _seen
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._functions.__exit__(*error)  # type: ignore[no-untyped-call]
        _seen = self._outer

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func._schema.name.partition("::")[2]
        bounds.check(name, args)
        if self._side is Side.ANY and are_drawn_alike():  # as in the pass: what it decides, it decides here
            drawn = func(*args, **kwargs)
            if name in _FILLS or name in _MAKES:
                self.alike.append(tuple(drawn.shape))
            return drawn
        if name in _FILLS:
            return args[0].copy_(self._filled(func, args, kwargs))
        if name in _MAKES:
            return self._made(func, args, kwargs)
        if name == "native_dropout":
            return self._dropout(*args)
        if name in _DROPOUTS:
            args = self.without_dropout(args, _place_of_dropout(func))
        return func(*args, **kwargs)

    def without_dropout(self, args: tuple[Any, ...], at: int) -> tuple[Any, ...]:
        """The arguments of a kernel that draws by itself, `at` being the place of the probability, such that it does
        not."""
        self.drops |= len(args) > at and args[at] > 0
        return (*args[:at], 0.0, *args[at + 1 :]) if len(args) > at else args

    def _filled(self, func: Any, args: Any, kwargs: Any) -> Tensor:
        shape = tuple(args[0].shape)
        with self._drawn(shape) as dims:
            row = args[0].new_empty(_row(shape, dims))
            given = [_row_of(one, shape, dims) for one in args[1:]]
            filled: Tensor = func(row, *given, **_without_generator(kwargs))
        name = func._schema.name.rpartition(":")[2]
        if name == "bernoulli_":
            return self._some(filled, (*given, *kwargs.values()))
        return self._on_both_sides(filled, *given) if name == "uniform_" else filled

    def _made(self, func: Any, args: Any, kwargs: Any) -> Tensor:
        kwargs = _without_generator(kwargs)
        with _forked():
            whole: Tensor = func(*args, **kwargs)
        shape = tuple(whole.shape)
        with self._drawn(shape) as dims:
            given = [_row_of(one, shape, dims) for one in args]
            row: Tensor = func(*given, **kwargs)
            name = func._schema.name.rpartition(":")[2]
            row = self._some(row, given[1:] or given) if name == "bernoulli" else row
            row = self._on_both_sides(row) if name in ("rand", "rand_like") else row
        return row.expand_as(whole).clone() if row.dim() == whole.dim() else whole

    def _dropout(self, input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
        if train is False or p == 0:
            return input.clone(), torch.ones_like(input, dtype=torch.bool)
        with self._drawn(tuple(input.shape)) as dims:
            kept = self._some(input.new_empty(_row(tuple(input.shape), dims)).bernoulli_(1 - p), (1 - p,))
        scale = 1 / (1 - p) if p < 1 else 0.0
        return input * kept * scale, kept.expand_as(input).bool()

    def _some(self, row: Tensor, given: Iterable[Any]) -> Tensor:
        """A mask that leaves out all of a row leaves out whatever is to be compared: it keeps what it might keep. On
        the high side, a single number leaves out what it might.

        given: what the probability is among, if it is not a half.
        """
        chances = [one for one in given if isinstance(one, (int, float, Tensor))]
        chance = torch.as_tensor(chances[0] if chances else 0.5, device=row.device)
        if row.numel() == 1 and self._side is not Side.ANY:
            self.has_sides = True
            return row.copy_((chance >= 1 if self._side is Side.HIGH else chance > 0).reshape(row.shape))
        return row if row.any() else row.copy_((chance > 0).expand_as(row))

    def _on_both_sides(self, row: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Of several numbers, one is on each side."""
        if self._side is Side.ANY or not row.is_floating_point() or not row.numel():
            return row
        self.has_sides |= row.numel() == 1
        for entry, side in zip(row.flatten()[:2].unbind(), (self._side.value, 1 - self._side.value), strict=False):
            entry.fill_(low + side * (high - low))
        return row

    @property
    def chooses_both(self) -> bool:
        """Whether of two tensors that one number chooses between, there is to be something of both."""
        return self._side is Side.LOW

    @property
    def is_of_samples(self) -> bool:
        """Whether what was drawn last has a number for each sample."""
        return 0 < len(self.shapes) <= len(self._along) and bool(self._along[len(self.shapes) - 1])

    @contextmanager
    def _drawn(self, shape: tuple[int, ...]) -> Iterator[Dims]:
        number = len(self.shapes)
        self.shapes.append(shape)
        if are_drawn_alike():
            self.alike.append(shape)
        with _forked():
            torch.manual_seed(number + _DRAWS * self._turn)
            yield self._along[number] if number < len(self._along) else frozenset()


def seen_above_autograd() -> AbstractContextManager[Any]:
    """To be entered again where a backward pass computes what was computed now: there, torch has left it."""
    return _seen or nullcontext()


class _Functions(TorchFunctionMode):
    """What has to be seen above autograd.

    Recurrent layers on accelerators: their kernels keep a stream of their own from the first call on that drops
    something, which is not to begin here. And products with zero, and what one number chooses: something would be left
    out of what is compared, and may be there later. So it may behind what keeps one number on one side of a limit.
    """

    def __init__(self, row: OneRow) -> None:
        super().__init__()
        self._row = row
        self._of_samples: dict[int, weakref.ref[Tensor]] = {}  # single numbers that were drawn for a sample

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = len(self._row.shapes)
        out = self._called(func, args, kwargs or {})
        if isinstance(out, Tensor) and out.numel() == 1:
            drawn = len(self._row.shapes) > before and self._row.is_of_samples
            if drawn or any(isinstance(one, Tensor) and self._is_of_samples(one) for one in args):
                self._of_samples[id(out)] = weakref.ref(out)
        return out

    def _is_of_samples(self, one: Tensor) -> bool:
        known = self._of_samples.get(id(one))
        return known is not None and known() is one

    def _not_zero(self, factor: Any) -> Any:
        """What is drawn for a sample is that sample's own: of a batch, such a number is one of several."""
        return factor if isinstance(factor, Tensor) and self._is_of_samples(factor) else _not_zero(factor)

    def _called(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        name = getattr(func, "__name__", "")
        if name in _RECURRENT and accelerators.has(args[0]):
            packed = isinstance(args[3], list)  # the weights stand behind the sizes of its batches
            args = self._row.without_dropout(args, 5 + packed)
        elif name in _WEIGHING and not is_transformed() and _is_of_numbers((*args, *kwargs.values())):
            by_key = _FACTORS if name in _PRODUCTS else _WEIGHTS
            kwargs = {key: self._not_zero(one) if key in by_key else one for key, one in kwargs.items()}
            args = tuple(self._not_zero(one) for one in args) if name in _PRODUCTS else args
        elif name in _PRODUCTS_IN_PLACE and not is_transformed() and args[0].requires_grad:  # else it may be to be zero
            args = (args[0], *(self._not_zero(one) for one in args[1:]))
        elif name == "where" and len(args) == 3 and self._row.chooses_both and _is_one_choice(*args):
            self._row.has_sides = True
            func, args = torch.add, tuple(_SOME_WEIGHT * one for one in args[1:])
        elif self._row.chooses_both and (numbers := _held_within_limits(name, (*args, *kwargs.values()))):
            self._row.has_sides = True
            return numbers[0].copy_(_unlimited(numbers)) if name.endswith("_") else _unlimited(numbers)
        return func(*args, **kwargs)


def _held_within_limits(name: str, given: Iterable[Any]) -> list[Tensor]:
    """What a function holds within a limit, where that is one number with a point; likewise the limit."""
    if name.removesuffix("_") not in _LIMITING or is_transformed():
        return []
    found = [one for one in given if isinstance(one, Tensor)]
    if not all(one.dim() == 0 and one.is_floating_point() for one in found):
        return []
    if name.endswith("_") and not (found and found[0].grad_fn):
        return []  # what is kept between limits, and was not computed here
    return found if len(found) > (name in ("min", "max")) else []  # of one tensor: over its entries


def _unlimited(numbers: Sequence[Tensor]) -> Tensor:
    """On neither side of a limit: it depends on all of them, and is no sum of what parts of a batch give."""
    with unnoticed():
        finite = [one for one in numbers if bool(one.isfinite())]  # the best as yet may be `-inf`
    return functools.reduce(torch.add, (_SOME_WEIGHT * (one + one.tanh()) for one in finite or numbers))


def _is_of_numbers(given: Iterable[Any]) -> bool:
    """Whether there is a tensor of numbers with a point: an index that is multiplied by zero is to be zero."""
    return any(isinstance(one, Tensor) and one.is_floating_point() for one in given)


def _is_one_choice(condition: Any, *between: Any) -> bool:
    """Whether one number chooses between tensors: what it does not choose now, it may later."""
    both = all(isinstance(one, Tensor) and one.is_floating_point() for one in between)
    return both and isinstance(condition, Tensor) and condition.dim() == 0


def _not_zero(factor: Any) -> Any:
    """A weight that is zero as yet, as it may be later; anything else, as it is."""
    if isinstance(factor, Tensor):
        plain = factor.is_floating_point() and not factor.requires_grad and not factor.is_meta
        may_be = plain and factor.layout is torch.strided and factor.numel() == 1
        with unnoticed():
            return torch.full_like(factor, _SOME_WEIGHT) if may_be and bool((factor == 0).all()) else factor
    return _SOME_WEIGHT if type(factor) in (int, float) and factor == 0 else factor


@functools.cache
def _place_of_dropout(func: Any) -> int:
    return [one.name for one in func._schema.arguments].index("dropout_p")


@contextmanager
def _forked() -> Iterator[None]:
    """Torch's streams go on afterwards as if nothing had been drawn."""
    kind = accelerators.kind() or "cuda"
    with torch.random.fork_rng(devices=range(accelerators.count()), device_type=kind):
        yield


def batch_dims(parts: Sequence[Sequence[tuple[int, ...]]], whole: Sequence[tuple[int, ...]]) -> list[Dims] | None:
    """Where the batch is in each draw: the dimensions that differ. None where ranks draw otherwise than the whole."""
    found: list[Dims] = []
    for number, shape in enumerate(whole):
        drawn = [part[number] for part in parts if number < len(part)]
        if len(drawn) != len(parts) or any(len(one) != len(shape) for one in drawn):
            return None
        found.append(frozenset(dim for dim in range(len(shape)) if any(one[dim] != shape[dim] for one in drawn)))
    return found


def _row(shape: tuple[int, ...], dims: Dims) -> tuple[int, ...]:
    return tuple(1 if dim in dims else size for dim, size in enumerate(shape))


def _row_of(argument: Any, shape: tuple[int, ...], dims: Dims) -> Any:
    """Of what is drawn for a batch, what asks for one row."""
    if isinstance(argument, Tensor) and argument.dim() == len(shape):
        for dim in dims:
            argument = argument.narrow(dim, 0, min(1, argument.shape[dim]))
        return argument
    if isinstance(argument, (list, torch.Size)) and tuple(argument) == shape:
        return list(_row(shape, dims))
    return argument


def _without_generator(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: None if name == "generator" else one for name, one in kwargs.items()}
