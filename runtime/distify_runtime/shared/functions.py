"""Functions of torch that look at a whole batch, as they are inside of a shared pass: BatchNorm, losses, checkpoints.

They are replaced once, in torch's own modules, and do what they did outside of a shared pass.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils import checkpoint

from distify_runtime.patching import wrap
from distify_runtime.shared import draws, normalisation, region, related
from distify_runtime.shared.messages import of_line

_patched = False


def are_replaced() -> bool:
    """Whether `rt.data_parallel` was called, on several ranks: batches are whole, whichever models turn out to be."""
    return _patched


def patch() -> None:
    """Replace them. Harmless to call twice."""
    global _patched
    if _patched:
        return
    _patched = True
    losses = ((F, name, _exact) for name in (*_ELEMENTWISE, *_CLASSES))
    replaced = dict(_replace(*one) for one in ((F, "batch_norm", normalisation.batch_norm), *losses))
    _replace_by_name(replaced)
    _replace(torch._VF, "_pad_packed_sequence", _padded)  # scripts import the function above it by name
    if hasattr(torch.jit._trace, "_check_trace"):
        wrap(torch.jit._trace, "_check_trace", region.a_trace_is_checked)
    wrap(torch.autograd, "grad", related.gradients)
    wrap(Tensor, "register_hook", related.hooked)
    wrap(Tensor, "retain_grad", related.retained)
    torch_checkpoint: Any = checkpoint
    torch_checkpoint._checkpoint_without_reentrant_generator = _WithoutReentrance
    torch_checkpoint.CheckpointFunction = _Reentrant


def _replace(owner: Any, name: str, instead: Callable[..., Any]) -> tuple[Any, Any]:
    """Gives the original, and what stands in its place."""
    original = getattr(owner, name)
    disable: Any = torch.compiler.disable  # untyped in torch
    current = region.current

    def function(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs) if current() is None else inside(*args, **kwargs)

    inside = disable(functools.partial(instead, original))
    # torch.jit.script compiles the text of the original, with the names that this function sees. What is written in C
    # has none, and may import: that asks the function around it for Python's own.
    names = getattr(original, "__globals__", globals())
    seeing = types.FunctionType(function.__code__, names, name, None, function.__closure__)
    setattr(owner, name, functools.wraps(original)(seeing))
    return original, getattr(owner, name)


def _replace_by_name(replaced: dict[Any, Any]) -> None:
    """`from torch.nn.functional import mse_loss`, wherever a module has done so before."""
    modules = [one for name, one in list(sys.modules.items()) if name.partition(".")[0] not in _OURS]
    for module in modules:
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)) and value in replaced:
                setattr(module, name, replaced[value])


# ---- losses: a mean over what each rank counts is no mean of means

_ELEMENTWISE = (
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "soft_margin_loss", "hinge_embedding_loss", "kl_div",
)  # fmt: skip
_CLASSES = ("cross_entropy", "nll_loss")
_OURS = ("torch", "distify_runtime")  # whose frames lie between
_HANDING_ON = 16  # calls between a function of torch and what a mode has of it


def _exact(original: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """The mean of a library's loss over all ranks' samples, by its sum and its count."""
    inside = region.current()
    given = inspect.signature(original).bind(*args, **kwargs)
    given.apply_defaults()
    options = given.arguments
    if inside is None or not inside.exact_losses or options["reduction"] != "mean" or _has_old_options(options):
        return original(*args, **kwargs)
    if _is_asked_by(original):
        return original(*args, **kwargs)
    count = _count(original.__name__, options)
    options["reduction"] = "sum"
    total = original(*given.args, **given.kwargs)
    both = inside.sum(torch.stack([total, count.to(total)]), _line())
    return both[0] / both[1]


def _is_asked_by(original: Callable[..., Tensor]) -> bool:
    """Whether somebody has the original itself, which hands on to what has its name, where torch's functions are seen.

    It is computed as it is then, as where nobody looks.
    """
    frame: types.FrameType | None = sys._getframe(1)
    for _ in range(_HANDING_ON):
        if frame is None or frame.f_code is getattr(original, "__code__", None):
            return frame is not None
        frame = frame.f_back
    return False


def _line() -> int:
    """The line of the script that asks for a loss, or of a library: what else knows one from another?"""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in _OURS:
        frame = frame.f_back
    return of_line(frame.f_code.co_filename, frame.f_lineno) if frame is not None else 0


def _has_old_options(options: dict[str, Any]) -> bool:
    return options.get("size_average") is not None or options.get("reduce") is not None


def _count(name: str, options: dict[str, Any]) -> Tensor:
    """By what the mean divides the sum."""
    values, target = options["input"], options["target"]
    if name not in _CLASSES:
        return torch.tensor(float(max(values.numel(), target.numel())), device=values.device)
    if target.is_floating_point():  # probabilities of classes
        return torch.tensor(values.numel() / values.shape[min(1, values.dim() - 1)], device=values.device)
    counted = target != options["ignore_index"]
    weight: Tensor | None = options["weight"]
    return counted.sum() if weight is None else weight[target[counted]].sum()


# ---- sequences


def _padded(original: Callable[..., Any], data: Tensor, batch_sizes: Tensor, *options: Any) -> Any:
    """`pad_packed_sequence`, to the longest of all ranks' samples."""
    inside = region.current()
    assert inside is not None
    longest = int(inside.everyones(torch.tensor([options[-1]], device=data.device), None).max())
    return original(data, batch_sizes, *options[:-1], longest)


# ---- checkpoints: what a backward pass computes again is computed in the pass that it was computed in


class _WithoutReentrance:
    """Stands for the generator behind `checkpoint(…, use_reentrant=False)`."""

    _original = staticmethod(checkpoint._checkpoint_without_reentrant_generator)

    def __new__(cls, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        generator = cls._original(_again(fn, is_again=True), *args, **kwargs)  # torch itself calls it the first time
        return generator if region.current() is not None else _entered(generator)


class _Reentrant:
    """Stands for the function behind `checkpoint(…, use_reentrant=True)`."""

    _original: Any = checkpoint.CheckpointFunction

    @classmethod
    def apply(cls, run_function: Callable[..., Any], *args: Any) -> Any:
        return cls._original.apply(_again(run_function, is_again=False), *args)


def _entered(generator: Iterator[None]) -> Iterator[None]:
    """What torch does before and behind the first time: what both times save has to be the same."""
    with region.checkpointed():
        yield from generator


def _again(function: Callable[..., Any], is_again: bool) -> Callable[..., Any]:
    """A function that computes the second time as it did the first. Its draws are looked after by torch.

    is_again: whether the next time is the second one.
    """
    inside, seen = region.current(), draws.seen_above_autograd()

    def once(*args: Any, **kwargs: Any) -> Any:
        if inside is None:
            with region.checkpointed():
                return function(*args, **kwargs)
        if region.current() is inside:
            return function(*args, **kwargs)
        with inside.entered(own_draws=False):
            return function(*args, **kwargs)

    @functools.wraps(function)
    def again(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_again
        context, is_again = seen if is_again else nullcontext(), True
        with context:
            return once(*args, **kwargs)

    return again
