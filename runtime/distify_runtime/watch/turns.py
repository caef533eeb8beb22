"""What one turn of a training loop does where no wrapped model tells of it: the batch that it takes, the forward passes
of models whose gradients a line or an optimizer averages, and its backward passes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch.utils.data.dataloader import _BaseDataLoaderIter

from distify_runtime.patching import wrap
from distify_runtime.watch import course, kept, rows, uneven

#: What is called before a training pass, with what the model is given; and behind it, with the error raised, or None,
#: and what the model has returned.
Around = tuple[Callable[[tuple[Any, ...]], None], Callable[[Exception | None, Any], None]]
around: list[Around] = []
_models: WeakSet[nn.Module] = WeakSet()
_MARK = "_distify_turns"


def notice(calls: Iterable[Around]) -> None:
    """calls: what is called around each training pass."""
    around[:] = calls
    _notice_batches_and_backward_passes()


def notice_models(models: Iterable[nn.Module]) -> None:
    """Models that are called by themselves, and may have their gradients averaged by a line: objects stay as they are,
    and pickle as before."""
    if not around:
        return
    for model in models:
        kind: Any = type(model)
        if not isinstance(model, torch.jit.ScriptModule) and kind is not nn.Module:
            _models.add(model)
            if _MARK not in vars(kind):
                kind.__call__ = _surrounding(kind.__call__)
                setattr(kind, _MARK, True)


def _surrounding(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return original(self, *args, **kwargs)
        if not self.training or self not in _models or not course.is_averaged_by_a_line():
            return original(self, *args, **kwargs)
        return surrounded(functools.partial(original, self), args, kwargs, around)

    return call


def surrounded(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], calls: Iterable[Around]
) -> Any:
    """One training pass."""
    for before, _ in calls:
        before((args, kwargs))
    error: Exception | None = None
    outputs = None
    try:
        outputs = function(*args, **kwargs)
        return outputs
    except Exception as caught:
        error = caught
        raise
    finally:
        for _, behind in calls:
            behind(error, outputs)


@functools.cache
def _notice_batches_and_backward_passes() -> None:
    def following(original: Any, self: Any) -> Any:
        try:
            found = original(self)
        except StopIteration:
            raise
        except Exception as error:
            uneven.heard(error)
            raise
        uneven.took(self)
        kept.took_a_batch()
        return found

    def backward(original: Any, *args: Any, **kwargs: Any) -> Any:
        uneven.before_backward()
        losses = args[0] if args else kwargs.get("tensors")
        rows.before_backward(losses)
        kept.before_backward(losses)
        try:
            found = original(*args, **kwargs)
        except Exception as error:
            uneven.heard(error)
            raise
        uneven.went_well()
        kept.after_backward()
        return found

    wrap(_BaseDataLoaderIter, "__next__", following)
    wrap(torch.autograd, "backward", backward)
