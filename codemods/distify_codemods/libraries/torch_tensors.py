"""Functions of torch and NumPy that make tensors."""

from __future__ import annotations

TENSOR = "torch.Tensor"
CLASSES = frozenset({TENSOR, "torch.autograd.Variable", "numpy.ndarray"})
MEAN = "torch.mean"
#: Whether something is one.
IS_ONE = "torch.is_tensor"
#: Methods that arrays and tensors have, and no text or path.
OF_ARRAYS = frozenset(
    "astype contiguous cpu cuda detach double flatten float half long numpy permute ravel reshape squeeze "
    "unsqueeze".split()
)
#: Dtypes of masks.
BOOL = frozenset({"torch.bool", "builtins.bool", "numpy.bool_"})
#: What makes one, by its name.
MASKS = frozenset({"bool", "BoolTensor"})
#: What says how many dimensions a tensor has, or is as long as that.
TELL_DIMENSIONS = frozenset("dim ndim ndimension shape size".split())
#: Given nothing else, all dimensions of one entry go.
SQUEEZES = frozenset({"torch.squeeze", "numpy.squeeze"})
ZEROS = ("torch.zeros", "numpy.zeros")
#: Of sizes, by the last part of their names.
OF_SIZES = frozenset("zeros ones full empty rand randn randint arange eye normal randperm permutation".split())
#: Methods that make another tensor, and those that give theirs back, or a copy of it.
NEW_METHODS = frozenset("new_zeros new_ones new_full new_empty new_tensor clone".split())
SAME_OR_COPIED = frozenset(
    "float double half bfloat16 long int short byte bool to type type_as cuda cpu contiguous requires_grad_".split()
)
#: What a tensor has that nothing made of it has.
OF_ITSELF = frozenset("grad grad_fn is_leaf requires_grad retains_grad".split())
#: Numbers that functions and methods of tensors are told, under these names, and that modules have as attributes.
SETTINGS = frozenset(
    """alpha beta value lambd negative_slope p q eps margin delta threshold min max tau temperature gamma scale
    label_smoothing""".split()
)
_COMPUTING = ("torch.", "numpy.", "math.")
#: Of those, what deals out samples, or reads what may be anything.
_READING = ("torch.utils.data.", "torch.load", "torch.hub", "torch.jit.")
_ARRAYS = ("torch", "numpy", "numpy.random")


def makes_by_sizes(name: str) -> bool:
    """Whether it makes a tensor with as many entries as it is told."""
    library, _, own = name.rpartition(".")
    return library in _ARRAYS and own in OF_SIZES


def makes_like(name: str) -> bool:
    """Whether it makes a tensor of the same sizes as another one."""
    library, _, own = name.rpartition(".")
    return library in _ARRAYS and own.endswith("_like") and own.removesuffix("_like") in OF_SIZES


def unbound(name: str) -> str:
    """`zero_` of `torch.Tensor.zero_`; nothing for what is no method."""
    owner, _, method = name.rpartition(".")
    return method if owner in CLASSES else ""


def computes(name: str) -> bool:
    """Whether a function is one of tensors and numbers."""
    return name.startswith(_COMPUTING) and not name.startswith(_READING)
