"""MODEL01: each trained model in DistributedDataParallel, as late as it can be."""

from __future__ import annotations

from distify_codemods.decisions import streams
from distify_codemods.inside import core
from distify_codemods.libraries import torch_nn
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example
from distify_codemods.rules.other_scripts import not_shared

CODE = "MODEL01"


def run(context: Context) -> None:
    if context.facts.training_loops:
        context.tell_blocked()
    for wrap in context.decisions.wraps:
        module = wrap.module
        what = "the trained model is built here"
        if not context.editable(module, wrap.statement, what) or not not_shared(context, module, wrap.statement, what):
            continue
        rt, plan = context.rt(module), context.plan(module)
        text = context.backend.wrap(wrap.target, context.wrapper(module), rt, bool(wrap.unused))
        reason = f"gradients are averaged over the ranks; {wrap.why}"
        plan.insert(wrap.statement, text, CODE, reason, 10, after=wrap.after)
        context.applied(f"`{wrap.target}` is trained by all ranks together", module, wrap.statement)
        if wrap.unused:
            context.advice(f"each step looks for parameters without gradients, because {wrap.unused}", module,
                           wrap.statement)  # fmt: skip
    if not context.decisions.wraps and context.decisions.unwrapped:
        context.not_needed("no model is wrapped: gradients are averaged by lines of their own")
    _compiled(context)
    _changed_later(context)


def _changed_later(context: Context) -> None:
    """Weights that are drawn once the ranks draw apart."""
    if context.decisions.slicings:
        return  # all draw alike, but inside of models
    apart = streams.stretches(context.decisions)
    for event in streams.draws_of_weights(context.facts):
        if any(stretch.holds(event) for stretch in apart):
            context.needs_you(
                "weights are drawn at random after training has begun, where the ranks draw apart",
                event.module, event.node, "draw them before training, or send rank 0's to all",
            )  # fmt: skip


def _compiled(context: Context) -> None:
    for event in context.facts.calls(torch_nn.COMPILES) if context.decisions.wraps else ():
        if any(core(obj) in context.facts.models for value in event.arguments.all() for obj in value.objs):
            context.advice(
                "the compiled model is wrapped, so that checkpoints keep their keys; compiling the wrapped "
                "one would be faster", event.module, event.node,
            )  # fmt: skip


RULE = Rule(
    code=CODE,
    name="gradient averaging",
    why="Without it each rank trains a model of its own; wrapped too early, weights set after the wrap differ "
    "between the ranks.",
    safety="A model is whatever an optimizer was given the parameters of. It is wrapped after the last thing "
    "that is done to it "
    "before the first training step (moved, initialised, loaded, frozen). The wrap is tried out on the program: every "
    "training forward must go through it.",
    run=run,
    shared="no model is wrapped: SHARE01 names what is shared",
    limits="Parameters that a step leaves without gradients are looked for where the forward pass shows that. What "
    "depends on how the model was built is not; there torch stops in the second step, and names the option.",
    pitfalls=(24, 25, 26, 29, 43, 44),
    examples=(
        Example(
            model="""
            model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
            for parameter in model[0].parameters():
                parameter.requires_grad = False
            """
        ),
        Example(
            model="""
              encoder = nn.Linear(4, 2)
            + encoder = DistributedDataParallel(encoder, device_ids=rt.device_ids(encoder))
              decoder = nn.Linear(2, 1)
            + decoder = DistributedDataParallel(decoder, device_ids=rt.device_ids(decoder))
            """,
            wrap="",
            optimizer="optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)",
            loss="loss = nn.functional.mse_loss(decoder(encoder(x)), y)",
        ),
    ),
)
