"""What functions of libraries do to files, and which libraries keep an experiment's log: the registry, by question."""

from __future__ import annotations

from distify_codemods.libraries import downloads, registry, standard
from distify_codemods.libraries.registry import ITSELF, UNSEEN, Api, Effect, Role, functions, is_tracker, methods

__all__ = ["ITSELF", "UNSEEN", "is_tracker"]

CHECKPOINTS = functions(Role.CHECKPOINT)
CHECKPOINT_METHODS = methods(Role.CHECKPOINT)
IN_PLACE = functions(Role.IN_PLACE).keys() | methods(Role.IN_PLACE).keys()
#: What writes an object into a file that is open.
INTO_A_HANDLE = functions(Role.INTO_A_HANDLE)
#: What keeps data in a file, and changes nothing else.
KEEPS = functions(Role.CHECKPOINT, Role.INTO_A_HANDLE, Role.DATA)
#: What changes files, and nothing else; or shows something, in a window.
WRITES = functions(Effect.WRITES)
#: Of these, what is given what the file holds: pictures.
DEPICTS = frozenset(name for name, api in WRITES.items() if api.holds)
SHOWS, SHOWING_METHODS = functions(Effect.SHOWS), methods(Effect.SHOWS)
#: A window that stays until somebody closes it.
WAIT_FOR_A_PERSON = ("matplotlib.pyplot.show",)
#: Other processes: which files they write is not seen.
SHELL = tuple(functions(Role.SHELL))
#: What a folder or file may be gone after.
REMOVES = (*functions(Effect.REMOVES), *methods(Effect.REMOVES))
#: Methods that take a path for what they write; without one, those that begin with `to_` return it as text.
WRITING_METHODS = methods(Effect.WRITES)
TEXTS = "to_"

#: What makes a folder, and does not mind, if it is told so, that it is there; and what makes nothing else.
MAKES_FOLDERS = frozenset({"os.makedirs", "mkdir"})
ONLY_FOLDERS = MAKES_FOLDERS | {"os.mkdir"}

#: What opens a file.
FILES = functions(Role.FILE)
BY_PATH = functions(Role.BY_PATH)
THROUGH = functions(Role.THROUGH)
PATHS_OPEN = "pathlib.Path.open"
WRITING_MODES = frozenset("w a x wb ab xb wt at xt w+ a+ r+ rb+ wb+ ab+".split())
HANDLES = (*FILES, *BY_PATH, PATHS_OPEN, *THROUGH)
STORES = functions(Role.STORE)
ALWAYS_WRITE = functions(Role.WRITER)
IN_MEMORY = functions(Role.IN_MEMORY)
MAPPED = functions(Role.MAPPED)
DATABASES = functions(Role.DATABASE)
#: By what they are told that nobody writes into them.
READ_ONLY = "readonly"
#: By which methods what these make writes.
WRITES_BY = {name: api.writes_by.split() for name, api in {**DATABASES, **MAPPED, **STORES}.items()}
CACHES = functions(Role.CACHE)
CACHING_METHODS = methods(Role.CACHE)

READING_METHODS = methods(Effect.READS)
#: What opens a file if it is given the path of one; methods with what they are methods of.
_OPENS, OPENING_METHODS = functions(Effect.OPENS), methods(Effect.OPENS)
RUN_FOLDERS = functions(Role.FOLDER)
#: What writes, or reads, the one file that its path names, and no folder.
_ONE = [(name.removeprefix("."), api) for api in registry.apis() if api.one_file for name in api.names.split()]
_WRITE_ONE = frozenset(["open", *(name for name, api in _ONE if not api.effect & (Effect.READS | Effect.RESTORES))])
_READ_ONE = frozenset(["open", *(name for name, api in _ONE if not api.effect & Effect.WRITES)])
#: Functions that change nothing but what they return, and those among them that do.
PURE: tuple[str, ...] = ("torch.", "numpy.", "math.", "time.", "builtins.")
IMPURE = frozenset([*WRITES, *FILES, "builtins.input", "builtins.exec", "builtins.setattr"])
#: Libraries that do nothing to files but by what stands above, or is followed by a rule of its own.
KNOWN = (
    "logging.", "loguru.", "csv.", "yaml.", "importlib.", "subprocess.", "shutil.", "tempfile.", "socket.", "urllib.",
    "tarfile.", "multiprocessing.", "concurrent.",
    "torch.", "torchvision.", "torchtext.", "torchaudio.", "numpy.", "pandas.", "scipy.", "sklearn.", "matplotlib.",
    "mpl_toolkits.", "seaborn.", "PIL.", "cv2.", "tqdm.", "rich.", "click.", "typer.", "fire.", "termcolor.", "einops.",
    "timm.", "configargparse.", "librosa.",
    "absl.", "IPython.", "requests.", "h5py.", "joblib.", "skimage.", "imageio.", "omegaconf.", "hydra.",
    "google.colab.",
)  # fmt: skip
#: Methods that put something into a file that is open: who opened it has seen to it.
OF_HANDLES = frozenset("write writelines writerow writerows writeheader writestr".split())
#: Words of names by which a library says that it writes, or that it reads.
WRITING_WORDS = ("save", "dump", "export", "write")
#: So is called what makes something that writes from then on.
_LOGGING_WORDS = ("logger", "recorder")
#: What autograd's functions keep for their gradients.
_KEPT_BY_AUTOGRAD = frozenset({"save_for_backward", "save_for_forward"})
_READING_WORDS = ("load", "read", "restore", "parse")


