"""OUT03: one rank writes files."""

from __future__ import annotations

import libcst as cst

from distify_codemods.events import Event, Kind
from distify_codemods.program import Module
from distify_codemods.rules.base import ON_MAIN, Context, Example, Rule
from distify_codemods.tree import target_names, walk
from distify_codemods.values import Instance

CODE = "OUT03"
_WRITES = frozenset(
    [
        "numpy.save",
        "numpy.savez",
        "numpy.savez_compressed",
        "numpy.savetxt",
        "pickle.dump",
        "json.dump",
        "yaml.dump",
        "torchvision.utils.save_image",
        "torch.onnx.export",
        "torch.jit.save",
        "shutil.copyfile",
        "shutil.copy",
        "shutil.copy2",
        "shutil.move",
        "shutil.rmtree",
        "os.remove",
        "os.rename",
        "os.unlink",
        "os.rmdir",
        "matplotlib.pyplot.savefig",
        "cv2.imwrite",
        "imageio.imwrite",
        "imageio.imsave",
        "os.mkdir",
        "matplotlib.pyplot.show",
    ]
)
_WRITING_METHODS = frozenset({"savefig", "to_csv", "to_json", "to_pickle", "write_text", "write_bytes", "save"})
#: Objects that write as long as they live: not built yet.
_WRITERS = (
    "torch.utils.tensorboard.", "tensorboardX.", "wandb.", "mlflow.", "visdom.", "logging.FileHandler",
    "csv.writer", "csv.DictWriter", "h5py.", "comet_ml.", "neptune.", "torch_geometric.logging.",
)  # fmt: skip


def run(context: Context) -> None:
    found = False
    for event in context.facts.of_kind(Kind.CALL, Kind.METHOD):
        if (event.kind is Kind.CALL and event.name in _WRITES) or (
            event.kind is Kind.METHOD and event.name in _WRITING_METHODS and _of_a_library(event)
        ):
            found = _write(context, event) or found
        elif event.kind is Kind.METHOD and event.name == "open" and _of_a_library(event) and _for_writing(event, 0):
            found = _open(context, event) or found
        elif event.name == "os.makedirs" or (event.kind is Kind.METHOD and event.name == "mkdir"):
            found = _makedirs(context, event) or found
        elif (
            event.kind is Kind.CALL and event.name in ("builtins.open", "io.open", "gzip.open") and _for_writing(event)
        ):
            found = _open(context, event) or found
        elif event.kind is Kind.CALL and event.name == "logging.basicConfig":
            _logging(context, event)
        elif event.kind is Kind.CALL and event.name.startswith(_WRITERS):
            _writer(context, event)
    if not found:
        context.not_needed("no other files are written")


def _of_a_library(event: Event) -> bool:
    """Methods of local classes are followed instead."""
    return not any(isinstance(obj, Instance) for obj in event.receiver.objs)


def _write(context: Context, event: Event) -> bool:
    if not context.editable(event.module, event.node, "a file is written"):
        return False
    statement = _largest(context, event)
    if statement is None:
        context.needs_you(
            "a file is written inside another expression", event.module, event.node, "give it a statement of its own"
        )
        return False
    rt = context.rt(event.module)
    context.plan(event.module).guard(statement, ON_MAIN.format(rt=rt), CODE, "one writer")
    context.applied("rank 0 writes", event.module, event.node)
    return True


def _largest(context: Context, event: Event) -> cst.CSTNode | None:
    """The statement to guard: `if not os.path.isdir(d): os.mkdir(d)` as a whole, as its test is about the file too."""
    small = context.whole_statement(event)
    if small is None:
        return None
    statement = event.module.statement(small)
    block = event.module.block(statement)
    holder = event.module.parents.get(block)
    if event.name not in ("os.mkdir", "shutil.rmtree", "os.remove") or len(block.body) != 1:
        return small
    if isinstance(holder, cst.If) and holder.orelse is None and "file" in context.facts.value(holder.test).sources:
        return holder
    return small


