"""DATA01: each rank trains on its own share of the data, in batches that together are the batch of before."""

from __future__ import annotations

import libcst as cst

from distify_codemods import arguments, tree
from distify_codemods.decisions.base import LoaderDecision, Sharding
from distify_codemods.rules.base import Context, Example, Rule, call_of
from distify_codemods.rules.datasets import can_be_named, dataset_expression, only_other_options

CODE = "DATA01"
PARAMETERS = arguments.PARAMETERS["DataLoader"]


def run(context: Context) -> None:
    for blocked in context.decisions.blocked:
        if blocked.code == CODE:
            context.blocked(blocked)
    found = [decision for decision in context.decisions.loaders if decision.sharding is Sharding.TRAINING]
    for decision in found:
        if context.editable(decision.module, decision.node, "the training loader is made here"):
            _shard(context, decision)
    nothing = not context.facts.training_loops and not any(
        one.code in (CODE, "DATA04") for one in context.decisions.blocked
    )
    if nothing and context.facts.backwards:
        event = context.facts.backwards[0]
        context.needs_you(
            "this training step sees neither batches of a DataLoader nor a part of the data that is cut out, drawn or "
            "folded by hand: there is nothing that could be dealt out over the ranks",
            event.module, event.node, "put the data into a Dataset and loop over a DataLoader",
        )  # fmt: skip
    for event in context.facts.backwards:
        if context.facts.training_loops and not any(event.inside(loop.event) for loop in context.facts.training_loops):
            context.needs_you(
                "this backward pass is outside of the loops over the training loader",
                event.module, event.node, "move it into the loop over the loader",
            )  # fmt: skip


def _shard(context: Context, decision: LoaderDecision) -> None:
    node, module, plan = decision.node, decision.module, context.plan(decision.module)
    rt = context.rt(module)
    bound = arguments.bound(node, PARAMETERS)
    reason = "each rank gets its own share, reshuffled alike on all"
    starred = [arg for arg in node.args if arg.star == "**"]
    if decision.returned or _is_hidden(context, decision, bound, starred):
        _shard_made(context, decision, rt)
        return
    dataset = dataset_expression(context, decision, bound)
    if dataset is None:
        return
    if starred and not only_other_options(context, decision, starred):
        plan.replace(starred[0].value, call_of(f"{rt}.shard_training({dataset}, {{}})"), CODE, reason)
        context.applied("the training loader deals each rank its share", module, node)
        return
    shuffle = _text_or_false(bound.get("shuffle"), "shuffle", decision)
    drop_last = _text_or_false(bound.get("drop_last"), "drop_last", decision)
    sampler = context.backend.training_sampler(dataset, context.sampler(module), rt, shuffle, drop_last)
    if decision.when:
        sampler = f"{sampler} if {decision.when} else {_other_sampler(context, decision, dataset, rt)}"
    for name in ("shuffle", "batch_sampler"):
        if name in bound:
            plan.drop_keyword(node, name)
    plan.set_keyword(node, "sampler", sampler, CODE, reason)
    _divide(context, decision, bound, rt)
    context.applied("the training loader deals each rank its share; the global batch stays as it is", module, node)


def _is_hidden(context: Context, decision: LoaderDecision, bound: dict[str, cst.Arg], starred: list[cst.Arg]) -> bool:
    """Whether what the loader is made of cannot be said in its call: it is sharded once it is made."""
    if "dataset" not in bound or not can_be_named(decision, bound["dataset"].value):
        return True
    mixed = len(starred) > 1 or set(bound) > {"dataset"} or bool(decision.when)
    return bool(starred) and mixed and not only_other_options(context, decision, starred)


