"""Functions of torch and NumPy that make tensors."""

from __future__ import annotations

MEAN = "torch.mean"
ZEROS = ("torch.zeros", "numpy.zeros")
#: Of sizes, without a draw.
FILLED = frozenset(
    f"{library}.{name}" for library in ("torch", "numpy") for name in "zeros ones full empty arange".split()
)
#: Of sizes, by the last part of their names.
OF_SIZES = frozenset("zeros ones full empty rand randn randint arange eye normal randperm permutation".split())
_ARRAYS = ("torch", "numpy", "numpy.random")


def makes_by_sizes(name: str) -> bool:
    """Whether it makes a tensor with as many entries as it is told."""
    library, _, own = name.rpartition(".")
    return library in _ARRAYS and own in OF_SIZES
