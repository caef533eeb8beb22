"""What ranks deal out from has to be one data set: where it is drawn, or split, without a common seed, it is not."""

from __future__ import annotations

import os
import zlib
from array import array
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Subset, TensorDataset

from distify_runtime.watch.verdict import of_ranks

#: Rows of a tensor that are looked at.
_ROWS = 16
#: By what part sums of rows may differ: what each GPU computes is rounded otherwise.
_ROUNDING = 1e-2
#: Entries of a list of names that are looked at.
_ENTRIES = 100_000


def fingerprint(dataset: Any) -> list[list[Any]]:
    """Checksums of splits, sums of some rows of each tensor, and checksums of lists of names, such as of files: no
    sample is loaded. Empty for other data sets."""
    splits: list[int] = []
    while type(dataset) is Subset:
        splits.append(zlib.crc32(array("q", map(int, dataset.indices)).tobytes()))
        dataset = dataset.dataset
    tensors = dataset.tensors if type(dataset) is TensorDataset else ()
    sums = [_sums(one) for one in tensors if type(one) is Tensor and not one.is_complex()]
    lists = [[name, checksum] for name, checksum in _lists(dataset)]
    return [splits, sums, lists] if splits or sums or lists else []


def _lists(dataset: Any) -> Iterator[tuple[str, int]]:
    """What a data set names each of its samples by. In which folder, each machine says for itself."""
    for name, value in sorted(vars(dataset).items() if hasattr(dataset, "__dict__") else ()):
        if type(value) in (list, tuple) and len(value) == len(dataset):
            told = [_named(one) for one in value[:_ENTRIES]]
            if any(told):
                yield name, zlib.crc32("\n".join(told).encode(errors="surrogateescape"))


def _named(entry: Any) -> str:
    """The file that an entry names, and the class beside it; empty for anything else."""
    if isinstance(entry, str | os.PathLike):
        return os.path.basename(str(entry))
    if type(entry) in (list, tuple) and entry and isinstance(entry[0], str | os.PathLike):
        return " ".join(_named(one) if isinstance(one, str | os.PathLike) else str(one)
                        for one in entry if isinstance(one, str | os.PathLike | int))  # fmt: skip
    return ""


def _sums(tensor: Tensor) -> list[float]:
    rows = torch.linspace(0, max(len(tensor) - 1, 0), min(_ROWS, len(tensor)), device="cpu").long()
    held: list[float] = tensor.detach()[rows.to(tensor.device)].reshape(len(rows), -1).double().sum(1).tolist()
    return held


def judged(everyone: list[Any]) -> str:
    splits, sums, lists = ([one[part] if one else [] for one in everyone] for part in (0, 1, 2))
    if parted := [rank for rank, one in enumerate(splits) if one != splits[0]]:
        return (
            f"{of_ranks(parted)} and rank 0 hold other parts of a data set each: is it split by a seed of each rank's?"
        )
    if parted := [rank for rank, one in enumerate(sums) if any(map(_are_others, sums[0], one))]:
        return f"{of_ranks(parted)} and rank 0 hold other samples each: are they drawn by a seed of each rank's?"
    for rank, one in enumerate(lists):
        others = [name for name, checksum in one if [name, checksum] not in lists[0]]
        if others and len(one) == len(lists[0]):
            return (
                f"{of_ranks([rank])} and rank 0 list other samples each, in `{others[0]}`: is there a folder that each "
                "lists in an order of its own? Sort what is listed"
            )
    return ""


def _are_others(mine: list[float], others: list[float]) -> bool:
    """Whether most of the rows are."""
    apart = [abs(a - b) > _ROUNDING * max(1.0, abs(a)) for a, b in zip(mine, others, strict=False)]
    return 2 * sum(apart) > len(apart)
