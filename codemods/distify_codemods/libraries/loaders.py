"""Arguments of DataLoaders."""

from __future__ import annotations

#: The positions of all that DataLoader can be given without its name.
PARAMETERS = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
    "drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator",
)  # fmt: skip
#: By whom and how soon batches are made, not which.
OF_WORKERS = frozenset(
    """in_order multiprocessing_context num_workers persistent_workers pin_memory pin_memory_device prefetch_factor
    timeout""".split()
)
