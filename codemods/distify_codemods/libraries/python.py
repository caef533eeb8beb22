"""Python's own functions and classes, where more than one place must know them."""

from __future__ import annotations

LENGTH = "builtins.len"
#: The method that puts a list in an order.
SORTS = "sort"
PROPERTY = "builtins.property"
RANGE, SUM = "builtins.range", "builtins.sum"
NUMBERS = frozenset({RANGE, "itertools.count"})
#: What goes through a dictionary, whatever class it has.
OF_TABLES = frozenset("items keys values".split())
#: What looks something up in it, by a key that is given first.
BY_KEY = frozenset("get pop setdefault".split())
#: What gives one number, or none: of a tensor of several there is none.
ONE_NUMBER, ONE_NUMBER_OF_A_TENSOR = frozenset("int float bool len round ord".split()), "item"
INTEGER = "builtins.int"
COUNTS = "builtins.enumerate"
ZIP, MAP = "builtins.zip", "builtins.map"
#: Decorators of methods that are given no object, or their class; and of what is run up to its `yield`.
STATIC, OF_THE_CLASS = "builtins.staticmethod", "builtins.classmethod"
CONTEXT_MANAGERS = frozenset({"contextlib.contextmanager", "contextlib.asynccontextmanager"})
SUPPRESSES = "contextlib.suppress"
PARTIAL, PARTIAL_METHOD = "functools.partial", "functools.partialmethod"
#: What ends the program, and what does where nothing catches it.
EXITS = frozenset({"sys.exit", "os._exit", "builtins.exit", "builtins.quit"})
ENDING = ("builtins.SystemExit", "builtins.KeyboardInterrupt")
PRINT = "builtins.print"
LOGGER = "logging.getLogger"
PATH, QUEUE, COUNTER, METACLASS = "pathlib.Path", "collections.deque", "collections.Counter", "builtins.type"
#: Functions that take functions and do not call them.
KEEPS = (
    *(f"functools.{name}" for name in ("wraps", "update_wrapper", "lru_cache", "cache")), "inspect.", "typing.",
)  # fmt: skip
#: What notebooks have without importing it.
OF_NOTEBOOKS = ("get_ipython", "display", "In", "Out", "_")
KIND_OF = "builtins.isinstance"
LISTS = frozenset({"builtins.tuple", "builtins.list"})
DICTIONARY = "builtins.dict"
#: Bases of classes whose objects are numbers or texts, whatever else they are.
PLAIN_VALUES = ("builtins.float", "builtins.int", "builtins.complex", "builtins.str")
#: Objects that keep numbers, and are not followed.
KEEPS_FIGURES = frozenset({"contextvars.ContextVar", "array.array"})
#: Bases of classes whose objects are lists, whatever else they are.
LIST_BASES = ("builtins.list", "builtins.set", QUEUE, "collections.UserList", "typing.List", "typing.Deque")
DICTIONARIES = (DICTIONARY, "collections.OrderedDict", "collections.defaultdict", "collections.UserDict")
CONTAINERS = frozenset(
    {"builtins.set", "builtins.frozenset", *LISTS, *DICTIONARIES}
    | {
        f"{module}.{name}"
        for module in ("collections.abc", "collections", "typing")
        for name in ("Sequence", "Mapping")
    }
)
#: Under such a name they have the list or dictionary that they are; `queue.Queue` has one, too.
USERS, WRAPPED = ("collections.UserList", "collections.UserDict"), ("data", "queue")
#: Functions that do what a method of what they are given first does.
AS_METHODS = {
    f"operator.{name}": f"__{name}__"
    for name in "setitem getitem iadd isub imul itruediv ifloordiv imod ipow iand ior ixor".split()
} | {"operator.iconcat": "__iadd__"}
#: What makes a list, a dictionary or a set that nobody else has.
NEW_CONTAINERS = frozenset({"builtins.list", "builtins.set", *DICTIONARIES, QUEUE, COUNTER})
#: What reads lists and dictionaries, of which it is not seen what is in them.
READ_CONTAINERS = frozenset(
    """json.load json.loads ujson.load ujson.loads simplejson.load simplejson.loads orjson.loads yaml.load
    yaml.safe_load yaml.full_load yaml.unsafe_load toml.load toml.loads pickle.load pickle.loads dill.load
    cloudpickle.load joblib.load
    torch.load numpy.load""".split()
)
NAMED_TUPLE = "collections.namedtuple"
METHOD_CALLER = "operator.methodcaller"  # what it returns calls a method by its name
MODULES = "sys.modules"
#: What they say of a tensor they say of each part of it.
ASKS_KIND = frozenset({"builtins.isinstance", "builtins.hasattr", "builtins.callable", "torch.is_tensor"})
#: What asks something for its length, or of which kind it is, and takes nothing out of it.
ASK_HOW_MANY = ASKS_KIND | {"builtins.len", "builtins.print", "builtins.type", "builtins.id"}
REDUCES = "functools.reduce"
TUPLES = ("typing.NamedTuple", NAMED_TUPLE)
#: Bases that add nothing to a class that derives from them.
PLAIN_BASES = ("builtins.object", "abc.", "typing.", "torch.utils.data.Dataset")
PATHS = "os.path."
#: Folders: what names the same one in another way, the one above, what is inside, and where the script is run.
SAME_FOLDER = frozenset(
    "os.path.abspath os.path.realpath os.path.normpath os.fspath builtins.str pathlib.Path pathlib.PurePath".split()
)
ABOVE, INSIDE, HEAD_AND_TAIL = "os.path.dirname", "os.path.join", "os.path.split"
HERE = frozenset({"os.getcwd", "pathlib.Path.cwd"})
SIGNS = {"os.pardir": "..", "os.curdir": ".", "os.sep": "/", "os.path.sep": "/"}
#: The same of paths as objects: attributes, and methods.
PARENT, PARENTS = "parent", "parents"
SAME_FOLDER_OF_A_PATH, INSIDE_OF_A_PATH = frozenset({"resolve", "absolute", "as_posix"}), "joinpath"
#: The file of the code that asks: `inspect.getfile(inspect.currentframe())`.
OF_A_FRAME, THIS_FRAME = frozenset({"inspect.getfile", "inspect.getsourcefile"}), "inspect.currentframe"
#: A path's text, and one that is put together of such a text and others, by `+` or in an f-string.
TEXT, PUT_TOGETHER = "builtins.str", "builtins.str.join"
#: What an object says of itself.
AS_TEXT = ("__str__", "__repr__", "__format__")
#: Where Python looks for modules, first of all where the script lies; and how that was started.
SEARCH_PATH, COMMAND_LINE = "sys.path", "sys.argv"
#: What puts what it is given into something else as it is.
KEEPING_METHODS = frozenset("append appendleft extend insert add put put_nowait setdefault update setattr".split())
TAKING_OUT = frozenset("pop popitem popleft remove clear discard".split())
#: Methods of dictionaries that give what is in them.
ALL_ENTRIES = ("items", "values")
#: argparse's methods that declare an option, and that read the command line.
DECLARES, SETS_DEFAULTS, PARSES_ARGUMENTS = "add_argument", "set_defaults", ("parse_args", "parse_known_args")
OF_OPTIONS = frozenset({DECLARES, SETS_DEFAULTS})
PARSED_IN_PAIRS = "_get_kwargs"  # a method of what was parsed
READS_ATTRIBUTE, SETS_ATTRIBUTE = "builtins.getattr", "builtins.setattr"
SETTERS = frozenset({"setattr", "__setattr__"})  # as they are called
#: What is called by a name that is put together as the program runs.
IMPORT_MODULE, IMPORT = "importlib.import_module", "builtins.__import__"
IMPORTS = frozenset({IMPORT_MODULE, IMPORT})
RUNS_A_TEXT = "builtins.exec"
BY_NAME = IMPORTS | {"builtins.eval", RUNS_A_TEXT}
#: What of a number always gives one.
OF_A_NUMBER = frozenset({"builtins.float", "builtins.abs"})
#: Goes through what it is given; takes one of it; and where the others, that go through all, have that if not first.
BEGINS, TAKES_ONE = "builtins.iter", "builtins.next"
NEXT_METHODS = ("__next__", "next", "send")
GO_THROUGH = {
    **dict.fromkeys((f"builtins.{name}" for name in "list tuple set sorted sum max min next".split()), 0),
    **dict.fromkeys(("builtins.map", "builtins.filter"), -1),
}
#: What gives out what is done side by side in the order in which it ends: a function, and a method of pools.
AS_COMPLETED, IN_ANY_ORDER = "concurrent.futures.as_completed", "imap_unordered"
#: Starts another process by itself.
STARTS_PROCESSES = "torch.multiprocessing.Process"
#: What runs functions beside the script: in threads, and else in processes.
THREADS = (
    "threading.", "multiprocessing.dummy.", "multiprocessing.pool.ThreadPool", "concurrent.futures.Thread",
    "asyncio.to_thread", "tqdm.contrib.concurrent.thread_map",
)  # fmt: skip
BESIDE = (
    *THREADS, "multiprocessing.", "torch.multiprocessing.", "concurrent.futures.", "joblib.Parallel", "joblib.delayed",
    "joblib.parallel.", "multiprocess.", "ray.", "tqdm.contrib.concurrent.",
)  # fmt: skip
#: What another program says, as a file that is still to be read.
ANSWERS_LATER = "os.popen"
#: What runs a function that it is given: the parameter and its place, and those of its arguments.
RUNNERS = {
    "threading.Thread": ("target", 1, "args"),
    "multiprocessing.Process": ("target", 1, "args"),
    STARTS_PROCESSES: ("target", 1, "args"),
    "torch.multiprocessing.spawn": ("fn", 0, "args"),
    **dict.fromkeys(("absl.app.run", "tensorflow.app.run", "tensorflow.compat.v1.app.run"), ("main", 0, "")),
}
#: Decorators that run the function, if the file is the one that was started.
RUN_AT_ONCE = frozenset({"sacred.Experiment.automain"})
#: `x[slice(a, b)]` is `x[a:b]`.
SLICE = "builtins.slice"
LEAST = "builtins.min"
DEEP_COPY = "copy.deepcopy"
COPIES = (DEEP_COPY, "copy.copy")
#: The fields of an object by their names, those of objects within too; the method of a named tuple.
#: What gives all attributes of an object at once: an attribute, and functions; and what sets one past its class.
FIELDS, AS_FIELDS, SETS_PLAINLY = "__dict__", "builtins.vars", "builtins.object.__setattr__"
AS_DICTIONARY = ("dataclasses.asdict", "attr.asdict", "attrs.asdict")
TUPLE_AS_DICTIONARY, TUPLE_REPLACED = "_asdict", "_replace"
#: The environment of a process, and what sets and reads it.
ENVIRONMENT = "os.environ"
SETS_IF_MISSING = "os.environ.setdefault"
SETS_ENVIRONMENT = frozenset({SETS_IF_MISSING, "os.environ.update", "os.putenv"})
GETS_ENVIRONMENT = frozenset({"os.environ.get", "os.getenv"})
READS_ENVIRONMENT = GETS_ENVIRONMENT | {"os.environ.pop"}
#: By which a module comes to itself.
ITSELF = frozenset({"sys.modules", "__main__"})

