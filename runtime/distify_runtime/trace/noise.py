"""Random numbers inside of training: no dropout, and noise that is drawn for a batch is the same for each sample.

So a rank that draws for its share of a batch gets what one process draws. Where forward passes are shared, each sample
can have noise of its own: who draws for a part of a batch knows which it is. A single number is left to the script's
own streams: whether the ranks agree about it is the conversion's business. (What has more dimensions is a row of noise,
for a batch of one sample.) So is what is drawn before the first batch of a loader, unless a model that trains does, and
in initialisation: batches that a script chooses by itself, weights.
"""

from __future__ import annotations

import functools
import importlib.util
import linecache
import random
import sys
import traceback
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional, init
from torch.nn.parallel import DistributedDataParallel

from distify_runtime import accelerators
from distify_runtime.environment import rank
from distify_runtime.patching import wrap
from distify_runtime.shared.region import current, is_comparing
from distify_runtime.trace.draws import PYTHON
from distify_runtime.trace.moment import NOW
from distify_runtime.trace.precision import handle
from distify_runtime.watch import frames

_DROPOUTS = ("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")
_ATEN_DROPOUTS = (
    "dropout", "dropout_", "feature_dropout", "feature_dropout_", "alpha_dropout", "alpha_dropout_",
    "feature_alpha_dropout", "feature_alpha_dropout_",
)  # fmt: skip
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_FILL = {Tensor.normal_, Tensor.uniform_, Tensor.random_, Tensor.bernoulli_, Tensor.exponential_, Tensor.log_normal_}
_MAKE = {torch.randn: torch.randn, torch.rand: torch.rand, torch.randn_like: torch.randn, torch.rand_like: torch.rand}
_MOST_DROPOUTS = 20
_MOST_LINES = 1000  # of steps
_is_of_script = functools.cache(frames.is_of_script)
_STEP = 1009  # draws of a step that are told apart


