"""GRAD01: what is not wrapped in DistributedDataParallel has its gradients averaged by a line of its own."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions import averaging_optimizers
from distify_codemods.decisions.base import AveragingOptimizer, GradientAveraging
from distify_codemods.events import Event
from distify_codemods.rules.base import Context, Rule, call_of
from distify_codemods.rules.examples import Example, LeftAlone

CODE = "GRAD01"


def run(context: Context) -> None:
    decisions = context.decisions
    if not context.facts.training_loops:
        return
    context.tell_blocked()
    for one in decisions.broadcasts:
        if not context.editable(one.module, one.statement, "the trained model is built here"):
            continue
        plan, text = context.plan(one.module), context.backend.broadcast(one.target, context.rt(one.module))
        reason = "all ranks begin with rank 0's weights"
        plan.insert(one.statement, text, CODE, reason, 10, after=one.after)
        context.applied(f"`{one.target}` begins with the same weights on all ranks", one.module, one.statement)
    for optimizer in decisions.optimizers:
        _average_by_itself(context, optimizer)
    for event in averaging_optimizers.resumes(context.facts, decisions.optimizers):
        _send_state(context, event)
    for line in decisions.gradients:
        if not context.editable(line.module, line.statement, "gradients are averaged here"):
            continue
        reason = "gradients are averaged over the ranks before anything reads them"
        for text in _spelled(context, line):
            context.plan(line.module).insert(line.statement, text, CODE, reason, 10, after=line.after)
        context.applied("gradients are averaged over the ranks", line.module, line.statement)
    for call in decisions.gradient_calls:
        if context.editable(call.module, call.node, "a gradient is taken here"):
            reason = "a gradient of a rank's share is averaged to that of the batch"
            context.put_into(call.module, call.node, "average_gradients({})", reason)
            context.applied("a gradient is averaged over the ranks where it is taken", call.module, call.node)
    if context.options.op == "adasum":
        for line in decisions.gradients:
            if not line.waits:
                context.needs_you("Adasum is a matter of optimizers, and gradients are averaged by a line here",
                                  line.module, line.statement, "convert it with --op average")  # fmt: skip
    for unwrapped in decisions.unwrapped if context.backend.wraps_models else ():
        context.advice(
            f"`{context.facts.names.of(unwrapped.model)}` is not in DistributedDataParallel, because {unwrapped.why}; "
            f"its gradients are averaged by a line instead, which is right, and may be slower",
            unwrapped.module, unwrapped.node,
        )  # fmt: skip
    if not decisions.unwrapped:
        context.not_needed_if_known(f"{context.backend.averages} averages all gradients")


def _spelled(context: Context, line: GradientAveraging) -> list[str]:
    own = context.backend.optimizers
    if own is not None and line.waits:
        return [own.wait_for(one) for one in line.targets]
    return [context.backend.average_gradients(line.targets, context.rt(line.module))]


def _average_by_itself(context: Context, one: AveragingOptimizer) -> None:
    own = context.backend.optimizers
    if own is None or not context.editable(one.module, one.node, "the optimizer is made here"):
        return
    plan, rt = context.plan(one.module), context.rt(one.module)
    reason = "the optimizer averages gradients over the ranks, from the backward pass on"
    if one.target:
        text = f"{one.target} = {own.made(one.target, one.named, one.passes, rt)}"
        plan.insert_after(one.statement, text, CODE, reason, 10)
    elif isinstance(one.node, cst.Call):
        plan.replace(one.node, call_of(own.made("{}", one.named, one.passes, rt)), CODE, reason)
    context.applied("the optimizer averages its gradients over the ranks", one.module, one.node)


def _send_state(context: Context, event: Event) -> None:
    """Of a checkpoint that only rank 0's machine may have as it is."""
    node, statement = event.receiver_node, event.module.statement(event.node)
    if node is None or not tree.is_plain(node) or context.is_on_main(event.module, statement):
        return
    if context.editable(event.module, statement, "the optimizer's state is loaded here"):
        text = context.backend.broadcast_state(tree.code_of(node), context.rt(event.module))
        reason = "all ranks go on with rank 0's state of the optimizer"
        context.plan(event.module).insert_after(statement, text, CODE, reason, 10)
        context.applied("the optimizer's state is that of rank 0 on all ranks", event.module, statement)


RULE = Rule(
    code=CODE,
    name="gradients without a wrap",
    why="DistributedDataParallel averages the gradients of what goes through its forward, and of nothing else: each "
    "rank would train a part of the model, or all of it, by itself.",
    safety="Where a wrap was tried out and gradients go past it, and everywhere with --backend allreduce, rank 0's "
    "weights are sent to all ranks once, and gradients are averaged after the last backward pass, before anything "
    "reads them (clipping, unscaling, the step).",
    run=run,
    shared="gradients of shared forward passes are whole on every rank",
    limits="The first two averagings begin when the backward pass has ended. Later ones are sent while it goes on; a "
    "gradient that turns out to have been changed since is averaged again.",
    pitfalls=(28, 29, 31, 44),
    examples=(
        Example(
            model="""


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.out = nn.Linear(4, 1)

                def loss(self, x, y):
                    return nn.functional.mse_loss(self.out(x), y)


            model = Net()
            """,
            wrap="+ rt.broadcast_parameters(model)",
            loss="loss = model.loss(x, y)",
            step="""
              optimizer.zero_grad()
              loss.backward()
            + rt.all_reduce_gradients(optimizer)
              nn.utils.clip_grad_norm_(model.parameters(), 1.0)
              optimizer.step()
            """,
        ),
        Example(
            data="data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1), torch.randn(64, 4), torch.randn(64, 1))",
            model="weight = nn.Linear(4, 1)",
            wrap="+ rt.broadcast_parameters(weight)",
            optimizer="optimizer = torch.optim.SGD(weight.parameters(), lr=0.1)",
            batches="for x, y, new_x, new_y in loader:",
            loss="loss = nn.functional.mse_loss(weight(x), y)",
            step="""
            - gradients = torch.autograd.grad(loss, list(weight.parameters()), create_graph=True)
            + gradients = rt.average_gradients(torch.autograd.grad(loss, list(weight.parameters()), create_graph=True))
              fast = [one - 0.1 * step for one, step in zip(weight.parameters(), gradients)]
              optimizer.zero_grad()
              nn.functional.mse_loss(nn.functional.linear(new_x, *fast), new_y).backward()
            + rt.all_reduce_gradients(optimizer)
              optimizer.step()
            """,
        ),
        LeftAlone(
            optimizer="",
            loss="model.zero_grad()\nnn.functional.mse_loss(model(x), y).backward()",
            step="""
            for parameter in model.parameters():
                parameter.data.add_(-0.1 * parameter.grad)
            """,
        ),
    ),
)
