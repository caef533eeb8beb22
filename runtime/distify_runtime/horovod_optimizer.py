"""Horovod's DistributedOptimizer without its traps, and the state of an optimizer sent to all ranks."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable
from functools import partial
from typing import Any, TypeVar

import horovod.torch as hvd
import torch
from horovod.torch.compression import Compression, FP16Compressor, NoneCompressor
from horovod.torch.optimizer import _DistributedOptimizer
from torch import Tensor
from torch.optim import Optimizer

from distify_runtime import communicator
from distify_runtime.communicator import Op
from distify_runtime.environment import rank, world_size
from distify_runtime.meeting import collective
from distify_runtime.output import stop
from distify_runtime.overlap import CHANGED, SPARSE, held_of
from distify_runtime.watch import course

#: Optimizers have numbers, the same on every rank: Horovod tells tensors apart by name, and two models may share names.
_numbers = itertools.count()

O = TypeVar("O", bound=Optimizer)  # noqa: E741


@collective
def DistributedOptimizer(
    optimizer: O,
    named_parameters: Iterable[tuple[str, Tensor]] = (),
    compression: str = "none",
    op: str = "average",
    backward_passes_per_step: int = 1,
) -> O:
    """The optimizer, whose gradients Horovod averages over the ranks while a backward pass goes on.

    `hvd.DistributedOptimizer`, but that it is the same object as before, with its state, its options and its
    schedulers; that a parameter without a gradient on any rank stays without one; and that parameters which are added,
    or begin to be trained, are averaged, too. `step()` waits for the averages; what reads gradients before that
    (clipping, `GradScaler.unscale_`) comes behind `optimizer.synchronize()`.

    compression: "none" or "fp16". op: "average" or "adasum", for which rates are not scaled.
    backward_passes_per_step: after so many, gradients are averaged; or before a step that comes sooner. A backward pass
    more adds to the averages, and is averaged with them: slower, and right.
    """
    names = {parameter: name for name, parameter in named_parameters}
    if op == "adasum":
        return _adasum(optimizer, names, compression, backward_passes_per_step)
    kind = type(optimizer)
    if isinstance(optimizer, _Averaging):
        return optimizer
    if not getattr(kind.step, "hooked", False):
        stop(f"{kind.__name__} is no optimizer of torch's kind: average its gradients with rt.all_reduce_gradients")
    optimizer.__class__ = type(kind.__name__, (_Averaging, kind), {"step": kind.step, "__module__": kind.__module__})
    assert isinstance(optimizer, _Averaging)
    optimizer._begin(names, compression, backward_passes_per_step)
    optimizer.register_step_pre_hook(_before_step)
    return optimizer


@collective
def broadcast_optimizer_state(optimizer: Optimizer) -> None:
    """Put rank 0's state and options of an optimizer on every rank. A collective.

    `hvd.broadcast_optimizer_state` takes a step with a new optimizer to find out what its state looks like, which
    moves weights that decay and counts in Adam. This one does not.
    """
    if world_size() == 1:
        return
    file = io.BytesIO()
    if rank() == 0:
        torch.save(optimizer.state_dict(), file)
    sent = communicator.broadcast_object(file.getvalue())
    if rank() != 0:
        optimizer.load_state_dict(torch.load(io.BytesIO(sent), map_location="cpu", weights_only=False))


class _Averaging(_DistributedOptimizer):  # type: ignore[misc]  # Horovod has no types
    """Comes before the class of an optimizer in the classes that `DistributedOptimizer` makes."""

    def _begin(self, names: dict[Tensor, str], compression: str, passes: int) -> None:
        self._given_names, self._number = names, next(_numbers)
        self._compression = _Half if compression == "fp16" else _Plain
        # Divided before they are summed: half precision has no room for the sum.
        self.gradient_predivide_factor = float(hvd.size()) if compression == "fp16" else 1.0
        self.backward_passes_per_step, self.op, self.process_set = passes, hvd.Average, hvd.global_process_set
        self.sparse_as_dense, self._groups = False, None
        self._parameter_names: dict[Tensor, str] = {}
        self._allreduce_delay: dict[Tensor, int] = {}
        self._handles: dict[Tensor, tuple[Any, Any]] = {}
        self._sent: dict[Tensor, tuple[Tensor | None, int]] = {}  # the gradient, and its version then
        self._requires_update: set[Tensor] = set()
        self._synchronized, self._should_synchronize = False, True
        self._adopt()

    def _adopt(self) -> None:
        """Parameters that were not trained before, or not there. On all ranks the same."""
        for at, group in enumerate(self.param_groups):
            for index, parameter in enumerate(group["params"]):
                if parameter.requires_grad and parameter not in self._allreduce_delay:
                    name = f"optimizer{self._number}.{at}.{index}.{self._given_names.get(parameter, '')}"
                    self._parameter_names[parameter] = name
                    self._allreduce_delay[parameter] = self.backward_passes_per_step
                    if hvd.size() > 1:
                        parameter.register_hook(partial(self._wait_for, parameter))
                        parameter.register_post_accumulate_grad_hook(self._make_hook(parameter))

    def _wait_for(self, parameter: Tensor, _: Tensor) -> None:
        """Before a backward pass adds to a gradient that has been sent: its sum is sent again."""
        if self._handles.get(parameter, (None, None))[0] is not None:
            self._finish(self._handles.pop(parameter)[0])
            self._allreduce_delay[parameter] = self.backward_passes_per_step

    def _allreduce_grad_async(self, p: Tensor) -> Any:
        sent = super()._allreduce_grad_async(p)
        self._sent[p] = (p.grad, 0 if p.grad is None else p.grad._version)
        return sent

    def _is_outdated(self, parameter: Tensor) -> bool:
        """Whether something else has become of a gradient since it was sent: another model's loss, thrown away."""
        gradient, version = self._sent.get(parameter, (None, 0))
        if self._handles.get(parameter, (None, None))[0] is None:
            return False
        return gradient is not parameter.grad or (gradient is not None and gradient._version != version)

    @staticmethod
    def _finish(handle: Any) -> None:
        handle() if callable(handle) else hvd.synchronize(handle)

    def synchronize(self) -> None:
        """Wait until the gradients are averaged."""
        self._synchronized = True
        if hvd.size() == 1:
            return
        self._adopt()
        parameters = list(self._allreduce_delay)
        course.averaged(len(parameters))
        mine = [held_of(parameter.grad) | CHANGED * self._is_outdated(parameter) for parameter in parameters]
        held = torch.tensor(mine, dtype=torch.uint8, device="cpu")
        communicator.all_reduce(held, Op.OR, f"held.{self._number}")
        kinds = dict(zip(parameters, held.tolist(), strict=True))
        # Horovod makes gradients of zeros where no rank has one: weights would decay, and momentum would go on.
        self._requires_update = {parameter for parameter, kind in kinds.items() if kind & ~CHANGED}
        for parameter, kind in kinds.items():
            if parameter.grad is None and kind & ~CHANGED == SPARSE:
                parameter.grad = _no_rows(parameter)
            if kind & CHANGED or parameter not in self._requires_update:
                self._take_back(parameter, sent_somewhere=bool(kind & CHANGED))
        super().synchronize()

    def _take_back(self, parameter: Tensor, sent_somewhere: bool) -> None:
        """What was sent of a gradient comes to nothing; a rank that has sent none takes part, or the others wait."""
        if parameter not in self._handles and not sent_somewhere:
            return
        gradient, handle = parameter.grad, self._handles.pop(parameter, (None, None))[0]
        if handle is None and sent_somewhere:
            handle = self._allreduce_grad_async(parameter)[0]
            parameter.grad = gradient  # Horovod makes one of zeros
        if handle is not None:
            self._finish(handle)
        self._allreduce_delay[parameter] = self.backward_passes_per_step

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Also after a backward pass of another model's loss through this one, whose gradients are thrown away."""
        self._let_go()
        super(_DistributedOptimizer, self).zero_grad(set_to_none)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._let_go()
        super(_DistributedOptimizer, self).load_state_dict(*args, **kwargs)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super(_DistributedOptimizer, self).add_param_group(param_group)
        self._adopt()

    def _let_go(self) -> None:
        for handle, _ in self._handles.values():
            if handle is not None:
                self._finish(handle)
        self._handles.clear()
        self._allreduce_delay = dict.fromkeys(self._allreduce_delay, self.backward_passes_per_step)
        self._synchronized = False