def is_named(name: str) -> bool:
    """Whether a function is in one of these tables, or is of a library that keeps a log."""
    tables = (WRITES, HANDLES, STORES, ALWAYS_WRITE, MAPPED, DATABASES, RUN_FOLDERS, CACHES)
    return any(name in table for table in tables) or registry.find(name, Effect.LOGS, Effect.READS) is not None


def reading(name: str) -> Api | None:
    """What is known of a function that reads a file, by its full name; of a method also where a class is asked."""
    if name.startswith(downloads.WITH_WEIGHTS):
        return None
    of_a_class = READING_METHODS.get(name.rsplit(".", 1)[-1]) if "." in name else None
    return registry.find(name, Effect.READS) or (of_a_class if of_a_class and of_a_class.path >= 0 else None)


def writing(name: str) -> Api | None:
    """What is known of a function that writes, by its full name, or of a method, as `.save`."""
    return WRITING_METHODS.get(name[1:]) if name.startswith(".") else WRITES.get(name)


def opens(name: str) -> bool:
    """Whether a function opens a file, if it is given the path of one."""
    return name in _OPENS


def writes_one_file(name: str) -> bool:
    """Whether a function or method writes the one file that its path names, and no folder."""
    return name in _WRITE_ONE


def reads_one_file(name: str) -> bool:
    return name in _READ_ONE


def hold_different_things(write: str, read: str) -> bool:
    """Whether what the one writes is nothing that the other could read: a picture is no table."""
    one, other = WRITES.get(write) or WRITING_METHODS.get(write), reading(read)
    return one is not None and other is not None and "" not in (one.holds, other.holds) and one.holds != other.holds


def ending(name: str) -> str:
    """What a function adds to a path that does not end so."""
    return WRITES[name].adds if name in WRITES else ""


def place_of_mode(name: str) -> int:
    """Which argument says how a file is opened."""
    return 0 if name == PATHS_OPEN else MAPPED[name].mode if name in MAPPED else 1


def told_by(name: str) -> str:
    """By which name it is told."""
    return MAPPED[name].told_by if name in MAPPED else "mode"


def default_mode(name: str) -> str:
    """How a file is opened by a function that is not told."""
    known = MAPPED.get(name) or STORES.get(name)
    return known.default if known is not None else "r"


def is_known(library: str, name: str) -> bool:
    """Whether nothing is written by a function or method that no table names: `library` it is of, `name` its own."""
    of_a_file = library in HANDLES or library in STORES or library in ALWAYS_WRITE  # who opened it has seen to it
    known = library.startswith(KNOWN) or standard.computes(library)
    return of_a_file or (known and not says_that_it_writes(name))


def is_writing_method(name: str, given: int) -> bool:
    """Whether a method of this name, that is given so many arguments, may be one that writes."""
    known = WRITING_METHODS.get(name)
    return known is not None and (given == 1 or not known.path_alone)


def says_that_it_writes(name: str) -> bool:
    """By its own name; `dumps` is the one that returns the text."""
    says = any(word in name.lower() for word in WRITING_WORDS) and not name.endswith("dumps")
    return says and name not in _KEPT_BY_AUTOGRAD


def says_that_it_keeps_a_log(name: str) -> bool:
    return any(word in name.lower() for word in _LOGGING_WORDS)


def says_that_it_reads(name: str) -> bool:
    return name.lower().startswith(_READING_WORDS)
