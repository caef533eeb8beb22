"""SAVE01: rank 0 alone writes checkpoints, with the keys that they had."""

from __future__ import annotations

from distify_codemods import claims, file_events
from distify_codemods.events import Event, Kind
from distify_codemods.libraries import effects
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.download import is_every_ranks
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.rules.once import once

CODE = "SAVE01"


def run(context: Context) -> None:
    saves = [event for event in context.facts.of_kind(Kind.CALL, Kind.METHOD) if is_checkpoint(event)]
    for event in saves:
        if not context.editable(event.module, event.node, "a checkpoint is written"):
            continue
        once(context, event, "one writer")
        context.applied("rank 0 writes the checkpoint", event.module, event.node)
        by_name(context, event)
    if not saves:
        context.not_needed(f"no checkpoint is written{unless_written(context)}")


def unless_written(context: Context) -> str:
    return claims.unless_written(context.facts, lambda event: is_every_ranks(context, event))


def by_name(context: Context, event: Event) -> None:
    """Says so where something is only known to write since it is called so."""
    if event in context.named_writers or file_events.is_taken_by_its_name(event):
        context.advice(
            f"`{file_events.code_of(event)}` is not known, and taken for what only writes by its name: see whether "
            "that is so, since rank 0 alone calls it", event.module, event.node,
        )  # fmt: skip


def is_checkpoint(event: Event) -> bool:
    if file_events.is_in_memory(event):
        return False
    if event.kind is Kind.METHOD:
        return event.name in effects.CHECKPOINT_METHODS and file_events.is_writing_method(event)
    return event.name in effects.CHECKPOINTS


RULE = Rule(
    code=CODE,
    name="checkpoints",
    why="Processes that write one file at once corrupt it.",
    safety="Each `torch.save`, `save_pretrained` and their like go under `if rt.is_main_process():`; where the "
    "arguments do something that all ranks have to do, they still do it, and rank 0 writes.",
    run=run,
    pitfalls=(10, 48),
    examples=(
        Example(
            end="""
            - torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "model.pt")
            + if rt.is_main_process():
            +     torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, "model.pt")
            """
        ),
        Example(
            later="""
            - if epoch == 2: torch.save(model.state_dict(), f"{epoch}.pt"); print("saved")
            + if epoch == 2:
            +     if rt.is_main_process():
            +         torch.save(model.module.state_dict(), f"{epoch}.pt")
            +     print("saved")
            """
        ),
        LeftAlone(end="print(len(model.state_dict()))"),
    ),
)
