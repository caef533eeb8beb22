"""GRAD02: what is written into parameters and gradients by hand is computed for the batch of all ranks."""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions.base import FigureForm
from distify_codemods.rules.base import Context, Rule, call_of
from distify_codemods.rules.examples import Example, LeftAlone

CODE = "GRAD02"
_REASONS = {
    FigureForm.COUNT: "the number of all ranks' samples goes into this update",
    FigureForm.MEAN: "a mean over the samples of all ranks goes into this update",
    FigureForm.SUM: "a sum over the samples of all ranks goes into this update",
}


def run(context: Context) -> None:
    context.tell_blocked()
    for one in context.decisions.written:
        if not context.editable(one.module, one.node, "parameters are written by hand here"):
            continue
        text = one.form.value.format(rt=context.rt(one.module), value="{}")
        alone = isinstance(one.module.parents[one.node], (cst.Arg, cst.Assign, cst.AugAssign))
        pattern = f"({text})" if one.form is FigureForm.COUNT and not alone else text
        context.plan(one.module).replace(one.node, call_of(pattern), CODE, _REASONS[one.form])
        context.applied(_REASONS[one.form], one.module, one.node)
    if not context.decisions.written:
        learns = "nothing but gradients of the global batch" if context.facts.by_hand else "nothing of a batch"
        context.not_needed_if_known(f"{learns} is written into parameters by hand")


RULE = Rule(
    code=CODE,
    name="updates by hand",
    why="A gradient that is divided by the number of samples of a rank's share is too large, and weights that are "
    "written from a rank's share differ from rank to rank.",
    safety="In training, what is written into parameters, their gradients and buffers is followed back: numbers of "
    "samples are multiplied by the world size, means and sums are taken over the ranks. Anything else of a share that "
    "goes into parameters or gradients is left to a person.",
    run=run,
    shared="updates by hand are of whole batches, alike on all ranks",
    pitfalls=(9, 26),
    examples=(
        Example(
            loss="optimizer.zero_grad()",
            step="""
            - nn.functional.mse_loss(model(x), y, reduction="sum").backward()
            + (nn.functional.mse_loss(model(x), y, reduction="sum") * rt.world_size()).backward()
              for parameter in model.parameters():
            -     parameter.grad /= len(x)
            +     parameter.grad /= len(x) * rt.world_size()
              optimizer.step()
            """,
        ),
        Example(
            optimizer="",
            loss="model.zero_grad()\nnn.functional.mse_loss(model(x), y).backward()",
            step="""
              with torch.no_grad():
                  for parameter in model.parameters():
                      parameter -= 0.1 * parameter.grad
            -     model.bias.data.lerp_(y.mean(0), 0.01)
            +     model.module.bias.data.lerp_(rt.all_reduce_mean(y.mean(0)), 0.01)
            """,
        ),
        LeftAlone(
            loss="optimizer.zero_grad()\nnn.functional.mse_loss(model(x), y).backward()",
            step="""
            for parameter in model.parameters():
                parameter.grad.clamp_(-0.1, 0.1)
            optimizer.step()
            """,
        ),
    ),
)
