"""Everything that one process did; plain lists, dicts and tensors, so that it loads without this file."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from math import isnan
from pathlib import Path
from types import FrameType
from typing import Any, cast

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data.distributed import DistributedSampler

from distify_runtime.environment import world_size
from distify_runtime.patching import wrap
from distify_runtime.shared import functions
from distify_runtime.shared.region import is_comparing
from distify_runtime.sparse import dense
from distify_runtime.trace.later import Begun
from distify_runtime.trace.moment import NOW
from distify_runtime.trace.passes import Filling, Reading
from distify_runtime.trace.saves import flat, path_told
from distify_runtime.trace.work import Work, is_split
from distify_runtime.watch import verdict

#: Larger parameters are kept as that many sums, with signs, of their entries: a difference of one of them shows.
MOST_ENTRIES = 4096
_WRAPPERS = (DistributedDataParallel, nn.DataParallel)
#: Libraries with random numbers that no seed of Python's, NumPy's or torch's reaches.
_WITH_OWN_DRAWS = ("albumentations", "imgaug", "monai")

#: Saves into memory that are kept: whoever makes more of them does not write checkpoints so.
_MOST_IN_MEMORY = 50

_save = torch.save


class Record:
    def __init__(self, path: Path, filling: Filling) -> None:
        self.steps: list[tuple[int, Tensor]] = []
        self.losses: list[float] = []
        self.beginnings: list[Tensor] = []  # of each optimizer: its parameters before its first step
        self.names: list[list[tuple[str, int]]] = []  # and what they are called, with how many entries are kept
        self.passes: list[dict[str, int]] = []
        self.readings: list[Reading] = []
        self.saves: list[dict[str, Any]] = []
        self.saves_in_memory: list[dict[str, Any]] = []
        self.written: list[str] = []
        self.logged: list[str] = []
        self.whole: list[str] = []
        self.world_size = 1
        self.training_inputs = 0
        self.work = Work()
        self.rounded = (0, 0)
        self.begun = Begun()
        self._optimizers: list[Optimizer] = []
        self._samplers: list[object] = []
        self._path = path
        self._filling = filling
        self.is_cut = False  # it was ended after the steps that were asked for, before its last lines
        self._progress = path.with_suffix(".steps").open("wb", buffering=0)

    def begin(self, optimizer: Optimizer) -> None:
        if _number(self._optimizers, optimizer) < len(self.names):
            return
        parameters = _parameters(optimizer)
        kept = [_kept(parameter) for parameter in parameters]
        self.beginnings.append(_joined(kept))
        self.names.append([(name, len(one)) for name, one in zip(_names(parameters), kept, strict=True)])

    def step(self, optimizer: Optimizer) -> None:
        with torch._C.DisableTorchFunction():  # the modes around the script have no business here
            kept = _joined([_kept(parameter) for parameter in _parameters(optimizer)])
        self.steps.append((_number(self._optimizers, optimizer), kept))
        self.losses.append(NOW.loss)
        self._progress.write(b".")

    def sampler_pass(self, sampler: DistributedSampler[Any]) -> None:
        self.passes.append(
            {
                "sampler": _number(self._samplers, sampler),
                "epoch": sampler.epoch,
                "samples": len(cast(Any, sampler.dataset)),
                "first_step": len(self.steps),
                "seed": getattr(sampler, "seed", 0) if sampler.shuffle else 0,
                "shuffles": bool(sampler.shuffle),
            }
        )

    def save(self, target: Any, contents: object) -> None:
        name = getattr(target, "name", target)
        if isinstance(name, (str, os.PathLike)):
            self.saves.append({"path": path_told(name), "contents": dict(flat(contents, ""))})
        elif len(self.saves_in_memory) < _MOST_IN_MEMORY:
            self.saves_in_memory.append({"path": "", "contents": dict(flat(contents, ""))})

    def write(self) -> None:
        """Puts down what has happened so far."""
        fields = {
            "steps": self.steps,
            "losses": self.losses,
            "beginnings": self.beginnings,
            "names": self.names,
            "passes": self.passes,
            "readings": [(one.trains, one.size, _numbers(one.samples), one.cut) for one in self.readings],
            "saves": self.saves,
            "saves_in_memory": self.saves_in_memory,
            "written": self.written,
            "logged": self.logged,
            "whole": self.whole,
            "world_size": self.world_size,
            "cut": self.is_cut,
            "later": self.begun.later() if self.is_cut else [],
            "training_inputs": self.training_inputs,
            "share": self.work.share,
            "shares_forwards": functions.are_replaced(),
            "own_draws": [name for name in _WITH_OWN_DRAWS if name in sys.modules],
            "filled": self._filling.filled,
            "group_left_open": _is_group_open() and not self.is_cut,
            "drawn": NOW.drawn,
            "singles": [(*line, count) for line, count in NOW.singles.items()],
            "orders": [(*line, count) for line, count in NOW.orders.items()],
            "mixed": NOW.mixed,
            "rounded": self.rounded,
            "workers": NOW.workers,
            "dropouts": NOW.dropouts or NOW.unwrapped_dropouts,
            "hooks": verdict.said.get("hooks", ""),
            "watched": list(verdict.said.values()),
        }
        _save(fields, self._path)


def _numbers(given: list[int]) -> Tensor:
    return torch.tensor(given, dtype=torch.int64, device="cpu")  # scripts set other devices


def _counted(inputs: tuple[Any, ...], call: FrameType) -> int:
    """Of a hook's inputs; torch tells hooks of all modules nothing of what is given by name alone: `model(**batch)`."""
    return _count(inputs) if inputs else _count(call.f_locals.get("kwargs"))


