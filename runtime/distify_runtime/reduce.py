"""Sums and decisions over all ranks."""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from distify_runtime import communicator
from distify_runtime.communicator import Op
from distify_runtime.environment import device, is_alone, world_size
from distify_runtime.meeting import collective


@dataclass(frozen=True)
class _Form:
    """What a value looks like; ranks may differ, see `_common_form`."""

    dtype: torch.dtype
    shape: tuple[int, ...] | None = None  # None: a number
    home: str = "cpu"  # a tensor's type of device, or "numpy" for an array

    def __str__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        return f"a {kind} number" if self.shape is None else f"a {self.home} {kind} tensor of shape {self.shape}"


@collective
def all_reduce_sum(*values: Any) -> Any:
    """The sum of each value over all ranks, on every rank. A collective.

    Takes Python and numpy numbers (whole ones are summed in int64, others in float64), tensors and numpy
    arrays of any shape, lists and tuples of numbers, and returns new ones of the same types: one value in, one out;
    several in, a tuple out. A rank that saw no sample may still hold the number it began with (`total = 0`) where
    others hold a float or a tensor. None and texts stay what they are: what is no figure yet on any rank.
    Raises TypeError for other values and bool tensors, ValueError where the ranks' values do not match.
    """
    given, values = values, tuple(_leaves(values))
    there, values = values, tuple(map(_number, values))
    forms = [_form(value) for value in values]
    if is_alone():
        return given[0] if len(given) == 1 else given
    sums = _sums(values, forms)
    if sums is None:
        forms = _agree(forms)
        tensors = [_to_tensor(value, form) for value, form in zip(values, forms, strict=True)]
        _all_reduce(tensors)
        sums = list(map(_like, values, forms, tensors))
    found: tuple[Any, ...] = _rebuilt(given, map(_unless_missing, there, sums))
    return found[0] if len(found) == 1 else found


def _leaves(value: Any) -> Iterator[Any]:
    """What lists and tuples hold, each a value of its own."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _number(value: Any) -> Any:
    """What takes the place of a figure that is not there: all ranks go on meeting, and none takes it for a number."""
    return math.nan if _is_missing(value) else value


def _is_missing(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _unless_missing(value: Any, found: Any) -> Any:
    return value if _is_missing(value) else found


def _rebuilt(value: Any, leaves: Iterator[Any]) -> Any:
    if not isinstance(value, list | tuple):
        return next(leaves)
    parts = [_rebuilt(one, leaves) for one in value]
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


@collective
def all_reduce_mean(*values: Any) -> Any:
    """The mean of each value over all ranks, on every rank: of what each rank says of its equal share. A collective.

    Takes and returns what `all_reduce_sum` does; the mean of whole numbers is a float. A gradient flows back through
    a tensor as if it had not been averaged.
    """
    if is_alone():
        return values[0] if len(values) == 1 else values
    given, values = values, tuple(_leaves(values))
    there, values = values, tuple(map(_number, values))
    if all(_is_single(value) for value in values):
        means = _means(values)
    else:
        totals = all_reduce_sum(*values)
        means = [total / world_size() for total in (totals if len(values) != 1 else [totals])]
    means = [_with_gradient(value, mean) for value, mean in zip(values, means, strict=True)]
    found: tuple[Any, ...] = _rebuilt(given, map(_unless_missing, there, means))
    return found[0] if len(found) == 1 else found


def _is_single(value: Any) -> bool:
    return value.dim() == 0 if isinstance(value, Tensor) else _form(value).shape is None


def _means(values: tuple[Any, ...]) -> list[Any]:
    """Of single numbers, which need no agreement on their form: one collective for all."""
    devices = [value.device for value in values if isinstance(value, Tensor)]
    plain = [0.0 if isinstance(value, Tensor) else float(value) for value in values]
    total = torch.tensor(plain, dtype=torch.float64, device=devices[0] if devices else communicator.home())
    for number, value in enumerate(values):
        if isinstance(value, Tensor):
            total[number] = value.detach()  # without waiting for a device that is computing it
    communicator.all_reduce(total)
    found: list[Any] = []
    for value, mean in zip(values, (total / world_size()).unbind(), strict=True):
        if isinstance(value, Tensor):
            dtype = value.dtype if value.is_floating_point() else torch.get_default_dtype()
            found.append(mean.to(value.device, dtype))
        else:
            numpy = sys.modules.get("numpy")
            kind = type(value) if numpy and isinstance(value, numpy.floating) else float
            found.append(kind(mean.item()))
    return found


def _with_gradient(value: Any, mean: Any) -> Any:
    if isinstance(value, Tensor) and value.requires_grad and torch.is_grad_enabled():
        return _Shown.apply(value, mean)  # type: ignore[no-untyped-call]
    return mean


class _Shown(torch.autograd.Function):
    """Another number in a value's place, with its gradient."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, shown: Tensor) -> Tensor:
        return shown.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None


@collective
def any_rank(flag: object) -> bool:
    """Whether `flag` is true on at least one rank: a decision that all ranks take alike. A collective."""
    return _is_any(bool(flag))


@collective
def all_ranks(flag: object) -> bool:
    """Whether `flag` is true on every rank: a decision that all ranks take alike. A collective."""
    return not _is_any(not flag)


def _is_any(flag: bool) -> bool:
    decision = torch.tensor(int(flag), device="cpu")
    if not is_alone():
        communicator.all_reduce(decision, Op.MAX)
    return bool(decision)


#: Whole numbers are sent in two parts, each of which a float64 holds exactly, whatever the sum.
_PART = 30
#: So many values have room in what is sent at least: ranks that give another number of them find that out.
_ROOM = 8
_NOTHING = (0.0, 0.0, 0.0)


