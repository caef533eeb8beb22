"""What deals out batches, and what it deals them out of."""

from __future__ import annotations

#: How the full names of torch's own begin.
OWN = "torch.utils.data."
LOADER = "torch.utils.data.DataLoader"
#: Loaders that put graphs behind each other, each with its own nodes and edges.
OF_GRAPHS = frozenset({"torch_geometric.loader.DataLoader"})
#: torchtext's, which shuffle and batch by themselves.
ITERATORS = frozenset(f"torchtext.data.{name}" for name in ("Iterator", "BucketIterator", "BPTTIterator"))
#: Classes that deal out batches as torch's DataLoader does.
LOADERS = frozenset({LOADER}) | OF_GRAPHS | ITERATORS
#: Loaders that shuffle by themselves.
OTHERS = ("webdataset.", "nvidia.dali.", "ffcv.")
#: What draws, loads or puts together samples: it is called in workers, of which each rank has several.
OF_WORKERS = (*LOADERS, OWN, "torchvision.", "albumentations.", "torch_geometric.")
#: The positions of all that DataLoader can be given without its name.
PARAMETERS = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
    "drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator",
)  # fmt: skip
#: By whom and how soon batches are made, not which.
HOW_SOON = frozenset(
    """in_order multiprocessing_context num_workers persistent_workers pin_memory pin_memory_device prefetch_factor
    timeout""".split()
)
#: Some samples of a data set.
SUBSET = "torch.utils.data.Subset"
STREAM = "torch.utils.data.IterableDataset"
#: Samplers: in the order of the data set, and each rank's share of it.
IN_ORDER = "torch.utils.data.SequentialSampler"
OF_A_SAMPLER = ("dataset", "num_replicas", "rank", "shuffle", "seed", "drop_last")
OF_A_RANK = "torch.utils.data.DistributedSampler"
#: The numbers of a batch's samples at a time.
BATCH_SAMPLER = "torch.utils.data.BatchSampler"
#: torchtext's batch, and what says how each part of it is made.
TEXT_BATCH = "torchtext.data.Batch"
LABELS = "torchtext.data.LabelField"
FIELDS = ("torchtext.data.Field", "torchtext.data.ReversibleField", LABELS)
