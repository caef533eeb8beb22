"""Synchronous SGD written out, for models that nothing wraps: weights sent, gradients averaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from distify_runtime import communicator
from distify_runtime.environment import is_alone, world_size
from distify_runtime.meeting import collective
from distify_runtime.members import modules_of, tensors_of
from distify_runtime.output import stop
from distify_runtime.overlap import CHANGED, SPARSE, agreed, dense_gradient, held_of, reducer_of
from distify_runtime.sparse import kept_in
from distify_runtime.watch import course, turns

#: Bytes that travel in one collective, as in DistributedDataParallel.
BUCKET_BYTES = 25 * 2**20


@collective
def broadcast_parameters(*of: Any) -> None:
    """Put rank 0's parameters and buffers on every rank. A collective, to be called once before training.

    of: modules, optimizers (their parameters), parameters, None, and lists and dictionaries of these.
    Raises SystemExit on all ranks where they hold other parameters than rank 0's.
    """
    if is_alone():
        return
    turns.notice_models(modules_of(of))
    tensors = [*tensors_of(of), *(buffer for module in modules_of(of) for buffer in module.buffers())]
    if any(is_lazy(tensor) for tensor in tensors):
        stop("a lazy module has no parameters yet: run one forward pass before broadcast_parameters")
    parts = [part for tensor in _distinct(tensors) for part in kept_in(tensor.detach())]  # a graph is sparse, maybe
    _check_alike(parts)
    _in_buckets(parts, communicator.broadcast)


@collective
def all_reduce_gradients(*of: Any) -> None:
    """Average the gradients over the ranks, in place. A collective, free in a world of one.

    of: as for `broadcast_parameters`. Gradients that are averaged already stay as they are, and the mean of a sum is
    the sum of the means: called after more backward passes, or again, it is right. A rank that has no gradient of a
    parameter counts as zero; where no rank has one, none is made.

    From the third call for the same parameters on, gradients travel while the backward pass goes on (`overlap.py`).
    What is written to them before the call is heeded, but for what is written past torch: through `.grad.data`, or
    in numpy.
    """
    if is_alone():
        return
    parameters = _distinct(tensors_of(of))
    course.averaged(len(parameters))
    reducer = reducer_of(parameters)
    gradients = [parameter.grad for parameter in parameters]
    kinds = reducer.agree(gradients) if reducer else agreed(list(map(held_of, gradients)))
    done = reducer.write_back(parameters, kinds) if reducer else set()
    _average((one, kinds[index]) for index, one in enumerate(parameters) if index not in done)
    if reducer:
        reducer.end_round(parameters, kinds)


def average_now(parameters: Sequence[Tensor]) -> None:
    """Average their gradients over the ranks, in place, and sparse ones too. A collective, unless there are none."""
    if parameters:
        kinds = agreed([held_of(one.grad) for one in parameters])
        _average(zip(parameters, kinds, strict=True))


def _average(held: Iterable[tuple[Tensor, int]]) -> None:
    """The gradients of parameters, each with what all ranks hold of it."""
    dense: list[Tensor] = []
    for parameter, kinds in held:
        if kinds & ~CHANGED == SPARSE:
            parameter.grad = _mean_of_sparse(parameter)
        elif kinds & ~CHANGED:
            dense.append(dense_gradient(parameter))
    _in_buckets(dense, _mean)


@collective
def average_gradients(gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """The mean over the ranks of what `torch.autograd.grad` returned for the mean over a rank's share of a batch.

    A collective, and one more in the backward pass: it is differentiable, as a step inside a step needs.
    Ranks must agree which gradients there are.
    """
    if is_alone():
        return gradients
    kept: list[Tensor] = [one for one in gradients if one is not None]
    means = iter(_Mean.apply(*kept)) if kept else iter(())  # type: ignore[no-untyped-call]
    return tuple(None if one is None else next(means) for one in gradients)


class _Mean(torch.autograd.Function):
    """The mean over ranks of tensors. Each rank's loss is a part of the mean of all losses, and depends on all of them
    through it: what comes back is averaged, too, and averaging the parameters' gradients does the rest."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        return _means(tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        return tuple(_Mean.apply(*gradients))  # type: ignore[no-untyped-call]


