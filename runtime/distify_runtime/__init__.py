"""What a converted training script imports: `import distify_runtime as rt`.

Needs nothing but torch, and that only once something of it is used: the launchers live here too, and need no
torch. Every function also works in a world of one, under plain `python`.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distify_runtime.alike import alike, from_main_process_each
    from distify_runtime.apple import without_mps
    from distify_runtime.batch import per_rank_batch_size, per_rank_workers, shard_batch, squeeze
    from distify_runtime.batchnorm import average_running_statistics, convert_sync_batchnorm
    from distify_runtime.checkpoint import add_module_prefix, map_location, strip_module_prefix
    from distify_runtime.closures import averaged_closure
    from distify_runtime.environment import (
        device,
        device_kind,
        gpu_index,
        is_main_process,
        local_rank,
        rank,
        world_size,
    )
    from distify_runtime.figures import average_figures
    from distify_runtime.gather import gather_batch
    from distify_runtime.gather_entries import gather_entries
    from distify_runtime.gather_samples import gather_samples
    from distify_runtime.gradients import all_reduce_gradients, average_gradients, broadcast_parameters
    from distify_runtime.horovod_optimizer import DistributedOptimizer, broadcast_optimizer_state
    from distify_runtime.inputs import inputs_to_device
    from distify_runtime.iterables import shard_iterable
    from distify_runtime.learning_rate import scale_learning_rate, warm_up
    from distify_runtime.loaders import shard_evaluation, shard_training
    from distify_runtime.losses import global_mean, mean_over_ranks, sum_over_ranks, weighted_mean
    from distify_runtime.main_process import (
        call_on_main_process,
        fail_together,
        from_main_process,
        main_process_only,
        main_process_open,
        main_process_path,
        rank_zero_logging,
    )
    from distify_runtime.one_piece import in_one_piece
    from distify_runtime.output import rank_zero_print
    from distify_runtime.process_group import (
        barrier,
        destroy_process_group,
        init_process_group,
        main_process_first,
    )
    from distify_runtime.randomness import common_seed, seed_ranks_alike, seed_ranks_apart
    from distify_runtime.reduce import all_ranks, all_reduce_mean, all_reduce_sum, any_rank
    from distify_runtime.replica import device_ids, unwrap
    from distify_runtime.samplers import ShardedBatchSampler, UnpaddedSampler
    from distify_runtime.scaled_batches import scale_batch_size
    from distify_runtime.shared.loading import shard_loading
    from distify_runtime.shared.models import data_parallel
    from distify_runtime.shared.streams import draw_alike
    from distify_runtime.shared.undivided import compute_whole
    from distify_runtime.temporary import TemporaryDirectory
    from distify_runtime.text_iterators import shard_text_iterator, shard_text_iterators
    from distify_runtime.training_samplers import (
        DistributedBatchSampler,
        DistributedSamplerWrapper,
        SharedOrder,
        TrainingSampler,
    )
    from distify_runtime.views import evaluation_loader, is_sharded, reshuffle, set_epoch, training_loader, whole_loader
    from distify_runtime.worker_seeds import seed_workers_apart

__all__ = [
    "DistributedBatchSampler",
    "DistributedOptimizer",
    "DistributedSamplerWrapper",
    "ShardedBatchSampler",
    "SharedOrder",
    "TemporaryDirectory",
    "TrainingSampler",
    "UnpaddedSampler",
    "add_module_prefix",
    "alike",
    "all_ranks",
    "all_reduce_gradients",
    "all_reduce_mean",
    "all_reduce_sum",
    "any_rank",
    "average_figures",
    "average_gradients",
    "average_running_statistics",
    "averaged_closure",
    "barrier",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "call_on_main_process",
    "common_seed",
    "compute_whole",
    "convert_sync_batchnorm",
    "data_parallel",
    "destroy_process_group",
    "device",
    "device_ids",
    "device_kind",
    "draw_alike",
    "evaluation_loader",
    "fail_together",
    "from_main_process",
    "from_main_process_each",
    "gather_batch",
    "gather_entries",
    "gather_samples",
    "global_mean",
    "gpu_index",
    "import_twins",
    "in_one_piece",
    "in_order",
    "init_process_group",
    "inputs_to_device",
    "is_main_process",
    "is_sharded",
    "local_rank",
    "main_process_first",
    "main_process_only",
    "main_process_open",
    "main_process_path",
    "map_location",
    "mean_over_ranks",
    "per_rank_batch_size",
    "per_rank_workers",
    "rank",
    "rank_zero_logging",
    "rank_zero_print",
    "reshuffle",
    "scale_batch_size",
    "scale_learning_rate",
    "seed_ranks_alike",
    "seed_ranks_apart",
    "seed_workers_apart",
    "set_epoch",
    "shard_batch",
    "shard_evaluation",
    "shard_iterable",
    "shard_loading",
    "shard_text_iterator",
    "shard_text_iterators",
    "shard_training",
    "squeeze",
    "strip_module_prefix",
    "sum_over_ranks",
    "training_loader",
    "unwrap",
    "warm_up",
    "weighted_mean",
    "whole_loader",
    "without_mps",
    "world_size",
]

#: Where each name lives.
_HOME = {
    "alike": "alike",
    "from_main_process_each": "alike",
    "per_rank_batch_size": "batch",
    "shard_batch": "batch",
    "squeeze": "batch",
    "per_rank_workers": "batch",
    "average_running_statistics": "batchnorm",
    "convert_sync_batchnorm": "batchnorm",
    "add_module_prefix": "checkpoint",
    "map_location": "checkpoint",
    "strip_module_prefix": "checkpoint",
    "device": "environment",
    "device_kind": "environment",
    "gpu_index": "environment",
    "is_main_process": "environment",
    "local_rank": "environment",
    "rank": "environment",
    "world_size": "environment",
    "average_figures": "figures",
    "gather_batch": "gather",
    "gather_entries": "gather_entries",
    "all_reduce_gradients": "gradients",
    "average_gradients": "gradients",
    "broadcast_parameters": "gradients",
    "gather_samples": "gather_samples",
    "averaged_closure": "closures",
    "DistributedOptimizer": "horovod_optimizer",
    "broadcast_optimizer_state": "horovod_optimizer",
    "import_twins": "twins",
    "inputs_to_device": "inputs",
    "shard_iterable": "iterables",
    "scale_learning_rate": "learning_rate",
    "warm_up": "learning_rate",
    "shard_evaluation": "loaders",
    "shard_training": "loaders",
    "global_mean": "losses",
    "mean_over_ranks": "losses",
    "sum_over_ranks": "losses",
    "weighted_mean": "losses",
    **dict.fromkeys(
        (
            "call_on_main_process",
            "fail_together",
            "from_main_process",
            "main_process_only",
            "main_process_open",
            "main_process_path",
            "rank_zero_logging",
        ),
        "main_process",
    ),
    "rank_zero_print": "output",
    "barrier": "process_group",
    "destroy_process_group": "process_group",
    "in_one_piece": "one_piece",
    "in_order": "completed",
    "init_process_group": "process_group",
    "main_process_first": "process_group",
    "common_seed": "randomness",
    "seed_ranks_alike": "randomness",
    "seed_ranks_apart": "randomness",
    "seed_workers_apart": "worker_seeds",
    "all_ranks": "reduce",
    "all_reduce_mean": "reduce",
    "all_reduce_sum": "reduce",
    "any_rank": "reduce",
    "device_ids": "replica",
    "unwrap": "replica",
    "ShardedBatchSampler": "samplers",
    "UnpaddedSampler": "samplers",
    "data_parallel": "shared.models",
    "draw_alike": "shared.streams",
    "compute_whole": "shared.undivided",
    "scale_batch_size": "scaled_batches",
    "shard_loading": "shared.loading",
    "TemporaryDirectory": "temporary",
    "shard_text_iterator": "text_iterators",
    "shard_text_iterators": "text_iterators",
    "DistributedBatchSampler": "training_samplers",
    "DistributedSamplerWrapper": "training_samplers",
    "SharedOrder": "training_samplers",
    "TrainingSampler": "training_samplers",
    "evaluation_loader": "views",
    "is_sharded": "views",
    "reshuffle": "views",
    "set_epoch": "views",
    "training_loader": "views",
    "whole_loader": "views",
    "without_mps": "apple",
}

if "DISTIFY_SIGNS" in os.environ:
    import_module(f"{__name__}.arriving").listen()


def __getattr__(name: str) -> Any:
    """Imports what is asked for when it is asked for (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return found
