"""What a pass reads out of tensors into Python, where it may decide by it: a rank sees the values of its part alone.

Of each reading counts what a decision goes by most: true or false, the sign of a number, and whether ranks have read
different ones (a size, say), the signs of the least and the greatest of several, and, where the shape of a result
follows from values (`nonzero`), whether it is empty. What reads below Python (`torch.jit.script`, sizes that are given
as tensors) is not seen, nor is `x[mask]`: a `__getitem__` that is put into `Tensor` makes a sequence of every tensor,
and `torch.tensor([one, two])` then asks each for its length.
"""

from __future__ import annotations

import functools
import importlib
import math
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch._guards import TracingContext

from distify_runtime import communicator
from distify_runtime.shared.graph import Operation
from distify_runtime.shared.structure import has_numbers, told

#: What ranks tell each other of their readings: a number that follows from the outcomes, and one from the numbers read.
Words = tuple[int, int]
#: Of one place in the program: the outcomes of the first readings in a pass, those of all others, and the numbers of
#: the first ones.
Outcomes = tuple[list[int], set[int], list[float]]
#: Places, which reading it was there, and the outcomes that ranks have had.
Mixture = frozenset[tuple[int, int, frozenset[int]]]

_TOLD_APART = 4  # readings at one place, as of flags in a loop; what comes after them counts as one
#: Outcomes: 0 and 1 are false and true; a number's sign, those of several, and whether something is there, come after.
_NO_READING, _NUMBER, _NUMBERS, _SHAPE = -1, 10, 20, 60
_DIFFERING = 70  # beside the sign of a number: ranks have read others
_MASK = 2**62 - 1
_RETURNED, _COMPUTED = 0, 1  # places: the outputs, and what they are computed by


class Readings:
    """Of one pass on this rank. `everyone`: the words of each rank, once outputs have been gathered. `new`: what it
    computes, and no pass that was compared has computed."""

    def __init__(self) -> None:
        self.everyone: list[Words] = []
        self.new: frozenset[Operation] = frozenset()
        self._at: dict[int, Outcomes] = {}
        self._numbers: list[float] = []
        self._base: FrameType | None = None
        self._thread = 0

    @property
    def words(self) -> Words:
        """The same on all ranks where they have read alike; (0, 0): there is nothing to tell."""
        if not self._at:
            return 0, 0
        words = tuple((place, tuple(first), tuple(sorted(rest))) for place, (first, rest, _) in self._at.items())
        numbers = hash(tuple(self._numbers)) & _MASK if self._numbers else 0
        return hash(words) & _MASK | 1, numbers  # of numbers alone: the same everywhere

    def mixture(self) -> Mixture:
        """What the ranks have read, whichever rank read what. A collective."""
        return mixture_of(communicator.all_gather_object(self.outcomes()))

    def outcomes(self) -> dict[int, Outcomes]:
        return self._at

    def returned(self, outputs: Any) -> None:
        """What a pass that reads gives beside tensors may be what it has read: it counts as one more reading."""
        if self._at and has_numbers(said := told(outputs)):
            self._at[_RETURNED] = [zlib.crc32(repr(said).encode())], set(), []

    def computes(self, new: frozenset[Operation]) -> None:
        """That counts as one more reading: by whatever it was decided, the others are to hear of it."""
        self.new = new
        if new:
            self._at[_COMPUTED] = [zlib.crc32(repr(sorted(new)).encode())], set(), []

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Under `with`, what this thread reads is kept."""
        global _now
        before, _now = _now, self
        self._base, self._thread = sys._getframe(2), threading.get_ident()
        for name, noticing in _noticing.items():
            setattr(torch, name, noticing)
        try:
            yield
        finally:
            _now, self._base = before, None
            if before is None:
                for name, original in _originals.items():
                    setattr(torch, name, original)

    def add(self, outcome: int, number: float | None) -> None:
        if threading.get_ident() != self._thread:
            return  # a loader's, say
        reader = _reader()
        if _module(reader).startswith("distify_runtime"):
            return  # BatchNorm, as it is computed here
        first, rest, numbers = self._at.setdefault(self._place(reader), ([], set(), []))
        number = 0.0 if number is not None and math.isnan(number) else number  # whose hash is another in each process
        if len(first) < _TOLD_APART:
            first.append(outcome)
            numbers.append(0.0 if number is None else number)
        else:
            rest.add(outcome)
        if number is not None:
            self._numbers.append(number)

    def _place(self, reader: FrameType) -> int:
        """Where it is read: a number that follows from the calls that lead there. The same on all ranks."""
        place = 0
        frame: FrameType | None = reader
        of_the_script: FrameType | None = None
        while frame is not None and frame is not self._base:
            place = hash((place, _number_of(frame.f_code), frame.f_lineno))
            if of_the_script is None and _module(frame).partition(".")[0] not in ("torch", "distify_runtime"):
                of_the_script = frame
            frame = frame.f_back
        if place not in _written:
            shown = of_the_script or reader
            _written[place] = f"{os.path.basename(shown.f_code.co_filename)}:{shown.f_lineno}"
        return place


def mixture_of(everyone: list[dict[int, Outcomes]]) -> Mixture:
    """Of each rank's outcomes."""
    found: set[tuple[int, int, frozenset[int]]] = set()
    for place in {place for one in everyone for place in one}:
        ranks = [one.get(place, ([], set(), [])) for one in everyone]
        for index in range(max(len(first) for first, *_ in ranks)):
            outcomes = {first[index] if index < len(first) else _NO_READING for first, *_ in ranks}
            differ = len({numbers[index] for *_, numbers in ranks if index < len(numbers)}) > 1
            found.add((place, index, frozenset(outcomes | {_DIFFERING} if differ else outcomes)))
        if any(rest for _, rest, _ in ranks):
            found.add((place, _TOLD_APART, frozenset().union(*(rest for _, rest, _ in ranks))))
    return frozenset(found)


