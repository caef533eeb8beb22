"""Random numbers: what sets seeds, what draws, and from which stream; for samples, or for weights."""

from __future__ import annotations

from distify_codemods.libraries import torch_nn
from distify_codemods.libraries.quiet import is_quiet
from distify_codemods.libraries.seeding import is_seeding

#: Libraries whose own generators get their seeds from torch's stream by one of these.
SEEDED_BY = {
    "monai.": frozenset("monai.utils.set_determinism monai.data.DataLoader monai.data.ThreadDataLoader".split()),
}
#: What the streams of `random` and of NumPy are drawn from.
OF_NUMPY = "numpy.random"
STREAMS = ("random.", f"{OF_NUMPY}.")
#: Draws that return some of what they are given, in an order that is drawn; those behind them change it, or do more.
OF_NUMBERS = frozenset(
    "torch.randperm numpy.random.permutation numpy.random.choice random.sample random.choice random.choices".split()
)
PERMUTATIONS = frozenset({"torch.randperm", "numpy.random.permutation"})
#: Draws that choose samples: they must be the same on all ranks.
CHOOSING = OF_NUMBERS | frozenset(
    "torch.utils.data.random_split numpy.random.shuffle random.shuffle sklearn.model_selection.train_test_split "
    "sklearn.model_selection.KFold".split()
)
#: Generators by the module whose functions they have; without a seed they differ from rank to rank.
GENERATORS = {
    "numpy.random.RandomState": "numpy.random", "numpy.random.default_rng": "numpy.random", "random.Random": "random",
}  # fmt: skip
#: What the operating system gives a state where no seed is given; and what is given one of those.
UNSEEDED = frozenset(
    [*GENERATORS, *(f"numpy.random.{name}" for name in "SeedSequence PCG64 PCG64DXSM MT19937 Philox SFC64".split())]
)
OWN_STATE = UNSEEDED | {"numpy.random.Generator"}
#: As they are when a data set holds them, however they were made; and what gives one a seed.
EVERY_GENERATOR = ("torch.Generator", *OWN_STATE)
SEEDING_METHODS = frozenset({"manual_seed", "seed", "set_state", "setstate"})
#: Arguments by which a function is told a stream, or a seed, of its own.
OWN_STREAM = frozenset({"generator", "random_state", "seed", "rng"})
#: Draws of one number, and how many arguments they have before those that say how many are drawn, if any may.
NUMBERS = {
    "random.randint": 2, "random.randrange": 3, "random.uniform": 2, "random.gauss": 2, "random.betavariate": 2,
    "numpy.random.randint": 2, "numpy.random.uniform": 2, "numpy.random.normal": 2, "numpy.random.beta": 2,
}  # fmt: skip
#: Others, that mostly serve a test, which rank 0 decides, or a model, in which chance is looked for by itself.
SINGLE = {
    "random.random": 0, "random.triangular": 3, "random.expovariate": 1, "random.normalvariate": 2,
    "random.gammavariate": 2, "random.lognormvariate": 2, "numpy.random.random": 0, "numpy.random.random_sample": 0,
    "numpy.random.rand": 0, "numpy.random.randn": 0, "numpy.random.standard_normal": 0, "numpy.random.exponential": 1,
    "numpy.random.poisson": 1, "numpy.random.binomial": 2, "numpy.random.gamma": 2, "numpy.random.laplace": 2,
}  # fmt: skip
#: Those that are told how many: where the first argument stands that says it.
TENSORS = {"torch.rand": 0, "torch.randn": 0, "torch.randint": -1}
#: Methods that fill a tensor with random numbers, or return some; and those that draw the weights of a module anew.
METHODS = frozenset(
    "uniform_ normal_ bernoulli_ random_ exponential_ geometric_ log_normal_ cauchy_ bernoulli multinomial".split()
)
#: Of torch's distributions.
_OF_DISTRIBUTIONS = frozenset({"sample", "rsample", "sample_n", "rsample_n"})
RESETS = frozenset({"reset_parameters", "_reset_parameters"})
#: Functions that draw a module's weights, or which of them are left.
OF_WEIGHTS = ("torch.nn.init.", "torch.nn.utils.prune.random_", "torch.nn.utils.prune.Random")
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


#: torchvision's transforms.
TRANSFORMS = "torchvision.transforms."
#: Those that do not draw. The others draw once for whatever they are given.
_FIXED = frozenset(
    """Normalize Resize CenterCrop ToTensor PILToTensor ToPILImage ConvertImageDtype ConvertDtype Grayscale Pad FiveCrop
    TenCrop LinearTransformation ToDtype ToImage ToPureTensor Identity Permute TransposeDimensions Compose Transform
    InterpolationMode""".split()
)


