"""Sparse tensors, whichever way they are kept: as dense ones, and as the dense ones that they are kept in."""

from __future__ import annotations

import torch
from torch import Tensor

#: What holds the places of the values, by how they are compressed: rows, or columns.
_BY_ROWS, _BY_COLUMNS = (torch.sparse_csr, torch.sparse_bsr), (torch.sparse_csc, torch.sparse_bsc)


def dense(tensor: Tensor) -> Tensor:
    """The tensor itself where it is not sparse."""
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def kept_in(tensor: Tensor) -> list[Tensor]:
    """The dense tensors in whose memory a tensor is: itself, or the places of a sparse one, and its values."""
    if tensor.is_sparse:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in _BY_ROWS:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in _BY_COLUMNS:
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor]
