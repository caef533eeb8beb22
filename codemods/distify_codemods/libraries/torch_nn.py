"""torch's modules: what each class is."""

from __future__ import annotations

MODULE = "torch.nn.Module"
#: What the layers and models of Keras derive from, which files of a project have beside torch's, for what it exports.
OF_KERAS = ("tensorflow.keras.", "keras.")
#: How the full names of its modules, and of the functions that go with them, begin.
OWN = "torch.nn."
#: Objects of libraries that are no modules.
NO_MODULES = (
    "builtins.", "argparse.", "numpy.", "math.", "collections.", "torch.utils.", "torch.optim.", "torch.cuda.",
    "torch.amp.",
)  # fmt: skip
#: What makes what training is about, or changes more than what it returns.
OF_TRAINING = (
    "torch.nn.", "torch.optim.", "torch.utils.", "torch.load", "torch.hub.", "torch.cuda.", "torch.manual",
)  # fmt: skip
#: Bases that give a class nothing but what every module, and every object, has.
PLAIN_BASES = frozenset({MODULE, "builtins.object"})
COMPILES = "torch.compile"
#: How the names of functions begin by which another one is called in each pass, of whichever module.
HOOKS_OF_ALL = ("torch.nn.modules.module.register_module_", "torch.autograd.graph.register_multi_grad_hook")
REGISTERS_BUFFER = "register_buffer"
#: Methods by which a module is given an attribute, and what they call what they are given beside its name.
REGISTERING = (REGISTERS_BUFFER, "register_parameter", "add_module", "register_module")
REGISTERED = ("tensor", "param", "module")
#: Methods by which a function is called in each pass: with what a module is given and returns, or with gradients.
HOOKS = frozenset(
    "register_forward_hook register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook "
    "register_backward_hook register_hook register_post_accumulate_grad_hook".split()
)
#: What returns what it is given first.
GIVE_BACK = (
    "torch.autograd.Variable", "torch.compile", "apex.parallel.convert_syncbn_model", "torch.nn.utils.weight_norm",
    "torch.nn.utils.remove_weight_norm", "torch.nn.utils.parametrizations.weight_norm",
)  # fmt: skip
#: What makes a tensor a part of a module.
PARAMETER = "torch.nn.Parameter"
PARTS = (PARAMETER, "torch.nn.Buffer")
#: Functions that fill a tensor.
FILLS = "torch.nn.init."
DATA_PARALLEL = "torch.nn.DataParallel"
#: Methods that tell the names of a module's parts, or go by them.
NAMING = frozenset(
    "state_dict load_state_dict named_parameters named_modules named_buffers named_children get_submodule".split()
)
#: Methods that make a module a part of another.
TAKE_IN = frozenset({"add_module", "register_module", "append", "extend", "insert", "update", "__setitem__"})
SEQUENTIAL = "torch.nn.Sequential"
#: Containers, which call what they hold, or are asked for it.
LISTS = (SEQUENTIAL, "torch.nn.ModuleList")
MODULE_DICT = "torch.nn.ModuleDict"
CONTAINERS = (*LISTS, MODULE_DICT)
#: Layers that look at all samples of a batch together.
BATCHNORMS = (
    "torch.nn._BatchNorm",
    *(f"torch.nn.{kind}{size}d" for kind in ("BatchNorm", "LazyBatchNorm") for size in (1, 2, 3)),
)
#: What makes or reads whole models, which may have some inside.
_WHOLE = (
    "torchvision.models.", "timm.", "segmentation_models_pytorch.", "efficientnet_pytorch.", "torch.hub.load",
    "torch.load",
)  # fmt: skip
#: Parts of these that make none.
_NO_MODELS = (
    "timm.data.", "timm.loss.", "timm.optim.", "timm.scheduler.", "segmentation_models_pytorch.losses.",
    "segmentation_models_pytorch.metrics.",
)  # fmt: skip
#: Modules that mix the entries of the first dimension unless they are told that it is the batch.
LSTM = "torch.nn.LSTM"
RECURRENT = frozenset(["torch.nn.RNN", "torch.nn.GRU", LSTM])
MULTIHEAD = "torch.nn.MultiheadAttention"
ATTENTION = frozenset(
    [MULTIHEAD, *(f"torch.nn.Transformer{name}" for name in ("", "EncoderLayer", "DecoderLayer"))],
)
#: Samples one after another, each as long as it is.
PACKED = "torch.nn.utils.rnn.PackedSequence"
#: Several copies of the layer that they are given first, and by which name.
STACKS = {"torch.nn.TransformerEncoder": "encoder_layer", "torch.nn.TransformerDecoder": "decoder_layer"}
#: Modules that leave the second dimension alone, of two or more: samples that lie along it are taken by themselves.
#: (A linear layer or a norm along a dimension of samples has their number, and fails with any other.)
BESIDE = frozenset(
    f"torch.nn.{name}"
    for name in """Linear LazyLinear Embedding LayerNorm RMSNorm Identity Dropout AlphaDropout FeatureAlphaDropout ReLU
    ReLU6 RReLU LeakyReLU ELU SELU CELU GELU SiLU Mish Sigmoid LogSigmoid Tanh Hardtanh Hardsigmoid Hardswish
    Hardshrink Softshrink Tanhshrink Softplus Softsign Threshold Softmax LogSoftmax Softmin GLU""".split()
)
#: How the names of others begin that take each entry by itself.
_BY_ENTRY = ("Dropout", "PReLU", "Flatten", "Unflatten")
#: How the names of modules begin whose output has as many dimensions as what they are given.
_KEEPING = (
    "Conv", "BatchNorm", "GroupNorm", "InstanceNorm", "Dropout", "MaxPool", "AvgPool", "Adaptive", "Upsample", "PReLU",
)  # fmt: skip
#: Methods that each module has, whatever is set under names that are not known.
METHODS = frozenset(
    """apply bfloat16 buffers children cpu cuda double eval extra_repr float get_buffer get_parameter get_submodule half
    ipu load_state_dict modules mtia named_buffers named_children named_modules named_parameters parameters
    register_backward_hook register_buffer register_forward_hook register_forward_pre_hook register_full_backward_hook
    register_full_backward_pre_hook register_module register_parameter requires_grad_ set_extra_state set_submodule
    share_memory state_dict to to_empty train type xpu zero_grad add_module compile""".split()
)
#: What has another dimension for what it looks up.
EMBEDDING = "torch.nn.Embedding"
#: How many dimensions the output of a module has at least, if the samples lie along the first.
_DIMS = {
    **dict.fromkeys(("torch.nn.Linear", "torch.nn.LayerNorm"), 2),
    **{f"torch.nn.{name}{size}d": size + 2 for name in ("Conv", "ConvTranspose", "BatchNorm") for size in (2, 3)},
    "torch.nn.Conv1d": 3, "torch.nn.ConvTranspose1d": 3, "torch.nn.BatchNorm1d": 2,
}  # fmt: skip
#: How the names of layers begin that mix what lies along all dimensions but the first, or treat it entry by entry: what
#: is along the first, and nothing else, they treat apart.
_CONVOLVING = ("Conv", "LazyConv")
_AMONG_THEM = (
    "BatchNorm", "LazyBatchNorm", "SyncBatchNorm", "InstanceNorm", "LazyInstanceNorm", "GroupNorm", "LocalResponseNorm",
    "MaxPool", "MaxUnpool", "AvgPool", "Adaptive", "LPPool", "FractionalMaxPool", "Upsample", "Upsampling", "Dropout",
    "AlphaDropout", "FeatureAlphaDropout", "PReLU", "PixelShuffle", "ChannelShuffle", "ZeroPad", "ReflectionPad",
    "ReplicationPad", "ConstantPad", "CircularPad",
)  # fmt: skip
#: What makes one row of each sample; and models of libraries that are made of such layers, by how their names begin.
FLATTENS = "torch.nn.Flatten"
_ROWS = frozenset({"torch.nn.Linear", "torch.nn.LazyLinear"})
_ZOO = "torchvision.models."
_CONVOLUTIONAL = (
    "resnet", "resnext", "wide_resnet", "vgg", "alexnet", "densenet", "mobilenet", "squeezenet", "inception",
    "googlenet", "shufflenet", "efficientnet", "mnasnet", "regnet", "segmentation.fcn", "segmentation.deeplab",
    "segmentation.lraspp",
)  # fmt: skip
#: Transforms of images, by how their full names begin, that change nothing but an image's height, width and entries.
_TRANSFORMS = ("torchvision.transforms.",)
_OF_IMAGES = frozenset(
    """Normalize Resize CenterCrop RandomCrop RandomResizedCrop Pad GaussianBlur ColorJitter RandomHorizontalFlip
    RandomVerticalFlip RandomRotation RandomAffine RandomPerspective RandomErasing ElasticTransform""".split()
)
#: Layers that are functions along a dimension, which may be that of the samples.
ALONG = frozenset(f"torch.nn.{name}" for name in "Softmax LogSoftmax Softmin CosineSimilarity GLU".split())
#: What chooses the dimension by itself, where none is given: of three dimensions the first, of others the second.
_CHOOSING = frozenset("softmax log_softmax softmin Softmax LogSoftmax Softmin".split())
#: How the names of layers with parameters of their own begin.
_WITH_PARAMETERS = (
    "Linear", "LazyLinear", "Bilinear", "Conv", "LazyConv", "Embedding", "LSTM", "GRU", "RNN", "Multihead",
    "Transformer", "BatchNorm", "LazyBatchNorm", "_BatchNorm", "SyncBatchNorm", "LayerNorm", "RMSNorm", "GroupNorm",
    "PReLU", "AdaptiveLogSoftmaxWithLoss",
)  # fmt: skip
#: How the names of torch's own begin that have some if they are told to, or have those of what they hold.
_MAY_HAVE = ("InstanceNorm", "LazyInstanceNorm", "Module", "Parameter", "Sequential", "Container", "DataParallel",
             "Buffer", "UninitializedParameter")  # fmt: skip
