"""Parameters, and statistics that are computed over all ranks, are the same on all ranks, bit by bit."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from distify_runtime.watch import replicas
from distify_runtime.watch.verdict import of_ranks, say_once
from distify_runtime.watch.watching import Steps, Watching

#: Whole numbers of as many bytes.
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
#: Layers whose running statistics are those of all ranks, in one order on all.
_layers: list[ref[nn.Module]] = []


def of_all_ranks(layers: Iterable[nn.Module]) -> None:
    """From here on, their buffers are to be the same on all ranks after each step."""
    _layers.extend(map(ref, layers))


def look(watching: Watching, optimizer: Optimizer, steps: Steps, ends: bool = True) -> None:
    """Leave a sum of each parameter's bits for rank 0. Waits for a GPU. ends: what differs ends the run."""
    held = [one for group in optimizer.param_groups for one in group["params"]]
    layers = [layer for one in _layers if steps.number == 0 and (layer := one()) is not None]
    buffers = [one for layer in layers for one in layer.buffers(recurse=False)]
    when = f"step {steps.taken} of {type(optimizer).__name__}"

    def judge(everyone: list[Any]) -> str:
        said = _difference(everyone, held, buffers, when)
        if said and not ends:
            say_once("parameters", f"at the end of the script, {said}")
        return said if ends else ""

    watching.exchange(f"parameters/{steps.number}/{steps.taken}", [sums(held), sums(buffers)], judge)


def look_at_the_end(watching: Watching, optimizer: Optimizer, steps: Steps) -> None:
    """It is only said: a rank may have changed its own model by right, once it was trained."""
    look(watching, optimizer, steps, ends=False)


def sums(tensors: Sequence[Tensor]) -> list[int]:
    """A number of each tensor that follows from all of its bits, whatever the order in which they are added."""
    by_device: dict[torch.device, list[tuple[int, Tensor]]] = defaultdict(list)
    for index, tensor in enumerate(tensors):
        if type(tensor) in (Tensor, nn.Parameter) and tensor.layout is torch.strided and not tensor.is_meta:
            by_device[tensor.device].append((index, _summed(tensor.detach())))
    found = [0] * len(tensors)
    for parts in by_device.values():
        for (index, _), total in zip(parts, torch.stack([one for _, one in parts]).tolist(), strict=True):
            found[index] = total
    return found


def _summed(tensor: Tensor) -> Tensor:
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return real.contiguous().view(-1).view(_WORDS[real.element_size()]).sum(dtype=torch.int64)


def _difference(everyone: list[Any], held: Sequence[Tensor], buffers: Sequence[Tensor], when: str) -> str:
    counts = [len(one) for one, _ in everyone]
    if len(set(counts)) > 1:
        other = next(rank for rank, count in enumerate(counts) if count != counts[0])
        held_by = f"rank 0 holds {counts[0]} tensors, rank {other} {counts[other]}"
        return f"the ranks train different models: at {when} {held_by}"
    for which, tensors in enumerate((held, buffers)):
        mine = everyone[0][which]
        parted = [index for index, own in enumerate(mine) if any(one[which][index] != own for one in everyone)]
        for index in parted:
            if what := _what(tensors, tensors[index], buffer=bool(which)):
                ranks = [rank for rank, one in enumerate(everyone) if one[which][index] != mine[index]]
                more = f" and {len(parted) - 1} more" if len(parted) > 1 else ""
                return (
                    f"the ranks have come apart: after {when}, {what}{more} of {of_ranks(ranks)} "
                    f"{'is' if len(ranks) == 1 else 'are'} not rank 0's. {_why(tensors[index])}"
                )
    return ""


def _what(tensors: Sequence[Tensor], tensor: Tensor, buffer: bool) -> str:
    """What it is called; empty for what is no module's, such as an input that is optimised, unless it is trained with a
    module's parameters."""
    if name := _name(tensor, buffer):
        return f"{'running statistic' if buffer else 'parameter'} `{name}`"
    mixed = any(_name(one, buffer) for one in tensors if one is not tensor)
    return f"a trained tensor of shape {tuple(tensor.shape)}, which is of no module," if mixed else ""


def _why(tensor: Tensor) -> str:
    if isinstance(tensor, nn.Parameter) and replicas.exist() and not replicas.averages(tensor):
        return (
            "Its gradient is not averaged: it was not there, or frozen, when the model was wrapped, or is of a model "
            "that nothing wraps"
        )
    return "Something changes it on each rank otherwise, or its gradients are not averaged"


def _name(tensor: Tensor, buffer: bool) -> str:
    """Its name in the largest module that has it; empty for what is no module's."""
    names = []
    for module in [one for one in gc.get_objects() if issubclass(type(one), nn.Module)]:
        named = module.named_buffers() if buffer else module.named_parameters()
        names += [name for name, one in named if one is tensor]
    return max(names, key=len, default="").removeprefix("module.")
