"""Scripts that are not ours to convert: already distributed, by distify or by others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from distify_codemods import tree
from distify_codemods.backends import RUNTIME
from distify_codemods.events import Event, Kind
from distify_codemods.interpreter import Run
from distify_codemods.libraries import distributed, frameworks, runtime, spelling, torch_optim
from distify_codemods.program import Module
from distify_codemods.results import Finding, Level, Options, Place

#: torchrun gives no argument, and its predecessor one that is spelled `--local-rank` since torch 2.0.
_BY_ARGUMENT = """torchrun --nproc-per-node N --no-python sh -c 'exec python {path} --local_rank=$LOCAL_RANK "$@"' sh"""
TOO_LARGE = "the program is too large to be followed to its end"

#: What starts another script in this process, and by which argument.
_RUNS = {"runpy.run_module": "mod_name", "runpy.run_path": "path_name"}

#: What is said of scripts that are none of our business, by code: a title, and why.
REFUSALS = {
    "REFUSE01": (
        "already distributed",
        "The script is distributed by another tool, or by torch.distributed with nothing left to do. A second process "
        "group beside the first would hang or train apart; the finding says how to launch the script as it is.",
    ),
    "REFUSE02": (
        "no training loop",
        "Without an optimizer that is given a model's parameters and a `.backward()` there are no steps to share out. "
        "Often another script starts the training, or it is reached by a name that only a run knows.",
    ),
    "REFUSE03": ("TPU", "torch_xla has a distribution of its own; conversions are for GPUs and CPUs."),
    "REFUSE04": (
        "left alone",
        "A comment `# distify: skip` in the first lines says that a file is not to be converted.",
    ),
    "REFUSE05": (
        "TensorFlow",
        "Scripts of TensorFlow are converted for Horovod (`--backend horovod`): sessions of tf.compat.v1, and Keras.",
    ),
    "REFUSE06": (
        "another framework",
        "What PaddlePaddle, MindSpore, JAX and others train are no modules of torch; they distribute it themselves.",
    ),
}


def converted_already(module: Module) -> bool:
    """Whether distify wrote this file: it starts the runtime's process group."""
    return f"{RUNTIME}.init_process_group" in _called(module)


def was_converted(module: Module) -> bool:
    """Whether distify wrote this file, be it a script or what a script imports.

    It uses more of the runtime then than a person writes who does what a checklist asks for.
    """
    return RUNTIME.encode() in module.file.data and not _used_of_runtime(module) <= runtime.BY_HAND


def _used_of_runtime(module: Module) -> set[str]:
    own = {name: of for name, of in _aliases(module).items() if of.split(".")[0] == RUNTIME}
    used = {of.split(".")[1] for of in own.values() if "." in of}
    for node in module.nodes:
        if (
            isinstance(node, cst.Attribute)
            and isinstance(node.value, cst.Name)
            and own.get(node.value.value) == RUNTIME
        ):
            used.add(node.attr.value)
    return used


def distributed_already(module: Module) -> Finding | None:
    """By other means than torch's own, of which something may be missing."""
    called = {name: node for name, node in _called(module).items() if name not in distributed.MEANS}
    found = (_distributed(name, module, node, module) for name, node in called.items())
    return next((finding for finding in found if finding is not None), None)


def distributed_by_torch(entry: Module, events: Iterable[Event]) -> Finding | None:
    """In the script itself, or in what it calls in the files that it imports."""
    called = [(name, entry, node) for name, node in _called(entry).items()]
    called += [(one.name, one.module, one.node) for one in events if one.kind is Kind.CALL]
    found = (_distributed(name, module, node, entry) for name, module, node in called if name in distributed.MEANS)
    return next((finding for finding in found if finding is not None), None)


def distributed_in_other_file(entry: Module, events: Iterable[Event]) -> Finding | None:
    """By other means, for what the script calls in the files that it imports."""
    calls = (event for event in events if event.kind is Kind.CALL and event.module is not entry)
    found = (_distributed(one.name, one.module, one.node, entry) for one in calls if one.name not in distributed.MEANS)
    return next((finding for finding in found if finding is not None), None)


def _distributed(name: str, module: Module, node: cst.CSTNode, entry: Module) -> Finding | None:
    if name not in distributed.TOOLS:
        return None
    what, launch = distributed.TOOLS[name]
    return Finding(
        Level.BLOCKING, "REFUSE01", REFUSALS["REFUSE01"][0], f"this script is distributed with {what} already",
        module.place(node), f"launch it as it is: {_launch(entry, launch).format(path=entry.path)}",
    )  # fmt: skip


def _launch(entry: Module, launch: str) -> str:
    """The line for a script that starts its processes by itself, or reads their numbers from its arguments."""
    if launch != distributed.TORCHRUN:
        return launch
    if distributed.SPAWN in _called(entry):
        return "python {path}"
    return _BY_ARGUMENT if _reads_argument(entry) else launch


def _reads_argument(module: Module) -> bool:
    """Whether `--local_rank` is asked for, as torch.distributed.launch gave it before torch 2.0."""
    options = {tree.string(node) for node in module.nodes if isinstance(node, cst.SimpleString)}
    environment = {"LOCAL_RANK", "LOCAL-RANK"} & options
    return "--local_rank" in options and not environment


def runs_on_tpu(module: Module) -> Finding | None:
    for name, node in _imported(module).items():
        if name.split(".")[0] == distributed.TPU:
            return Finding(
                Level.BLOCKING, "REFUSE03", REFUSALS["REFUSE03"][0], "this script runs on TPUs (torch_xla)",
                module.place(node), "distify converts scripts for GPUs and CPUs",
            )  # fmt: skip
    return None


