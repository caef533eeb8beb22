"""DECIDE01: all ranks take the same decision."""

from __future__ import annotations

from distify_codemods.decisions import checks, differing, own_ways
from distify_codemods.decisions.base import Averaging
from distify_codemods.decisions.whole_passes import WholePass, whole_passes
from distify_codemods.events import Kind
from distify_codemods.rules import at_once
from distify_codemods.rules.base import Context, Rule, call_of
from distify_codemods.rules.examples import Example, LeftAlone

CODE = "DECIDE01"
_WHAT = "a decision hangs on one rank's figures"


def run(context: Context) -> None:
    facts = context.facts
    found = False
    decisive = [one for one in context.decisions.averages if one.code == CODE]
    for one in [one for one in decisive if one.told]:
        if context.editable(one.module, one.node, _WHAT):
            found = True
            if context.tell(one.module, one.node, one.why):
                context.applied(one.why, one.module, one.node)
    for one in at_once.average(context, [one for one in decisive if not one.told], _WHAT, _average):
        found = True
        context.applied(one.why, one.module, one.node)
    for event in facts.of_kind(Kind.TEST):
        why = differing.differs(facts, event)
        if why and own_ways.decides(facts, event):
            found = True
            context.needs_you(
                f"this decision {why}, so that the ranks may go different ways", event.module, event.node,
                "take one decision for all: `if rt.any_rank(condition):`, or average the figure over the ranks first",
            )  # fmt: skip
    for event in facts.of_kind(Kind.METHOD, Kind.STORE):
        why = differing.rate_differs(facts, event)
        if why:
            found = True
            context.needs_you(
                f"the learning rate follows a figure that {why}", event.module, event.node,
                "average the figure over the ranks first",
            )  # fmt: skip
    for event in facts.backwards:
        why = differing.why_different(facts, event.receiver.sources & differing.OF_THE_PROCESS)
        if why:
            found = True
            context.needs_you(
                f"the loss {why}, and each rank would have another", event.module, event.node,
                "let all take rank 0's, where every rank comes by: `rt.from_main_process(value)`",
            )  # fmt: skip
    ends = list(checks.of_shares(facts))
    for event in ends:
        context.advice(
            "a rank checks its own samples here: it may end the run where the whole batch would not (all ranks could "
            "have a say in it, `rt.any_rank(condition)`)",
            event.module, event.node,
        )  # fmt: skip
    for made_whole in whole_passes(context.decisions):
        found = True
        _make_alike(context, made_whole)
    if not found:
        own = bool(context.decisions.left) or bool(context.own_figures.in_place())
        by = ["one that is made by what METRIC01 names"] * own + ["checks of a rank's own samples"] * bool(ends)
        but = f", but {' and '.join(by)}" if by else ""
        context.not_needed_if_known(f"every decision is the same on all ranks{but}")


def _average(context: Context, one: Averaging) -> None:
    context.put_into(one.module, one.node, f"{one.how.value}({{}})", one.why)


def _make_alike(context: Context, one: WholePass) -> None:
    """What every rank computes whole, and decides by, is to be the same on all."""
    if not (one.is_loader or one.may_be_told):
        context.advice(
            f"{one.why}, on each rank for itself: what is decided by figures of this may differ",
            one.module, one.node,
        )  # fmt: skip
        return
    if not context.editable(one.module, one.node, "a pass begins here by which all ranks decide"):
        return
    if one.may_be_told:
        if context.tell(one.module, one.node, f"{one.why}: it has to be the same on all ranks"):
            context.applied(f"all ranks load, and take rank 0's batch: {one.why}", one.module, one.node)
        return
    rt, text = context.rt(one.module), "{}"
    text = f"{rt}.from_main_process_each({text})" if one.sent else text
    text = f"{rt}.alike({text})" if one.alike else text
    context.plan(one.module).replace(one.node, call_of(text), CODE, f"{one.why}: it has to be the same on all ranks")
    done = "all ranks load, and take rank 0's batches" if one.sent else "every rank draws the same for this pass"
    context.applied(f"{done}: {one.why}", one.module, one.node)


RULE = Rule(
    code=CODE,
    name="decisions",
    why="When one rank stops, saves or lowers its learning rate and the others do not, the run hangs or the "
    "models part.",
    safety="A decision on evaluation results is the same on all ranks, because the results are: what is drawn for an "
    "evaluation that every rank makes whole is drawn alike, and batches of libraries with random numbers of their own "
    "are rank 0's. One that "
    "compares a mean over a rank's own samples compares the mean over all ranks; one by the clock, by a signal or by "
    "chance is rank 0's, where all ranks come to it alike. Any other is left to a person, if anything hangs on it: "
    "also a line, a count or an entry that its samples alone would decide about.",
    run=run,
    pitfalls=(18, 19),
    examples=(
        Example(
            loss="""
              {loss}
            - if torch.isnan(loss):
            + if torch.isnan(rt.all_reduce_mean(loss)):
                  continue
            """
        ),
        LeftAlone(later='if epoch == 1:\n    torch.save(model.state_dict(), "model.pt")'),
    ),
)
