"""What a call leaves behind in its process beside what it returns; and what can be sent to another process as it is."""

from __future__ import annotations

from distify_codemods.libraries import outside

#: What is another thing for the rest of the process: where it is, what it was told, how its libraries work.
_OF_THE_PROCESS = (
    "os.chdir", "os.environ", "os.putenv", "os.unsetenv", "os.umask", "os.nice", "os.setpgrp", "os.fork", "os.exec",
    "sys.set", "sys.path.", "sys.modules.", "sys.meta_path.", "signal.", "atexit.", "locale.setlocale", "importlib.",
    "builtins.exec", "builtins.eval", "builtins.setattr", "builtins.delattr", "builtins.globals", "builtins.locals",
    "torch.set_", "torch.use_", "torch.backends.", "torch.cuda.set_", "torch.cuda.manual", "torch.distributed.",
    "torch.multiprocessing.set_", "multiprocessing.set_", "torch.hub.set_", "torch.optim.", "torch.jit.",
    "torch.compile", "torch.autograd.", "torch.utils.data.", "torch.seed", "numpy.set", "resource.setrlimit", "?",
)  # fmt: skip
_ASKING = frozenset(f"os.environ.{method}" for method in ("get", "copy", "keys", "values", "items"))
#: Methods by which parts of libraries are changed: `matplotlib.rcParams.update`, `nltk.data.path.append`.
_CHANGING = frozenset(
    "append insert extend update setdefault pop popitem clear add remove discard sort reverse".split()
)
_DATA = (
    "builtins.", "os.path.", "os.listdir", "json.load", "yaml.", "pathlib.", "pickle.load", "hashlib.", "datetime.",
    "time.", "math.", "copy.", "collections.OrderedDict", "collections.Counter", "torch.load", "torch.tensor",
    "torch.stack", "torch.cat", "torch.from_numpy", "numpy.array", "numpy.stack", "numpy.concatenate", "shutil.",
)  # fmt: skip
#: Of these, what holds on to something of its process, or is gone through once.
_NO_DATA = (
    "builtins.open", "builtins.iter", "builtins.map", "builtins.zip", "builtins.filter", "builtins.super",
    "builtins.enumerate", "builtins.reversed", "hashlib.new", "hashlib.md5", "hashlib.sha",
)  # fmt: skip
_HANDLES = ("open", "glob", "rglob", "iterdir", "keys", "values", "items")
#: Functions that leave what they are given as it was, and of which nothing is in what they give: no list of its parts.
_LOOKS = frozenset(
    [*(f"builtins.{name}" for name in "len str int float bool print repr format round any all isinstance".split()),
     "builtins.range", "json.dump", "json.dumps", "pickle.dump", "pickle.dumps", "torch.tensor", "copy.deepcopy",
     "torch.save", "numpy.save", "numpy.savez", "numpy.savez_compressed"]
)  # fmt: skip
_LOOKING_LIBRARIES = ("os.path.", "pathlib.")
#: Methods that texts and paths alone have, which nothing can change.
_OF_TEXTS = frozenset(
    "rsplit strip lstrip rstrip lower upper startswith endswith zfill exists is_file is_dir joinpath with_suffix "
    "with_name as_posix expanduser read_text read_bytes write_text write_bytes mkdir isoformat strftime".split()
)
#: What makes texts, numbers and paths.
_TEXTS = (*_LOOKING_LIBRARIES, "builtins.str", "builtins.int", "builtins.float", "builtins.len", "datetime.", "time.")
_NUMBERS = frozenset("builtins.len builtins.int builtins.float os.cpu_count math.ceil math.floor".split())
#: What gives one number after the other.
COUNTS_TURNS = "builtins.range"


def changes_the_process(name: str) -> bool:
    """Whether a function of a library, or a method of a part of it, leaves the process another than it was."""
    if name in _ASKING:
        return False
    owner, _, method = name.rpartition(".")
    return name.startswith(_OF_THE_PROCESS) or (method in _CHANGING and bool(owner))


def is_of_a_thread(name: str) -> bool:
    """Whether each thread has something of its own in it: who has nothing there yet makes it."""
    return name == "threading.local"


def is_data(name: str) -> bool:
    """Whether what a function of a library returns can be sent to other processes, and is there what it was here."""
    if name.startswith(_NO_DATA) or name.rpartition(".")[2] in _HANDLES:
        return False
    return name.startswith(_DATA) or outside.asks(name)


def only_looks(name: str) -> bool:
    """Whether a function leaves what it is given as it was, and gives none of it back."""
    return name in _LOOKS or name.startswith(_LOOKING_LIBRARIES)


def is_of_texts(method: str) -> bool:
    """Whether a method is one of texts, paths or times alone, which it leaves as they were."""
    return method in _OF_TEXTS


def is_a_text(name: str) -> bool:
    """Whether what a function of a library makes is a text, a number or a path, which nothing can change."""
    return name.startswith(_TEXTS) and name.rpartition(".")[2] not in _HANDLES


def is_a_number(name: str) -> bool:
    """Whether a function returns a number, whatever it is given."""
    return name in _NUMBERS
