"""RATE01: where each rank keeps its batch, the learning rate grows with the batch of all ranks, slowly at first."""

from __future__ import annotations

from distify_codemods.decisions.base import Rate, WarmUp
from distify_codemods.decisions.optimizer_rules import AT_RUN_TIME
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example, LeftAlone

CODE = "RATE01"


def run(context: Context) -> None:
    context.tell_blocked()
    scale = context.options.scale
    if scale == "global":
        context.not_needed("the global batch stays what it was, and so does the learning rate")
    elif scale == "none":
        context.advice(
            "--scale none: on N ranks the global batch is N times as large, an epoch has N times fewer steps, and "
            "the learning rate stays: an epoch trains less than before, unless you set rate and epochs yourself"
        )
    for rate in context.decisions.rates:
        _scale(context, rate)
    for warm_up in context.decisions.warm_ups:
        _warm_up(context, warm_up)


def _scale(context: Context, rate: Rate) -> None:
    module, node, rule = rate.module, rate.node, rate.rule
    if not context.editable(module, node, "the optimizer is made here"):
        return
    spelled = f', rule="{rule.name}"' if rate.told else ""
    reason = "the global batch is as many times as large as there are ranks"
    context.put_into(module, node, f"scale_learning_rate({{}}{spelled})", reason)
    if rate.told:
        why = "as your comment says"
    elif rule is AT_RUN_TIME:
        why = "found when it runs"
    else:
        why = f"{rule.name}: {rule.source}"
    context.applied(f"the learning rate of {rate.name} is multiplied by {rule.factor} ({why})", module, node)


def _warm_up(context: Context, warm_up: WarmUp) -> None:
    module, node, epochs = warm_up.module, warm_up.node, warm_up.epochs
    if not context.editable(module, node, "the training loop begins here"):
        return
    more = f"epochs={epochs}" + (", by_step=True" if warm_up.by_step else "")
    reason = "a rate that has grown many times at once makes early training diverge"
    context.put_into(module, node, f"warm_up({{}}, {more})", reason)
    counted = "epoch" if epochs == 1 else f"{epochs} epochs"
    context.applied(
        f"the rate grows to that over the first {counted}, or a fifth of the run where that is shorter "
        "(Goyal et al. 2017)", module, node,
    )  # fmt: skip


RULE = Rule(
    code=CODE,
    name="learning rate",
    why="A step that averages N times as many samples can and must go further: with the rate of before, an epoch of N "
    "times fewer steps trains less; with one that is too large, or too large too early, it diverges.",
    safety="Only with `--scale linear`, where each rank's batch stays as it is. SGD's rate is multiplied by the world "
    "size, Adam-like ones' by its square root; other optimizers are left to a person. Only the steps take the larger "
    "rate: schedules, printed rates and checkpoints keep the script's. What counts steps instead of epochs, and does "
    "not follow from `len(loader)`, is left to a person.",
    run=run,
    limits="Betas, eps, weight decay and the decay of averaged weights stay as they are. A script that updates "
    "parameters by `group['lr']` itself sees its own rate.",
    pitfalls=(4, 20),
    examples=(
        Example(
            scale="linear",
            group="+ rt.init_process_group(per_rank_batch=True)",
            loader="""
            - loader = DataLoader(data, batch_size=8, shuffle=True)
            + loader = DataLoader(data, batch_size=8, sampler=rt.TrainingSampler(data))
            """,
            optimizer="""
            - optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            + optimizer = rt.scale_learning_rate(torch.optim.SGD(model.parameters(), lr=0.1))
            """,
            epochs="""
            - for epoch in range(30):
            + for epoch in rt.warm_up(range(30), epochs=5):
            """,
            epoch="+ rt.set_epoch(loader, epoch)",
        ),
        LeftAlone(
            scale="linear",
            optimizer="optimizer = torch.optim.Rprop(model.parameters(), lr=0.1)",
            epochs="for epoch in range(30):",
        ),
        LeftAlone(epochs="for epoch in range(30):"),
    ),
)
