"""Which classes of libraries are data sets, which of them have a length, and which may be streams."""

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


#: torchvision's, and where those of them that fetch pictures are told so.
OF_PICTURES = "torchvision.datasets."
DOWNLOAD = 4
#: Those whose samples are a picture, as their `transform` returns it, and what it shows.
OF_PAIRS = frozenset(
    f"{OF_PICTURES}{name}"
    for name in """CIFAR10 CIFAR100 DatasetFolder EMNIST FakeData FashionMNIST ImageFolder ImageNet KMNIST MNIST STL10
    SVHN""".split()
)
#: Bases that fetch nothing by themselves.
PLAIN_BASES = ("torch.utils.data.", "builtins.", "abc.", "typing.")
#: Classes of data sets, by how their full names begin.
_DATA_SETS = (
    *(f"torch.utils.data.{name}" for name in ("Dataset", "IterableDataset", "TensorDataset", "Subset", "ConcatDataset",
      "StackDataset", "MapDataPipe")), *_STREAMS,
    "torchvision.datasets.", "torchaudio.datasets.", "torch_geometric.data.Dataset",
    "torch_geometric.data.InMemoryDataset", "torch_geometric.datasets.", "torchtext.data.Dataset",
    "torchtext.datasets.", "datasets.Dataset", "webdataset.",
)  # fmt: skip


def is_data_set(name: str) -> bool:
    """Whether a class of a library is one of data sets, which loaders ask for samples."""
    return name.startswith(_DATA_SETS)


#: What libraries call the argument that is the data set which they split, or make another one of.
DATA_ARGUMENTS = frozenset({"data", "dataset", "datasets", "data_source"})
