"""DATA04: of a batch that the script cuts by hand, each rank takes its share."""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions.base import Slicing
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example, LeftAlone

CODE = "DATA04"


def run(context: Context) -> None:
    context.tell_blocked()
    for slicing in () if context.options.per_rank_batch else context.decisions.slicings:
        if context.editable(slicing.module, slicing.node, "a batch of training is made here"):
            _share(context, slicing)
    if not context.decisions.slicings:
        context.not_needed("no batch is cut by hand")


def _share(context: Context, slicing: Slicing) -> None:
    node = slicing.node
    along = f", dim={slicing.dimension}" if slicing.dimension else ""
    why = "each rank takes its own samples of the batch"
    if isinstance(node, cst.For):
        names = ", ".join(slicing.names)
        given = f"({names})" if len(slicing.names) > 1 else names
        text = f"{names} = {context.rt(slicing.module)}.shard_batch({given}{along})"
        context.plan(slicing.module).insert_before(node.body.body[0], text, CODE, why)
    else:
        context.put_into(slicing.module, node, f"shard_batch({{}}{along})", why)
    said = (
        "each rank takes its share of the batch, of which, where a smaller one at the end does not divide by the "
        "ranks, some samples count twice; all draw it alike"
    )
    context.applied(f"{said}{context.unless}", slicing.module, node)


RULE = Rule(
    code=CODE,
    name="batches cut by hand",
    why="Without a share of its own every rank trains on the whole batch: N times the work for the same steps. With "
    "another batch per rank the global batch grows N-fold.",
    safety="For batches that are cut out of the data by a counter or at random, drawn, or folded out of a text, and "
    "for states of their size, where one assignment holds nothing else. What the script draws at random stays the "
    "same on all ranks; only what the model draws differs.",
    run=run,
    shared="every rank has the whole batch",
    limits="A last batch that does not divide by the world size is filled up with up to N-1 of its own samples.",
    pitfalls=(41, 42),
    examples=(
        Example(
            script="""
              import torch
              from torch import nn
              {ours}

              {group}
              inputs, targets = torch.randn(64, 4), torch.randn(64, 1)
              {model}
              {wrap}
            + rt.seed_ranks_apart(model)
              {optimizer}
              for epoch in range(3):
                  order = torch.randperm(64)
                  for start in range(0, 64, 8):
            -         rows = order[start:start + 8]
            +         rows = rt.shard_batch(order[start:start + 8])
                      loss = nn.functional.mse_loss(model(inputs[rows]), targets[rows])
                      {step}
            """
        ),
        LeftAlone(),
    ),
)
