"""What a trial is about to look up, held against the size of where it looks.

A part of the batch may be taken from what numbers point into: a graph's rows, a table. On a GPU an index past an end is
the end of the process, which a trial must not be: so it is found before the kernel runs. (What extensions look up by
kernels of their own is not seen.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from distify_runtime.shared.readings import unnoticed

_ALONG = frozenset(
    "gather index_select index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_reduce index_reduce_ "
    "scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_".split()
)
_AT = frozenset("index index_put index_put_ _index_put_impl_ _unsafe_index _unsafe_index_put".split())
_FLAT = frozenset(("take", "put", "put_"))
_TABLES = frozenset(("embedding", "_embedding_bag", "_embedding_bag_forward_only"))
_LOSSES = frozenset(("nll_loss_forward", "nll_loss2d_forward"))


def check(name: str, args: Any) -> None:
    """Raises IndexError. name: of an operator of torch, without its namespace."""
    for index, size, least in _lookups(name, args):
        if type(index) is Tensor and index.dtype in (torch.int32, torch.int64) and index.numel() and not index.is_meta:
            with unnoticed():
                low, high = (int(one) for one in torch.aminmax(index))
            if low < least or high >= size:
                raise IndexError(f"index {low if low < least else high} is out of bounds for {size} rows")


def _lookups(name: str, args: Any) -> Iterator[tuple[Any, int, int]]:
    """What an operator looks up: the numbers, how many there are to choose from, and the least number there is."""
    if name in _ALONG and args[0].dim():
        size = args[0].shape[args[1]]
        yield args[2], size, -size if name.startswith(("index_fill", "index_copy")) else 0
    elif name in _AT:
        dim = 0
        for index in args[1]:
            if index is not None and index.dtype not in (torch.bool, torch.uint8):
                yield index, args[0].shape[dim], -args[0].shape[dim]
            dim += 1 if index is None or index.dtype not in (torch.bool, torch.uint8) else index.dim()
    elif name in _FLAT:
        yield args[1], math.prod(args[0].shape), -math.prod(args[0].shape)
    elif name in _TABLES:
        yield args[1], args[0].shape[0], 0
    elif name in _LOSSES:
        classes, ignored = args[0].shape[-1 if args[0].dim() < 3 else 1], args[4]
        yield args[1][args[1] != ignored], classes, 0
