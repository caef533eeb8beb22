"""What writes into a tensor or array that is there already, beside what else is in it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

#: Methods of tensors.
METHODS = frozenset(
    """add_ sub_ subtract_ mul_ multiply_ div_ divide_ lerp_ addcmul_ addcdiv_ addmm_ addmv_ addr_ addbmm_ baddbmm_
    index_add_ index_copy_ index_fill_ index_put_ index_reduce_ scatter_ scatter_add_ scatter_reduce_ put_ masked_fill_
    masked_scatter_""".split()
)
#: Those that write all of its entries anew, whatever was there.
OVERWRITING = frozenset(
    """zero_ fill_ copy_ normal_ uniform_ random_ bernoulli_ exponential_ geometric_ log_normal_ cauchy_""".split()
)
#: Those that give it another size.
RESIZING = frozenset("resize_ resize_as_".split())
#: Methods that show all entries of a tensor, in the same memory.
WHOLE_VIEWS = frozenset("view detach".split())
#: Those that give a tensor other dimensions.
RESHAPING = frozenset(
    "squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_ resize_ resize_as_ set_ as_strided_".split()
)
#: Functions that put something into a list, by its order.
OF_LISTS = frozenset(
    [
        "heapq.heappush",
        "heapq.heappushpop",
        "heapq.heapreplace",
        *(f"bisect.insort{end}" for end in ("", "_left", "_right")),
    ]
)
#: Methods of builtins by which something is put into what they are given first, with how many arguments they then take.
UNBOUND = {
    **{f"builtins.{name}": 2 for name in ("list.append", "list.extend", "set.add", "set.update", "dict.update")},
    **{f"builtins.{name}": 3 for name in ("list.insert", "list.__setitem__", "dict.__setitem__", "dict.setdefault")},
    **{f"collections.deque.{name}": 2 for name in ("append", "appendleft", "extend")},
    "operator.setitem": 3,
}
#: What adds to entries of an array or tensor, each as often as it is named.
ADDS = frozenset({"numpy.add.at", "index_add_", "scatter_add_"})
#: Methods of arrays.
OF_ARRAYS = frozenset("fill put itemset".split())
#: Methods of arrays and lists that put their entries into another order, and what does so with its first argument.
REORDERING = frozenset("sort partition reverse".split())
SHUFFLING = ("shuffle", "random.shuffle", "numpy.random.shuffle")
_WRITING = frozenset(f"numpy.{name}" for name in "put place putmask copyto put_along_axis fill_diagonal".split())
#: Functions of NumPy that may be told by place where to write, by how many arrays come before that.
_INTO_THE_NEXT = {
    **dict.fromkeys(
        """add subtract multiply divide true_divide floor_divide power float_power mod remainder fmod maximum minimum
        fmax fmin logaddexp arctan2 hypot logical_and logical_or bitwise_and bitwise_or""".split(),
        2,
    ),
    **dict.fromkeys("negative absolute abs sign exp log sqrt square reciprocal tanh".split(), 1),
    "clip": 3,
}

#: Libraries whose tables have views that are written into: `frame.loc[rows, "loss"] = losses`.
_OF_TABLES = ("pandas.", "polars.", "xarray.", "h5py.", "zarr.")


def is_a_table(name: str) -> bool:
    """What a call of such a library has made."""
    return name.startswith(_OF_TABLES)


def is_of_arrays(name: str) -> bool:
    """A function of NumPy that writes into its first argument: `numpy.add.at(counts, labels, 1)`."""
    return name in _WRITING or (name.startswith("numpy.") and name.endswith(".at"))


def written_by(name: str, call: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The tensors and arrays that a call of a function writes into, as the call has them: `torch.add(a, b, out=sums)`.

    name: the function's name in full.
    """
    if isinstance(call, cst.Call):
        yield from (one.value for one in call.args if one.keyword is not None and one.keyword.value == "out")
        if call.args and is_of_arrays(name):
            yield call.args[0].value
        if call.args and ((name.endswith("_") and name.startswith("torch.")) or _is_told(call)):
            yield call.args[0].value
        place = _INTO_THE_NEXT.get(name.removeprefix("numpy."), 0) if name.startswith("numpy.") else 0
        if 0 < place < len(call.args) and call.args[place].keyword is None and not call.args[place].star:
            yield call.args[place].value


def _is_told(call: cst.Call) -> bool:
    """`relu(x, inplace=True)`"""
    told = (one.value for one in call.args if one.keyword is not None and one.keyword.value == "inplace")
    return any(not (isinstance(one, cst.Name) and one.value == "False") for one in told)


#: Methods of tensors and arrays whose result lies in the same memory, or may.
VIEWS = frozenset(
    """numpy view view_as reshape flatten ravel squeeze unsqueeze t transpose permute narrow select detach cpu
    contiguous expand share_memory_""".split()
)
#: Those that give several such, and where they are told along which dimension, behind the tensor.
PIECES = {"chunk": 1, "split": 1, "tensor_split": 1, "array_split": 1, "unbind": 0, "vsplit": 9}
#: Functions and methods of torch and NumPy whose result lies in the memory of what they are given, or may, beside
#: those that end with an underscore.
_SHOWING = VIEWS | PIECES.keys() | frozenset(
    """H T mT adjoint align_to array_split as_strided as_tensor asanyarray asarray ascontiguousarray atleast_1d
    atleast_2d atleast_3d bfloat16 bool broadcast_arrays broadcast_tensors broadcast_to byte char conj cuda diag
    diagonal double dropout alpha_dropout feature_dropout feature_alpha_dropout dropout1d dropout2d dropout3d dsplit
    expand_as expand_dims flip fliplr flipud float from_dlpack from_numpy half hsplit imag int long mT moveaxis movedim
    positive real requires_grad_ reshape_as resolve_conj resolve_neg rollaxis rot90 short split_with_sizes
    swapaxes swapdims to type type_as unflatten unfold unsafe_chunk unsafe_split values view_as_complex
    view_as_real vsplit __getitem__""".split()
)  # fmt: skip


def may_show(name: str, call: cst.CSTNode) -> bool:
    """Whether what a function or method of that name, without its modules, returns may lie in the same memory."""
    words = {one.keyword.value for one in call.args if one.keyword is not None} if isinstance(call, cst.Call) else set()
    return name in _SHOWING or name.endswith("_") or not words.isdisjoint(("inplace", "out", "copy"))
