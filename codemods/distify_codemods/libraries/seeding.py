"""What sets the seeds of random numbers: every rank has to do it."""

from __future__ import annotations

#: What puts a stream that a process has in common where it was.
RESTORING = frozenset(
    "torch.set_rng_state torch.cuda.set_rng_state torch.cuda.set_rng_state_all random.setstate "
    "numpy.random.set_state".split()
)
#: What sets the seed of such a stream.
_SEEDING = RESTORING | frozenset(
    "torch.manual_seed torch.seed torch.cuda.manual_seed torch.cuda.manual_seed_all torch.cuda.seed "
    "torch.cuda.seed_all random.seed numpy.random.seed monai.utils.set_determinism".split()
)
#: Libraries that have such a function, wherever it lies in them.
_SEEDING_ALL = {
    "transformers": ("set_seed", "enable_full_determinism"),
    "accelerate": ("set_seed",),
    **dict.fromkeys(("torch_geometric", "pytorch_lightning", "lightning", "lightning_fabric"), ("seed_everything",)),
}
#: What a worker may ask for, to make its seed of.
PLAIN = ("torch.initial_seed", "torch.utils.data.get_worker_info", "math.", "time.time", "os.getpid")


def is_seeding(name: str) -> bool:
    """Whether a function sets the seed of a stream that a process has in common."""
    library, _, own = name.partition(".")
    return name in _SEEDING or own.rpartition(".")[2] in _SEEDING_ALL.get(library, ())