def _shard_made(context: Context, decision: LoaderDecision, rt: str) -> None:
    """`rt.training_loader(DataLoader(...))`"""
    function = f"{rt}.training_loader"
    if decision.when:
        other = "evaluation_loader" if decision.otherwise is Sharding.SUMS else "whole_loader"
        function = f"({function} if {decision.when} else {rt}.{other})"
    reason = "each rank gets its own share, reshuffled alike on all"
    context.plan(decision.module).replace(decision.node, call_of(f"{function}({{}})"), CODE, reason)
    message = "the training loader deals each rank its share; the global batch stays as it is"
    context.applied(message, decision.module, decision.node)


def _divide(context: Context, decision: LoaderDecision, bound: dict[str, cst.Arg], rt: str) -> None:
    plan, node = context.plan(decision.module), decision.node
    size = tree.code_of(bound["batch_size"].value) if "batch_size" in bound else "1"
    other = f" if {decision.when} else {size}" if decision.when else ""
    if "batch_size" not in bound:
        text = f"{rt}.per_rank_batch_size(1){other}"
        plan.set_keyword(node, "batch_size", text, CODE, "batches of 1 cannot be divided")
    elif not context.decisions.divided_at_definition(context.facts.value(bound["batch_size"].value)):
        rewrite = call_of(f"{rt}.per_rank_batch_size({{}}){other}")
        plan.set_keyword(node, "batch_size", rewrite, CODE, "the global batch stays what it was")
    if "num_workers" in bound and tree.integer(bound["num_workers"].value) != 0:
        plan.set_keyword(
            node, "num_workers", call_of(f"{rt}.per_rank_workers({{}})"), CODE, "the node's ranks share its workers"
        )


def _other_sampler(context: Context, decision: LoaderDecision, dataset: str, rt: str) -> str:
    """The sampler of what the same line makes when it does not make the training loader."""
    if decision.otherwise is Sharding.SUMS:
        return f"{rt}.UnpaddedSampler({dataset})"
    given = [loader.arguments.get("shuffle", 2) for loader in decision.others]
    if all(value is None or value.constant() is False for value in given):
        return "None"
    whole = context.backend.whole_sampler(dataset, context.sampler(decision.module), rt)
    return whole  # shuffled, and alike on all ranks


def _text_or_false(argument: cst.Arg | None, name: str, decision: LoaderDecision) -> str:
    """An option of the training loader, by its value in the contexts where the line makes that."""
    if argument is None:
        return "False"
    values = [loader.arguments.get(name, PARAMETERS.index(name)) for loader in decision.loaders]
    known = {value.constant() if value is not None and not value.is_none else False for value in values}
    return str(known.pop()) if known in ({True}, {False}) else tree.code_of(argument.value)


RULE = Rule(
    code=CODE,
    name="training data",
    why="Without a DistributedSampler every rank trains on all of the data: N times the work for the same "
    "steps. With the "
    "batch size kept per rank, the global batch grows N-fold and the learning rate no longer fits.",
    safety="For loaders whose batches reach a backward pass, over datasets with a length. The sampler's order "
    "is torch's own, "
    "dealt out in turn, so that N ranks see the batches of one process. A loader with a sampler of its own, an "
    "IterableDataset, or batches that do not come from a DataLoader are left to a person.",
    run=run,
    limits="When the number of samples does not divide by the world size, at most N-1 samples are repeated in "
    "the last step.",
    pitfalls=(2, 3, 35),
    examples=(
        Example(
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, 8, True, drop_last=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import distify_runtime as rt
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

rt.init_process_group()
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, rt.per_rank_batch_size(8),
                    sampler=DistributedSampler(data, drop_last=True, seed=rt.common_seed()), drop_last=True)
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
""",
        ),
        Example(
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(
    TensorDataset(torch.randn(64, 4), torch.randn(64, 1)),
    batch_size=8,  # samples
    shuffle=True,
)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import distify_runtime as rt
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

rt.init_process_group()
training_dataset = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(
    training_dataset,
    batch_size=rt.per_rank_batch_size(8),  # samples
    sampler=DistributedSampler(training_dataset, seed=rt.common_seed()),
)
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
""",
        ),
        Example(
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, sampler=WeightedRandomSampler([1.0] * 64, 64))
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