#: Libraries whose transforms draw from generators of their own, made anew in each process.
OF_THEIR_OWN = ("albumentations.", "imgaug.", "monai.transforms.", "audiomentations.", "torch_audiomentations.")
#: Of these, what draws nothing by itself; and where it is the others that are known: how their names begin.
_STILL = frozenset(
    """Compose Sequential ReplayCompose BasicTransform ImageOnlyTransform DualTransform BboxParams KeypointParams
    Normalize Resize CenterCrop PadIfNeeded LongestMaxSize SmallestMaxSize ToTensor ToTensorV2 ToFloat FromFloat
    Lambda NoOp""".split()
)
_DRAWING = {"monai.": ("Rand", "OneOf", "SomeOf")}
#: Functions of torch that draw.
_OF_TORCH = frozenset(
    """rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial poisson
    binomial""".split()
)
#: Methods of generators, and of distributions.
_OF_GENERATORS = METHODS | frozenset(
    "choice choices integers normal permutation rand randint randn random sample rsample shuffle uniform".split()
)
#: Layers of torch that draw while they train, by parts of their names, and functions that do.
_DROPPING = ("ropout", "rrelu", "RReLU", "Transformer", "MultiheadAttention", "gumbel_softmax", "LSTM", "GRU", "RNN")

_DRAWING_FUNCTIONS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "gumbel_softmax", "rrelu", "rrelu_")


#: Others that mix the samples of a batch with each other, by a number that is drawn for all of them.
_MIXING = frozenset({"timm.data.Mixup"})


def draws_once(name: str) -> bool:
    """Whether calling an object of this class draws one set of numbers for all that it is given: a whole batch, say."""
    return name in _MIXING or (name.startswith(TRANSFORMS) and name.rpartition(".")[2] not in _FIXED)


def augments(name: str) -> bool:
    """Whether such an object draws for each sample that it is given, from a generator of its own."""
    last = name.rpartition(".")[2]
    drawing = next((begins for library, begins in _DRAWING.items() if name.startswith(library)), None)
    return name.startswith(OF_THEIR_OWN) and (last not in _STILL if drawing is None else last.startswith(drawing))


def draws_for_samples(name: str) -> bool:
    """Whether a function, or an object of a class, draws from the script's streams when it is called for a sample."""
    library, _, last = name.rpartition(".")
    if name.startswith(TRANSFORMS):
        return draws_once(name) and last != "Lambda" and not library.endswith((".functional", ".InterpolationMode"))
    return draws_numbers(name) or draws_once(name) or name.startswith("kornia.augmentation.")


def draws_numbers(name: str) -> bool:
    """Whether a function draws from the script's streams whenever it is called, whatever it is given."""
    if name.startswith(STREAMS):
        return not is_seeding(name) and name not in OWN_STATE
    library, _, last = name.rpartition(".")
    return library == "torch" and last in _OF_TORCH


def is_a_generator(name: str) -> bool:
    """Whether something that a library's call of this name gave has a stream of its own: `default_rng(0)`."""
    return name.startswith(EVERY_GENERATOR)


def draws_by(name: str, method: str) -> bool:
    """Whether a method draws whenever it is called: of anything, or of what a call of this name has made."""
    return method in METHODS or (method in _OF_DISTRIBUTIONS and name.startswith("torch.distributions."))


def is_drawing_method(name: str) -> bool:
    """Whether a method, of whatever it is, is called as those of generators and distributions are."""
    return name in _OF_GENERATORS


def drops(name: str) -> bool:
    """Whether a layer may draw while it is in training mode, or a function of torch's layers."""
    return not name.startswith(torch_nn.OWN) or any(part in name for part in _DROPPING)


def is_dropout(name: str) -> bool:
    """Whether a function drops unless it is told that its model does not train, or draws in any case."""
    return name.startswith("torch.nn.functional.") and name.endswith(_DRAWING_FUNCTIONS)


def draws(name: str) -> bool:
    """Whether a function or class draws samples or weights."""
    return torch_nn.draws_weights(name) or name.startswith(_ALWAYS)


def may_draw(name: str) -> bool:
    """Whether a function or class may draw, beyond what the results of functions of torch and numpy say."""
    if name.startswith(torch_nn.OWN):
        return draws(name)
    return not is_quiet(name) or name.startswith(_LIBRARIES)
