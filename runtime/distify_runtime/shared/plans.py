"""How the calls of a model are shared: what of the arguments is the batch, and how outputs come together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from distify_runtime import communicator
from distify_runtime.shared import operations
from distify_runtime.shared.layouts import Layout, Rows, Weighted
from distify_runtime.shared.messages import RanksParted, What, exchange
from distify_runtime.shared.region import Region
from distify_runtime.shared.structure import Unknown, rebuilt, tensors_in


@dataclass(frozen=True)
class Call:
    """A call of a model: its arguments, and their form, which is what a plan is for."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: list[Tensor]
    trains: bool  # gradients are wanted, of a model in training
    form: Any

    @classmethod
    def of(
        cls, model: nn.Module, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call | str:
        """Or why there is nothing that could be split."""
        try:
            tensors = tensors_in((args, kwargs))
        except Unknown as unknown:
            return f"it is given {unknown}, of which no part can be taken"
        if not any(one.dim() > 0 for one in tensors):
            return "it is given no tensor that a batch could be in"
        trains = torch.is_grad_enabled() and model.training
        hooks = sum(len(part._forward_hooks) for part in model.modules())  # which may keep what they see
        words = (_form((args, kwargs)), tuple(map(_kind, tensors)), model.training, torch.is_grad_enabled(), hooks)
        name = getattr(getattr(function, "func", function), "__name__", "")
        return cls(function, args, kwargs, tensors, trains, (name, *words))

    def cut_off(self) -> Call:
        """The same call, of copies of its arguments that gradients flow to and no further."""
        tensors = [one.detach().clone().requires_grad_(one.requires_grad) for one in self.tensors]
        args, kwargs = rebuilt((self.args, self.kwargs), iter(tensors))
        return replace(self, args=args, kwargs=kwargs, tensors=tensors)

    def repeated(self) -> tuple[Any, bool]:
        """What the call gives, and whether it has written into its arguments; these stay as they are."""
        given = [one.clone() for one in self.tensors]
        before = [one._version for one in given]
        args, kwargs = rebuilt((self.args, self.kwargs), iter(given))
        found = self.function(*args, **kwargs)
        return found, any(one._version != version for one, version in zip(given, before, strict=True))

    @property
    def form_hash(self) -> int:
        """The same on all ranks, whatever their hash seed."""
        text = repr(self.form).encode()
        return int.from_bytes(text, "little") % (2**61 - 1)


def _kind(tensor: Tensor) -> tuple[int, str, bool]:
    return tensor.dim(), str(tensor.dtype), tensor.requires_grad


def _form(value: Any) -> str:
    """The structure, and what switches branches: flags and words, but no numbers."""
    if isinstance(value, bool | str | type(None)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_form(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "[" + ",".join(map(_form, value)) + "]"
    return type(value).__qualname__


@dataclass(frozen=True)
class Batch:
    """Where the batch is in the arguments: the dimension of each tensor that has one, by the tensor's index."""

    dims: dict[int, int]

    def samples(self, tensors: Sequence[Tensor]) -> int:
        index, dim = next(iter(self.dims.items()))
        return tensors[index].shape[dim]

    def layouts(self, counts: tuple[int, ...]) -> dict[int, Layout]:
        return {index: Rows(dim, counts) for index, dim in self.dims.items()}


def batches(tensors: Sequence[Tensor]) -> Iterator[Batch]:
    """What the batch could be, the likeliest first: a dimension of the first tensor, and what has its size."""
    given: list[dict[int, int]] = []
    first = next(index for index, one in enumerate(tensors) if one.dim() > 0)
    for dim in range(min(2, tensors[first].dim())):
        size = tensors[first].shape[dim]
        for order in ((dim, 1 - dim), (1 - dim, dim), ()):
            dims = {first: dim}
            for index, one in enumerate(tensors):
                found = [at for at in order if at < one.dim() and one.shape[at] == size]
                if index != first and found:
                    dims[index] = found[0]
            if dims not in given and size > 1:
                given.append(dims)
                yield Batch(dims)


@dataclass(frozen=True)
class Output:
    """How one tensor of the outputs comes together: `dim` holds the batch, or (-1) each rank has a value to be added
    up with its `weight`, or (-2) all ranks have the same one, without a gradient."""

    dim: int
    steps_first: bool = False  # a dimension of (steps, samples) in one, not (samples, steps)
    ragged: bool = False  # how much a rank has does not follow from its number of samples
    weight: str = "mean"  # or "sum"

    def layout(self, counts: tuple[int, ...], mine: Tensor) -> Layout | None:
        """`mine`: this rank's part."""
        if self.dim == -2:
            return None
        if self.dim == -1:
            total = sum(counts)
            return Weighted(tuple(count / total if self.weight == "mean" else 1.0 for count in counts))
        own = counts[communicator.rank()]
        return Rows(self.dim, counts, mine.shape[self.dim] // own if self.steps_first else 1)


@dataclass
class Plan:
    """`seen`: whether a check has had outputs to compare that differ from each other at all."""

    batch: Batch
    outputs: list[Output]
    exact_losses: bool = False
    seen: bool = False
    sizes: tuple[tuple[str, str], ...] = ()  # attributes that count samples: a module's name, and the attribute's

    def gathered(self, region: Region, found: Sequence[Tensor]) -> list[Tensor]:
        """The whole tensors. A collective."""
        if len(found) != len(self.outputs):
            raise RanksParted(
                f"distify: {region.tag} have {len(found)} tensors, and had {len(self.outputs)} when they were checked"
            )
        layouts = [output.layout(region.counts, one) for output, one in zip(self.outputs, found, strict=True)]
        for index, lengths in self._ragged(region, found):
            layouts[index] = Rows(self.outputs[index].dim, lengths)
        sent = [index for index, layout in enumerate(layouts) if layout is not None]
        whole: list[Tensor] = list(found)
        if sent:
            there = [layout for layout in layouts if layout is not None]
            for index, one in zip(
                sent,
                operations.gather(region.tag, there, [found[index] for index in sent], region.anchors),
                strict=True,
            ):
                whole[index] = one
        return whole

    def _ragged(self, region: Region, found: Sequence[Tensor]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """How long each rank's part of an output is, where its number of samples does not tell. A collective then."""
        ragged = [index for index, output in enumerate(self.outputs) if output.ragged]
        if not ragged:
            return
        mine = torch.tensor([found[index].shape[self.outputs[index].dim] for index in ragged])
        tag = region.tag.of(What.LENGTHS)
        (everyone,) = exchange(tag, [mine], [[mine.shape] * len(region.counts)]).parts
        for place, index in enumerate(ragged):
            yield index, tuple(int(one[place]) for one in everyone)