#: How the names of modules end that have none, of libraries like torch.
_WITHOUT = ("Loss", "ReLU", "Softmax", "Sigmoid", "Tanh", "Dropout", "Pool", "Similarity", "Identity", "Flatten")
#: And of those that draw none: what they have begins as ones and zeros, or is given to them.
_WITHOUT_DRAWS = (
    *_WITHOUT, "ReLU6", "GELU", "SiLU", "ELU", "LogSoftmax", "Module", "Parameter", "DataParallel", "Norm",
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Pool2d", "Upsample", "Sequential", "ModuleList", "ModuleDict",
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
)  # fmt: skip
#: What reads the gradients of the parameters that it is given.
READS_GRADIENTS = ("torch.nn.utils.clip_grad", "torch.nn.utils.get_total_norm")
#: What a layer of torch's has for parameters.
WEIGHTS = ("weight", "bias")
CLIPS = "torch.nn.utils.clip_grad"
#: Of a parameter or a module: whether it is trained.
FREEZES = "requires_grad_"
#: Methods that move or cast a module in place, mostly away from where it trains.
MOVING = frozenset("cpu half double bfloat16".split())


def may_hold_batchnorm(name: str) -> bool:
    return name in BATCHNORMS or (name.startswith(_WHOLE) and not name.startswith(_NO_MODELS))


