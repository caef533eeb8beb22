"""What decides how many entries the results of libraries' functions have: forms and sizes, or numbers."""

from __future__ import annotations

#: Libraries of whose functions it is known: those are listed in which numbers decide.
LIBRARIES = ("torch.", "numpy.", "einops.")
#: Whose modules make of each entry, or each sample, another.
MODULES = ("torch.nn.", "torchvision.", "timm.")
#: Python's own functions that give one number, or as many things as they are given.
OF_NUMBERS = frozenset(
    f"builtins.{name}"
    for name in (
        """abs bool divmod enumerate float int iter list len map max min pow repr reversed round sorted str sum tuple
        zip""".split()
    )
) | frozenset(
    f"random.{name}"
    for name in """betavariate expovariate gauss getrandbits normalvariate randint random randrange shuffle triangular
    uniform vonmisesvariate""".split()
)  # fmt: skip
#: They draw as many of their first argument as the others say.
OF_SAID_LENGTH = frozenset(["random.sample", "random.choices"])
#: Modules and functions all of whose arguments may be sizes.
DRAWING = ("numpy.random.", "random.")
BY_SIZES = frozenset(
    """arange empty empty_strided eye full full_like linspace logspace normal ones rand randint randn randperm range
    tril_indices triu_indices zeros""".split()
)
#: Attributes and methods of a tensor that say of which kind it is, whatever its numbers are.
OF_A_KIND = frozenset(
    "device dim dtype is_cuda is_complex is_floating_point layout ndim ndimension requires_grad".split()
)
#: Attributes and methods that say how many entries there are.
SIZES = frozenset(["shape", "size", "numel", "nelement", "__len__"])
#: Their results have as many entries as numbers say: those that are no zeros, are true, or are not equal.
BY_VALUES = frozenset(
    """argwhere bincount cartesian_prod combinations compress delete extract flatnonzero intersect1d masked_select
    nms nonzero one_hot pack_padded_sequence pad_packed_sequence repeat_interleave setdiff1d setxor1d
    sparse_coo_tensor coalesce to_sparse trim_zeros union1d unique unique_consecutive unravel_index""".split()
)
#: Entries become other entries, or are added up along a dimension: whatever else is given, no number is a size.
ALIKE_IN_FORM = frozenset(
    """abs absolute acos acosh add addcdiv addcmul addmm all amax amin any arccos arcsin arctan argmax argmin argsort
    array as_tensor asarray asin asinh astype atan atan2 atanh average baddbmm bernoulli bfloat16 bmm bool byte cat
    ceil clamp clip clone concat concatenate contiguous copy copy_ cos cosh cosine_similarity cpu cross_entropy cuda
    cumprod cumsum detach div divide dot double dropout einsum embedding eq equal erf exp expand_as expm1 fill
    flatten flip float float16 float32 float64 floor floor_divide fmod from_numpy gather ge gelu glu greater gt half
    hstack index_fill index_select item int int32 int64 isclose isfinite isinf isnan kl_div l1_loss le leaky_relu
    lerp less linear log log_softmax logical_and logical_not logical_or logical_xor logsumexp long lt masked_fill
    matmul max maximum mean median min minimum mm mse_loss mul multiply nan_to_num ne neg negative nll_loss norm
    normalize not_equal numpy outer permute pin_memory pow prod put_along_axis ravel real reciprocal relu remainder
    reshape_as roll round rsqrt scatter scatter_add short sigmoid sign silu sin sinh softmax softplus sort sqrt
    square squeeze stack std sub subtract sum swapaxes t take_along_dim tan tanh tensor tolist to transpose tril
    triu true_divide type type_as uniform unsqueeze var view_as vstack where zero""".split()
)  # fmt: skip
#: They take a list of things that are equally long.
OF_EQUAL_LENGTH = frozenset(["array", "as_tensor", "asarray", "stack", "tensor"])
#: They give truths, with which some entries can be picked out.
TRUTHS = frozenset(
    """bernoulli bool byte eq equal ge greater gt isclose isfinite isin isinf isnan le less logical_and logical_not
    logical_or logical_xor lt ne not_equal""".split()
)
#: As which they are spelled where a kind is asked for.
TRUE_OR_FALSE = frozenset(["torch.bool", "torch.uint8", "numpy.bool_", "numpy.uint8", "builtins.bool"])