def of_those_there(mixture: Mixture) -> Mixture:
    """The same of those that came to each place: in a pass that was left halfway, some did not get there."""
    return frozenset((place, index, outcomes - {_NO_READING}) for place, index, outcomes in mixture)


def without_what_is_new(mixture: Mixture) -> Mixture:
    """What was read, and not what ranks have computed for the first time."""
    return frozenset(one for one in mixture if one[0] != _COMPUTED)


def readings_differ_at(mixture: Mixture) -> str:
    """The places at which not all ranks had one outcome, as far as this rank was there: `file:line`."""
    places = {_written[place] for place, _, outcomes in mixture if len(outcomes) > 1 and place in _written}
    return ", ".join(sorted(places))


@contextmanager
def unnoticed() -> Iterator[None]:
    """What is read here is not read by the script: ranks exchange something."""
    global _now
    before, _now = _now, None
    try:
        yield
    finally:
        _now = before


_now: Readings | None = None
_written: dict[int, str] = {}


@functools.cache
def _number_of(code: CodeType) -> int:
    return zlib.crc32(f"{os.path.basename(code.co_filename)}:{code.co_name}:{code.co_firstlineno}".encode())


def _module(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name


def _reader() -> FrameType:
    """The frame that called what is replaced here."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code not in _noticing_codes:
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    assert frame is not None  # of a call that is shared
    return frame


# ---- outcomes


def _of_number(now: Readings, found: Any, *_: Any) -> None:
    """Of what is read as one number, or as true or false."""
    if isinstance(found, bool):
        now.add(int(found), None)
    elif isinstance(found, int | float):
        now.add(_NUMBER + _sign(found), float(found))


def _of_numbers(now: Readings, found: Any, tensor: Tensor, *_: Any) -> None:
    """Of what is read as a list or an array."""
    if tensor.numel() < 2:
        _of_number(now, _item(tensor)) if tensor.numel() else now.add(_SHAPE, None)
    elif not tensor.is_complex():
        values = tensor.detach()
        low, high = torch.aminmax(values if values.dtype in _WITH_ORDER else values.double())
        now.add(_NUMBERS + 8 * _sign(_item(low)) + _sign(_item(high)), None)


def _of_shape(now: Readings, found: Any, *_: Any) -> None:
    """Of a result whose shape follows from values."""
    first = found[0] if isinstance(found, tuple) else found
    if isinstance(first, Tensor) and first.dim():
        now.add(_SHAPE + (len(first) > 0), None)


def _sign(number: float) -> int:
    """Not below 0."""
    return 1 + (number > 0) - (number < 0) if math.isfinite(number) else 3


# ---- what is replaced: methods for good; functions of torch, which compilers know by identity, during passes

_METHODS: dict[Callable[..., None], tuple[str, ...]] = {
    _of_number: ("__bool__", "__int__", "__float__", "__index__", "item", "is_nonzero", "equal", "allclose"),
    _of_numbers: ("tolist", "numpy"),
    _of_shape: ("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive"),
}
_FUNCTIONS: dict[Callable[..., None], tuple[str, ...]] = {
    _of_number: ("is_nonzero", "equal", "allclose"),
    _of_shape: ("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive"),
}
_WITH_ORDER = (torch.float32, torch.float64, torch.int32, torch.int64)
_item = Tensor.item
_originals: dict[str, Callable[..., Any]] = {}
_noticing: dict[str, Callable[..., Any]] = {}
_noticing_codes: set[CodeType] = set()


def notice_readings() -> None:
    """From now on. Harmless to call twice."""
    if _noticing:
        return
    for notice, names in _METHODS.items():
        for name in names:
            setattr(Tensor, name, _noticed(getattr(Tensor, name), notice))
    for notice, names in _FUNCTIONS.items():
        for name in names:
            _originals[name] = getattr(torch, name)
            _noticing[name] = _noticed(_originals[name], notice)
    _originals["where"] = torch.where
    _noticing["where"] = _where


def _noticed(original: Callable[..., Any], notice: Callable[..., None]) -> Callable[..., Any]:
    disable: Any = torch.compiler.disable  # untyped in torch
    noticed = disable(notice)

    def read(*args: Any, **kwargs: Any) -> Any:
        global _now
        now = _now
        if now is None or TracingContext.try_get() is not None:  # a compiler reads no values
            return original(*args, **kwargs)
        _now = None  # where torch asks a mode, such as that of a default device, it comes here again
        try:
            found = original(*args, **kwargs)
            noticed(now, found, *args)
        finally:
            _now = now
        return found

    _noticing_codes.add(read.__code__)  # of which there is one
    functools.update_wrapper(read, original)
    skipped: Any = importlib.import_module("torch._dynamo.decorators")
    skipped.skip(read)  # without a wrapper
    return read


@functools.wraps(torch.where)
def _where(*args: Any, **kwargs: Any) -> Any:
    """Of three arguments it makes no shape, and is in many graphs that are compiled."""
    return torch.nonzero(*args, as_tuple=True) if len(args) == 1 and not kwargs else _of_three(*args, **kwargs)


_of_three = torch.where
