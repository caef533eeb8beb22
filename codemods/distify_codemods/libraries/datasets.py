"""Which libraries' data sets have a length, and which may be streams."""

from __future__ import annotations

#: What they return has a length, or torch makes no loader of it.
_WITH_LENGTH = (
    "torch.", "torchvision.", "torchaudio.", "torch_geometric.", "torchtext.", "builtins.", "numpy.", "pandas.",
    "sklearn.", "datasets.", "collections.", "itertools.", "functools.", "copy.", "pickle.", "json.", "joblib.",
    "ogb.", "PIL.", "cv2.", "h5py.", "scipy.",
)  # fmt: skip
#: Of these, what has none.
STREAMED = "datasets.IterableDataset"
_STREAMS = (
    "torch.utils.data.ChainDataset", "torch.utils.data.datapipes.", "torch.utils.data.IterDataPipe", STREAMED,
)  # fmt: skip


def may_be_stream(name: str) -> bool:
    """Whether something of a library may be an IterableDataset: a class, or what a function returned."""
    return name.startswith(_STREAMS) or not name.startswith(_WITH_LENGTH)
