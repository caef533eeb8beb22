"""What a data set may do to make a sample, so that the sample follows from its index and from random numbers alone."""

from __future__ import annotations

import re

#: Data sets that are nothing but their samples.
DATA_SETS = (
    "torch.utils.data.TensorDataset", "torch.utils.data.Subset", "torch.utils.data.ConcatDataset",
    "torch.utils.data.StackDataset", "torch.utils.data.random_split", "torchvision.datasets.",
)  # fmt: skip
#: What a data set of the script's own may derive from.
BASES = ("torch.utils.data.Dataset", "builtins.object", "typing.", "abc.",
         "torchvision.datasets.", "torch.utils.data.TensorDataset", "torch.utils.data.Subset",
         "collections.abc.")  # fmt: skip
#: Functions and classes that compute, read files, or draw from the streams of torch, NumPy and `random`. What they
#: make is changed by nobody but who has it.
_COMPUTE = (
    "torch.", "torchvision.transforms.", "torchvision.io.", "torchvision.tv_tensors.", "torchaudio.", "numpy.", "PIL.",
    "cv2.", "math.", "random.", "os.path.", "re.", "json.", "copy.", "string.", "operator.", "itertools.",
    "functools.partial", "functools.reduce", "collections.", "glob.", "pathlib.", "io.", "base64.", "struct.",
    "unicodedata.", "pickle.", "gzip.open", "skimage.", "imageio.", "scipy.", "librosa.", "soundfile.", "nibabel.",
    "tifffile.", "pandas.", "h5py.File", "lmdb.", "einops.", "builtins.", "time.sleep", "os.listdir", "bisect.",
    "typing.", "statistics.", "fractions.", "decimal.", "datetime.",
)  # fmt: skip
_DO_MORE = (
    "torch.distributed.", "torch.multiprocessing.", "torch.cuda.", "torch.backends.", "torch.set_", "torch.use_",
    "torch.Generator", "torch.random.", "torch.manual_seed", "torch.seed", "torch.hub.", "torch.nn.", "torch.optim.",
    "torch.utils.", "torch.compile", "torch.jit.", "torch.load", "numpy.random.seed", "numpy.random.default_rng",
    "numpy.random.RandomState", "numpy.random.Generator", "numpy.random.SeedSequence", "numpy.random.set_state",
    "numpy.memmap", "numpy.random.PCG64", "random.seed", "random.Random", "random.SystemRandom", "random.setstate",
    "cv2.VideoCapture", "cv2.setRNGSeed", "cv2.setNumThreads", "cv2.theRNG", "cv2.waitKey", "builtins.next",
    "builtins.exec", "builtins.eval", "builtins.compile", "builtins.input", "builtins.print", "builtins.setattr",
    "builtins.delattr", "builtins.globals", "builtins.vars", "builtins.locals", "builtins.__import__", "builtins.id",
    "builtins.breakpoint", "itertools.cycle", "itertools.count", "itertools.tee", "builtins.iter",
)  # fmt: skip
#: Tokenizers, once they are made: each text is cut by itself, whatever was cut before.
_TOKENIZERS = re.compile(r"transformers\.\w*Tokenizer\w*(\.from_pretrained)?|tokenizers\.Tokenizer(\.from_\w+)?")
#: What of the above is a function of what it is given after all.
_STILL = ("torch.nn.functional.", "torch.utils.data.default_collate")
#: What opens a file, with the place of its mode: to be read alone.
OPENING = {"builtins.open": 1, "io.open": 1, "h5py.File": 1, "gzip.open": 1}

#: Arguments that have a state, or that what is computed is written into.
STATES = frozenset({"generator", "rng", "random_state", "out"})

#: Methods that change nothing, of tensors, arrays, pictures, tables, texts and containers.
METHODS = frozenset(
    "abs all amax amin any argmax argmin argsort as_posix astype bfloat16 bool byte ceil chunk clamp clip clone "
    "batch_decode batch_encode_plus begin contiguous convert convert_ids_to_tokens convert_tokens_to_ids copy count "
    "cpu crop cumsum decode detach diff dim div double encode encode_plus endswith eq exp expand expand_as fillna "
    "find findall finditer flatten flip float floor format fullmatch ge get getbands getchannel getpixel group groups "
    "gt half head index int isalpha isdigit isin isnan isnull item items join joinpath keys le ljust log log10 log1p "
    "log2 long lower lstrip lt masked_fill masked_select match max mean median min mul narrow ne nelement new_full "
    "new_ones new_zeros nonzero norm notna numel numpy partition permute point pow prod quantile ravel read_bytes "
    "read_text repeat repeat_interleave replace reshape resize resolve rfind rjust roll rot90 rotate round rsplit "
    "rstrip search short sigmoid size split splitlines sqrt squeeze stack startswith std strip sub sum swapaxes t "
    "take tanh tile title to to_dict to_numpy tobytes tokenize tolist transpose tril triu type unbind unique "
    "unsqueeze upper values var view view_as where with_name with_suffix zfill exists is_file is_dir".split()
)
#: Methods that go through an open file: only of one that was opened for this sample.
READING = frozenset("read readline readlines".split())
#: Methods that change what they are methods of: only what was made for this sample may be.
CHANGING = frozenset(
    "append extend insert pop remove clear update setdefault add discard sort reverse popitem appendleft popleft "
    "paste putalpha putpixel fill_ add_ sub_ mul_ div_ clamp_ zero_ copy_ normal_ uniform_ fill itemset thumbnail "
    "rectangle line text ellipse polygon seek masked_fill_ requires_grad_ random_ shuffle".split()
)
#: What makes something new, which nothing else holds.
_MAKE = (
    "builtins.dict", "builtins.list", "builtins.set", "collections.", "copy.deepcopy", "numpy.array", "numpy.zeros",
    "numpy.ones", "numpy.empty", "numpy.full", "numpy.arange", "numpy.linspace", "numpy.random.", "numpy.stack",
    "numpy.concatenate", "numpy.where", "numpy.load", "numpy.copy", "torch.zeros", "torch.ones",
    "torch.empty", "torch.full", "torch.rand", "torch.randn", "torch.randint", "torch.randperm", "torch.arange",
    "torch.tensor", "torch.cat", "torch.stack", "torch.eye", "torch.linspace", "PIL.Image.new", "PIL.Image.open",
    "cv2.imread", "cv2.cvtColor", "cv2.resize", "PIL.ImageDraw.Draw", "builtins.open", "io.", "gzip.open", "h5py.File",
)  # fmt: skip
#: Methods that do.
MAKING_METHODS = frozenset("copy clone tolist astype convert split resize crop repeat new_zeros new_ones".split())


def computes(name: str) -> bool:
    """Whether a function or class of a library makes something of what it is given, and does nothing else."""
    if name.startswith(_STILL):
        return True
    return name.startswith(_COMPUTE) and not name.startswith(_DO_MORE) and not _writes(name.rsplit(".", 1)[-1])


def _writes(name: str) -> bool:
    return any(word in name.lower() for word in ("save", "dump", "write", "show", "tofile", "savetxt"))


def cuts_texts(name: str) -> bool:
    """Whether what a library has made is a tokenizer: called, or asked by its methods, it changes nothing."""
    return _TOKENIZERS.fullmatch(name) is not None


def makes(name: str) -> bool:
    return name.startswith(_MAKE)