def _before_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if len(args) > 1 or kwargs.get("closure") is not None:
        stop("a step with a closure computes gradients of its own: average them in there with rt.all_reduce_gradients")
    if optimizer._should_synchronize and (optimizer._handles or not optimizer._synchronized):
        optimizer.synchronize()
    optimizer._synchronized = False


class _Plain(NoneCompressor):  # type: ignore[misc]
    """Gradients as they are; bfloat16, which Horovod refuses, as float32.

    Copies: a script may set a gradient to zero that is under way, and what comes back must not be added to that.
    """

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, torch.dtype]:
        wide = tensor.float() if tensor.dtype is torch.bfloat16 else tensor.clone()
        return torch.view_as_real(wide) if wide.is_complex() else wide, tensor.dtype

    @staticmethod
    def decompress(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
        if dtype is None or tensor.dtype is dtype:
            return tensor
        return torch.view_as_complex(tensor) if dtype.is_complex else tensor.to(dtype)


class _Half(FP16Compressor):  # type: ignore[misc]
    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, torch.dtype]:
        compressed, dtype = FP16Compressor.compress(tensor)
        return compressed.clone() if compressed is tensor else compressed, dtype


def _no_rows(parameter: Tensor) -> Tensor:
    """A gradient as sparse as an embedding's, of a rank that has touched no row."""
    indices = torch.empty(1, 0, dtype=torch.int64, device=parameter.device)
    return torch.sparse_coo_tensor(indices, parameter.new_empty(0, *parameter.shape[1:]), parameter.shape)


def _adasum(optimizer: O, names: dict[Tensor, str], compression: str, passes: int) -> O:
    if hvd.size() > 1 and not (hvd.mpi_enabled() or hvd.nccl_built()):
        how = "start them with --mpi" if hvd.mpi_built() else "this Horovod was built with neither"
        stop(f"Adasum needs ranks that speak MPI or NCCL: {how}")
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    number = next(_numbers)
    named = [(f"optimizer{number}.{at}.{names.get(one, '')}", one) for at, one in enumerate(parameters)]
    kind = Compression.fp16 if compression == "fp16" else Compression.none
    made: O = hvd.DistributedOptimizer(optimizer, named, kind, passes, op=hvd.Adasum)
    return made
