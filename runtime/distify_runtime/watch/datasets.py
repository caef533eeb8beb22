"""What ranks deal out from has to be one data set: where it is drawn, or split, without a common seed, it is not."""

from __future__ import annotations

import sys
import zlib
from array import array
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Subset, TensorDataset

from distify_runtime.watch.verdict import of_ranks

#: Rows of a tensor that are looked at.
_ROWS = 16
#: Kinds of numbers that are looked at.
_KNOWN = frozenset("float16 float32 float64 int8 int16 int32 int64 uint8 bool".split())
#: By what part sums of rows may differ: what each GPU computes is rounded otherwise.
_ROUNDING = 1e-2


def fingerprint(dataset: Any) -> list[Any]:
    """Checksums of splits, and by name sums of some rows of what holds the samples, of which none is loaded.

    Empty where nothing is seen.
    """
    splits: list[int] = []
    while type(dataset) is Subset:
        splits.append(zlib.crc32(array("q", map(int, dataset.indices)).tobytes()))
        dataset = dataset.dataset
    sums = {name: _sums(one) for name, one in _held(dataset).items() if not one.is_complex()}
    return [splits, sums] if splits or sums else []


def _held(dataset: Any) -> dict[str, Tensor]:
    """Tensors and arrays that have at least a row for each sample."""
    if type(dataset) is TensorDataset:
        return {str(number): one for number, one in enumerate(dataset.tensors) if type(one) is Tensor}
    try:
        fields, count = vars(dataset), len(dataset)
    except TypeError:  # it has none, or no length
        return {}
    found = {name: one if type(one) is Tensor else _of_array(one) for name, one in fields.items()}
    return {name: one for name, one in found.items() if one is not None and one.ndim and len(one) >= count > 1}


def _of_array(value: Any) -> Tensor | None:
    """A view of an array of NumPy's with numbers that torch knows; None for anything else."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray or value.dtype.name not in _KNOWN or not value.dtype.isnative:
        return None
    forward = all(step >= 0 for step in value.strides)
    return torch.from_numpy(value) if forward and value.flags.writeable else None


def _sums(tensor: Tensor) -> list[float]:
    rows = torch.linspace(0, max(len(tensor) - 1, 0), min(_ROWS, len(tensor)), device="cpu").long()
    held: list[float] = tensor.detach()[rows.to(tensor.device)].reshape(len(rows), -1).double().sum(1).tolist()
    return held


def judged(everyone: list[Any]) -> str:
    splits = [one[0] if one else [] for one in everyone]
    sums = [one[1] if one else {} for one in everyone]
    if parted := [rank for rank, one in enumerate(splits) if one != splits[0]]:
        return (
            f"{of_ranks(parted)} and rank 0 hold other parts of a data set each: is it split by a seed of each rank's?"
        )
    known = [{name: rows for name, rows in one.items() if name in sums[0]} for one in sums]
    if parted := [rank for rank, one in enumerate(known) if any(_are_others(sums[0][name], one[name]) for name in one)]:
        return f"{of_ranks(parted)} and rank 0 hold other samples each: are they drawn by a seed of each rank's?"
    return ""


def _are_others(mine: list[float], others: list[float]) -> bool:
    """Whether most of the rows are."""
    apart = [abs(a - b) > _ROUNDING * max(1.0, abs(a)) for a, b in zip(mine, others, strict=False)]
    return 2 * sum(apart) > len(apart)