def dims_of(name: str, given: int) -> int:
    """How many dimensions the output of a module has at least, given something that has so many."""
    if name == EMBEDDING:
        return max(given, 1) + 1
    return max(_DIMS.get(name, 0), given if keeps_dims(name) else 0)


def keeps_dims(name: str) -> bool:
    """Whether the output of a module has as many dimensions as what it is given."""
    return name in BESIDE or name.removeprefix(OWN).startswith(_KEEPING)


def mixes_entries(name: str) -> bool:
    """Whether it is a layer, and does not take each entry, or those along the last dimension, by itself."""
    by_itself = name in BESIDE or name.removeprefix(OWN).startswith(_BY_ENTRY)
    return has_a_forward(name) and not by_itself and not is_loss(name)


def has_a_forward(name: str) -> bool:
    """Whether it is a layer or a loss, and no class that only others are derived from, and no list of modules."""
    own = name.startswith(OWN) and name.count(".") == 2 and not name.rpartition(".")[2].startswith("_")
    return own and name not in (MODULE, DATA_PARALLEL, *CONTAINERS[1:])


def convolves(name: str) -> bool:
    """Whether it is a convolution, or a model that consists of them."""
    return name.removeprefix(OWN).startswith(_CONVOLVING) if name.startswith(OWN) else _is_convolutional(name)


def _is_convolutional(name: str) -> bool:
    return name.startswith(_ZOO) and name.removeprefix(_ZOO).startswith(_CONVOLUTIONAL)


