"""Libraries that may draw random numbers from the streams of torch, numpy and `random`: for samples, or for weights."""

from __future__ import annotations

from distify_codemods.libraries.quiet import is_quiet

#: Modules of torch's that hold no random numbers.
_WITHOUT_WEIGHTS = (
    "Loss", "ReLU", "ReLU6", "GELU", "SiLU", "ELU", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "Dropout", "Identity",
    "Flatten", "Module", "Parameter", "DataParallel", "Norm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Pool2d",
    "Upsample", "Sequential", "ModuleList", "ModuleDict",
)  # fmt: skip
#: Libraries that make models, choose samples or make data of random numbers.
_LIBRARIES = (
    "torchvision.models.", "timm.", "transformers.", "segmentation_models_pytorch.", "efficientnet_pytorch.",
    "torch_geometric.", "dgl.", "torchdiffeq.", "pytorch_metric_learning.", "sklearn.", "scipy.", "imgaug.",
    "albumentations.", "gensim.", "networkx.", "faiss.", "monai.", "kornia.", "torchvision.transforms.",
)  # fmt: skip


#: Of those, what draws whenever it is called.
_ALWAYS = (
    "sklearn.utils.shuffle",
    "sklearn.utils.resample",
    "sklearn.model_selection.",
    "torchvision.models.",
    "timm.",
)


#: Of torchvision's transforms, those that do not draw. The others draw once for whatever they are given.
_FIXED = frozenset(
    """Normalize Resize CenterCrop ToTensor PILToTensor ToPILImage ConvertImageDtype ConvertDtype Grayscale Pad FiveCrop
    TenCrop LinearTransformation ToDtype ToImage ToPureTensor Identity Permute TransposeDimensions Compose Transform
    InterpolationMode""".split()
)


def draws_once(name: str) -> bool:
    """Whether calling an object of this class draws one set of numbers for all that it is given: a whole batch, say."""
    return name.startswith("torchvision.transforms.") and name.rpartition(".")[2] not in _FIXED


def draws(name: str) -> bool:
    """Whether a function or class draws samples or weights."""
    last = name.rpartition(".")[2]
    layer = name.startswith("torch.nn.") and last[:1].isupper() and not last.endswith(_WITHOUT_WEIGHTS)
    return layer or name.startswith(_ALWAYS)


def may_draw(name: str) -> bool:
    """Whether a function or class may draw, beyond what the results of functions of torch and numpy say."""
    if name.startswith("torch.nn."):
        return draws(name)
    return not is_quiet(name) or name.startswith(_LIBRARIES)