#: Methods that put something into a list, a set or a queue.
ADDING = frozenset("append extend add insert appendleft extendleft".split())
#: Those that give what a dictionary has under a key.
LOOKING_UP = frozenset({"get", "setdefault"})
#: What takes names of a file out of texts.
BY_TEXT = frozenset({"eval", "exec", "globals", "locals", "vars"})
#: What is filled as a list is.
LIKE_LISTS = ("collections.", "array.", "builtins.bytearray")
#: What others take out of again, often in a thread of their own.
QUEUES = ("queue.", "multiprocessing.")
#: Whose objects tell how far threads, queues and processes have come; no two ranks need be equally far.
TELLS_HOW_FAR = (*QUEUES, "threading.", "concurrent.futures.", "subprocess.")
#: Methods by which a queue does, and that no list has.
LEVELS = frozenset({"qsize", "empty", "full"})
PUTTING = frozenset({"put", "put_nowait"})

#: Methods of dictionaries by which a class of the script's has its items as attributes.
GIVES_ITEMS = frozenset({"builtins.dict.__getitem__", "builtins.dict.get"})
SETS_ITEMS = frozenset({"builtins.dict.__setitem__"})
#: What calls, or will call, the function that it is given with what else it is given.
HANDS_ON = (PARTIAL, PARTIAL_METHOD, "functools.reduce", "builtins.map", "builtins.filter", "itertools.starmap")
#: Methods of lists by which their items are other ones, or elsewhere, afterwards.
CHANGING_LISTS = TAKING_OUT | ADDING | {"rotate", "__setitem__", "__delitem__", "__iadd__"}
#: Those of them that put something behind all others.
ADDING_LAST = frozenset("append extend add __iadd__".split())
#: Functions that give other items than they are given, or in another order, or one of all of them.
REARRANGING = (
    "itertools.accumulate", "itertools.pairwise", "itertools.islice", "itertools.cycle", "itertools.groupby",
    "itertools.compress", "itertools.takewhile", "itertools.dropwhile", "itertools.combinations",
    "itertools.permutations", "itertools.batched", REDUCES, "random.", "statistics.", "builtins.dict.fromkeys",
)  # fmt: skip