def _means(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    copies = tuple(tensor.detach().clone() for tensor in tensors)
    _in_buckets(list(copies), _mean)
    return copies


def _distinct(tensors: Iterable[Tensor]) -> list[Tensor]:
    return list({id(tensor): tensor for tensor in tensors}.values())


def _check_alike(tensors: list[Tensor]) -> None:
    told = [(tuple(tensor.shape), str(tensor.dtype), tensor.device.type) for tensor in tensors]
    forms: list[list[tuple[Any, ...]]] = communicator.all_gather_object(told)
    if any([one[:2] for one in form] != [one[:2] for one in forms[0]] for form in forms):
        stop("the ranks built other models: they must hold the same parameters, in the same order")
    for rank, form in enumerate(forms):
        if form != forms[0]:
            mine, other = (" and ".join(sorted({one[2] for one in each})) for each in (forms[0], form))
            stop(f"rank 0 holds its model on {mine}, rank {rank} on {other}: move it on all ranks")


# ---- buckets


def _in_buckets(tensors: list[Tensor], collective: Callable[[Tensor], object]) -> None:
    """One collective for about 25 MiB of tensors of one dtype and device, instead of one for each tensor."""
    buckets: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        bucket = buckets.setdefault((tensor.dtype, tensor.device), [])
        bucket.append(tensor)
        if sum(one.numel() for one in bucket) * tensor.element_size() >= BUCKET_BYTES:
            _exchange(buckets.pop((tensor.dtype, tensor.device)), collective)
    for bucket in buckets.values():
        _exchange(bucket, collective)


@torch.no_grad()
def _exchange(bucket: list[Tensor], collective: Callable[[Tensor], object]) -> None:
    flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
    collective(flat)
    for tensor, part in zip(bucket, torch.split(flat, [tensor.numel() for tensor in bucket]), strict=True):
        tensor.copy_(part.view(tensor.shape))


def _mean(flat: Tensor) -> None:
    """Divided before it is summed, as in DistributedDataParallel: half precision has no room for the sum."""
    flat.div_(world_size())
    communicator.all_reduce(flat)


# ---- gradients


@torch.no_grad()
def _mean_of_sparse(parameter: Tensor) -> Tensor:
    """The rows that any rank has touched; ranks touch different numbers of them."""
    if parameter.grad is None:  # as sparse as an embedding's: its first dimension
        indices = torch.empty(1, 0, dtype=torch.int64, device=parameter.device)
        values = parameter.new_empty(0, *parameter.shape[1:])
    else:
        mine = parameter.grad.coalesce()
        indices, values = mine.indices(), mine.values() / world_size()
    counts = [torch.zeros(1, dtype=torch.int64, device="cpu") for _ in range(world_size())]
    communicator.all_gather(counts, torch.tensor([indices.shape[1]], device="cpu"))
    most = max(int(count) for count in counts)
    padded = (indices.new_zeros(indices.shape[0], most), values.new_zeros(most, *values.shape[1:]))
    padded[0][:, : indices.shape[1]], padded[1][: len(values)] = indices, values
    gathered = [[torch.empty_like(part) for _ in counts] for part in padded]
    for parts, part in zip(gathered, padded, strict=True):
        communicator.all_gather(parts, part)
    known = [int(count) for count in counts]
    all_indices = torch.cat([part[:, :count] for part, count in zip(gathered[0], known, strict=True)], dim=1)
    all_values = torch.cat([part[:count] for part, count in zip(gathered[1], known, strict=True)])
    return torch.sparse_coo_tensor(all_indices, all_values, parameter.shape, check_invariants=False).coalesce()
