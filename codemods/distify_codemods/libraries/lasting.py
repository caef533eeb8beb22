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
#: What changes the first thing that it is given.
_CHANGING_ARGUMENTS = (
    "random.shuffle", "numpy.random.shuffle", "heapq.heap", "bisect.insort", "numpy.put", "numpy.copyto",
    "numpy.place", "numpy.fill_diagonal", "torch.nn.init.", "operator.setitem", "operator.delitem", "operator.i",
)  # fmt: skip
#: Methods that leave the thing that they are asked of as it was.
_READING = frozenset(
    "get items keys values copy count index format join split strip lower upper replace startswith endswith encode "
    "decode exists is_file is_dir resolve joinpath with_suffix with_name as_posix absolute expanduser glob rglob "
    "iterdir read_text read_bytes write_text write_bytes mkdir touch open stat shape size dim tolist numpy cpu item "
    "mean sum min max std len isoformat strftime info debug warning error critical exception log union intersection "
    "difference issubset issuperset".split()
)
_CHANGING = frozenset(
    "append insert extend update setdefault pop popitem clear add remove discard sort reverse".split()
)
#: Of what these made, methods change nothing, but for what draws.
_KEEP_NOTHING = ("threading.", "pathlib.", "os.path.", "re.", "logging.", "loguru.", "string.", "datetime.", "hashlib.")
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


def changes_the_process(name: str) -> bool:
    """Whether a function of a library, or a method of a part of it, leaves the process another than it was."""
    owner, _, method = name.rpartition(".")
    return name.startswith(_OF_THE_PROCESS) or (method in _CHANGING and bool(owner))


def changes_its_argument(name: str) -> bool:
    """Whether a function of a library changes the first thing that it is given."""
    return name.startswith(_CHANGING_ARGUMENTS)


def only_reads(method: str) -> bool:
    """Whether a method leaves the list, dictionary, path or object that it is asked of as it was."""
    return method in _READING


def keeps_nothing(name: str, method: str) -> bool:
    """Whether a method of what a function of a library made leaves that as it was."""
    return only_reads(method) or name.startswith(_KEEP_NOTHING)


def is_of_a_thread(name: str) -> bool:
    """Whether each thread has something of its own in it: who has nothing there yet makes it."""
    return name == "threading.local"


def is_data(name: str) -> bool:
    """Whether what a function of a library returns can be sent to other processes, and is there what it was here."""
    if name.startswith(_NO_DATA) or name.rpartition(".")[2] in _HANDLES:
        return False
    return name.startswith(_DATA) or outside.asks(name)


#: Functions that make something new of what they are given, and leave that as it was.
_LOOKS = frozenset(
    [*(f"builtins.{name}" for name in "len list tuple sorted set frozenset dict range enumerate str int float bool "
       "min max sum print repr format abs round any all isinstance type hash open".split()),
     "json.dump", "json.dumps", "pickle.dump", "pickle.dumps", "numpy.array", "torch.tensor", "copy.deepcopy",
     "numpy.save", "torch.save", "numpy.savez", "numpy.savez_compressed"]
)  # fmt: skip
#: Methods of texts and paths, which no list, dictionary, array or tensor has for something else.
_ANEW = frozenset(
    "split rsplit strip lstrip rstrip lower upper startswith endswith format encode decode exists is_file is_dir "
    "resolve joinpath with_suffix with_name as_posix absolute expanduser read_text read_bytes write_text write_bytes "
    "mkdir isoformat strftime hexdigest partition rpartition zfill".split()
)
#: What makes texts, numbers and paths.
_TEXTS = (
    "os.path.",
    "pathlib.",
    "builtins.str",
    "builtins.int",
    "builtins.float",
    "builtins.len",
    "datetime.",
    "time.",
)


def only_looks(name: str) -> bool:
    """Whether a function leaves what it is given as it was, and gives none of it back."""
    return name in _LOOKS or name.startswith(("os.path.", "pathlib."))


def makes_anew(method: str) -> bool:
    """Whether a method is one of texts or paths alone, and makes something new."""
    return method in _ANEW


def is_a_text(name: str) -> bool:
    """Whether what a function of a library makes is a text, a number or a path, which nothing can change."""
    return name.startswith(_TEXTS)


def counts(name: str) -> bool:
    """Whether a function returns a number, whatever it is given."""
    return name in ("builtins.len", "builtins.int", "builtins.float", "os.cpu_count", "math.ceil", "math.floor")


def counts_turns(name: str) -> bool:
    """Whether what it returns gives one number after the other."""
    return name == "builtins.range"