def without_dropout() -> None:
    """Wherever chance leaves out or scales parts of what flows through. In place of torch's functions, not by a mode:

    a mode does not see what a function of torch's, such as attention, calls itself.
    """

    def identity(original: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        _note_dropout(input, kwargs.get("training", kwargs.get("train", args[1] if len(args) > 1 else True)))
        return input

    def setting(number: int, name: str, value: object) -> Callable[..., Any]:
        def call(original: Any, *args: Any, **kwargs: Any) -> Any:
            NOW.drawn |= kwargs.get(name, args[number] if len(args) > number else value) != value
            if name in kwargs:
                return original(*args, **{**kwargs, name: value})
            return original(*args[:number], *(value for _ in args[number : number + 1]), *args[number + 1 :], **kwargs)

        return call

    for owner, names in ((functional, _DROPOUTS), (torch, _ATEN_DROPOUTS)):
        for name in names:
            wrap(owner, name, identity)
    wrap(functional, "scaled_dot_product_attention", setting(4, "dropout_p", 0.0))
    wrap(functional, "rrelu", setting(3, "training", False))  # the mean of its slopes
    for name in _RECURRENT:
        wrap(torch._VF, name, _without_recurrent)


def _note_dropout(dropped: Tensor, training: object) -> None:
    """Where the stream is from which it would have been drawn: what two ranks draw from one place is the same."""
    NOW.drawn |= torch.is_grad_enabled()
    wrapped: Any = DistributedDataParallel._active_ddp_module
    noted = NOW.unwrapped_dropouts if wrapped is None else NOW.dropouts
    in_training = NOW.in_training and training if wrapped is None else wrapped.training
    if in_training and torch.is_grad_enabled() and len(noted) < _MOST_DROPOUTS:
        state = accelerators.random_state()
        state = torch.get_rng_state() if state is None else state
        noted.append((NOW.steps + 1, zlib.crc32(bytes(state.tolist())), dropped.numel()))


def _without_recurrent(original: Any, *args: Any) -> Any:
    """Its share is their only number with a point; where it stands is another place for packed sequences."""
    NOW.drawn |= any(isinstance(one, float) and one > 0 for one in args)
    return original(*(0.0 if isinstance(one, float) else one for one in args))


def watch_initialising() -> None:
    for name in vars(init):
        if name.endswith("_") and not name.startswith("_"):
            wrap(init, name, _initialising)


def same_noise(each_sample: bool = False) -> None:
    NOW.each_sample = each_sample
    wrap(functional, "gumbel_softmax", _gumbel_softmax)
    handle(dict.fromkeys((*_FILL, *_MAKE, torch.randint, torch.normal, torch.bernoulli), _draw))
    handle({torch.randperm: _order})
    _same_numpy_noise()
    for name in PYTHON:
        wrap(random, name, _noted)


def _noted(original: Any, *args: Any, **kwargs: Any) -> Any:
    """A number by itself, which is left to the script."""
    NOW.drawn |= NOW.draws_noise
    _note_single()
    return original(*args, **kwargs)


def _order(func: Any, args: Any, kwargs: Any) -> Any:
    """What samples may be paired by: on each rank, those of its share."""
    if kwargs.get("generator") is None:
        _note_line(NOW.orders, args[0] if args else kwargs.get("n"))
    return func(*args, **kwargs)


def _note_single() -> None:
    """Which line draws one number, for a batch or for one of its samples: how often it does in a step tells which."""
    _note_line(NOW.singles, 1)


def _note_line(noted: dict[tuple[int, str, str], int], count: Any) -> None:
    if not NOW.draws_noise or is_comparing() or not isinstance(count, int):
        return
    for frame, line in traceback.walk_stack(sys._getframe(1)):
        file = frame.f_code.co_filename
        if _is_of_script(file):
            key = NOW.steps + 1, f"{frames.shown(file)}:{line}", linecache.getline(file, line).strip()
            if key in noted or len(noted) < _MOST_LINES:
                noted[key] = noted.get(key, 0) + count
            return


def _initialising(original: Any, *args: Any, **kwargs: Any) -> Any:
    NOW.initialising += 1
    try:
        return original(*args, **kwargs)
    finally:
        NOW.initialising -= 1


def _gumbel_softmax(
    original: Any, logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """torch's, whose own draws a mode does not see."""
    gumbels = -torch.empty_like(logits).exponential_().log()
    soft = ((logits + gumbels) / tau).softmax(dim)
    if not hard:
        return soft
    return torch.zeros_like(logits).scatter_(dim, soft.max(dim, keepdim=True)[1], 1.0) - soft.detach() + soft


def _key() -> int:
    NOW.draws += 1
    return NOW.steps * _STEP + NOW.draws


def _draw(func: Any, args: Any, kwargs: Any) -> Any:
    if not NOW.draws_noise or is_comparing() or kwargs.get("generator") is not None:
        return func(*args, **kwargs)
    NOW.drawn |= func is not Tensor.random_ or args[0].dim() > 0  # a seed
    return (_fill if func in _FILL else _make)(func, *args, **kwargs)


def _is_a_number(drawn: Tensor) -> bool:
    """`torch.rand(())`, `torch.rand(1)`, and not `torch.rand(1, 1, 1)`, which is a row for a batch of one sample."""
    return drawn.numel() == 0 or (drawn.numel() == 1 and drawn.dim() < 2)


def _fill(func: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    if _is_a_number(tensor):
        if func is not Tensor.random_ or tensor.dim() > 0:  # a seed
            _note_single()
        return func(tensor, *args, **kwargs)  # type: ignore[no-any-return]
    kwargs.pop("generator", None)
    given = [one[:1].cpu() if isinstance(one, Tensor) and one.dim() == tensor.dim() else one for one in args]
    shape, mine = _drawn(tensor.shape)
    row = func(torch.empty(shape, dtype=tensor.dtype), *given, generator=_generator(), **kwargs)
    with torch.no_grad():
        return tensor.copy_(mine(row))


def _make(func: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Draws as it is asked to, to see what comes, and puts the row in its place; the stream is not used up."""
    state = torch.get_rng_state(), accelerators.random_state()
    made: Tensor = func(*args, **kwargs)
    if _is_a_number(made):
        _note_single()
        return made
    torch.set_rng_state(state[0])
    accelerators.set_random_state(state[1])
    generator, (shape, mine) = _generator(), _drawn(made.shape)
    row: Tensor
    if func is torch.randint:
        bounds = [one for one in args[:2] if isinstance(one, int)]
        bounds = [*bounds, kwargs["high"]] if "high" in kwargs else bounds
        bounds = [kwargs["low"], *bounds] if "low" in kwargs else bounds
        row = mine(torch.randint(*bounds, shape, generator=generator))
    elif func is torch.normal:
        row = _normal(mine(torch.randn(shape, generator=generator, dtype=made.dtype)).to(made.device), *args, **kwargs)
    elif func is torch.bernoulli:
        row = mine(torch.rand(shape, generator=generator, dtype=torch.float64)).to(made.device) < args[0]
    else:
        row = mine(_MAKE[func](shape, generator=generator, dtype=made.dtype))
    drawn: Tensor = row.to(made).expand_as(made).clone()
    return drawn.requires_grad_(made.requires_grad)


def _normal(standard: Tensor, mean: Any = 0.0, std: Any = 1.0, *_: Any, **__: Any) -> Any:
    return mean + std * standard


def _drawn(shape: Sequence[int]) -> tuple[tuple[int, ...], Callable[[Tensor], Tensor]]:
    """The shape to draw in place of another, and what to take of that: the row for all samples, or what is this part's.

    Within a shared pass the first dimension of its part's size is the batch's; what has none is drawn alike by all.
    """
    if not NOW.each_sample:
        return (1, *shape[1:]), lambda row: row
    region = current()
    counts, here = (region.counts, rank()) if region is not None else ((), 0)
    along = next((dim for dim, size in enumerate(shape) if counts and size == counts[here]), None)
    if along is None:
        return tuple(shape), lambda all_rows: all_rows
    start, size = sum(counts[:here]), counts[here]
    return (*shape[:along], sum(counts), *shape[along + 1 :]), lambda all_rows: all_rows.narrow(along, start, size)


def _generator() -> torch.Generator:
    generator = torch.Generator()
    generator.manual_seed(_key())
    return generator


# ---- NumPy: what stands before `size` among the arguments

_PARAMETERS = {"normal": 2, "uniform": 2, "random": 0, "random_sample": 0, "standard_normal": 0, "randint": 2}


def _same_numpy_noise() -> None:
    if importlib.util.find_spec("numpy") is None:
        return
    import numpy

    for name, before in _PARAMETERS.items():
        wrap(numpy.random, name, _sized(name, before))
    for name in ("rand", "randn"):
        wrap(numpy.random, name, _shaped(name))


def _sized(name: str, before: int) -> Callable[..., Any]:
    def draw(original: Any, *args: Any, size: Any = None, **kwargs: Any) -> Any:
        size = args[before] if len(args) > before else size
        NOW.drawn |= NOW.draws_noise
        shape = tuple(size) if isinstance(size, (tuple, list)) else () if size is None else (int(size),)
        if not shape:
            _note_single()
        if not shape or not NOW.draws_noise or is_comparing():
            return original(*args[:before], size=size, **kwargs)
        return _array(name, shape, *args[:before], size=_rows(shape), **kwargs)

    return draw


def _shaped(name: str) -> Callable[..., Any]:
    def draw(original: Any, *shape: int) -> Any:
        NOW.drawn |= NOW.draws_noise
        if not shape:
            _note_single()
        drawn = bool(shape) and NOW.draws_noise and not is_comparing()
        return _array(name, shape, *_rows(shape)) if drawn else original(*shape)

    return draw


def _rows(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if NOW.each_sample else (1, *shape[1:])


def _array(name: str, shape: tuple[int, ...], *args: Any, **kwargs: Any) -> Any:
    import numpy

    row = getattr(numpy.random.RandomState(_key() % 2**32), name)(*args, **kwargs)
    return numpy.broadcast_to(row, shape).copy()
