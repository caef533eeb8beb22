"""IMPORT01: the converted files import each other, not their originals."""

from __future__ import annotations

from distify_codemods.plan import Plan
from distify_codemods.rules.base import Context, Example, Rule
from distify_codemods.twins import Twins, twin_path, twins_of
from distify_codemods.twins.statements import renaming
from distify_codemods.values import Instance, contained, core

CODE = "IMPORT01"
_REASON = "the converted files import each other"


def run(context: Context) -> None:
    if not context.options.twins:
        context.not_needed("the files keep their names")
        return
    changed = {module: _newly_imported(plan) for module, plan in context.plans.items() if plan}
    twins = twins_of(context.facts.program, context.facts.run, changed, context.output)
    for problem in twins.problems:
        context.needs_you(
            f"{problem.why}, so that converted files beside their originals would mix with them",
            problem.module, problem.node, "convert with --in-place, or into a folder of its own: -o DIR/",
        )  # fmt: skip
    for module, pointing in twins.pointings.items():
        plan = context.plan(module)
        for node, parts in pointing.statements.items():
            plan.point(node, parts, CODE)
        for attribute, name in pointing.renamed.items():
            plan.replace(attribute, renaming(name), CODE, _REASON)
        touched = [*pointing.statements, *pointing.renamed]
        if touched:
            context.applied("it imports the converted files", module, touched[0])
    _saved_whole(context, twins)
    if len(twins.pointings) == 1:
        context.not_needed("no other file changes")


def _saved_whole(context: Context, twins: Twins) -> None:
    """A pickle names the file that its object's class comes from."""
    for event in context.facts.calls("torch.save", "pickle.dump"):
        for obj in contained(event.arguments.positional[0]) if event.arguments.positional else ():
            saved = core(obj)
            module = saved.of.module if isinstance(saved, Instance) and saved.of is not None else None
            if module is not None and module in twins.pointings and module is not context.entry:
                context.advice(
                    f"what is saved whole here names {twin_path(module.path)} as the file of its class; "
                    "`state_dict()` names none", event.module, event.node,
                )  # fmt: skip
                break


def _newly_imported(plan: Plan) -> set[str]:
    """The names that a file imports from now on. `print` does what it did, on one rank."""
    return {statement.split()[-1] for statement in plan.imports} - {"print"}


RULE = Rule(
    code=CODE,
    name="imports",
    why="A converted script that imports the original of a file runs that file as it was: unsharded, on every rank.",
    safety="Each file that changes, and each that imports one, gets a twin beside it, and all imports of it go to the "
    "twin. What a package's `__init__` passes on is imported from the file that defines it. Where a file would run in "
    "both forms with consequences, or is imported by a computed name, `--in-place` or `-o DIR/` is the way.",
    run=run,
    examples=(
        Example(
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from helper import train

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, loader, optimizer)
""",
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from helper_dist import train
import distify_runtime as rt
from torch.nn.parallel import DistributedDataParallel

rt.init_process_group()
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),
                    sampler=rt.TrainingSampler(data))
model = nn.Linear(4, 1)
model = DistributedDataParallel(model, device_ids=rt.device_ids(model))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, loader, optimizer)
""",
            """\
from torch import nn


def train(model, loader, optimizer):
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
""",
        ),
        Example(
            """\
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
""",
        ),
    ),
)
