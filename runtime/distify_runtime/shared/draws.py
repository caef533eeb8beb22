"""Random numbers while parts and the whole are compared: what is drawn for a batch is one row for all of its samples.

So a rank that draws for its part gets what it would get of the whole. Seen below autograd, whatever function draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_FILLS = frozenset("bernoulli_ uniform_ normal_ exponential_ random_ log_normal_ geometric_ cauchy_".split())
_MAKES = frozenset(
    "bernoulli rand randn rand_like randn_like randint randint_like normal multinomial poisson binomial".split()
)
#: Where the probability of a dropout stands among the arguments of fused kernels that draw by themselves.
_DROPOUTS = {
    "_scaled_dot_product_flash_attention": 3,
    "_scaled_dot_product_flash_attention_for_cpu": 3,
    "_scaled_dot_product_efficient_attention": 5,
    "_scaled_dot_product_cudnn_attention": 5,
    "_cudnn_rnn": 12,
}


class OneRow(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """`drew`: whether anything was drawn. The n-th draw gives the same numbers in each of these modes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.drew = False
        self._draws = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func._schema.name.partition("::")[2]
        if name in _FILLS:
            row = args[0][:1] if args[0].dim() else args[0]
            with self._seeded():
                drawn = func(torch.empty_like(row), *map(_first, args[1:]), **_without_generator(kwargs))
            return args[0].copy_(drawn)
        if name in _MAKES:
            return self._made(func, args, _without_generator(kwargs))
        if name == "native_dropout":
            return self._dropout(*args)
        if name in _DROPOUTS:
            at = _DROPOUTS[name]
            args = (*args[:at], 0.0, *args[at + 1 :]) if len(args) > at else args
        return func(*args, **kwargs)

    def _made(self, func: Any, args: Any, kwargs: Any) -> Any:
        with self._seeded():
            whole: Tensor = func(*args, **kwargs)
        with self._seeded(again=True):
            row: Tensor = func(*map(_first, args), **kwargs)
        return row.expand_as(whole).clone() if row.shape[1:] == whole.shape[1:] else whole

    def _dropout(self, input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
        if train is False or p == 0:
            return input.clone(), torch.ones_like(input, dtype=torch.bool)
        with self._seeded():
            kept = torch.empty_like(input[:1] if input.dim() else input).bernoulli_(1 - p)
        scale = 1 / (1 - p) if p < 1 else 0.0
        return input * kept * scale, kept.expand_as(input).bool()

    @contextmanager
    def _seeded(self, again: bool = False) -> Iterator[None]:
        self.drew = True
        self._draws += not again
        devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(self._draws)
            yield


def _first(argument: Any) -> Any:
    """Of what is drawn for a batch, what asks for one row."""
    if isinstance(argument, Tensor):
        return argument[:1] if argument.dim() else argument
    if isinstance(argument, (list, torch.Size)) and len(argument) > 0:
        return [1, *argument[1:]]
    return argument


def _without_generator(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: None if name == "generator" else one for name, one in kwargs.items()}