def _sums(values: tuple[Any, ...], forms: list[_Form]) -> list[Any] | None:
    """One collective for all numbers, and what is more than one after that; None, on all ranks, if forms differ."""
    signs = [_sign(len(values)), *map(_sign, forms)]
    sent = [_parts(value, form) for value, form in zip(values, forms, strict=True)]
    rows: list[tuple[float, ...]] = [
        (*sign, *(one or _NOTHING)) for sign, one in zip(signs, [None, *sent], strict=True)
    ]
    rows += [(0.0,) * len(rows[0])] * (-len(values) % _ROOM if values else _ROOM)
    table = torch.tensor(rows, dtype=torch.float64, device=communicator.home())
    communicator.all_reduce(table)
    found, ranks = table.tolist(), world_size()
    if any(total**2 != squares * ranks for row in found[: len(signs)] for total, squares in (row[:2], row[2:4])):
        return None
    rest = [_to_tensor(value, form) for value, form, one in zip(values, forms, sent, strict=True) if one is None]
    _all_reduce(rest)
    others = iter(rest)
    return [
        _like(value, form, next(others) if one is None else _total(value, form, row[4:]))
        for value, form, one, row in zip(values, forms, sent, found[1:], strict=False)
    ]


def _sign(form: object) -> tuple[float, float, float, float]:
    """Two small numbers with their squares, by which ranks see whether theirs are equal: the sums tell that."""
    digest = zlib.crc32(str(form).encode())
    one, other = float(digest & 0xFFFF), float(digest >> 16)
    return one, one * one, other, other * other


def _parts(value: Any, form: _Form) -> tuple[float, float, float] | None:
    """A single number as a fraction or as two parts of a whole number; None for what has more, or is on a GPU."""
    if form.shape is not None:
        if not isinstance(value, Tensor) or form.home != "cpu" or value.numel() != 1:
            return None
        value = value.item()
    if form.dtype.is_floating_point:
        return float(value), 0.0, 0.0
    whole = int(value)
    return 0.0, float(whole >> _PART), float(whole & (1 << _PART) - 1)


def _total(value: Any, form: _Form, row: list[float]) -> Tensor:
    whole = (int(row[1]) << _PART) + int(row[2])
    total = torch.tensor(row[0] if form.dtype.is_floating_point else whole, dtype=form.dtype, device="cpu")
    return total if form.shape is None else total.reshape(form.shape)


def _form(value: Any) -> _Form:
    numpy = sys.modules.get("numpy")
    is_array = numpy and isinstance(value, numpy.ndarray)
    if is_array or isinstance(value, Tensor):
        tensor = _from_array(value) if is_array else value
        if tensor.dtype is torch.bool or tensor.layout is not torch.strided:
            raise TypeError(f"all_reduce_sum cannot add {tensor.dtype} ({tensor.layout}): convert it first")
        return _Form(tensor.dtype, tuple(tensor.shape), "numpy" if is_array else tensor.device.type)
    if isinstance(value, int) or (numpy and isinstance(value, numpy.integer | numpy.bool_)):
        return _Form(torch.int64)
    if isinstance(value, float) or (numpy and isinstance(value, numpy.floating)):
        return _Form(torch.float64)
    raise TypeError(
        f"all_reduce_sum adds numbers, tensors, numpy arrays and lists of numbers, not {type(value).__name__}"
    )


def _agree(forms: list[_Form]) -> list[_Form]:
    everyone = communicator.all_gather_object(forms)
    if len({len(ranks_forms) for ranks_forms in everyone}) > 1:
        raise ValueError("all_reduce_sum got more values on one rank than on another: reduce the same on all")
    return [_common_form(list(ranks_forms)) for ranks_forms in zip(*everyone, strict=True)]


def _common_form(forms: list[_Form]) -> _Form:
    """A tensor if any rank has one, else a float if any rank has one, else an int."""
    tensors = {form for form in forms if form.shape is not None}
    if len(tensors) > 1:
        described = ", ".join(sorted(map(str, tensors)))
        raise ValueError(f"all_reduce_sum got a value that differs between ranks: {described}")
    return tensors.pop() if tensors else max(forms, key=lambda form: form.dtype.is_floating_point)


def _to_tensor(value: Any, form: _Form) -> Tensor:
    """A new, contiguous tensor of this form, which the all-reduce may overwrite."""
    if _form(value).shape is None:
        where = torch.device("cpu") if form.home in ("cpu", "numpy") else device()
        return torch.full(form.shape or (), value, dtype=form.dtype, device=where)
    tensor = _from_array(value) if form.home == "numpy" else value
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _from_array(array: Any) -> Tensor:
    return torch.from_numpy(array.copy())  # torch takes neither read-only arrays nor negative strides


def _all_reduce(tensors: list[Tensor]) -> None:
    """Sum each tensor over the ranks in place, with one collective for each dtype and device."""
    buckets: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        buckets.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    for bucket in buckets.values():
        flat = torch.cat([tensor.view(-1) for tensor in bucket])
        communicator.all_reduce(flat)
        for tensor, total in zip(bucket, torch.split(flat, [t.numel() for t in bucket]), strict=True):
            tensor.copy_(total.view_as(tensor))


def _like(value: Any, form: _Form, total: Tensor) -> Any:
    """`total` in the type of `value`; in the type that the ranks agreed on where that is another one."""
    if form.shape is not None:
        return total.numpy() if form.home == "numpy" else total
    numpy = sys.modules.get("numpy")
    if numpy and isinstance(value, numpy.number) and _form(value) == form:
        return type(value)(total.item())
    return total.item()
