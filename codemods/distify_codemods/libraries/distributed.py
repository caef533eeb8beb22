"""What distributes a program already, and how such a program is launched."""

from __future__ import annotations

#: How the full names of torch's own collectives begin.
OWN = "torch.distributed."
GROUP = "torch.distributed.init_process_group"
LEAVES = "torch.distributed.destroy_process_group"
#: What averages a model's gradients over ranks, as torch's DistributedDataParallel does.
WRAPS = (
    "torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.DistributedDataParallelCPU",
    "apex.parallel.DistributedDataParallel",
)  # fmt: skip
#: Classes that go around a model: who derives from them hands out batches in a way of its own.
AROUND = ("torch.nn.DataParallel", *WRAPS)
#: Starts the ranks by itself.
SPAWN = "torch.multiprocessing.spawn"
#: What may be missing of a script that calls them; nothing is of one that calls anything else for it.
MEANS = frozenset({GROUP, *WRAPS})
#: They ask, or wait for all ranks.
_HARMLESS = frozenset(
    "barrier get_rank get_world_size is_available is_initialized is_nccl_available is_gloo_available get_backend "
    "is_torchelastic_launched".split()
)
#: What tells a rank who it is, and how many there are.
WHO = {
    "torch.distributed.get_rank": "rank",
    "torch.distributed.get_node_local_rank": "rank",
    "torch.distributed.get_world_size": "ranks",
    **dict.fromkeys((f"distify_runtime.{name}" for name in ("is_main_process", "local_rank", "rank")), "rank"),
    "distify_runtime.world_size": "ranks",
}
#: Whether there is more than one process.
THERE_IS_A_GROUP = ("torch.distributed.is_initialized", "torch.distributed.is_available")
#: The environment by which a launcher does, and the variables that are other ones on each rank.
LAUNCHER = frozenset({"MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE"})
RANKS = frozenset({"RANK", "LOCAL_RANK", "SLURM_PROCID", "SLURM_LOCALID"})

TORCHRUN = "torchrun --nproc-per-node N {path}"
_TRAINER = ("Lightning's Trainer", "python {path}, with Trainer(devices=N)")
#: Calls that distribute a program: what that is, and how it is launched.
TOOLS = {
    GROUP: ("torch.distributed", TORCHRUN),
    **dict.fromkeys(WRAPS, ("DistributedDataParallel", TORCHRUN)),
    "torch.distributed.fsdp.FullyShardedDataParallel": ("FullyShardedDataParallel", TORCHRUN),
    "apex.parallel.DistributedDataParallel": ("apex", TORCHRUN),
    **dict.fromkeys(
        (f"horovod.{name}.init" for name in ("torch", "tensorflow", "keras", "tensorflow.keras")),
        ("Horovod", "horovodrun -np N python {path}"),
    ),
    "accelerate.Accelerator": ("Hugging Face Accelerate", "accelerate launch --num_processes N {path}"),
    **dict.fromkeys(
        ("lightning.fabric.Fabric", "lightning.Fabric"), ("Lightning Fabric", "fabric run --devices=N {path}")
    ),
    **dict.fromkeys((f"{name}.Trainer" for name in ("lightning", "lightning.pytorch", "pytorch_lightning")), _TRAINER),
    **dict.fromkeys(("transformers.Trainer", "transformers.Seq2SeqTrainer"), ("the Trainer of transformers", TORCHRUN)),
    "deepspeed.initialize": ("DeepSpeed", "deepspeed --num_gpus N {path}"),
    "ray.train.torch.TorchTrainer": ("Ray Train", "python {path}, with ScalingConfig(num_workers=N)"),
    "torch_xla.distributed.xla_multiprocessing.spawn": ("torch_xla", "python {path}"),
}
TPU = "torch_xla"
#: The engines of Horovod, by what a TensorFlow script trains with.
KERAS, TENSORFLOW, BOTH = "horovod.keras", "horovod.tensorflow", "horovod.tensorflow.keras"


def is_collective(name: str) -> bool:
    """Whether ranks exchange something by it, by which each would count once more than it does."""
    return name.startswith(OWN) and name.split(".")[2] not in _HARMLESS