def treats_rows_apart(name: str) -> bool:
    """Whether a layer treats apart what lies along any dimension but the last."""
    return name in _ROWS


def treats_samples_apart(name: str) -> bool:
    """Whether a layer, or a model of a library, treats apart what lies along the first dimension; rows are flat."""
    if not name.startswith(OWN):
        return _is_convolutional(name)
    own = name.removeprefix(OWN)
    plain = name in BESIDE and not own.startswith(("Embedding", "LayerNorm", "RMSNorm"))
    return plain or name in (*_ROWS, *CONTAINERS, FLATTENS) or own.startswith((*_CONVOLVING, *_AMONG_THEM))


def keeps_leading(name: str) -> bool:
    """Whether it transforms images, of a batch as of one: dimensions before theirs, and their channels, stay."""
    return name.startswith(_TRANSFORMS) and name.rpartition(".")[2] in _OF_IMAGES


def is_no_layer(name: str) -> bool:
    """Whether it is nothing that a forward pass calls as a layer: a loss, a device, something of Python's."""
    return is_loss(name) or name.startswith(NO_MODULES) or name in (PARAMETER, "torch.nn.Buffer", "torch.device")


def is_loss(name: str) -> bool:
    return name.startswith(OWN) and name.endswith("Loss")


def has_parameters(name: str) -> bool:
    """Whether it is a layer of torch with parameters of its own."""
    return name.startswith(OWN) and name.removeprefix(OWN).startswith(_WITH_PARAMETERS)


def has_none(name: str) -> bool:
    """Whether a module, of whatever library, is seen to have no parameters. All layers of torch that have are known."""
    own = _own_class(name)
    if own:
        return not has_parameters(name) and not own.startswith(_MAY_HAVE)
    return name.endswith(_WITHOUT) and not has_parameters(name)


def is_without_items(name: str) -> bool:
    """Whether it is a layer of torch that has no length: it counts as true."""
    own = name.removeprefix(OWN)
    return name.startswith(OWN) and "." not in own and name not in CONTAINERS and not own.startswith("Parameter")


def draws_weights(name: str) -> bool:
    """Whether a layer of torch begins with random numbers."""
    own = name.rpartition(".")[2]
    drawn = own[:1].isupper() and not own.endswith(_WITHOUT_DRAWS)
    return name.startswith(OWN) and drawn and not has_none(name)


def _own_class(name: str) -> str:
    """The name of a class of torch.nn itself; empty: it is something else."""
    own = name.removeprefix(OWN) if name.startswith(OWN) else ""
    return own if own[:1].isupper() and "." not in own else ""


#: What calls a module with other parameters than its own.
WITH_PARAMETERS = ("torch.func.functional_call", "torch.nn.utils.stateless.functional_call")

#: Other ways to make a module, of weights that are there: of which class it is.
MADE_OF_WEIGHTS = {f"torch.nn.{kind}.from_pretrained": f"torch.nn.{kind}" for kind in ("Embedding", "EmbeddingBag")}
#: Under which name what `torch.compile` returns has the module itself.
COMPILED_FROM = "_orig_mod"
#: Under which name a module has its parts by their names.
BY_NAME = "_modules"
#: Puts a module between a parameter and whoever reads it: of which module, under which name, which one.
PARAMETRIZES = "torch.nn.utils.parametrize.register_parametrization"


def chooses_the_first(name: str, is_told: bool, dims: int) -> bool:
    """Whether a function or layer of this name goes along the first dimension by itself.

    is_told: whether it is given one; dims: how many dimensions there are at least.
    """
    return name.rpartition(".")[2] in _CHOOSING and not is_told and dims == 3


#: How the names of layers begin that may return what they are given, or hold others that may.
_HANDING_ON = (
    "Identity", "Flatten", "Unflatten", "Dropout", "AlphaDropout", "FeatureAlphaDropout", "Sequential", "Module",
    "DataParallel", "Parameter", "ReLU", "LeakyReLU", "ELU", "SELU", "CELU", "Hardtanh", "RReLU", "SiLU", "Mish",
    "Threshold", "Hardswish", "Hardsigmoid", "parallel", "utils", "init", "modules",
)  # fmt: skip


def computes(name: str) -> bool:
    """Whether what a layer of that class returns lies in memory of its own, and not in that of what it is given."""
    return name.startswith(OWN) and not name.removeprefix(OWN).startswith(_HANDING_ON)
