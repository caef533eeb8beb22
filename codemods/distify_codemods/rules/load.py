"""LOAD01: every rank reads a checkpoint, onto its own device."""

from __future__ import annotations

import libcst as cst

from distify_codemods.arguments import bound
from distify_codemods.events import Event, Kind
from distify_codemods.file_events import reads
from distify_codemods.libraries import checkpoints, effects
from distify_codemods.rules import attempts, barriers, handed_over, together, waits
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.rules.save import is_checkpoint

CODE = "LOAD01"


def run(context: Context) -> None:
    loads = context.facts.calls(checkpoints.LOAD)
    saves = [event for event in context.facts.of_kind(Kind.CALL, Kind.METHOD) if _may_make_one(context, event)]
    told = False
    for event in loads:
        node, module = event.node, event.module
        assert isinstance(node, cst.Call)
        if not context.editable(module, node, "a checkpoint is read"):
            told = True
            continue
        rt, plan = context.rt(module), context.plan(module)
        given = bound(node, checkpoints.PARAMETERS).get("map_location")
        if event.arguments.double_star is not None:
            if "map_location" not in event.arguments.expanded():
                told = True
                context.advice(
                    "`**kwargs` may set `map_location`; the checkpoint goes where it was saved from", module, node
                )
        elif given is None or isinstance(given.value, cst.Dict) or _is_none(given.value):
            plan.set_keyword(
                node,
                "map_location",
                f"{rt}.map_location",
                CODE,
                "each rank reads onto its own GPU, not all onto the first",
            )
            told = True
            context.applied("each rank reads the checkpoint onto its own device", module, node)
        told |= _wait(context, event, [save for save in saves if _is_read(context, save, event)])
    if loads and not told:
        context.not_needed_if_known("what is read with `torch.load` is read to where it says already")
    elif not loads:
        context.not_needed_if_known("the script reads no checkpoint with `torch.load`")


def _may_make_one(context: Context, event: Event) -> bool:
    """Whether a checkpoint is written, or a file is put where it is read: `os.replace("new.pt", "last.pt")`."""
    return is_checkpoint(event) or (event.name in effects.IN_PLACE and context.writes(event))


def _is_read(context: Context, save: Event, load: Event) -> bool:
    earlier = waits.may_come_before(save, load) and context.names.may_be_one(save, load)
    return earlier and not context.either.excludes(save, load)


def _wait(context: Context, event: Event, saves: list[Event]) -> bool:
    """No rank reads the file before rank 0 has written it. Whether something was to do for that."""
    load, event = event, _opening(context, event)
    if not saves or context.takes_turns(event) or barriers.serve(context.barriers, event, saves):
        return False
    above = waits.place_to_wait(context, event, saves)
    if handed_over.is_written_within(context, event, above, saves):
        return False
    found = attempts.outside(context, event, above, saves)
    if found is None and (there := together.written(context, event, above, saves)):
        saves = [save for save in saves if save not in there]
        if not saves:
            return True
        found = attempts.outside(context, event, above, saves)
    if found is None:
        context.needs_you(
            "a checkpoint is read in the `try` that writes it: where it fails on rank 0 alone, the others would wait "
            "for it",
            load.module, load.node, attempts.what_to_do(context, load),
        )  # fmt: skip
        return True
    module, place = found
    context.barriers.append(barriers.before(event, module, place))
    reason = "rank 0 has written the file before it is read"
    context.plan(module).insert_before(place, f"{context.rt(module)}.barrier()", CODE, reason)
    context.applied("a checkpoint is read once rank 0 has written it", load.module, load.node)
    return True


def _opening(context: Context, load: Event) -> Event:
    """Where the file is opened that a checkpoint is read out of: who has it open waits too late."""
    files = load.arguments.first.objs
    opened = (
        one for one in context.facts.of_kind(Kind.CALL, Kind.METHOD)
        if one.before(load) and reads(one) and not files.isdisjoint(one.value.objs)
    )  # fmt: skip
    return max(opened, key=lambda one: one.number, default=load)


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


RULE = Rule(
    code=CODE,
    name="reading checkpoints",
    why="A checkpoint remembers its GPU: without `map_location` every rank reads it onto the first one.",
    safety="Set where `torch.load` has none, or a table of devices. A file that the run itself may have written is "
    "waited for.",
    run=run,
    pitfalls=(12, 45),
    examples=(
        Example(
            model="""
              {model}
            - model.load_state_dict(torch.load("model.pt"))
            + model.load_state_dict(torch.load("model.pt", map_location=rt.map_location))
            """
        ),
        Example(
            later="""
            - torch.save(model.state_dict(), "last.pt")
            + if rt.is_main_process():
            +     torch.save(model.module.state_dict(), "last.pt")
            """,
            end="""
            - model.load_state_dict(torch.load("last.pt", weights_only=True))
            + rt.barrier()
            + model.module.load_state_dict(torch.load("last.pt", weights_only=True, map_location=rt.map_location))
            """,
        ),
        LeftAlone(model='{model}\nmodel.load_state_dict(torch.load("model.pt", map_location="cpu"))'),
    ),
)
