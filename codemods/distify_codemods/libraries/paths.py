"""Paths: what puts them together, and what each process would make up for itself."""

from __future__ import annotations

import re

from distify_codemods.libraries import listings

PATH, OF_PATHS = "pathlib.Path", "pathlib."
JOINS = ("os.path.join", PATH, "pathlib.PurePath")
#: The same path, as a text.
KEEPS = ("builtins.str", "os.fspath", "os.path.normpath")
#: The last thing that they are given is how the path ends.
ENDS = ("os.path.join", "pathlib.Path", "builtins.str", "os.fspath")
GLOBS = ("glob.glob", "glob.iglob")
#: How names of files end: briefly, or in a word that nothing else ends in.
_ENDING = re.compile(
    r"(?:\w|^)\.(?:[A-Za-z][A-Za-z0-9]{0,5}|checkpoint|feather|geojson|parquet|msgpack|safetensors|tfrecords?)$"
)
_MARKUP = re.compile(r"</?\w+/?>")
_WILD = re.compile(r"[*?[]")
_PATHS = ("os.path.", "pathlib.", "tempfile.")
_NO_PATHS = ("os.path.exists", "os.path.is", "os.path.getsize", "os.path.getmtime")

#: What each process sees for itself: the time, names nobody else has, who and where it is, what files there are.
OWN = frozenset(
    """datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today datetime.date.today time.time time.time_ns
    time.strftime time.localtime time.gmtime time.ctime time.asctime uuid.uuid1 uuid.uuid4 tempfile.mkdtemp
    tempfile.mktemp tempfile.mkstemp tempfile.NamedTemporaryFile tempfile.TemporaryDirectory secrets.token_hex
    secrets.token_urlsafe secrets.token_bytes secrets.randbits secrets.randbelow secrets.choice os.urandom
    socket.gethostname platform.node os.getpid""".split()
) | listings.FUNCTIONS  # fmt: skip
#: Whose methods give what nobody else gets.
OF_THE_SYSTEM = "random.SystemRandom"
#: What of an argument they are made of, their results are made of.
CARRY = ("os.path.", "pathlib.", "datetime.", "time.", "uuid.", "os.fspath")
#: What makes something by itself, which rank 0 alone does; and what ends with the process that makes it.
MAKES = frozenset({"tempfile.mkdtemp"})
OF_A_BLOCK = "tempfile.TemporaryDirectory"
ENDS_WITH_IT = frozenset({OF_A_BLOCK, "tempfile.NamedTemporaryFile", "tempfile.mkstemp"})
#: Of these, what stays until somebody removes it, or if that is asked for.
STAYS, STAYS_IF_ASKED = "tempfile.mkstemp", "tempfile.NamedTemporaryFile"
#: Who removes what was made must be who made it.
REMOVALS = frozenset({"shutil.rmtree", "shutil.move", "os.rmdir", "os.removedirs", "rmdir"})
#: What asks the person at the terminal.
ASKS = (
    *("builtins.input", "getpass.getpass"),
    *(f"tkinter.filedialog.ask{what}" for what in "openfilename openfilenames saveasfilename directory".split()),
    *(f"tkinter.simpledialog.ask{what}" for what in "string integer float".split()),
    *(f"tkinter.messagebox.ask{what}" for what in "question okcancel retrycancel yesno yesnocancel".split()),
)
#: Words in names of options and arguments that are paths; alone, or at the end; and what else has such words in it.
_WORDS = frozenset("path paths dir file filename folder root ckpt checkpoint output".split())
_LAST_WORDS = frozenset("out outdir logdir savedir directory destination".split())
_NUMBERS = frozenset(
    "channels classes dim dims dimension features format freq frequency hidden interval layers length rate size "
    "steps stride type units width".split()
)


def names_a_path(name: str) -> bool:
    """Whether an option or an argument of that name is a path: `args.out`, `output_dir=`, and not `output_dim`."""
    words = re.split(r"[._]", name.lower())
    return words[-1] in _LAST_WORDS or (words[-1] not in _NUMBERS and not _WORDS.isdisjoint(words))


def before_patterns(text: str) -> str:
    """What a path begins with before the first sign that stands for others, as in `runs/*`."""
    return _WILD.split(text)[0]


def has_markup(text: str) -> bool:
    """`</t>`, `<br/>`: its slash leads to no file."""
    return _MARKUP.search(text) is not None


def ends_like_a_file(text: str) -> bool:
    """Whether a text ends as names of files do: `model.safetensors`, or the ending alone."""
    return _ENDING.search(text) is not None


def makes_a_path(name: str) -> bool:
    """Whether what a function returns is a path, or a folder that was made."""
    return name.startswith(_PATHS) and not name.startswith(_NO_PATHS)
