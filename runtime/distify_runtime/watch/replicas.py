"""A wrapped model keeps its hooks; each rank goes through it as often; what one rank swallows, the others hear of.

torch averages gradients in hooks of the parameters that a model had when it was wrapped. A model that is moved, cast or
given other parameters later trains on each rank alone, and torch does not say so.
"""

from __future__ import annotations

import functools
import sys
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.nn.parallel import DistributedDataParallel

from distify_runtime import communicator
from distify_runtime.patching import wrap
from distify_runtime.watch import course, frames, turns, uneven
from distify_runtime.watch.verdict import broken
from distify_runtime.watch.watching import Watching

#: What gathers the gradient of each parameter, as it was when the model was wrapped.
_wrapped: WeakKeyDictionary[DistributedDataParallel, list[tuple[Tensor, Any]]] = WeakKeyDictionary()
_inside: WeakSet[nn.Module] = WeakSet()
_changed = ""


def exist() -> bool:
    return bool(_wrapped)


def averages(parameter: Tensor) -> bool:
    """Whether a wrapped model averages this parameter's gradient."""
    return any(one is parameter for held in _wrapped.values() for one, _ in held)


def notice() -> None:
    _notice_wrapping()
    _notice_changes()


def check(watching: Watching) -> None:
    """After each step: whether something has been done to a wrapped model, and its hooks have gone with that."""
    global _changed
    if not _changed:
        return
    where, _changed = _changed, ""
    for replica, held in list(_wrapped.items()):
        known = {id(parameter): gatherer for parameter, gatherer in held}
        for name, parameter in replica.module.named_parameters():
            if parameter.requires_grad and known.get(id(parameter)) is not _gatherer(parameter):
                message = (
                    f"before step {watching.steps}, `{name}` of a wrapped model was moved, cast or made anew{where}: "
                    "its gradient is no longer averaged, and each rank would train alone. Do that before the model "
                    "is wrapped"
                )
                broken("hooks", message, watching.mode)
                _wrapped[replica] = _gatherers(replica)  # said once
                break


def _gatherers(replica: DistributedDataParallel) -> list[tuple[Tensor, Any]]:
    return [(one, _gatherer(one)) for one in replica.module.parameters() if one.requires_grad]


def _gatherer(parameter: Tensor) -> Any:
    """The node of the graph that adds up a parameter's gradient, where hooks hang."""
    with torch.enable_grad():
        node: Any = parameter.expand_as(parameter).grad_fn
    return node.next_functions[0][0]


@functools.cache
def _notice_wrapping() -> None:
    def made(original: Any, self: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _notice_passes()
        uneven.wrapped()
        _wrapped[self] = _gatherers(self)
        _inside.update(self.modules())

    wrap(DistributedDataParallel, "__init__", made)


@functools.cache
def _notice_changes() -> None:
    def apply(original: Any, self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        done = original(self, *args, **kwargs)
        _changing(self)
        return done

    wrap(nn.Module, "_apply", apply)
    for register in (register_module_parameter_registration_hook, register_module_module_registration_hook):
        register(lambda module, *_: _changing(module))


def _changing(module: nn.Module) -> None:
    global _changed
    course.changed()
    if module in _inside:
        _changed = _changed or frames.here() or " "


@functools.cache
def _notice_passes() -> None:
    """Once a model has been wrapped, which loads the compiler: what it computes may be compiled, this is not."""
    compiler: Any = sys.modules.get("torch._dynamo")
    around: Any = [tuple(map(compiler.disable, one)) for one in turns.around] if compiler else turns.around
    failed = compiler.disable(uneven.failed) if compiler else uneven.failed

    def forward(original: Any, self: DistributedDataParallel, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() or not self.training:
            return original(self, *args, **kwargs)
        try:
            found = turns.surrounded(functools.partial(original, self), args, kwargs, around)
        except Exception:
            failed()
            raise
        communicator.comes_to("the gradients of DistributedDataParallel")  # in the backward pass
        return found

    around_pass = compiler.disable(forward, recursive=False) if compiler else forward
    wrap(DistributedDataParallel, "forward", around_pass)
