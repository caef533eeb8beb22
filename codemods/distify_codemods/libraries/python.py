"""Python's own functions and classes, where more than one place must know them."""

from __future__ import annotations

LENGTH = "builtins.len"
INTEGER = "builtins.int"
COUNTS = "builtins.enumerate"
READS_ATTRIBUTE, SETS_ATTRIBUTE = "builtins.getattr", "builtins.setattr"
#: What is called by a name that is put together as the program runs.
IMPORTS = frozenset({"importlib.import_module", "builtins.__import__"})
BY_NAME = IMPORTS | {"builtins.eval", "builtins.exec"}
#: Takes one of what it is given; and where the others, that go through all of it, have that if not first.
TAKES_ONE = "builtins.next"
GO_THROUGH = {
    **dict.fromkeys((f"builtins.{name}" for name in "list tuple set sorted sum max min next".split()), 0),
    **dict.fromkeys(("builtins.map", "builtins.filter"), -1),
}
#: Starts another process by itself.
STARTS_PROCESSES = "torch.multiprocessing.Process"
#: What another program says, as a file that is still to be read.
ANSWERS_LATER = "os.popen"
DEEP_COPY = "copy.deepcopy"
COPIES = frozenset({DEEP_COPY, "copy.copy"})
#: The environment of a process, and what sets and reads it.
ENVIRONMENT = "os.environ"
SETS_IF_MISSING = "os.environ.setdefault"
SETS_ENVIRONMENT = frozenset({SETS_IF_MISSING, "os.environ.update", "os.putenv"})
GETS_ENVIRONMENT = frozenset({"os.environ.get", "os.getenv"})
READS_ENVIRONMENT = GETS_ENVIRONMENT | {"os.environ.pop"}