def _count(given: object) -> int:
    """The numbers in the tensors that a module is given, also in lists and dictionaries: `model(batch)`."""
    if isinstance(given, Tensor):
        return given.numel()
    if isinstance(given, Mapping):
        return sum(map(_count, given.values()))
    return sum(map(_count, given)) if isinstance(given, (list, tuple)) else 0


def _is_group_open() -> bool:
    hvd = sys.modules.get("horovod.torch")
    return distributed.is_initialized() or (hvd is not None and bool(hvd.is_initialized()))


def _number(known: list[Any], one: object) -> int:
    """How many others were seen before this object; kept alive, so that identities are not used twice."""
    for number, other in enumerate(known):
        if other is one:
            return number
    known.append(one)
    return len(known) - 1


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)


def _kept(parameter: Tensor) -> Tensor:
    entries = parameter.detach()
    entries = torch.view_as_real(entries) if entries.is_complex() else entries
    entries = dense(entries).cpu().double().reshape(-1)
    if len(entries) <= MOST_ENTRIES:
        return entries
    rows = -(-len(entries) // MOST_ENTRIES)
    padded = functional.pad(entries, (0, rows * MOST_ENTRIES - len(entries)))
    return _signs(rows) @ padded.view(rows, MOST_ENTRIES)


@functools.cache
def _signs(rows: int) -> Tensor:
    """Plus and minus ones without a period (Thue and Morse's), the same everywhere."""
    return torch.tensor([-1.0 if bin(row).count("1") % 2 else 1.0 for row in range(rows)], dtype=torch.float64)


def _names(parameters: list[Tensor]) -> list[str]:
    """What the largest model that holds a parameter calls it, without what wraps it for distribution."""
    names: dict[int, str] = {}
    modules = [one for one in gc.get_objects() if issubclass(type(one), nn.Module)]
    for module in modules:
        if not issubclass(type(module), _WRAPPERS):
            for name, parameter in module.named_parameters(remove_duplicate=False):
                if name.count(".") >= names.get(id(parameter), "").count("."):
                    names[id(parameter)] = _unwrapped(name)
    return [names.get(id(one), f"parameter {number}") for number, one in enumerate(parameters, 1)]


def _unwrapped(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in ("module", "_orig_mod")) or name


def watch(record: Record, most_steps: int) -> None:
    """Has the record see what the process does, and end it after `most_steps` optimizer steps; 0: by itself."""
    _watch_training(record, most_steps)
    _watch_distribution(record)
    wrap(torch, "save", _recorded(record))
    if importlib.util.find_spec("safetensors") is not None:
        wrap(importlib.import_module("safetensors.torch"), "save_file", _recorded(record))


def _watch_training(record: Record, most_steps: int) -> None:
    """Steps, and the numbers that innermost modules are fed in training: who does which share of the work."""

    def enter(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if not module.training or not torch.is_grad_enabled():
            return
        NOW.forwards += 1
        if is_comparing():
            return
        numbers = _count(inputs) if torch.compiler.is_compiling() else _counted(inputs, sys._getframe(1))
        if not module._modules:
            record.training_inputs += numbers // world_size() if is_split(module) else numbers
            rounds = any(map(torch.is_autocast_enabled, ("cpu", "cuda")))
            record.rounded = (record.rounded[0] + rounds, record.rounded[1] + 1)
        record.work.enter(module, numbers)

    def leave(module: nn.Module, *_: Any) -> None:
        NOW.forwards = max(NOW.forwards - 1, 0) if module.training and torch.is_grad_enabled() else NOW.forwards
        record.work.leave(module)

    def step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if _is_inside_of_a_step(optimizer, sys._getframe(1)):
            return
        record.work.step()
        record.step(optimizer)
        record.begun.note(sys._getframe(1))
        NOW.step()
        if most_steps and NOW.steps >= most_steps:
            _end(record, at_once=NOW.steps > most_steps)

    def backward(original: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        of = [tensors] if isinstance(tensors, Tensor) else [one for one in tensors if isinstance(one, Tensor)]
        if not is_comparing():
            losses = [float(one.detach()) for one in of if one.numel() == 1 and not one.is_complex()]
            NOW.loss = sum(losses, 0.0 if isnan(NOW.loss) else NOW.loss) if losses else NOW.loss
        return original(tensors, *args, **kwargs)

    wrap(torch.autograd, "backward", backward)
    register_module_forward_pre_hook(enter)
    register_module_forward_hook(leave, always_call=True)
    register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: record.begin(optimizer))
    register_optimizer_step_post_hook(step)


def _is_inside_of_a_step(optimizer: Optimizer, calls: FrameType) -> bool:
    """Whether it is the step of a class that its own class calls, as Horovod's does: torch calls hooks for both."""
    frame = calls.f_back
    while frame is not None:
        if frame.f_code is calls.f_code and frame.f_locals.get("self") is optimizer:
            return True
        frame = frame.f_back
    return False


def _end(record: Record, at_once: bool) -> None:
    """As `sys.exit` does, and at once where the script goes on after that."""
    record.is_cut = True
    if not at_once:
        raise SystemExit(0)
    record.write()
    os._exit(0)


def _watch_distribution(record: Record) -> None:
    def sampler_iter(original: Any, self: DistributedSampler[Any]) -> Iterator[Any]:
        if torch.is_grad_enabled():  # an evaluation's order changes nothing
            record.sampler_pass(self)
        return cast(Iterator[Any], original(self))

    def init_process_group(original: Any, *args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        record.world_size = distributed.get_world_size()

    wrap(DistributedSampler, "__iter__", sampler_iter)

    def init(original: Any, *args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        record.world_size = hvd.size()

    wrap(distributed, "init_process_group", init_process_group)
    if "HOROVOD_RANK" in os.environ:
        import horovod.torch as hvd

        wrap(hvd, "init", init)


def _recorded(record: Record) -> Callable[..., None]:
    def save(original: Any, obj: object, f: Any, *args: Any, **kwargs: Any) -> None:
        record.save(f, obj)
        original(obj, f, *args, **kwargs)

    return save
