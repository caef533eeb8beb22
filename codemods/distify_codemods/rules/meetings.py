"""MEET01: ranks meet where all of them come, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from distify_codemods import half_done, tree
from distify_codemods.decisions.base import Sharding
from distify_codemods.events import Event, Kind
from distify_codemods.program import Module
from distify_codemods.rules.base import Context, Example, Rule

CODE = "MEET01"
#: Lines of a conversion at which a rank waits for the others.
_MEETING = re.compile(
    r"\b\w+\.(barrier|all_reduce\w*|all_gather\w*|gather\w*|broadcast\w*|from_main_process|call_on_main_process|"
    r"main_process_first|seed_ranks_apart|init_process_group)\("
)


def run(context: Context) -> None:
    tests = [event for event in context.facts.of_kind(Kind.TEST) if _asks_for_rank(context, event)]
    found = False
    for module, node in _meetings(context):
        if any(_is_under(event, node, test) for event in _of(context, module, node) for test in tests):
            found = True
            context.needs_you(
                "ranks meet here, and a test of the script's own lets only some of them come",
                module, node, "take it out of the test: the conversion prints and writes on rank 0 alone",
            )  # fmt: skip
    if not found:
        context.not_needed("wherever ranks meet, all of them come")


def _asks_for_rank(context: Context, test: Event) -> bool:
    node = test.node
    return isinstance(node, (cst.If, cst.While)) and half_done.asks_for_rank(
        context.facts, node.test, tree.walk(node.test)
    )


def _meetings(context: Context) -> Iterator[tuple[Module, cst.CSTNode]]:
    """Where the converted program lets ranks meet: lines that are put in, training, evaluations that are shared."""
    for module, plan in list(context.plans.items()):
        for table in (plan.before, plan.after):
            for statement, lines in table.items():
                if any(_MEETING.search(line.code) for line in lines):
                    yield module, statement
    for event in context.facts.backwards:
        yield event.module, event.node
    for loop in context.facts.evaluation_loops:
        if any(context.decisions.sharding_of(one) in (Sharding.SUMS, Sharding.GATHERED) for one in loop.loaders):
            yield loop.module, loop.node


def _of(context: Context, module: Module, node: cst.CSTNode) -> list[Event]:
    """What happens in a statement."""
    inside = {id(one) for one in tree.walk(node)}
    return [event for event in context.facts.run.events if event.module is module and id(event.node) in inside]


def _is_under(event: Event, node: cst.CSTNode, test: Event) -> bool:
    """Whether a test decides about an event; one that stands inside of the statement does not."""
    if any(one is test.node for one in tree.walk(node)):
        return False
    return any(here.node is test.node and here.arm for here in event.here.up())


_PLAIN = """\
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
"""

RULE = Rule(
    code=CODE,
    name="meetings",
    why="A rank that waits where the others never come waits until a time limit ends the run.",
    safety="The conversion puts nothing under `if rt.is_main_process():` that ranks do together. Where a test of the "
    "script's own asks which rank it is, and ranks would meet under it, also in functions that are called there, "
    "it needs you.",
    run=run,
    pitfalls=(17,),
    examples=(Example(_PLAIN), Example(_PLAIN + "print(loss.item())\n")),
)
