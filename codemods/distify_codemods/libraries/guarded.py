"""What other ranks may leave out: calls that leave nothing behind but what they return, write or show."""

from __future__ import annotations

_QUIET = (
    "torch.", "numpy.", "math.", "time.", "builtins.", "os.path.", "os.getcwd", "os.environ", "datetime.", "json.dumps",
    "pickle.dumps", "yaml.dump", "csv.", "pandas.", "pathlib.", "os.makedirs",
    "matplotlib.", "PIL.", "torchvision.utils.",
    "argparse.", "string.", "textwrap.", "copy.", "collections.", "itertools.", "functools.", "re.", "statistics.",
    "dataclasses.", "platform.", "sys.version", "getpass.", "socket.gethostname",
)  # fmt: skip
_LOUD = (
    "builtins.exit", "builtins.quit", "builtins.next", "builtins.input", "builtins.exec", "builtins.eval",
    "builtins.setattr", "builtins.delattr",
    "torch.load", "torch.nn.", "torch.utils.data.", "torch.optim.", "torch.hub.", "torch.distributed.",
)  # fmt: skip
#: Where ranks may come to meet: not in a function that a guarded statement calls, which all of them may call as well.
_SHARED = (
    "builtins.open", "io.open", "gzip.open", "bz2.open", "lzma.open", "codecs.open", "numpy.load", "pandas.read",
    "time.", "datetime.", "uuid.", "os.path.exists", "os.path.isfile", "os.path.isdir", "PIL.Image.open", "socket.",
    "platform.",
)  # fmt: skip
DRAWS_RANDOM_NUMBERS = "torch.rand"
#: What is drawn there is only looked at.
PLOTS = ("matplotlib.", "seaborn.")
#: What is drawn into, and is nobody else's.
PICTURES = (*PLOTS, "pandas.", "PIL.")
#: What does nothing but find out, compute and show.
TALKS = ("builtins.", "sys.stdout.", "sys.stderr.", "time.", "math.", "os.popen", "os.get_terminal_size", "pprint.")
#: Decorators that leave nothing behind but what they decorate.
DECORATE = ("torch.", "functools.", "dataclasses.", "contextlib.", "typing.", "abc.", "builtins.", "numba.", "enum.")
#: Who derives from it hears of each class that is made.
METACLASS = "builtins.type"
#: Settings: calls that may be made twice.
SET = (
    "warnings.", "matplotlib.", "sys.path.", "torch.set_", "torch.backends.", "torch.multiprocessing.set_", "numpy.set",
    "logging.", "cv2.set", "cv2.ocl.", "pandas.set_option", "os.environ.setdefault", "locale.",
)  # fmt: skip


def is_shared(name: str) -> bool:
    return name.startswith(_SHARED)


def leaves_nothing(name: str) -> bool:
    """Whether a function, by its full name, leaves nothing behind but what it returns."""
    return name.startswith(_QUIET) and not name.startswith(_LOUD)
