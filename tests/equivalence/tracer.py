"""Runs a training script in this process and writes down what it did, for the harness beside this file.

    python tracer.py --out TRACE.pt [--order ORDER.json] SCRIPT ARGS...

The script sees `sys.argv`, `sys.path[0]` and `__name__` as if it had been started itself. Chance is taken out
only where it would hide what is compared: float64 by default, so that rounding stays far below every mistake;
functional dropout is the identity; and each rank starts from a seed of its own, as ranks do in life, so that
a script which sets no seed shows whether its ranks were made common. BatchNorm stays real.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import json
import os
import random
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils.data import RandomSampler
from torch.utils.data.distributed import DistributedSampler

FIRST_SEED = 1234
DROPOUTS = ("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")


class Record:
    """Everything that one process did; plain lists, dicts and tensors, so that it loads without this file."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, Tensor]] = []
        self.passes: list[dict[str, int]] = []
        self.saves: list[dict[str, Any]] = []
        self.world_size = 1
        self.training_inputs = 0
        self._optimizers: list[Optimizer] = []
        self._samplers: list[object] = []

    def step(self, optimizer: Optimizer) -> None:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        vector = torch.cat([parameter.detach().cpu().double().reshape(-1) for parameter in parameters])
        self.steps.append((_number(self._optimizers, optimizer), vector))

    def sampler_pass(self, sampler: DistributedSampler[Any]) -> None:
        self.passes.append(
            {
                "sampler": _number(self._samplers, sampler),
                "seed": sampler.seed,
                "epoch": sampler.epoch,
                "shuffle": int(sampler.shuffle),
                "samples": len(cast(Any, sampler.dataset)),
                "first_step": len(self.steps),
            }
        )

    def save(self, target: Any, contents: object) -> None:
        name = getattr(target, "name", target)
        if isinstance(name, (str, os.PathLike)):  # collectives of objects save into buffers in memory
            path = os.path.relpath(name)
            self.saves.append({"path": path, "contents": dict(_flatten(contents, ""))})

    def write(self, path: Path, save: Callable[[object, Path], None]) -> None:
        fields = {
            "steps": self.steps,
            "passes": self.passes,
            "saves": self.saves,
            "world_size": self.world_size,
            "training_inputs": self.training_inputs,
            "group_left_open": _is_group_open(),
        }
        save(fields, path)


def _is_group_open() -> bool:
    hvd = sys.modules.get("horovod.torch")
    return distributed.is_initialized() or (hvd is not None and hvd.is_initialized())


def _number(known: list[Any], one: object) -> int:
    """How many others were seen before this object; kept alive, so that identities are not used twice."""
    for number, other in enumerate(known):
        if other is one:
            return number
    known.append(one)
    return len(known) - 1


def _flatten(value: object, key: str) -> Iterator[tuple[str, object]]:
    """(dotted key, tensor | number | text) of everything inside a saved object."""
    if isinstance(value, nn.Module):
        yield f"{key}<{type(value).__name__}>", True
        value = value.state_dict()
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _flatten(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _flatten(item, f"{key}[{index}]")
    elif isinstance(value, Tensor):
        yield key, value.detach().cpu().clone()
    else:
        yield key, value if isinstance(value, (bool, int, float, str)) else type(value).__name__


def _wrap(owner: object, name: str, around: Callable[..., Any]) -> None:
    """Replaces a function of a module or class by `around(original, *its arguments)`."""
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(lambda *args, **kwargs: around(original, *args, **kwargs)))


def _watch_training(record: Record) -> None:
    """Steps, and the numbers that outermost modules are fed in training: who does which share of the work."""
    depth = 0

    def enter(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        nonlocal depth
        if depth == 0 and module.training and torch.is_grad_enabled():
            record.training_inputs += sum(value.numel() for value in inputs if isinstance(value, Tensor))
        depth += 1

    def leave(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        nonlocal depth
        depth -= 1

    register_module_forward_pre_hook(enter)
    register_module_forward_hook(leave, always_call=True)
    register_optimizer_step_post_hook(lambda optimizer, args, kwargs: record.step(optimizer))


def _watch_distribution(record: Record) -> None:
    def sampler_iter(original: Any, self: DistributedSampler[Any]) -> Iterator[Any]:
        if torch.is_grad_enabled():  # an evaluation's order changes nothing
            record.sampler_pass(self)
        return cast(Iterator[Any], original(self))

    def init_process_group(original: Any, *args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        record.world_size = distributed.get_world_size()

    _wrap(DistributedSampler, "__iter__", sampler_iter)
    _wrap(distributed, "init_process_group", init_process_group)
    if "HOROVOD_RANK" in os.environ:
        import horovod.torch as hvd

        def init(original: Any, *args: Any, **kwargs: Any) -> None:
            original(*args, **kwargs)
            record.world_size = hvd.size()

        _wrap(hvd, "init", init)


def _watch_saves(record: Record) -> None:
    def save(original: Any, obj: object, f: Any, *args: Any, **kwargs: Any) -> None:
        record.save(f, obj)
        original(obj, f, *args, **kwargs)

    _wrap(torch, "save", save)


def _replace_order(order: list[dict[str, int]]) -> None:
    """The k-th training pass over a RandomSampler follows the recorded seed and epoch.

    A pass that is not in eval mode by `no_grad` around its loop is told from training by its number of samples.

    The sampler's own draw from the global stream still takes place, so that the script's random numbers stay
    what they were. A pass beyond the recorded ones keeps its own order: the number of steps then tells.
    """
    remaining = list(order)

    def sampler_iter(original: Any, self: RandomSampler) -> Iterator[int]:
        own = list(original(self))
        follows = bool(remaining) and remaining[0]["samples"] == len(cast(Any, self.data_source))
        if not follows or not torch.is_grad_enabled() or self.replacement:
            return iter(own)
        one = remaining.pop(0)
        sampler: DistributedSampler[Any] = DistributedSampler(
            cast(Any, self.data_source), num_replicas=1, rank=0, seed=one["seed"]
        )
        sampler.set_epoch(one["epoch"])
        return iter(sampler)

    _wrap(RandomSampler, "__iter__", sampler_iter)


def _without_dropout() -> None:
    def identity(original: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return input

    for name in DROPOUTS:
        _wrap(functional, name, identity)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--order", type=Path)
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()

    record = Record()
    # Registered before anything of the script's, hence called last: the teardown is part of the record.
    atexit.register(record.write, options.out.resolve(), torch.save)
    _watch_training(record)
    _watch_saves(record)
    if options.order is None:
        _watch_distribution(record)
    else:
        _replace_order(json.loads(options.order.read_text(encoding="utf-8")))
    _without_dropout()
    torch.set_default_dtype(torch.float64)
    seed = FIRST_SEED + int(os.environ.get("RANK", os.environ.get("HOROVOD_RANK", "0")))
    torch.manual_seed(seed)
    random.seed(seed)

    sys.argv = [options.script, *options.arguments]
    sys.path[0] = str(Path(options.script).resolve().parent)
    runpy.run_path(options.script, run_name="__main__")


if __name__ == "__main__":
    main()
