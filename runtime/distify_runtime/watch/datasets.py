"""What ranks deal out from has to be one data set: where it is drawn, or split, without a common seed, it is not."""

from __future__ import annotations

import zlib
from array import array
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Subset, TensorDataset

from distify_runtime.watch.verdict import of_ranks

#: Rows of a tensor that are looked at.
_ROWS = 16
#: By what part sums of rows may differ: what each GPU computes is rounded otherwise.
_ROUNDING = 1e-2


def fingerprint(dataset: Any) -> list[list[Any]]:
    """Checksums of splits, and sums of some rows of each tensor: no sample is loaded. Empty for other data sets."""
    splits: list[int] = []
    while type(dataset) is Subset:
        splits.append(zlib.crc32(array("q", map(int, dataset.indices)).tobytes()))
        dataset = dataset.dataset
    tensors = dataset.tensors if type(dataset) is TensorDataset else ()
    sums = [_sums(one) for one in tensors if type(one) is Tensor and not one.is_complex()]
    return [splits, sums] if splits or sums else []


def _sums(tensor: Tensor) -> list[float]:
    rows = torch.linspace(0, max(len(tensor) - 1, 0), min(_ROWS, len(tensor)), device="cpu").long()
    held: list[float] = tensor.detach()[rows.to(tensor.device)].reshape(len(rows), -1).double().sum(1).tolist()
    return held


def judged(everyone: list[Any]) -> str:
    splits, sums = ([one[part] if one else [] for one in everyone] for part in (0, 1))
    if parted := [rank for rank, one in enumerate(splits) if one != splits[0]]:
        return (
            f"{of_ranks(parted)} and rank 0 hold other parts of a data set each: is it split by a seed of each rank's?"
        )
    if parted := [rank for rank, one in enumerate(sums) if any(map(_are_others, sums[0], one))]:
        return f"{of_ranks(parted)} and rank 0 hold other samples each: are they drawn by a seed of each rank's?"
    return ""


def _are_others(mine: list[float], others: list[float]) -> bool:
    """Whether most of the rows are."""
    apart = [abs(a - b) > _ROUNDING * max(1.0, abs(a)) for a, b in zip(mine, others, strict=False)]
    return 2 * sum(apart) > len(apart)
