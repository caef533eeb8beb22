"""How the tensors of an output come together, found by comparing the ranks' parts of one with the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor

from distify_runtime.shared import comparing
from distify_runtime.shared.comparing import Apart, Passed, Weights
from distify_runtime.shared.entries import blank_of, owner_of
from distify_runtime.shared.layouts import Differ
from distify_runtime.shared.plans import Output
from distify_runtime.shared.shapes import shape_of


class Near(str):
    """Why there is no way, where one would do but for its last digits."""


def outputs_of(
    everyone: Sequence[list[Tensor]], whole: Passed, counts: tuple[int, ...], before: Sequence[Output], vouched: bool,
    sums: bool,
) -> list[Output] | str:  # fmt: skip
    """How each tensor comes together. everyone: each rank's parts.

    before: as they did, if that is known. vouched: whether gradients have shown of such calls what parts count for.
    sums: over the ranks, were made of the parts: then each may give what the whole batch does.
    """
    if any(len(one) != len(whole.tensors) for one in everyone):
        return "a part of the batch gives other outputs than the whole one"
    found: list[Output] = []
    for index, (one, flowing) in enumerate(zip(whole.tensors, whole.flows, strict=True)):
        mine = [parts[index].to(one.device) for parts in everyone]
        output = output_of(mine, one, flowing, counts, whole.precision)
        if isinstance(output, str):
            return output
        if output.dim == -1 and not flowing:  # gradients of other outputs say nothing of this one
            is_known = not any(whole.flows) and vouched
            is_known = is_known or (len(before) == len(whole.tensors) and before[index].dim == -1)
            if why := _unproven(output, mine, one, counts, whole.precision, is_known):
                return why
        found.append(replace(output, guessed=output.dim == -1 and not flowing))
    if not sums and whole.differs and all(output.dim < 0 for output in found) and _is_idle(everyone, whole):
        return "what would be split of its arguments has no part in what it gives"  # in this call: in others it may
    return found


def _is_idle(everyone: Sequence[list[Tensor]], whole: Passed) -> bool:
    """Whether every rank's part gives all that the whole batch gives."""
    return all(
        comparing.is_equal(part.to(one.device), one, precision=whole.precision)
        for parts in everyone
        for part, one in zip(parts, whole.tensors, strict=True)
    )


def output_of(
    parts: Sequence[Tensor], whole: Tensor, flows: bool, counts: tuple[int, ...], precision: torch.dtype | None = None
) -> Output | str:
    """parts: each rank's tensor; flows: whether gradients flow to it. Or why there is no way: it speaks to the user."""
    if (entry := _entry_of(parts, whole, counts, precision)) is not None:
        return entry
    is_known = is_near = False
    for restored in _restored(parts, whole, counts):
        for output in _options([tuple(part.shape) for part in restored], whole, flows, counts):
            is_known = True
            with suppress(Differ):
                joined = output.layout(counts, [shape_of(part) for part in restored]).join(restored)
                if comparing.is_equal(joined, whole, precision=precision):
                    return output
                is_near = is_near or comparing.is_near(joined, whole)
    if not is_known:
        shapes = ", ".join(str(tuple(part.shape)) for part in parts)
        told = f"a part of the batch gives shapes {shapes}, the whole one {tuple(whole.shape)}"
        return f"its outputs do not follow the batch: {told}"
    return Apart(comparing.OTHER_VALUES) if is_near else comparing.OTHER_VALUES


def _unproven(
    output: Output,
    parts: Sequence[Tensor],
    whole: Tensor,
    counts: tuple[int, ...],
    precision: torch.dtype | None,
    is_known: bool,
) -> str:
    """What speaks against a mean or sum of the parts that there are no gradients of: one number may be near by chance.

    is_known: whether it has been shown before, so that parts which tell nothing do not speak against it.
    """
    if not whole.dtype.is_floating_point:
        return ""
    joined = output.layout(counts, [shape_of(part) for part in parts]).join(parts)
    found = comparing.weights(parts, joined, whole, precision)
    if found is Weights.OTHERS:
        return Near(f"the {output.weight} of what its parts give is near to what the whole one gives, and is not it")
    if found is Weights.UNSEEN and output.weight == "mean" and not is_known:
        return Near("what it gives for parts is too much alike to tell whether their mean is that of the whole one")
    return ""


def _entry_of(
    parts: Sequence[Tensor], whole: Tensor, counts: tuple[int, ...], precision: torch.dtype | None
) -> Output | None:
    """One of a list of samples, which one rank has."""
    numbers = {part.shape[1] for part in parts if part.dim() == 2 and len(part) == 0}
    for number in sorted(one for one in numbers if one < sum(counts)):
        owner, blank = owner_of(number, counts), blank_of(number)
        others = [tuple(part.shape) for rank, part in enumerate(parts) if rank != owner]
        if all(one == blank for one in others) and parts[owner].shape == whole.shape:
            is_it = comparing.is_equal(parts[owner], whole, precision=precision)
            return Output(-3, whole.dim(), entry=number) if is_it else None
    return None


def _restored(parts: Sequence[Tensor], whole: Tensor, counts: tuple[int, ...]) -> Iterator[Sequence[Tensor]]:
    """The parts with the dimension that `squeeze` may have taken from those of one sample, wherever it was."""
    if all(part.dim() == whole.dim() for part in parts):
        yield parts
        return
    for dim in (dim for dim, size in enumerate(whole.shape) if size == sum(counts)):
        output = Output(dim, whole.dim())
        yield [output.restored(part, samples) for part, samples in zip(parts, counts, strict=True)]


def _options(
    shapes: Sequence[tuple[int, ...]], whole: Tensor, flows: bool, counts: tuple[int, ...]
) -> Iterator[Output]:
    if any(len(shape) != whole.dim() for shape in shapes):
        return
    dims = [dim for dim in range(whole.dim()) if any(shape[dim] != whole.shape[dim] for shape in shapes)]
    if not dims:
        if not flows:
            yield Output(-2)
        if whole.dtype.is_floating_point or whole.dtype.is_complex:
            yield Output(-1)
        yield Output(-1, weight="sum")
    elif len(dims) == 1 and sum(shape[dims[0]] for shape in shapes) == whole.shape[dims[0]]:
        (dim,) = dims
        per_sample, rest = divmod(whole.shape[dim], sum(counts))
        if rest == 0 and all(shape[dim] == per_sample * count for shape, count in zip(shapes, counts, strict=True)):
            yield Output(dim, whole.dim())
            if per_sample > 1:
                yield Output(dim, whole.dim(), steps_first=True)
        else:
            yield Output(dim, whole.dim(), ragged=True)