def trains_otherwise(events: Sequence[Event]) -> Finding | None:
    """With another framework's optimizer, and with none of torch."""
    calls = [one for one in events if one.kind is Kind.CALL]
    if any(one.name.startswith(torch_optim.OWN) for one in calls):
        return None
    for event in calls:
        if library := frameworks.optimizer_of(event.name):
            return Finding(
                Level.BLOCKING, "REFUSE06", REFUSALS["REFUSE06"][0], f"this script trains with {library}",
                event.module.place(event.node), f"distify converts PyTorch; {library} has ways of its own",
            )  # fmt: skip
    return None


def left_alone(module: Module) -> Finding | None:
    if module.skipped(module.tree) is None:
        return None
    line = next(one.line for one in module.directives if one.about is module.tree)
    return Finding(
        Level.BLOCKING, "REFUSE04", REFUSALS["REFUSE04"][0], "a comment says that this file is not to be converted",
        Place(module.path, line), "take the comment `# distify: skip` out",
    )  # fmt: skip


def no_training(module: Module, seen: str, run: Run) -> Finding:
    """`run`: also of what constants turn off."""
    events = run.events
    started = next((one for one in events if one.kind is Kind.CALL and one.name in _RUNS), None)
    return Finding(
        Level.BLOCKING, "REFUSE02", REFUSALS["REFUSE02"][0],
        "no training loop that can be followed was found: looked for an optimizer with a model's parameters and for "
        f"`.backward()`, or `torch.autograd.grad` by these; {seen}",
        module.place(module.tree),
        _turned_off(run) or (_never_called(module) if started is None else _to_name(started)),
    )  # fmt: skip


def _turned_off(run: Run) -> str:
    """The training stands where a constant of the script does not let a run come."""
    left_out = run.machine.record.turned_off
    for event in run.events:
        if event.unused and isinstance(event.node, cst.Call) and _is_backward(event.node):
            around = [(here.frame.module, here.node) for here in event.here.up() if (here.node, here.arm) in left_out]
            branches = [(where, one) for where, one in around if isinstance(one, cst.If) and _may_be_set(one)]
            for where, one in branches[-1:]:
                test, line = tree.code_of(one.test), where.place(one).line
                return f"`{test}` (line {line}) is a constant, and turns training off: set it, and convert again"
    return ""


def _may_be_set(branch: cst.If) -> bool:
    return not tree.is_main_test(branch) and any(name not in ("True", "False") for name in tree.names(branch.test))


def _never_called(module: Module) -> str:
    """Where a training loop stands, if it does, that a run does not come to."""
    steps = (node for node in module.nodes if isinstance(node, cst.Call) and _is_backward(node))
    holder = next((one for one in map(module.function, steps) if isinstance(one, cst.FunctionDef)), None)
    if holder is None:
        return "name the script that starts the training"
    line = module.place(holder).line
    return f"`{holder.name.value}` (line {line}) trains, and is not seen to be called: convert the script that calls it"


def _is_backward(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"


def _to_name(started: Event) -> str:
    """What to convert in place of a script that does nothing but start it."""
    given = started.arguments.get(_RUNS[started.name], 0)
    what = given.constant() if given is not None else None
    place = f"line {started.module.place(started.node).line} starts"
    if not isinstance(what, str):
        return f"{place} another script by a name that only a run knows: name that script"
    return f"{place} `{what}`: convert that one, `distify convert {'-m ' * started.name.endswith('module')}{what}`"


def too_large(module: Module, fix: str = "") -> Finding:
    return Finding(
        Level.BLOCKING, "OTHER01", "everything else", TOO_LARGE, module.place(module.tree),
        fix or "give this training a script of its own, without what it does not use",
    )  # fmt: skip


def over_budget(module: Module, options: Options) -> Finding:
    """That sharded data were not tried out to the end."""
    return Finding(
        Level.BLOCKING, "OTHER01", "everything else",
        f"to see whether sharded data are right takes more than the {options.budget:,} statements that may be followed",
        module.place(module.tree), "a larger --budget follows more",
    )  # fmt: skip


def _aliases(module: Module) -> dict[str, str]:
    """The file's own names of what it imports, wherever the import stands."""
    found: dict[str, str] = {}
    for node in module.nodes:
        if isinstance(node, cst.Import):
            for alias in node.names:
                name = tree.dotted(alias.name) or ""
                own: cst.CSTNode | None = alias.asname.name if alias.asname else None
                found[own.value if isinstance(own, cst.Name) else name.split(".")[0]] = (
                    name if own else name.split(".")[0]
                )
        elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar) and not node.relative:
            source = tree.dotted(node.module) if node.module else ""
            for alias in node.names:
                own = alias.asname.name if alias.asname else alias.name
                if isinstance(own, cst.Name):
                    found[own.value] = f"{source}.{tree.dotted(alias.name)}"
    return found


def _imported(module: Module) -> dict[str, cst.CSTNode]:
    found: dict[str, cst.CSTNode] = {}
    for node in module.nodes:
        if isinstance(node, cst.Import):
            found.update({tree.dotted(alias.name) or "": node for alias in node.names})
        elif isinstance(node, cst.ImportFrom) and node.module is not None and not node.relative:
            found[tree.dotted(node.module) or ""] = node
    return found


def _called(module: Module) -> dict[str, cst.CSTNode]:
    """Full names of the functions of libraries that the file calls, each with its first call."""
    aliases = _aliases(module)
    found: dict[str, cst.CSTNode] = {}
    for node in module.nodes:
        if isinstance(node, cst.Call):
            first, _, rest = (tree.dotted(node.func) or "").partition(".")
            if first in aliases:
                name = f"{aliases[first]}.{rest}" if rest else aliases[first]
                found.setdefault(spelling.usual(name), node)
    return found
