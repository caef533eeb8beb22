"""What a backend is: facts about it that decisions ask for, and how each step is spelled with it."""

from __future__ import annotations

import json
from typing import Protocol

from distify_codemods.records import dataclass

RUNTIME = "distify_runtime"


class AveragingOptimizers(Protocol):
    """How optimizers are spelled that average their gradients by themselves, from the backward pass on."""

    def made(self, optimizer: str, named: str, passes: str, rt: str) -> str:
        """An expression. `named`: the model whose parameters it trains; `passes`: between steps. Both if known."""

    def wait_for(self, optimizer: str) -> str:
        """A statement behind all backward passes of a step, before anything but the step itself reads the gradients."""


@dataclass(frozen=True)
class Backend:
    """Of the code that it gives, `rt` is the name under which the runtime is imported."""

    name: str  # of `--backend`
    #: Whether it averages the gradients of what goes through the forward of a wrapped model. One that does not leaves
    #: models as they are: rank 0's weights are sent to all, and what reads gradients is preceded by a line.
    wraps_models: bool
    averages: str  # what averages the gradients, as the subject of a sentence
    headline: str  # of a conversion to sharded data
    without_wraps: str = ""  # the same, where it would wrap models and none of them can be; empty: it wraps none
    #: What is imported besides the runtime, `name` being what the file calls it; empty: nothing.
    engine: str = ""
    optimizers: AveragingOptimizers | None = None
    imports_for_wrap: str = "from torch.nn.parallel import DistributedDataParallel"
    imports_for_sampler: str = "from torch.utils.data.distributed import DistributedSampler"

    def with_options(self, compression: str, op: str) -> Backend:
        """Of how gradients travel, and are put together. Raises ValueError where there is no choice."""
        if (compression, op) != ("none", "average"):
            raise ValueError(f"--compression and --op are Horovod's: {self.name} sends gradients as they are")
        return self

    # ---- start

    def starts(self, engine: str) -> tuple[str, ...]:
        """Statements before the process group. `engine` is the name under which it is imported."""
        return ()

    def process_group(
        self, rt: str, per_rank_batch: bool = False, whole_batches: bool = False, own_random: tuple[str, ...] = ()
    ) -> str:
        options = ["per_rank_batch=True"] if per_rank_batch else ["whole_batches=True"] if whole_batches else []
        options += [f"own_random={json.dumps(own_random)}"] if own_random else []
        return f"{rt}.init_process_group({', '.join(options)})"

    # ---- models that are wrapped

    def wrap(self, target: str, wrapper: str, rt: str, unused: bool) -> str:
        options = ", find_unused_parameters=True" if unused else ""
        return f"{target} = {wrapper}({target}, device_ids={rt}.device_ids({target}){options})"

    def averages_when(self, target: str, condition: str) -> str:
        """What `no_sync()` sets, and unsets."""
        return f"{target}.require_backward_grad_sync = {condition}"

    # ---- models that are left as they are

    def broadcast(self, target: str, rt: str) -> str:
        """Rank 0's weights and buffers on all ranks: modules, optimizers (for their parameters), or lists of these."""
        return f"{rt}.broadcast_parameters({target})"

    def average_gradients(self, targets: tuple[str, ...], rt: str) -> str:
        """A statement behind all backward passes of a step, before anything reads the gradients."""
        return f"{rt}.all_reduce_gradients({', '.join(targets)})"

    def broadcast_state(self, optimizer: str, rt: str) -> str:
        """Rank 0's state and options of an optimizer on all ranks."""
        return f"{rt}.broadcast_optimizer_state({optimizer})"

    # ---- BatchNorm

    def sync_batchnorm(self, target: str, rt: str) -> str:
        return f"{target} = {rt}.convert_sync_batchnorm({target})"

    def sync_batchnorm_in_place(self, target: str, rt: str) -> str:
        return f"{rt}.convert_sync_batchnorm({target})"

    def average_running_statistics(self, target: str, rt: str) -> str:
        return f"{rt}.average_running_statistics({target})"

    # ---- samples

    def training_sampler(self, dataset: str, rt: str, shuffle: str, drop_last: str, generator: str) -> str:
        """generator: by which the script shuffles; empty: by none of its own."""
        options = f", shuffle={shuffle}" if shuffle != "True" else ""
        options += f", drop_last={drop_last}" if drop_last != "False" else ""
        options += f", generator={generator}" if generator else ""
        return f"{rt}.TrainingSampler({dataset}{options})"

    def whole_sampler(self, dataset: str, sampler: str, rt: str) -> str:
        """All samples, in an order that is the same on all ranks."""
        return f"{sampler}({dataset}, num_replicas=1, rank=0, seed={rt}.common_seed())"