def _makedirs(context: Context, event: Event) -> bool:
    """Every rank may make a folder, if none minds that it is there."""
    given = event.arguments.get("exist_ok", 2)
    if given is not None and given.constant() is True:
        return False
    node = event.node
    if not isinstance(node, cst.Call) or not context.editable(event.module, node, "a folder is made"):
        return False
    context.plan(event.module).set_keyword(
        node, "exist_ok", "True", CODE, "another rank may have made it in the meantime"
    )
    context.applied("making a folder survives a race", event.module, node)
    return True


def _for_writing(event: Event, position: int = 1) -> bool:
    mode = event.arguments.get("mode", position)
    if mode is None:
        return False
    known = mode.constant()
    return not isinstance(known, str) or any(letter in known for letter in "wax+")


def _open(context: Context, event: Event) -> bool:
    """`with open(...) as f:` whose body only writes goes under the guard as a whole."""
    node = event.node
    parent = event.module.parents.get(node)
    holder = event.module.parents.get(parent) if isinstance(parent, cst.WithItem) else None
    if (
        isinstance(holder, cst.With)
        and _only_writes(context, event.module, holder)
        and context.editable(event.module, node, "a file is written")
    ):
        rt = context.rt(event.module)
        context.plan(event.module).guard(holder, ON_MAIN.format(rt=rt), CODE, "one writer")
        context.applied("rank 0 writes the file", event.module, node)
        return True
    context.needs_you(
        "a file is opened for writing on every rank", event.module, node,
        "open and write it under `if rt.is_main_process():` only",
    )  # fmt: skip
    return True


def _only_writes(context: Context, module: Module, block: cst.With) -> bool:
    """Nothing inside but calls of the file's own methods: no name is bound that something else could use."""
    bound: set[str] = set()
    for node in walk(block.body):
        if isinstance(node, (cst.Return, cst.Yield, cst.Global)):
            return False
        if isinstance(node, (cst.AssignTarget, cst.AugAssign, cst.For)):
            bound.update(target_names(node.target))
    inside = {id(node) for node in walk(block)}
    scope = next(node for node in module.enclosing(block) if isinstance(node, (cst.FunctionDef, cst.Module)))
    if any(isinstance(node, cst.Name) and node.value in bound and id(node) not in inside for node in walk(scope)):
        return False
    return not any(
        event.kind is Kind.FORWARD and any(here.node is block for here in event.here.up())
        for event in context.facts.run.events
    )


def _logging(context: Context, event: Event) -> None:
    if "filename" in event.arguments.keywords:
        _writer(context, event)
    else:
        context.advice("every rank logs to the screen; give all but the first a higher level", event.module, event.node)


def _writer(context: Context, event: Event) -> None:
    context.needs_you(
        f"`{event.name}` would write from every rank", event.module, event.node,
        "make it, and call it, under `if rt.is_main_process():` only",
    )  # fmt: skip


RULE = Rule(
    code=CODE,
    name="files",
    why="Processes that write one file at once corrupt it; N copies of a log or a run are no log.",
    safety="Statements that only write go under a guard, folders are made so that a race does not matter. Objects that "
    "keep writing (TensorBoard, open files, experiment trackers) are left to a person.",
    run=run,
    pitfalls=(15, 16, 48),
    examples=(
        Example(
            """\
import json
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
os.makedirs("runs")
with open("runs/last.json", "w") as file:
    json.dump({"epochs": 3}, file)
""",
            """\
import json
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import distify_runtime as rt
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

rt.init_process_group()
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),
                    sampler=DistributedSampler(data, seed=rt.common_seed()))
model = nn.Linear(4, 1)
model = DistributedDataParallel(model, device_ids=rt.device_ids(model))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rt.seed_ranks_apart()
for epoch in range(3):
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
os.makedirs("runs", exist_ok=True)
if rt.is_main_process():
    with open("runs/last.json", "w") as file:
        json.dump({"epochs": 3}, file)
""",
        ),
        Example(
            """\
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

os.makedirs("runs", exist_ok=True)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with open("notes.txt") as file:
    print(file.read())
""",
        ),
    ),
)
